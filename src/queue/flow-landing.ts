/**
 * How a prepared flow lands: whole in one step where it is of one queue and small enough, else in bounded steps from the
 * root downwards (docs/wire.md, section 6, Landing).
 *
 * Invariants: a parent is held, with all its children listed, before the first of them lands; a child that is a parent is
 * marked as landed when all below it has; each step may be made again, by this or another process: a child lands once. No
 * step has more than STEP children or, much, more than STEP_BYTES of payload.
 * Does not: undo what has landed when a step is refused: children run, their parents stay held.
 */
import { EmqError } from '../wire/errors.js';
import type { FlowLink } from '../wire/flow-transitions.js';
import { transitions } from '../wire/transitions.js';
import type { Needs } from '../wire/durable.js';
import { DurableSteps } from './durability.js';
import { all, type PlannedJob, type PreparedFlow } from './flow-plan.js';
import type { Wire } from './jobs.js';
import { QueueRunner } from './runner.js';
import { portions } from './portions.js';

/** So many children at most land whole. */
const WHOLE = 500;
/** So many are listed, and so many land, in one step otherwise: nothing is gained by few steps, and others wait meanwhile. */
const STEP = 250;
const LAND_STEP = 100;
const STEP_BYTES = 1_048_576;
/** A flow of more bytes does not land in one step. */
const WHOLE_BYTES = 2 * STEP_BYTES;
/** How often a step is made whose reply is lost. */
const TRIES = 4;

export type LandingOutcome = 'added' | 'duplicate';

const sizeOf = ({ payload, opts }: PlannedJob): number => payload.length + (opts?.length ?? 0);

/** Whether the flow fits into one step. */
export function landsWhole(flow: PreparedFlow): boolean {
  return flow.oneQueue && flow.size <= WHOLE + 1 && flow.bytes <= WHOLE_BYTES;
}

/** The input of the one step. */
export function wholeInput(flow: PreparedFlow): Parameters<typeof transitions.enqueueFlow.layout>[1] {
  const jobs = all(flow.root);
  const places = new Map<PlannedJob, number>();
  const parents = new Map<PlannedJob, PlannedJob>();
  for (const [place, job] of jobs.entries()) {
    places.set(job, place);
    for (const child of job.children) parents.set(child, job);
  }
  return {
    jobs: jobs.map((job) => {
      const parent = parents.get(job);
      return parent === undefined ? job : { ...job, parent: places.get(parent), policy: job.policy };
    }),
  };
}

/** A parent, and how many of its children have still to land. */
interface Unfinished {
  readonly job: PlannedJob;
  left: number;
  /** A child has died that lets it go on without the others. */
  letGo: boolean;
}

export class Landing {
  readonly #runner: QueueRunner;
  readonly #flow: PreparedFlow;
  readonly #sentBefore: boolean;
  /** Nothing of it was there before. */
  #fresh = true;

  /** @param sentBefore some of the ids may have been on the wire before, in an add that was cut short. */
  constructor(runner: QueueRunner, flow: PreparedFlow, sentBefore = true) {
    this.#runner = runner;
    this.#flow = flow;
    this.#sentBefore = sentBefore;
  }

  /** @throws EmqError: what has landed before stays. */
  async land(): Promise<LandingOutcome> {
    const { root } = this.#flow;
    if (landsWhole(this.#flow)) {
      // Not made again when its reply is lost: all of the flow may have been done meanwhile.
      const word = await this.#runner.run(root.queue, transitions.enqueueFlow, wholeInput(this.#flow));
      if (word !== 'partial') return word;
    }
    if (this.#sentBefore && (await this.#runner.run(root.queue, transitions.state, { id: root.id })) === 'absent') {
      // Marks of an add that was cut short, whose flow has been done all the same, must not keep this one's children out.
      await this.#clear(root);
    }
    const landed = await this.#parent(root);
    if (!this.#fresh) await this.#clear(root);
    return landed ? 'added' : 'duplicate';
  }

  /** A parent and all below it. False when all of it had landed before. */
  async #parent(job: PlannedJob, link?: FlowLink): Promise<boolean> {
    const listed = job.children.map(({ id, queue }) => ({ id, queue: queue === job.queue ? null : queue }));
    const input = { ...job, link, count: listed.length, children: listed.slice(0, STEP) };
    const { answer: held } = await this.#sure(() => this.#runner.run(job.queue, transitions.flowHold, input));
    const { word } = held;
    if (word !== 'held') this.#fresh = false;
    if (word === 'landed' || word === 'unwanted' || (word === 'exists' && held.landing === 0)) return false;
    let left: number | 'gone' = held.unlisted;
    for (let i = word === 'held' ? STEP : 0; left !== 0 && i < listed.length; i += STEP) {
      const children = listed.slice(i, i + STEP);
      left = await this.#runner.run(job.queue, transitions.flowList, { id: job.id, children });
      if (left === 'gone') throw gone(job);
    }
    if (left !== 0) throw differs(job);
    const children = word === 'held' ? job.children : await this.#unlanded(job);
    const landing = { job, left: children.length, letGo: false };
    await this.#leaves(
      landing,
      children.filter((child) => child.children.length === 0),
    );
    for (const child of children) {
      if (child.children.length === 0) continue;
      if (landing.letGo) break;
      await this.#parent(child, {
        parent: job.id,
        queue: child.queue === job.queue ? null : job.queue,
        policy: child.policy,
      });
      await this.#tell(landing, child.queue, [child.id]);
    }
    if (word === 'held') return true;
    // no children: only to ask
    const still = await this.#runner.run(job.queue, transitions.flowLanded, { id: job.id, children: [] });
    if (typeof still === 'number' && still > 0) throw differs(job);
    return true;
  }

  /** The children that a parent, which was there before, has not seen landed. */
  async #unlanded(job: PlannedJob): Promise<PlannedJob[]> {
    const found = new Set<string>();
    for (let i = 0; i < job.children.length; i += STEP) {
      const children = job.children.slice(i, i + STEP).map(({ id }) => id);
      for (const id of await this.#runner.run(job.queue, transitions.flowUnlanded, { id: job.id, children })) {
        found.add(id);
      }
    }
    return job.children.filter(({ id }) => found.has(id));
  }

  async #leaves(landing: Unfinished, leaves: readonly PlannedJob[]): Promise<void> {
    const { job } = landing;
    for (const [queue, list] of groupBy(leaves, (leaf) => leaf.queue)) {
      for (const children of portions(list, LAND_STEP, STEP_BYTES, sizeOf)) {
        if (landing.letGo) return;
        const here = queue === job.queue;
        const input = { parent: job.id, queue: here ? null : job.queue, children };
        const { answer, again } = await this.#sure(() => this.#runner.run(queue, transitions.flowLand, input));
        const ids = children.map(({ id }) => id);
        if (!here) await this.#tell(landing, queue, ids);
        // made again, it may have been the last step of a flow that has been done since
        else this.#landed(landing, answer === 'gone' && !again ? 0 : ids.length, answer === 'gone');
      }
    }
  }

  /** The parent's queue learns that children have landed, and then theirs that it knows. */
  async #tell(landing: Unfinished, queue: string, children: readonly string[]): Promise<void> {
    const { job } = landing;
    const told = await this.#runner.run(job.queue, transitions.flowLanded, { id: job.id, children });
    await this.#runner.run(queue, transitions.flowClear, { children });
    const early = told === 0 && landing.left > children.length && mayBeLetGo(job);
    this.#landed(landing, children.length, told === 'gone' || early);
    if (!landing.letGo) return;
    const reason = `its flow parent ${job.id} no longer waits for it`;
    await Promise.all(children.map((id) => this.#runner.run(queue, transitions.cancel, { id, reason })));
  }

  /** A parent that is gone may have run, but not while children of it had still to land: unless one let it go on. */
  #landed(landing: Unfinished, count: number, parentGone: boolean): void {
    landing.left -= count;
    if (!parentGone || landing.left <= 0) return;
    if (!mayBeLetGo(landing.job)) throw gone(landing.job);
    landing.letGo = true;
  }

  /** Marks that somebody has left who landed children and was cut off before their parents were told. */
  async #clear(job: PlannedJob): Promise<void> {
    const marked = job.children.filter(({ queue, children }) => queue !== job.queue || children.length > 0);
    const byQueue = groupBy(marked, ({ queue }) => queue);
    for (const [queue, list] of byQueue) {
      for (const part of portions(list, STEP, Infinity, () => 0)) {
        await this.#runner.run(queue, transitions.flowClear, { children: part.map(({ id }) => id) });
      }
    }
    for (const child of job.children) await this.#clear(child);
  }

  /** A step that may be made again: by its ids it takes effect once. */
  async #sure<R>(step: () => Promise<R>): Promise<{ readonly answer: R; readonly again: boolean }> {
    for (let tries = 1; ; tries++) {
      try {
        return { answer: await step(), again: tries > 1 };
      } catch (error) {
        if (!(error instanceof EmqError) || error.code !== 'EMQ_UNKNOWN_OUTCOME' || tries === TRIES) throw error;
      }
    }
  }
}

/**
 * The same, confirmed at the end: by then every job of the flow has landed, and all it takes is one WAIT for each node.
 * @throws EmqError also `EMQ_DURABILITY`: all of it has landed.
 */
export async function landDurably(
  wire: Wire,
  flow: PreparedFlow,
  sentBefore: boolean,
  needs: Needs,
): Promise<LandingOutcome> {
  const steps = new DurableSteps(wire, needs);
  const jobs = all(flow.root);
  await steps.prepare(jobs.map(({ queue }) => queue));
  const outcome = await new Landing(new QueueRunner(steps), flow, sentBefore).land();
  await steps.confirm({ id: flow.id, outcome }, jobs);
  return outcome;
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return groups;
}

function mayBeLetGo({ children }: PlannedJob): boolean {
  return children.some(({ policy }) => policy === 'cp');
}

function gone(job: PlannedJob): EmqError {
  const text = `EMQSTATE flow parent gone: ${job.id} on queue ${job.queue} was removed, cancelled or let go while its flow was being added; what has landed of it runs on`;
  return new EmqError('EMQSTATE', text);
}

function differs(job: PlannedJob): EmqError {
  const text = `EMQSTATE flow children differ: ${job.id} on queue ${job.queue} was added before with other children; add the same flow again, or remove it`;
  return new EmqError('EMQSTATE', text);
}
