/**
 * The reference model of flows, transition by transition (docs/wire.md, section 6): what a call does to the model, and what
 * it answers.
 *
 * Invariants: a refusal changes nothing. Does not: know calls that this suite does not make; one of those is an error.
 */
import { latin1 } from '../../../src/parity/keyspace-dump.js';
import type { Arg, Call } from '../../../src/wire/call.js';
import { bury, isUnlanded, Job, join, landLess, mourn, order, policyOf, type Model, type Queue } from './model.js';

/** What a call answers: a refusal is its text, bytes are latin1. */
export type Answer = number | string | null | readonly Answer[] | Refusal;
export interface Refusal {
  readonly error: string;
}

type Step = (queue: Queue, args: readonly string[], keys: readonly string[], model: Model) => Answer;

const refuse = (error: string): Refusal => ({ error });

/** Performs a call on the model. @throws Error for a call that the model does not know. */
export function perform(model: Model, call: Call): Answer {
  const text = (arg: Arg): string => (typeof arg === 'string' ? arg : latin1(arg));
  const { name } = call.transition;
  const step = STEPS[name];
  if (step === undefined) throw new Error(`the model does not know ${name}`);
  return step(model.queue(call.queue), call.args.map(text), call.keys.map(text), model);
}

/** The words of `args` from `from` on, `size` at a time. */
function* chunks(args: readonly string[], from: number, size: number): Generator<string[]> {
  for (let i = from; i < args.length; i += size) yield args.slice(i, i + size);
}

function admit(queue: Queue, id: string, payload: string, priority: string, holds: boolean): Job {
  const job = new Job(id, payload, priority, holds ? 'awaiting_children' : 'pending');
  queue.jobs.set(id, job);
  return job;
}

/** What a claim does to the first of those that wait. */
function claim(job: Job): void {
  job.state = 'active';
  job.attempts += 1;
  job.lapsed = undefined;
}

/** TOKEN and, behind what a flow child's layout is judged by, HELD. */
function held(verb: string, job: Job, token: string, judge: () => Answer | undefined): Answer | undefined {
  if (job.attempts === 0 || String(job.attempts) !== token) return refuse(`EMQSTALE ${verb} token mismatch`);
  const refusal = judge();
  if (refusal !== undefined) return refusal;
  return job.state === 'active' || job.state === 'pending' ? undefined : refuse(`EMQSTATE ${verb} not active`);
}

const flowKeys = (verb: string, job: Job, parent: string | undefined, queue: string): Answer | undefined =>
  job.link?.parent === parent && (job.link?.queue ?? '') === queue ? undefined : refuse(`EMQSTATE ${verb} flow keys`);

function complete(
  queue: Queue,
  [id = '', token = '', , parent, result = '', , elsewhere = '']: readonly string[],
): Answer {
  const job = queue.jobs.get(id);
  if (job === undefined) return 0;
  const refusal = held('complete', job, token, () => flowKeys('complete', job, parent, elsewhere));
  if (refusal !== undefined) return refusal;
  if (parent !== undefined && elsewhere === '') join(queue, parent, id, result);
  else if (parent !== undefined) queue.post(elsewhere, parent, id, result);
  queue.jobs.delete(id);
  queue.completed += 1;
  return 1;
}

function fail(queue: Queue, args: readonly string[]): Answer {
  const [id = '', token = '', , max = '', error = '', , where] = args;
  const [kind = '', policy = ''] = where?.split(':') ?? [];
  const elsewhere = kind === 'xq' ? (args[7] ?? '') : '';
  const parent = where === undefined ? undefined : args.at(-1);
  const job = queue.jobs.get(id);
  if (job === undefined) return refuse('EMQSTALE job gone');
  const refusal = held('retry', job, token, () => flowKeys('retry', job, parent, elsewhere));
  if (refusal !== undefined) return refusal;
  // the server takes the policy that it is given: it is for who settles to give that of the row
  if (job.link?.policy !== (where && policy)) throw new Error(`${id} settles with a policy that is not its own`);
  job.lastError = error;
  if (job.attempts < Number(max)) {
    job.state = 'scheduled';
    return 'scheduled';
  }
  job.state = 'dead';
  queue.failed += 1;
  if (parent !== undefined && elsewhere === '') bury(queue, parent, { child: id, policy, error });
  else if (parent !== undefined) mourn('fail', queue, id, { parent, queue: elsewhere, policy }, error);
  return 'dead';
}

function stalledCheck(queue: Queue, [, max]: readonly string[]): Answer {
  const [recovered, dead]: [string[], string[]] = [[], []];
  const due = queue.in('active').filter(({ lapsed }) => lapsed !== undefined);
  for (const job of due.sort((a, b) => (a.lapsed ?? 0) - (b.lapsed ?? 0))) {
    job.stalled = (job.stalled ?? 0) + 1;
    if (job.stalled < Number(max)) {
      job.state = 'pending';
      recovered.push(job.id);
      continue;
    }
    job.state = 'dead';
    job.lastError = 'stalled';
    queue.failed += 1;
    if (job.link !== undefined) mourn('fail', queue, job.id, job.link, 'stalled');
    dead.push(job.id);
  }
  return [recovered, dead];
}

/** What remove and cancel have in common. */
function expel(queue: Queue, job: Job, error: string, reason?: string): void {
  if (job.link !== undefined) {
    if (job.state !== 'dead') mourn('fail', queue, job.id, job.link, error);
    if (policyOf(job.link.policy) === 'fp') mourn('gone', queue, job.id, job.link, error);
  }
  if (reason !== undefined && job.children.size > 0) order(queue, job, reason);
  queue.jobs.delete(job.id);
}

function enqueueFlow(queue: Queue, [, ...args]: readonly string[]): Answer {
  const plans = [...chunks(args, 0, 6)];
  const root = queue.jobs.get(plans[0]?.[0] ?? '');
  if (root !== undefined) return root.landing === undefined ? 0 : 2;
  if (plans.some(([id = '']) => queue.jobs.has(id))) return refuse('EMQSTATE flow child exists');
  for (const [i, [id = '', payload = '', priority = '', , place, policy = '']] of plans.entries()) {
    const children = plans.filter((plan) => Number(plan[4]) === i + 1);
    const job = admit(queue, id, payload, priority, children.length > 0);
    const parent = plans[Number(place) - 1]?.[0];
    if (parent !== undefined) job.link = { parent, queue: '', policy };
    if (children.length > 0) job.open = children.length;
    for (const [child = ''] of children) job.children.set(child, '');
  }
  return 1;
}

function flowHold(queue: Queue, args: readonly string[]): Answer {
  const [, id = '', payload = '', priority = '', , parent = '', elsewhere = '', policy = '', number] = args;
  const isChild = parent !== '';
  if (isChild && elsewhere === '') {
    const mark = queue.jobs.get(parent)?.children.get(id);
    if (mark === '') return ['landed', 0, 0];
    if (mark !== '+') return ['unwanted', 0, 0];
  }
  const there = queue.jobs.get(id);
  if (there !== undefined) {
    const old = there.state === 'dead' && !queue.landed.has(id);
    if (isChild && (old || there.link?.parent !== parent || there.link.queue !== elsewhere)) {
      return refuse('EMQSTATE flow child exists');
    }
    return ['exists', Math.max(0, (there.open ?? 0) - there.children.size), there.landing ?? 0];
  }
  if (isChild && queue.landed.has(id)) return ['landed', 0, 0];
  const job = admit(queue, id, payload, priority, true);
  job.open = job.landing = Number(number);
  if (isChild) job.link = { parent, queue: elsewhere, policy };
  for (const [child = '', where = ''] of chunks(args, 9, 2)) job.children.set(child, `+${where}`);
  if (isChild) queue.landed.add(id);
  return ['held', job.open - job.children.size, job.landing];
}

function flowList(queue: Queue, args: readonly string[], keys: readonly string[]): Answer {
  const job = jobOf(queue, keys[0]);
  if (job === undefined) return -1;
  const missing = (job.open ?? 0) - job.children.size;
  if (missing <= 0) return 0;
  const fresh = new Map<string, string>();
  for (const [child = '', where = ''] of chunks(args, 0, 2)) {
    if (!job.children.has(child)) fresh.set(child, `+${where}`);
  }
  if (fresh.size > missing) return refuse('EMQSTATE flow children differ');
  for (const [child, where] of fresh) job.children.set(child, where);
  return missing - fresh.size;
}

function flowLand(queue: Queue, args: readonly string[]): Answer {
  const [parentId = '', elsewhere = ''] = args;
  const here = elsewhere === '';
  const parent = queue.jobs.get(parentId);
  if (here && parent === undefined) return -1;
  if (here && parent !== undefined && parent.children.size < (parent.open ?? 0)) {
    return refuse('EMQSTATE flow children not listed');
  }
  const wanted = [...chunks(args, 2, 5)].filter(([id = '']) =>
    here ? parent?.children.get(id) === '+' : !queue.landed.has(id),
  );
  for (const [id = ''] of wanted) {
    const there = queue.jobs.get(id);
    if (there === undefined) continue;
    if (there.state === 'dead' || there.link?.parent !== parentId || there.link.queue !== elsewhere) {
      return refuse('EMQSTATE flow child exists');
    }
  }
  let made = 0;
  for (const [id = '', payload = '', priority = '', , policy = ''] of wanted) {
    if (!queue.jobs.has(id)) {
      admit(queue, id, payload, priority, false).link = { parent: parentId, queue: elsewhere, policy };
      made += 1;
    }
    if (here && parent !== undefined) land(parent, [id]);
    else queue.landed.add(id);
  }
  return made;
}

/** The marks of these go. */
function land(parent: Job, children: readonly string[]): void {
  for (const child of children) {
    const value = parent.children.get(child);
    if (value === undefined || !isUnlanded(value)) continue;
    parent.children.set(child, value.slice(1));
    landLess(parent, 1);
  }
}

function flowAck(queue: Queue, args: readonly string[]): Answer {
  const [edition] = args;
  const current = String(queue.edition);
  let [there, deaths] = [0, 0];
  for (const [verdict, letter = ''] of chunks(args, 1, 2)) {
    const death = letter.startsWith('\0');
    const at = death && edition !== current ? -1 : queue.outbox.indexOf(letter);
    if (at === -1) continue;
    queue.outbox.splice(at, 1);
    there += 1;
    if (death) deaths += 1;
    if (count(queue.outbox, letter) < count(queue.unheard, letter)) {
      throw new Error(`a letter is taken out that nobody has delivered: ${JSON.stringify(letter)}`);
    }
    if (verdict === 'poison') queue.poison.unshift(letter);
  }
  if (deaths > 0) queue.edition += 1;
  return there;
}

const count = (letters: readonly string[], letter: string): number => letters.filter((one) => one === letter).length;

function flowDeliver(queue: Queue, args: readonly string[], _: readonly string[], model: Model): Answer {
  const [parent = '', child = '', kind = '', policy = '', bytes = ''] = args;
  const parts =
    kind === 'done' ? [queue.name, parent, child, bytes] : ['', kind, queue.name, parent, child, policy, bytes];
  const letter = parts.join('\0');
  for (const { unheard } of model.queues.values()) {
    for (let at = unheard.indexOf(letter); at !== -1; at = unheard.indexOf(letter)) unheard.splice(at, 1);
  }
  if (kind === 'done') return join(queue, parent, child, bytes);
  return bury(queue, parent, { child, policy, error: bytes, lost: kind === 'gone' });
}

function flowCancelled(queue: Queue, args: readonly string[], keys: readonly string[], model: Model): Answer {
  const [, parent = ''] = keys[0]?.split(':flow:cancel:') ?? [];
  const left = queue.orders.get(parent);
  for (const id of args) {
    const where = left?.get(id)?.replace('+', '');
    if (where !== undefined && !model.cancelled.has(`${where || queue.name}/${id}`)) {
      throw new Error(`${id} is taken from an order, and nobody has tried to cancel it`);
    }
    left?.delete(id);
  }
  if (left?.size === 0) queue.orders.delete(parent);
  return left?.size ?? 0;
}

/** The job whose row a key is. */
function jobOf(queue: Queue, key: string | undefined): Job | undefined {
  return queue.jobs.get(key?.split(':job:')[1] ?? '');
}

const STEPS: Readonly<Record<string, Step>> = {
  take: (queue, [, count]) =>
    queue
      .waiting()
      .slice(0, Number(count))
      .map((job): Answer => {
        claim(job);
        return [job.id, job.payload, job.attempts, null, null, job.credit ?? 0];
      }),
  claim: (queue) => {
    const [job] = queue.waiting();
    if (job === undefined) return [];
    claim(job);
    return [job.id, job.payload, job.attempts];
  },
  complete,
  complete_child: complete,
  fail,
  fail_child: fail,
  release: (queue, [id = '', token]) => {
    const job = queue.jobs.get(id);
    if (job === undefined) return refuse('EMQSTALE job gone');
    if (job.attempts === 0 || String(job.attempts) !== token) return refuse('EMQSTALE release token mismatch');
    if (job.state !== 'active') return refuse('EMQSTATE release not active');
    job.state = 'pending';
    job.credit = (job.credit ?? 0) + 1;
    return 1;
  },
  promote: (queue) => {
    const due = queue.in('scheduled');
    for (const job of due) job.state = 'pending';
    return due.length;
  },
  reap: (queue) => {
    const due = queue.in('active').filter(({ lapsed }) => lapsed !== undefined);
    for (const job of due) job.state = 'pending';
    return due.length;
  },
  stalled_check: stalledCheck,
  remove: (queue, [id = '']) => {
    const job = queue.jobs.get(id);
    if (job === undefined) return -1;
    expel(queue, job, 'removed');
    return 1;
  },
  cancel: (queue, [id = '', reason = ''], _, { cancelled }) => {
    cancelled.add(`${queue.name}/${id}`);
    const job = queue.jobs.get(id);
    if (job === undefined) return 'gone';
    if (job.state === 'active') return 'signalled';
    if (job.state === 'dead') return 'dead';
    expel(queue, job, `cancelled: ${reason}`, reason);
    return 'removed';
  },
  reprocess: (queue, [id = '']) => {
    const job = queue.jobs.get(id);
    if (job === undefined) return -1;
    if (job.state !== 'dead') return refuse('EMQSTATE not dead');
    job.lastError = job.stalled = undefined;
    job.credit = job.attempts;
    const waits = (job.open ?? 0) >= 1;
    job.state = waits ? 'awaiting_children' : 'pending';
    return waits ? 2 : 1;
  },
  enqueue_flow: enqueueFlow,
  flow_hold: flowHold,
  flow_list: flowList,
  flow_land: flowLand,
  flow_landed: (queue, args, keys) => {
    const job = jobOf(queue, keys[0]);
    if (job === undefined) return -1;
    land(job, args);
    return job.landing ?? 0;
  },
  flow_clear: (queue, args) => args.filter((id) => queue.landed.delete(id)).length,
  flow_deliver: flowDeliver,
  flow_ack: flowAck,
  flow_cancelled: flowCancelled,
  flow_letters: (queue, [offset, limit]) => [
    queue.edition,
    queue.outbox.slice(Number(offset), Number(offset) + Number(limit)),
  ],
  flow_unlanded: (queue, args, keys) => args.filter((id) => isUnlanded(jobOf(queue, keys[0])?.children.get(id))),
  flow_link: (queue, _, keys) => {
    const job = jobOf(queue, keys[0]);
    if (job === undefined) return [];
    return [job.link?.parent ?? null, job.link?.queue || null, job.link?.policy ?? null];
  },
  state: (queue, [id = '']) => queue.jobs.get(id)?.state ?? 'absent',
  // the suite reads orders by it, no other book; small enough to come whole
  flow_children: (queue, _, keys) => {
    const [, parent = ''] = keys[0]?.split(':flow:cancel:') ?? [];
    return ['0', [...(queue.orders.get(parent) ?? [])].flat()];
  },
};
