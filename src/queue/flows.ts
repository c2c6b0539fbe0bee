/**
 * Flows: parents that wait for their children, added, read and delivered.
 *
 * Invariants: everything is checked before the wire; a flow that was prepared, or has ids of its own, may be added again
 * until that says `added` or `duplicate`: each job lands once. Reads write nothing.
 * Does not: run anything: children and parents are jobs of their queues.
 */
import { telemetry } from '../telemetry/index.js';
import { EmqError, inputError, show } from '../wire/errors.js';
import { checkId, Keyspace } from '../wire/keyspace.js';
import { transitions } from '../wire/transitions.js';
import type { Needs } from '../wire/durable.js';
import type { FlowCounts } from '../wire/flow-transitions.js';
import { Admission, type JobsOptions } from './admission.js';
import type { Runs } from './child.js';
import { Courier, type DeliveryReport } from './flow-delivery.js';
import { admissionsOf, type DurabilityOption } from './durability.js';
import { landDurably, Landing, landsWhole, wholeInput } from './flow-landing.js';
import { all, DEEPEST, naming, plan, PreparedFlow, type Flow, type FlowHome, type PlannedJob } from './flow-plan.js';
import { childrenValues, entries, errorsOf } from './flow-reads.js';
import { given, givenList, known, positive } from './input.js';
import { checkWire } from './job-controls.js';
import { Jobs, type Wire } from './jobs.js';
import { portions } from './portions.js';
import { decodeResult } from './results.js';
import { QueueRunner } from './runner.js';

/** The ids of a flow's jobs, as they hang together. */
export interface FlowIds {
  readonly id: string;
  readonly children: readonly FlowIds[];
}

export interface AddedFlow extends FlowIds {
  /** `duplicate`: it was there already, whole, and nothing changed. */
  readonly outcome: 'added' | 'duplicate';
}

export type AddedFlowOfMany = AddedFlow | (FlowIds & { readonly outcome: 'failed'; readonly error: EmqError });

/** A child that its parent waits for. */
export interface OpenChild {
  readonly id: string;
  readonly queue: string;
  /** False while the flow is being added, or when that was cut short. */
  readonly landed: boolean;
}

export interface Dependencies {
  /** How many children the parent waits for; 0 for a job that is no parent. */
  readonly count: number;
  /** Some of them: about `limit`, or all of a small flow. Over several pages one may come twice. */
  readonly open: readonly OpenChild[];
  /** The cursor of the next page; null when this was the last. */
  readonly next: string | null;
}

/** A flow, and whether its ids have never been sent. */
interface Planned {
  readonly flow: PreparedFlow;
  readonly fresh: boolean;
}

/** So many flows, and bytes, leave in one write. */
const BULK = 50;
const BULK_BYTES = 8 * 1_048_576;
const MINT_TRIES = 8;

/** The flows whose parents are in one queue. `Input` is the payload of a parent. */
export class Flows<T = unknown, Input = T> {
  readonly queue: string;
  readonly #runner: QueueRunner;
  readonly #runs: Runs;
  readonly #home: FlowHome<T, Input>;

  /**
   * @param queue the queue of the parents, whose codec, schema and limit are then used; or its name, with options.
   * @throws EmqError `EMQ_INPUT` for a queue name outside the grammar, or a wrong option.
   */
  constructor(wire: Wire, queue: string | Jobs<T, Input>, options: JobsOptions<T, Input> = {}) {
    if (queue instanceof Jobs && Object.keys(given('options', options)).length > 0) {
      throw inputError('a queue brings its codec, schema and limit: give Flows its name, or no options');
    }
    if (queue instanceof Jobs && queue.wire !== wire) {
      throw inputError(`queue ${queue.queue} is on another connector: give Flows the queue's own`);
    }
    if (typeof queue !== 'string' && !(queue instanceof Jobs)) {
      throw inputError(
        `the queue of Flows must be a name, a Jobs or a Queue (of a NamedQueue its .queue), got ${show(queue)}`,
      );
    }
    checkWire('Flows', wire);
    this.queue = queue instanceof Jobs ? queue.queue : new Keyspace(queue).queue;
    this.#home = {
      queue: this.queue,
      admission: queue instanceof Jobs ? queue.admission : new Admission(options),
      wire,
    };
    this.#runner = new QueueRunner(wire);
    this.#runs = this.#runner.on(this.queue);
  }

  /**
   * Checks a flow, mints the ids it lacks and encodes its payloads, and sends nothing. What it gives can be added any number
   * of times: after a crash or a lost connection the jobs that are missing land, and only those.
   * @throws EmqError `EMQ_INPUT` that says what is wrong with which job.
   */
  async prepare(flow: Flow<Input>): Promise<PreparedFlow> {
    return plan(this.#home, flow);
  }

  /**
   * Adds a parent with its children. A flow of one queue with up to 500 children (and 2 MiB) lands whole or not at all; a
   * larger one, or one over several queues, in steps: no parent of it can run before all of it has landed. When it rejects,
   * what has landed stays; add the same flow again (with ids of its own, or prepared) to land the rest.
   * @throws EmqError `EMQ_INPUT`; `EMQKIND` for an id that is no job's; `EMQSTATE` when a child's id is taken, or the flow was
   *   there with other children, or was removed meanwhile; `EMQ_UNKNOWN_OUTCOME` when it may have landed whole;
   *   `EMQ_DURABILITY` when it has landed whole and that was not confirmed as `durability` asks.
   */
  async add(flow: Flow<Input> | PreparedFlow, options: DurabilityOption = {}): Promise<AddedFlow> {
    const needs = this.#home.admission.needs(known('add', options, ['durability']));
    if (flow instanceof PreparedFlow) return this.#add({ flow: this.#mine(flow), fresh: false }, needs);
    return this.#producing(1, async (trace) => {
      return this.#add({ flow: await plan(this.#home, flow, trace), fresh: true }, needs);
    });
  }

  /**
   * Adds many flows, small ones of this queue many in one write; one result for each, in their order. All are checked before
   * the first is sent; one that fails does not keep the others from being added.
   * @throws EmqError `EMQ_INPUT`.
   */
  async addBulk(
    flows: readonly (Flow<Input> | PreparedFlow)[],
    options: DurabilityOption = {},
  ): Promise<AddedFlowOfMany[]> {
    const needs = this.#home.admission.needs(known('addBulk', options, ['durability']));
    const { length } = givenList('flows', flows);
    return this.#producing(length, async (trace) => {
      const planned = await Promise.all(
        // a hole in the list is a flow that is not there
        Array.from(flows).map(async (flow, i): Promise<Planned> => {
          if (flow instanceof PreparedFlow) return { flow: this.#mine(flow), fresh: false };
          const planned = await naming(`flow ${i}`, plan(this.#home, flow, trace));
          return { flow: planned, fresh: true };
        }),
      );
      const results = new Map<Planned, AddedFlowOfMany>();
      const whole = planned.filter(({ flow }) => landsWhole(flow));
      for (const group of portions(whole, BULK, BULK_BYTES, ({ flow }) => flow.bytes))
        await this.#addWhole(group, results, needs);
      for (const one of planned) if (!results.has(one)) results.set(one, await this.#tryAdd(one, needs));
      return planned.map((one) => results.get(one) as AddedFlowOfMany);
    });
  }

  /**
   * What the children that completed gave their parent, by child id: undefined for one that gave nothing, the bytes for a
   * result that is no JSON. Empty for any other job. Large flows are read in pages; see also `eachValue`.
   */
  async childrenValues(parentId: string): Promise<Map<string, unknown>> {
    return childrenValues(this.#runs, checkId(parentId));
  }

  /** The same one by one, in no order, with no more than a page of them in memory. */
  async *eachValue(parentId: string): AsyncGenerator<readonly [id: string, value: unknown]> {
    for await (const [child, bytes] of entries(this.#runs, checkId(parentId), 'processed')) {
      yield [child, decodeResult(child, bytes)];
    }
  }

  /** Why children died that their parent was not to die of (`ignore`, `continue`), by child id. */
  async ignoredFailures(parentId: string): Promise<Map<string, string>> {
    return errorsOf(this.#runs, checkId(parentId), 'unsuccessful');
  }

  /** Why children died that fail their parent, by child id. */
  async failures(parentId: string): Promise<Map<string, string>> {
    return errorsOf(this.#runs, checkId(parentId), 'failed');
  }

  /** How many children a parent waits for, and which, about `limit` (default 500) at a time. */
  async dependencies(parentId: string, options: { limit?: number; cursor?: string } = {}): Promise<Dependencies> {
    const { limit = 500, cursor = '0' } = known('dependencies', options, ['limit', 'cursor']);
    if (typeof cursor !== 'string' || !/^\d{1,20}$/.test(cursor))
      throw inputError(`cursor must be one that dependencies gave, got ${show(cursor)}`);
    const input = { id: checkId(parentId), book: 'children', cursor, count: positive('limit', limit) } as const;
    const [counts, page] = await Promise.all([
      this.#runs.run(transitions.flow, { id: parentId }),
      this.#runs.run(transitions.flowChildren, input),
    ]);
    const open = page.entries.map(([id, bytes]) => {
      const value = bytes.toString('utf8');
      const landed = !value.startsWith('+');
      return { id, queue: (landed ? value : value.slice(1)) || this.queue, landed };
    });
    return { count: counts.open, open, next: page.next === '0' ? null : page.next };
  }

  /** A job's counts as a parent; all 0 for any other job. */
  async counts(parentId: string): Promise<FlowCounts> {
    return this.#runs.run(transitions.flow, { id: checkId(parentId) });
  }

  /**
   * Brings a dead flow back: the job, if it is dead, and of the children that it waits for those that are dead, and so on
   * downwards; all are tried as often as new ones. Gives what was brought back, from the top. Calling it again goes on where
   * it was cut short. @throws EmqError
   */
  async reprocess(parentId: string): Promise<{ readonly id: string; readonly queue: string }[]> {
    const brought: { id: string; queue: string }[] = [];
    let level = [{ id: checkId(parentId), queue: this.queue }];
    for (let depth = 0; level.length > 0 && depth < DEEPEST; depth++) {
      const below: typeof level = [];
      for (const portion of portions(level, BULK, Infinity, () => 0)) {
        const dead = await Promise.all(portion.map(({ id, queue }) => bringBack(this.#runner.on(queue), id)));
        brought.push(...portion.filter((_job, i) => dead[i]));
      }
      for (const { id, queue } of level) {
        for await (const [child, bytes] of entries(this.#runner.on(queue), id, 'children')) {
          below.push({ id: child, queue: bytes.toString('utf8').replace(/^\+/, '') || queue });
        }
      }
      level = below;
    }
    return brought;
  }

  /**
   * Takes letters of this queue's jobs to parents, one pass of up to 1000. Consumers do this at every beat, and right after
   * they have left one; it is for queues that nobody consumes, and for tests. Never rejects: errors are in the report.
   */
  async deliver(): Promise<DeliveryReport> {
    return new Courier(this.#runner, this.queue).deliver();
  }

  #mine(flow: PreparedFlow): PreparedFlow {
    if (flow.queue === this.queue) return flow;
    throw inputError(`the flow was prepared for queue ${flow.queue}, this is queue ${this.queue}`);
  }

  async #add({ flow, fresh }: Planned, needs: Needs | undefined): Promise<AddedFlow> {
    let prepared = flow;
    for (let tries = 1; ; tries++) {
      const own = all(prepared.root).some(({ minted }) => !minted);
      const outcome = await this.#land(prepared, own || !fresh, needs);
      // an id that was minted just now and is taken means nothing to the caller: mint again (wire contract, section 1)
      const again = outcome === 'duplicate' && fresh && prepared.root.minted && tries < MINT_TRIES;
      if (!again) return { ...ids(prepared.root), outcome };
      prepared = prepared.reminted();
    }
  }

  async #land(flow: PreparedFlow, sentBefore: boolean, needs: Needs | undefined): Promise<AddedFlow['outcome']> {
    try {
      if (needs !== undefined) return await landDurably(this.#runner.wire, flow, sentBefore, needs);
      return await new Landing(this.#runner, flow, sentBefore).land();
    } catch (error) {
      throw error instanceof EmqError ? error.during(`adding flow ${flow.id} on queue ${flow.queue}`) : error;
    }
  }

  async #tryAdd(one: Planned, needs: Needs | undefined): Promise<AddedFlowOfMany> {
    try {
      return await this.#add(one, needs);
    } catch (error) {
      if (!(error instanceof EmqError)) throw error;
      return { ...ids(one.flow.root), outcome: 'failed', error };
    }
  }

  /** Many in one write, and those that need a second look one by one. */
  async #addWhole(
    group: readonly Planned[],
    results: Map<Planned, AddedFlowOfMany>,
    needs: Needs | undefined,
  ): Promise<void> {
    if (group.length === 0) return;
    const calls = group.map(({ flow }) => this.#runner.call(this.queue, transitions.enqueueFlow, wholeInput(flow)));
    const admissions = await admissionsOf(this.#runner.wire, this.queue, needs);
    const outcomes = await admissions.runAll(calls, (reply, i) => {
      const outcome = transitions.enqueueFlow.read(reply);
      // what was there is looked at below
      return outcome === 'added' ? { id: group[i]?.flow.id ?? '', outcome } : undefined;
    });
    for (const [i, one] of group.entries()) {
      const outcome = outcomes[i];
      const { root } = one.flow;
      if (outcome?.ok === false) {
        const error = outcome.error.during(`enqueue_flow ${root.id} on queue ${this.queue}`);
        results.set(one, { ...ids(root), outcome: 'failed', error });
      } else if (outcome?.ok === true && transitions.enqueueFlow.read(outcome.reply) === 'added') {
        results.set(one, { ...ids(root), outcome: 'added' });
      } else {
        results.set(one, await this.#tryAdd(one, needs));
      }
    }
  }

  async #producing<R>(count: number, run: (trace: Record<string, string>) => Promise<R>): Promise<R> {
    const traced = telemetry();
    if (traced === undefined) return run({});
    return traced.producing({ queue: this.queue, operation: 'addFlows', count }, run);
  }
}

/** Whether the job was dead, and is not now. */
async function bringBack(runs: Runs, id: string): Promise<boolean> {
  try {
    return (await runs.run(transitions.reprocess, { id })) !== 'gone';
  } catch (error) {
    // it waits, runs, or is done
    if (error instanceof EmqError && error.code === 'EMQSTATE') return false;
    throw error;
  }
}

function ids({ id, children }: PlannedJob): FlowIds {
  return { id, children: children.map(ids) };
}
