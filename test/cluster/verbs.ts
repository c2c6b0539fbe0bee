/**
 * Every public verb, once at least, on queues of a cluster by one connector: a walk, and a list of what it came by.
 *
 * How: the objects of the public API are watched by name, and so is the wire by the names of its transitions. A verb that is
 * new is in no walk, and the test that compares the list with the prototypes and with the transition table fails.
 * Does not: look closely at what the verbs do; the suites of each do. Here they must work wherever the queue is.
 */
import { once } from 'node:events';
import { expect, vi } from 'vitest';
import {
  Admin,
  EmqError,
  type Connector,
  Flows,
  Jobs,
  Lanes,
  listQueues,
  mint,
  NamedQueue,
  Queue,
  QueueEvents,
  RateLimitError,
  Repeats,
  transitions,
  type Call,
  type Flow,
} from '../../src/index.js';
import { call, transition } from '../wire/stand-ins.js';

const MINUTE = 60_000;
const LEASE = { leaseMs: MINUTE };
const DEATH = { delayMs: 0, maxAttempts: 1, error: 'no' };
const CUT = 'cut off by the test';
/** A place without a job: what a repair mends. */
const ghost = transition('ghost', "return redis.call('ZADD', KEYS[1], 1, 'JOB0KHTOWnGLuC')");
const SOON = { timeout: 20_000, interval: 10 };

/** The classes whose verbs talk to the server; a Queue has those of Jobs. */
const CLASSES: readonly { readonly prototype: object; readonly name: string }[] = [
  ...[Queue, NamedQueue, Lanes, Flows, Repeats, Admin, QueueEvents],
];
/** Of a job's context. */
const CONTEXT = ['progress', 'log', 'extend', 'children'];

/** What there is to walk: `Class.verb`, and the name of every transition. */
export function everything(): string[] {
  const verbs = CLASSES.flatMap(({ name, prototype }) => methods(prototype).map((method) => `${name}.${method}`));
  const names = Object.values(transitions).map((transition) => `wire ${transition.name}`);
  return [...new Set([...verbs, ...CONTEXT.map((word) => `context.${word}`), ...names])].sort();
}

/** The methods of a class and of those it extends, up to what is not ours. */
function methods(prototype: object): string[] {
  const found: string[] = [];
  for (let at = prototype; at !== Object.prototype && !Object.hasOwn(at, 'emit'); at = Object.getPrototypeOf(at)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (name !== 'constructor' && typeof value === 'function') found.push(name);
    }
  }
  return found;
}

/** Walks. */
export class Walk {
  /** `Class.verb` of all that was called and did not fail, and the names of the transitions that were run. */
  readonly done = new Set<string>();
  readonly #connector: Connector;
  /** The transition that does not go through. */
  #cut: string | undefined;

  constructor(connector: Connector) {
    this.#connector = connector;
    const note = ({ transition }: Call): void => void this.done.add(`wire ${transition.name}`);
    const run = connector.run.bind(connector);
    const cut = (call: Call): boolean => call.transition.name === this.#cut;
    const runAll = connector.runAll.bind(connector);
    vi.spyOn(connector, 'run').mockImplementation((call) =>
      cut(call) ? Promise.reject(new EmqError('EMQ_CONNECTION', CUT)) : run(call).finally(() => note(call)),
    );
    vi.spyOn(connector, 'runAll').mockImplementation((calls) => {
      calls.forEach(note);
      return runAll(calls);
    });
  }

  /** All of it. @param here the queue that is walked; @param there, beyond queues that hold children of its flows */
  async all(here: string, there: string, beyond: string): Promise<void> {
    await this.jobs(here);
    await this.lanes(here);
    await this.repeats(here);
    await this.flows(here, there, beyond);
    await this.admin(here);
    await this.consumers(here);
    expect(await listQueues(this.#connector)).toContain(here);
  }

  async jobs(name: string): Promise<void> {
    const jobs = this.#watched(new Queue<unknown>(this.#connector, name));
    const held = async (payload: unknown = 1) => {
      await jobs.enqueue(payload);
      const job = await jobs.claim(LEASE);
      if (job === null) throw new Error('no job');
      return job;
    };
    // as an early client would: the connector runs what it is given
    const { enqueue, schedule } = transitions;
    const id = mint();
    const old = { id, payload: '1' };
    await this.#connector.run({ transition: enqueue, queue: name, ...enqueue.layout(jobs.keys, old) });
    const late = { ...old, id: mint(), when: { inMs: MINUTE } };
    await this.#connector.run({ transition: schedule, queue: name, ...schedule.layout(jobs.keys, late) });
    expect(await jobs.remove(id)).toBe('removed');
    expect(await jobs.remove(late.id)).toBe('removed');

    expect(await jobs.complete(await held())).toBe('completed');
    expect(await jobs.fail(await held(), { delayMs: MINUTE, maxAttempts: 2, error: 'e' })).toBe('scheduled');
    expect(await jobs.fail(await held(), DEATH)).toBe('dead');
    expect(await jobs.delay(await held(), { inMs: MINUTE })).toBe('scheduled');
    expect(await jobs.release(await held())).toBe('released');
    const [first] = await jobs.claimBatch({ ...LEASE, size: 5 });
    await jobs.extend(first!, LEASE);
    expect(await jobs.extendMany([first!], LEASE)).toEqual([]);
    await jobs.updateProgress(first!.id, 50);
    await jobs.addLog(first!.id, 'a line');
    expect((await jobs.logs(first!.id)).length).toBe(1);
    expect(await jobs.complete(first!)).toBe('completed');

    await jobs.enqueueMany([1, 2, 3].map((payload) => ({ payload })));
    expect((await jobs.take({ ...LEASE, count: 3 })).length).toBe(3);
    const { id: soon } = await jobs.schedule(1, { inMs: MINUTE });
    expect(await jobs.reschedule(soon, { inMs: 2 * MINUTE })).toBe('scheduled');
    expect(await jobs.updateData(soon, 2)).toBe('updated');
    expect(await jobs.promoteNow(soon)).toBe('pending');
    expect(await jobs.state(soon)).toBe('pending');
    expect((await jobs.get(soon))?.state).toBe('pending');
    expect((await jobs.browse('pending')).length).toBeGreaterThan(0);
    expect(await jobs.cancel(soon)).toBe('removed');
    const [dead] = await jobs.browse('dead');
    expect(await jobs.reprocess(dead!)).toBe('pending');
    await jobs.promote();
    await jobs.reap();
    await jobs.stalledCheck();
    await jobs.quarantine();
    await jobs.consult();
    await jobs.pause();
    await jobs.resume();
    await jobs.setRecovery('stalled');
    await jobs.enqueue(1, { dedup: { id: 'd' } });
    expect(await jobs.dedupOwner('d')).not.toBeNull();
    expect(await jobs.freeDedup('d')).toBe('freed');
    expect((await jobs.counts()).dead).toBe(0);
    expect((await jobs.metrics('completed')).count).toBe(2);
  }

  async lanes(name: string): Promise<void> {
    const lanes = this.#watched(new Lanes<unknown>(this.#connector, name));
    const [a, b] = [mint('TEN'), mint('TEN')];
    const { id } = await lanes.enqueue(a, 1);
    await lanes.schedule(b, 1, { inMs: MINUTE });
    await lanes.enqueueMany([a, b].map((group) => ({ group, payload: 1 })));
    await lanes.setLimit(a, 2);
    // jobs wait in lanes for which it counts
    await lanes.setLimit('*', 100);
    await lanes.setWeight(a, 2);
    await lanes.setRate(b, { max: 100, durationMs: 1_000 });
    expect(await lanes.pause(b)).toBe('paused');
    expect(await lanes.resume(b)).toBe('resumed');
    expect(await lanes.reassign(id, b)).toBe('reassigned');
    expect(await lanes.depth(b)).toBe(2);
    expect((await lanes.depths([a, b])).get(a)).toBe(1);
    expect((await lanes.info([a, b])).length).toBe(2);
    expect((await gathered(lanes.list())).length).toBe(2);
    expect(await lanes.claim(LEASE)).not.toBeNull();
    expect((await lanes.claimBatch({ ...LEASE, size: 5 })).length).toBeGreaterThan(0);
    await lanes.reap(a);
    await lanes.drain(a);
    await lanes.drain(b);
  }

  async repeats(name: string): Promise<void> {
    const repeats = this.#watched(new Repeats<unknown>(this.#connector, name));
    await repeats.upsert('often', { everyMs: MINUTE, immediately: true }, { payload: 1 });
    expect((await repeats.fire()).fired).toBe(1);
    expect(await repeats.pause('often')).toBe('paused');
    expect(await repeats.resume('often')).toBe('resumed');
    expect((await repeats.get('often'))?.count).toBe(1);
    expect((await gathered(repeats.list())).length).toBe(1);
    expect(await repeats.remove('often')).toBe('removed');
  }

  /** Parents here, children in three queues. */
  async flows(here: string, there: string, beyond: string): Promise<void> {
    const flows = this.#watched(new Flows<unknown>(this.#connector, here));
    const at = (name: string): Jobs => new Jobs(this.#connector, name);
    const take = async (name: string, wanted: string) => {
      const jobs = at(name);
      const got = (await jobs.claimBatch({ ...LEASE, size: 1_000 })).find(({ id }) => id === wanted);
      if (got === undefined) throw new Error(`${wanted} does not wait in ${name}`);
      return { jobs, got };
    };
    const done = async (name: string, id: string): Promise<void> => {
      const { jobs, got } = await take(name, id);
      expect(await jobs.complete(got, { result: 'r' })).toBe('completed');
    };
    const die = async (name: string, id: string): Promise<void> => {
      const { jobs, got } = await take(name, id);
      expect(await jobs.fail(got, DEATH)).toBe('dead');
    };
    const deliver = async (): Promise<void> => {
      for (const name of [there, beyond]) await new Flows(this.#connector, name).deliver();
      await flows.deliver();
    };
    // one queue
    const [one] = await flows.addBulk([{ payload: 'p', children: [{ payload: 'c' }] }]);
    if (one?.outcome !== 'added') throw new Error('not added');
    await done(here, one.children[0]?.id ?? '');
    expect((await flows.childrenValues(one.id)).size).toBe(1);
    await done(here, one.id);
    // three queues; two children die, and the parent does not mind
    const { id, ids } = await added(flows, {
      payload: 'p',
      children: [
        { payload: 'c', queue: there },
        { payload: 'c', queue: beyond, onFailure: 'ignore' },
        { payload: 'c', onFailure: 'ignore' },
      ],
    });
    const [first = '', second = '', third = ''] = ids;
    expect((await flows.counts(id)).open).toBe(3);
    expect((await flows.dependencies(id)).open.length).toBe(3);
    await done(there, first);
    await die(beyond, second);
    await die(here, third);
    await deliver();
    expect(await flows.counts(id)).toMatchObject({ open: 0 });
    expect((await gathered(flows.eachValue(id))).length).toBe(1);
    expect((await flows.ignoredFailures(id)).size).toBe(2);
    expect((await flows.failures(id)).size).toBe(0);
    // one on whom the parent depends: it comes back with its parent
    const hard = await added(flows, { payload: 'p', children: [{ payload: 'c', queue: there }] });
    await die(there, hard.ids[0] ?? '');
    await deliver();
    expect(await at(here).state(hard.id)).toBe('dead');
    expect((await flows.failures(hard.id)).size).toBe(1);
    await at(there).reprocess(hard.ids[0] ?? '');
    await flows.reprocess(hard.id);
    // and one for which the parent goes on without the others, who are cancelled
    const going = await added(flows, {
      payload: 'p',
      children: [
        { payload: 'c', queue: there, onFailure: 'continue' },
        { payload: 'c', queue: beyond },
      ],
    });
    await die(there, going.ids[0] ?? '');
    await deliver();
    expect(await at(beyond).state(going.ids[1] ?? '')).toBe('absent');
    // more than go into one step, and an add that is cut short in the middle
    const children = Array.from({ length: 501 }, (_, payload) => ({ payload, queue: beyond }));
    const long = await flows.prepare({ payload: 'p', children });
    this.#cut = 'flow_land';
    await expect(flows.add(long)).rejects.toThrow(CUT);
    this.#cut = undefined;
    expect((await flows.add(long)).outcome).toBe('added');
    expect((await flows.counts(long.id)).open).toBe(501);
  }

  async admin(name: string): Promise<void> {
    const admin = this.#watched(new Admin(this.#connector, name));
    const jobs = new Jobs(this.#connector, name);
    await admin.setLimits({ concurrency: 1_000, rate: { max: 10_000, durationMs: 1_000 } });
    expect((await admin.limits()).concurrency).toBe(1_000);
    await admin.pause();
    await admin.resume();
    await admin.drain();
    const { id } = await jobs.enqueue(1);
    expect((await admin.jobs({ state: 'pending' })).length).toBe(1);
    expect((await admin.job(id))?.state).toBe('pending');
    expect(await admin.updateData(id, 2)).toBe('updated');
    expect(await admin.logs(id)).toEqual([]);
    const job = await jobs.claim(LEASE);
    await jobs.fail(job!, DEATH);
    expect(await admin.reprocess(id)).toBe('pending');
    await jobs.fail((await jobs.claim(LEASE))!, DEATH);
    await admin.reprocessAll();
    const { id: later } = await jobs.schedule(1, { inMs: MINUTE });
    expect(await admin.reschedule(later, { inMs: MINUTE })).toBe('scheduled');
    expect(await admin.promoteNow(later)).toBe('pending');
    expect(await admin.cancel(later)).toBe('removed');
    expect(await admin.remove(id)).toBe('removed');
    await admin.trimDead({ keep: 0 });
    expect((await admin.counts()).dead).toBe(0);
    expect((await admin.stats()).paused).toBe(false);
    await admin.metrics();
    await gathered(admin.lanes());
    expect((await admin.check()).findings).toEqual([]);
    await this.#connector.run(call(ghost, 'active', [], name));
    expect((await admin.check()).findings.length).toBe(1);
    expect((await admin.repair()).findings).toEqual([]);
    await admin.pause();
    await admin.obliterate({ force: true });
    await admin.resume();
  }

  async consumers(name: string): Promise<void> {
    await using events = this.#watched(new QueueEvents(this.#connector, name));
    await events.ready();
    const queue = this.#watched(new Queue<number>(this.#connector, name));
    const completed = once(events, 'completed');
    const consumer = queue.consume(
      async (_job, context) => {
        const watched = this.#watched(context, 'context');
        await watched.progress(1);
        await watched.log('a line');
        await watched.extend(MINUTE);
        await watched.children();
        return 1;
      },
      { beatMs: 50 },
    );
    const { id } = await queue.enqueue(1);
    expect((await completed)[0]).toMatchObject({ job: id });
    events.stats();
    await consumer.close();
    let tries = 0;
    const patient = queue.consume(
      () => {
        tries += 1;
        if (tries === 1) throw new RateLimitError(10);
      },
      { beatMs: 50 },
    );
    await queue.enqueue(1);
    await vi.waitUntil(() => tries === 2, SOON);
    await patient.close();
    await events.close();

    const seen: number[] = [];
    const batches = queue.consumeBatch(
      (jobs) => {
        seen.push(...jobs.map(({ payload }) => payload));
        return Object.fromEntries(jobs.map(({ id }) => [id, 'complete']));
      },
      { timeoutMs: 10, beatMs: 50 },
    );
    await queue.enqueueMany([1, 2, 3].map((payload) => ({ payload })));
    await vi.waitUntil(() => seen.length >= 3, SOON);
    await batches.close();

    const named = this.#watched(new NamedQueue<{ mail: number }>(this.#connector, `${name}.named`));
    let ran = 0;
    await named.enqueue('mail', 1);
    await named.enqueueMany([{ name: 'mail', payload: 1 }]);
    await named.schedule('mail', 1, { inMs: 1 });
    const mails = named.consume({ mail: () => void ran++ }, { beatMs: 50 });
    await vi.waitUntil(() => ran === 3, SOON);
    await mails.close();
  }

  /** Notes the methods that are called and do not fail. */
  #watched<T extends object>(target: T, name = target.constructor.name): T {
    const { done } = this;
    return new Proxy(target, {
      get(_, key) {
        const value: unknown = Reflect.get(target, key, target);
        if (typeof value !== 'function' || typeof key === 'symbol') return value;
        return (...args: unknown[]) => {
          const answer: unknown = Reflect.apply(value, target, args);
          const note = (): void => void done.add(`${name}.${key}`);
          if (answer instanceof Promise) void answer.then(note, () => {});
          else note();
          return answer;
        };
      },
    });
  }
}

/** Adds a flow of two storeys. */
async function added(flows: Flows<unknown>, flow: Flow): Promise<{ id: string; ids: string[] }> {
  const { outcome, id, children } = await flows.add(await flows.prepare(flow));
  expect(outcome).toBe('added');
  return { id, ids: children.map((child) => child.id) };
}

async function gathered<T>(all: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of all) found.push(one);
  return found;
}
