/**
 * The verbs of a queue, one method for each transition, thin over the transition table.
 *
 * Invariants: everything is checked before the wire; ordinary outcomes are values (`duplicate`, `gone`, `dead`, null),
 * refusals are `EmqError`s that left nothing written. At least once is the promise: a job may run again after a lapsed
 * lease, and `job.token` is what fences the old run's writes.
 * Does not: run handlers, sweep by itself, or keep any state but its settings.
 */
import { mint } from '../ids/mint.js';
import { telemetry } from '../telemetry/index.js';
import { EmqError, inputError, show } from '../wire/errors.js';
import type { Call, Outcome, Reply, Transition } from '../wire/call.js';
import { checkId, Keyspace } from '../wire/keyspace.js';
import {
  COUNT_NAMES,
  transitions,
  type CountName,
  type JobState,
  type PlaceName,
  type RecoveryLeg,
  type Source,
} from '../wire/transitions.js';
import { Admission, ADMISSION, type EnqueueOptions, type JobsOptions } from './admission.js';
import { complete, fail, type Runs } from './child.js';
import type { Codec } from './codec.js';
import { anyInteger, bytes, given, givenList, known, notNegative, positive } from './input.js';
import { Job, readRow, TakenJob, type HeldJob, type JobRow } from './job.js';
import { encodeResult } from './results.js';
import { checkWhen, type RunAt } from './run-at.js';

/** What the verbs need of a connector. `Connector` is one. */
export interface Wire {
  run(call: Call): Promise<Reply>;
  runAll(calls: readonly Call[]): Promise<Outcome[]>;
}

export interface Enqueued {
  readonly id: string;
  readonly outcome: 'enqueued' | 'duplicate';
}

export type EnqueuedMany = Enqueued | { readonly id: string; readonly outcome: 'failed'; readonly error: EmqError };

const MINT_TRIES = 8;
const BULK_STEP = 1000;

/**
 * The verbs of one queue. `T` is the payload that a claim gives; `Input` is what may be enqueued, which differs from `T`
 * only where a schema transforms.
 */
export class Jobs<T = unknown, Input = T> {
  readonly queue: string;
  readonly keys: Keyspace;
  readonly #wire: Wire;
  readonly #admission: Admission<T, Input>;
  readonly #runs: Runs = { run: (transition, input) => this.#run(transition, input) };

  /** @throws EmqError `EMQ_INPUT` for a queue name outside the grammar. */
  constructor(wire: Wire, queue: string, options: JobsOptions<T, Input> = {}) {
    this.#admission = new Admission(options);
    this.keys = new Keyspace(queue);
    this.queue = queue;
    this.#wire = wire;
  }

  /** What runs its calls. @internal */
  get wire(): Wire {
    return this.#wire;
  }

  /** What judges and encodes its payloads. @internal */
  get admission(): Admission<T, Input> {
    return this.#admission;
  }

  /** What reads and writes its payloads. @internal */
  get codec(): Codec<T> {
    return this.#admission.codec;
  }

  /** Adds a job that can be claimed at once. With an id of your own, a second time is `duplicate` and changes nothing. */
  async enqueue(payload: Input | Uint8Array, options: EnqueueOptions = {}): Promise<Enqueued> {
    known('enqueue', options, ADMISSION);
    return await this.#producing('enqueue', 1, async (trace) => {
      const admission = await this.#admission.of(payload, options, trace);
      return await this.#admit(options.id, (id) => this.#run(transitions.enqueue, { id, ...admission }));
    });
  }

  /**
   * Adds many jobs in few writes; results are in the order of the items. Not one step: each job is added by itself.
   * Every item is checked before the first is sent.
   */
  async enqueueMany(items: readonly (EnqueueOptions & { payload: Input | Uint8Array })[]): Promise<EnqueuedMany[]> {
    const { length } = givenList('items', items);
    return await this.#producing('enqueueMany', length, async (trace) => await this.#enqueueMany(items, trace));
  }

  async #enqueueMany(
    items: readonly (EnqueueOptions & { payload: Input | Uint8Array })[],
    trace: Readonly<Record<string, string>>,
  ): Promise<EnqueuedMany[]> {
    const inputs = await Promise.all(
      items.map(async (item) => ({
        id: known('an item', item, [...ADMISSION, 'payload']).id === undefined ? mint() : checkId(item.id as string),
        ...(await this.#admission.of(item.payload, item, trace)),
      })),
    );
    const results: EnqueuedMany[] = [];
    for (let i = 0; i < inputs.length; i += BULK_STEP) {
      const step = inputs.slice(i, i + BULK_STEP);
      const outcomes = await this.#wire.runAll(step.map((input) => this.#call(transitions.enqueue, input)));
      for (const [j, outcome] of outcomes.entries()) {
        const input = step[j];
        if (input === undefined) continue;
        const { id } = input;
        if (!outcome.ok) results.push({ id, outcome: 'failed', error: outcome.error });
        else {
          const answer = transitions.enqueue.read(outcome.reply);
          // an id of our own that is taken was never the caller's wish: mint again
          results.push(
            answer === 'duplicate' && items[i + j]?.id === undefined
              ? await this.#enqueueAgain(input)
              : { id, outcome: answer },
          );
        }
      }
    }
    return results;
  }

  /** Adds a job that can be claimed when its time has come and `promote` has run. */
  async schedule(
    payload: Input | Uint8Array,
    runAt: RunAt,
    options: EnqueueOptions = {},
  ): Promise<{ readonly id: string; readonly outcome: 'scheduled' | 'duplicate' }> {
    known('schedule', options, ADMISSION);
    const when = checkWhen(runAt);
    return await this.#producing('schedule', 1, async (trace) => {
      const admission = await this.#admission.of(payload, options, trace);
      return await this.#admit(options.id, (id) => this.#run(transitions.schedule, { id, when, ...admission }));
    });
  }

  /**
   * Claims the first waiting job for `leaseMs`, or null: nothing waits, the queue is paused, or the head was an id
   * without a row (which is dropped: claim again while `counts` says that jobs wait).
   */
  async claim(options: { leaseMs: number }): Promise<Job<T> | null> {
    const { leaseMs } = known('claim', options, ['leaseMs']);
    const job = await this.#run(transitions.claim, { leaseMs: positive('leaseMs', leaseMs) });
    return job && new Job(job, this.#admission.codec);
  }

  /** Claims up to `size` waiting jobs on one deadline; an empty array when there are none. */
  async claimBatch(options: { leaseMs: number; size: number }): Promise<Job<T>[]> {
    const { leaseMs, size } = known('claimBatch', options, ['leaseMs', 'size']);
    const input = { leaseMs: positive('leaseMs', leaseMs), size: positive('size', size) };
    return (await this.#run(transitions.claimBatch, input)).map((job) => new Job(job, this.#admission.codec));
  }

  /**
   * Claims up to `count` waiting jobs on one deadline, flat ones, those of lanes in their turn, or both in one order
   * (default); ids without a row are dropped on the way. With the jobs come their lanes, credits and own limits. When
   * more wait than were asked for, a parked consumer is woken.
   */
  async take(options: { leaseMs: number; count: number; source?: Source }): Promise<TakenJob<T>[]> {
    const { leaseMs, count, source = 'both' } = known('take', options, ['leaseMs', 'count', 'source']);
    if (!['flat', 'lanes', 'both'].includes(source)) {
      throw inputError(`source must be flat, lanes or both, got ${show(source)}`);
    }
    const input = { leaseMs: positive('leaseMs', leaseMs), count: positive('count', count), source };
    return (await this.#run(transitions.take, input)).map((taken) => new TakenJob(taken, this.#admission.codec));
  }

  /**
   * Hands a held job back untried: it waits again at once, and the claim does not count.
   * @throws EmqError `EMQSTALE`, `EMQSTATE` (not active).
   */
  async release(job: HeldJob): Promise<'released'> {
    return await this.#run(transitions.release, checkHeld(job));
  }

  /**
   * The job is done: it leaves no key behind. `gone`: it was done already. `result` is what a flow child gives its parent:
   * bytes as they are, anything else as JSON. @throws `EMQSTALE` `EMQSTATE`.
   */
  async complete(job: HeldJob, options: { result?: unknown } = {}): Promise<'completed' | 'gone'> {
    const { result } = known('complete', options, ['result']);
    return (await complete(this.#runs, checkHeld(job), () => encodeResult(job.id, result))).now;
  }

  /**
   * The job failed: it is tried again after `delayMs`, or `dead` once it was claimed `maxAttempts` times.
   * @throws EmqError `EMQSTALE` (another token, or no such job), `EMQSTATE` (not held).
   */
  async fail(
    job: HeldJob,
    options: { delayMs: number; maxAttempts: number; error: string | Uint8Array },
  ): Promise<'scheduled' | 'dead'> {
    const { delayMs, maxAttempts, error } = known('fail', options, ['delayMs', 'maxAttempts', 'error']);
    const failure = {
      ...checkHeld(job),
      delayMs: anyInteger('delayMs', delayMs),
      maxAttempts: positive('maxAttempts', maxAttempts),
      error: bytes('error', error),
    };
    return (await fail(this.#runs, failure)).now;
  }

  /**
   * Puts a held job off without a failure. The row's `credit` grows by one: it tells how many claims should not count,
   * and whoever fails the job later adds it to `maxAttempts`. @throws EmqError `EMQSTALE`, `EMQSTATE`.
   */
  async delay(job: HeldJob, runAt: RunAt): Promise<'scheduled'> {
    return await this.#run(transitions.delay, { ...checkHeld(job), when: checkWhen(runAt) });
  }

  /** The lease ends `leaseMs` from now. @throws EmqError `EMQSTALE`, `EMQSTATE` (the lease lapsed and was swept). */
  async extend(job: HeldJob, options: { leaseMs: number }): Promise<'extended' | 'gone'> {
    const { leaseMs } = known('extend', options, ['leaseMs']);
    return await this.#run(transitions.extend, { ...checkHeld(job), leaseMs: positive('leaseMs', leaseMs) });
  }

  /** Renews many leases in one step; answers the ids that could not be. */
  async extendMany(jobs: readonly HeldJob[], options: { leaseMs: number }): Promise<string[]> {
    const held = givenList('jobs', jobs).map(checkHeld);
    const leaseMs = positive('leaseMs', known('extendMany', options, ['leaseMs']).leaseMs);
    return held.length === 0 ? [] : await this.#run(transitions.extendMany, { leaseMs, held });
  }

  /** Lets up to `limit` scheduled jobs wait whose time has come; answers how many. */
  async promote(options: { limit?: number } = {}): Promise<number> {
    const { limit = 100 } = known('promote', options, ['limit']);
    return await this.#run(transitions.promote, { limit: positive('limit', limit) });
  }

  /** Lets up to `limit` jobs wait again whose lease has lapsed, uncounted; answers how many. */
  async reap(options: { limit?: number } = {}): Promise<number> {
    const { limit = 100 } = known('reap', options, ['limit']);
    return await this.#run(transitions.reap, { limit: positive('limit', limit) });
  }

  /**
   * As `reap`, but counts: at `maxStalled` lapses a job is dead. On wire 6 a lease from before a restart of the server
   * is not counted.
   */
  async stalledCheck(options: { maxStalled?: number; limit?: number } = {}): Promise<{
    readonly recovered: string[];
    readonly dead: string[];
  }> {
    const { maxStalled = 3, limit = 100 } = known('stalledCheck', options, ['maxStalled', 'limit']);
    const input = { maxStalled: positive('maxStalled', maxStalled), limit: positive('limit', limit) };
    return await this.#run(transitions.stalledCheck, input);
  }

  /** No job is claimed any more once this has returned; admissions, settles and sweeps go on. */
  async pause(): Promise<void> {
    return await this.#run(transitions.pause, undefined);
  }

  async resume(): Promise<void> {
    return await this.#run(transitions.resume, undefined);
  }

  /** Another payload for a job in whatever state. */
  async updateData(id: string, payload: Input | Uint8Array): Promise<'updated' | 'gone'> {
    return await this.#run(transitions.updateData, {
      id: checkId(id),
      payload: await this.#admission.payload(payload),
    });
  }

  /** Writes how far a job is, and publishes it on the queue's events channel. */
  async updateProgress(id: string, progress: string | number): Promise<'updated' | 'gone'> {
    if (typeof progress !== 'string' && typeof progress !== 'number') {
      throw inputError(`progress must be text or a number, got ${show(progress)}`);
    }
    return await this.#run(transitions.updateProgress, { id: checkId(id), progress: String(progress) });
  }

  /** Adds a log line; with `keep` only that many of the newest stay. Answers the number of lines. */
  async addLog(id: string, line: string | Uint8Array, options: { keep?: number } = {}): Promise<number | 'gone'> {
    const { keep = 0 } = known('addLog', options, ['keep']);
    const input = { id: checkId(id), line: bytes('line', line), keep: notNegative('keep', keep) };
    return await this.#run(transitions.addLog, input);
  }

  /** The log lines of a job, oldest first; `first` and `last` are places as of LRANGE (-1 is the newest). */
  async logs(id: string, options: { first?: number; last?: number } = {}): Promise<Buffer[] | 'gone'> {
    const { first = 0, last = -1 } = known('logs', options, ['first', 'last']);
    const input = { id: checkId(id), first: anyInteger('first', first), last: anyInteger('last', last) };
    return await this.#run(transitions.logs, input);
  }

  /** Takes a job out, wherever it is; frees its dedup key if that holds this id. @throws EmqError `EMQLOCK`. */
  async remove(id: string, options: { dedupId?: string } = {}): Promise<'removed' | 'gone'> {
    const { dedupId } = known('remove', options, ['dedupId']);
    return await this.#run(transitions.remove, { id: checkId(id), dedupId });
  }

  /**
   * Cancels a job wherever it is: one that waits or is scheduled is removed; one that runs is `signalled`: its consumer,
   * on whatever process, aborts its signal, and if the handler then throws the job is dead. A signal is heard only by a
   * consumer that is connected now. @throws EmqError `EMQLOCK`.
   */
  async cancel(id: string, reason = ''): Promise<'removed' | 'signalled' | 'dead' | 'gone'> {
    if (typeof reason !== 'string') throw inputError(`the reason of a cancel must be text, got ${show(reason)}`);
    return await this.#run(transitions.cancel, { id: checkId(id), reason });
  }

  /**
   * Moves jobs whose rows cannot be read, and which therefore stop claims and sweeps, to the dead; answers which and why.
   * `limit` should be as large as the claims and sweeps are.
   */
  async quarantine(options: { limit?: number } = {}): Promise<{ readonly id: string; readonly why: string }[]> {
    const { limit = 100 } = known('quarantine', options, ['limit']);
    return await this.#run(transitions.quarantine, { limit: positive('limit', limit) });
  }

  /** How consumers of this queue recover lapsed leases from now on, whatever they were started with. */
  async setRecovery(leg: RecoveryLeg): Promise<void> {
    if (!['reap', 'stalled'].includes(leg)) throw inputError(`recovery must be reap or stalled, got ${show(leg)}`);
    await this.#run(transitions.recovery, { leg, mode: 'set' });
  }

  /**
   * A dead job waits again; its last error and stall count are forgotten, and its claims so far no longer count
   * (`credit`): a consumer tries it as often as a new one. A flow parent waits again for children that are still open,
   * those that died among them: bring them back too, or remove them. @throws EmqError `EMQSTATE` not dead.
   */
  async reprocess(id: string): Promise<'pending' | 'awaiting_children' | 'gone'> {
    return await this.#run(transitions.reprocess, { id: checkId(id) });
  }

  /** A job's row, or null. */
  async get(id: string): Promise<JobRow | null> {
    const fields = await this.#run(transitions.get, { id: checkId(id) });
    return fields && readRow(id, fields);
  }

  /** Where a job is, by the set that holds it. */
  async state(id: string): Promise<JobState> {
    return await this.#run(transitions.state, { id: checkId(id) });
  }

  /** Ids of one set, the last to be served first: with equal scores that is the newest. */
  async browse(state: PlaceName, options: { offset?: number; limit?: number } = {}): Promise<string[]> {
    const { offset = 0, limit = 100 } = known('browse', options, ['offset', 'limit']);
    const input = { state, offset: notNegative('offset', offset), limit: positive('limit', limit) };
    return await this.#run(transitions.browse, input);
  }

  /** How many jobs are in each set, and how many were completed and died. @throws EmqError `EMQ_INPUT` unknown state. */
  async counts<N extends CountName = CountName>(
    names: readonly N[] = COUNT_NAMES as readonly N[],
  ): Promise<Record<N, number>> {
    const unknown = givenList('names', names).find((name) => !COUNT_NAMES.includes(name));
    if (unknown !== undefined) {
      throw inputError(`unknown state ${show(unknown)}: use ${COUNT_NAMES.join(', ')}`);
    }
    const numbers = await this.#run(transitions.counts, { names });
    return Object.fromEntries(names.map((name, i) => [name, numbers[i] ?? 0])) as Record<N, number>;
  }

  /** One counter of finished jobs. */
  async metrics(outcome: 'completed' | 'failed'): Promise<{ readonly count: number }> {
    if (!['completed', 'failed'].includes(outcome)) {
      throw inputError(`unknown metric ${show(outcome)}: use completed or failed`);
    }
    return { count: await this.#run(transitions.metrics, { outcome }) };
  }

  /** In a producer span where there is telemetry: its context travels in the rows. */
  async #producing<R>(
    operation: 'enqueue' | 'enqueueMany' | 'schedule',
    count: number,
    run: (trace: Record<string, string>) => Promise<R>,
  ): Promise<R> {
    const traced = telemetry();
    if (traced === undefined) return await run({});
    return await traced.producing({ queue: this.queue, operation, count }, run);
  }

  #call<I, R>(transition: Transition<I, R>, input: I): Call {
    return { transition, queue: this.queue, ...transition.layout(this.keys, input) };
  }

  async #run<I extends object | void, R>(transition: Transition<I, R>, input: I): Promise<R> {
    const call = this.#call(transition, input);
    try {
      return transition.read(await this.#wire.run(call));
    } catch (error) {
      if (!(error instanceof EmqError)) throw error;
      const id = typeof input === 'object' && 'id' in input ? ` ${String(input.id)}` : '';
      throw error.during(`${transition.name}${id} on queue ${this.queue}`);
    }
  }

  /** The second try of one item of many: whatever becomes of it, the other items keep their answers. */
  async #enqueueAgain(input: { payload: Buffer }): Promise<EnqueuedMany> {
    const ids: string[] = [];
    try {
      return await this.#admit(undefined, (id) => {
        ids.push(id);
        return this.#run(transitions.enqueue, { ...input, id });
      });
    } catch (error) {
      if (!(error instanceof EmqError)) throw error;
      return { id: ids.at(-1) ?? '', outcome: 'failed', error };
    }
  }

  /** An id that was minted here and is taken means nothing to the caller: mint again (wire contract, section 1). */
  async #admit<O extends string>(
    own: string | undefined,
    admit: (id: string) => Promise<O>,
  ): Promise<{ readonly id: string; readonly outcome: O }> {
    for (let tries = 1; ; tries += 1) {
      const id = own ?? mint();
      const outcome = await admit(id);
      if (own !== undefined || outcome !== 'duplicate') return { id, outcome };
      if (tries === MINT_TRIES) {
        throw inputError(
          `${MINT_TRIES} ids minted here were all taken, nothing was enqueued: another producer mints with the same node id; give each its own`,
        );
      }
    }
  }
}

function checkHeld(job: HeldJob): HeldJob {
  given('job (what claim gave, or { id, token })', job);
  return { id: checkId(job.id), token: positive('token', job.token) };
}
