/**
 * The verbs of a queue, one method for each transition, thin over the transition table: admissions, claims, settles and
 * sweeps here, what an operator asks in job-controls.ts.
 *
 * Invariants: everything is checked before the wire; ordinary outcomes are values (`duplicate`, `gone`, `dead`, null),
 * refusals are `EmqError`s that left nothing written. At least once is the promise: a job may run again after a lapsed
 * lease, and `job.token` is what fences the old run's writes.
 * Does not: run handlers, sweep by itself, or keep any state but its settings.
 */
import { mint } from '../ids/mint.js';
import { telemetry } from '../telemetry/index.js';
import type { Call, Reply } from '../wire/call.js';
import { EmqError, inputError, show } from '../wire/errors.js';
import { checkId } from '../wire/keyspace.js';
import { transitions, type Source, type When } from '../wire/transitions.js';
import { ENQUEUE, ITEM, type Admitted, type EnqueueItem, type EnqueueOptions } from './admission.js';
import { errorBytes } from './bounds.js';
import { complete, fail } from './child.js';
import { admissionsOf, type Admissions, type DurabilityOption } from './durability.js';
import { anyInteger, bytes, fields, given, givenList, known, positive } from './input.js';
import { Job, TakenJob, type HeldJob } from './job.js';
import { callOf, JobControls } from './job-controls.js';
import { encodeResult } from './results.js';
import { portions } from './portions.js';
import { checkWhen, type RunAt } from './run-at.js';

export type { Wire } from './job-controls.js';

/** What an admission came to. */
export interface Enqueued {
  /** The job that stands: the new one, or the one that was there. */
  readonly id: string;
  /**
   * - `enqueued`: the new job waits.
   * - `duplicate`: a job with this very id is there; nothing changed.
   * - `deduplicated`: another job holds the dedup id; nothing changed.
   * - `replaced`: another job holds the dedup id and has this payload now.
   */
  readonly outcome: 'enqueued' | 'duplicate' | 'deduplicated' | 'replaced';
}

export type EnqueuedMany = Enqueued | { readonly id: string; readonly outcome: 'failed'; readonly error: EmqError };

/** What the admission of a scheduled job came to: as `Enqueued`, with `scheduled` for a new job. */
export interface Scheduled {
  readonly id: string;
  readonly outcome: 'scheduled' | 'duplicate' | 'deduplicated' | 'replaced';
}

type Landed = Enqueued | Scheduled;

const MINT_TRIES = 8;
/** So many jobs, and bytes, leave in one write. */
const BULK_STEP = 1000;
const BULK_BYTES = 8 * 1_048_576;

/**
 * The verbs of one queue. `T` is the payload that a claim gives; `Input` is what may be enqueued, which differs from `T`
 * only where a schema transforms.
 */
export class Jobs<T = unknown, Input = T> extends JobControls<T, Input> {
  /**
   * Adds a job that can be claimed at once, flat or in a lane (`group`). With an id of your own, a second time is
   * `duplicate`; with a dedup id, see `DedupOptions`. The id of the outcome is that of the job that stands.
   * @throws EmqError `EMQ_INPUT`; `EMQ_UNKNOWN_OUTCOME`; with `durability` also `EMQ_DURABILITY`: the job is there and was not
   *   confirmed in time (`error.unconfirmed`).
   */
  async enqueue(payload: Input | Uint8Array, options: EnqueueOptions = {}): Promise<Enqueued> {
    const own = known('enqueue', options, ENQUEUE);
    return await this.#producing('enqueue', 1, async (trace) => {
      const admission = await this.admission.of(payload, own, trace);
      return await this.#admit<Enqueued>(own.id, admission, await this.#admissions(own));
    });
  }

  /**
   * Adds many jobs in few writes; results are in the order of the items. Not one step: each job is added by itself.
   * Every item is checked before the first is sent. With `durability` one that was not confirmed is `failed` with
   * `EMQ_DURABILITY`, and is there.
   */
  async enqueueMany(
    items: readonly (EnqueueItem & { payload: Input | Uint8Array })[],
    options: DurabilityOption = {},
  ): Promise<EnqueuedMany[]> {
    const all = givenList('items', items);
    const own = known('enqueueMany', options, ['durability']);
    return await this.#producing('enqueueMany', all.length, async (trace) => await this.#enqueueMany(all, own, trace));
  }

  async #enqueueMany(
    items: readonly (EnqueueItem & { payload: Input | Uint8Array })[],
    durability: DurabilityOption,
    trace: Readonly<Record<string, string>>,
  ): Promise<EnqueuedMany[]> {
    const inputs = await Promise.all(
      items.map(async (item) => {
        const own = known('an item', item, ITEM);
        const id = own.id === undefined ? mint() : checkId(own.id);
        return { id, minted: own.id === undefined, admission: await this.admission.of(own.payload, own, trace) };
      }),
    );
    const admissions = await this.#admissions(durability);
    const results: EnqueuedMany[] = [];
    for (const portion of portions(inputs, BULK_STEP, BULK_BYTES, sizeOf)) {
      const step = portion.map((input) => ({ ...input, ...this.#landing(input) }));
      const outcomes = await admissions.runAll(
        step.map(({ call }) => call),
        (reply, j) => step[j]?.read(reply),
      );
      for (const [j, outcome] of outcomes.entries()) {
        const input = step[j];
        if (input === undefined) continue;
        if (!outcome.ok) results.push({ id: input.id, outcome: 'failed', error: outcome.error });
        else {
          const answer = input.read(outcome.reply) as Enqueued;
          // an id of our own that is taken was never the caller's wish: mint again
          results.push(
            answer.outcome === 'duplicate' && input.minted
              ? await this.#enqueueAgain(input.admission, admissions)
              : answer,
          );
        }
      }
    }
    return results;
  }

  /**
   * Adds a job that can be claimed when its time has come and `promote` has run; into its lane then, if it has one.
   * Outcomes as of `enqueue`.
   */
  async schedule(payload: Input | Uint8Array, runAt: RunAt, options: EnqueueOptions = {}): Promise<Scheduled> {
    const own = known('schedule', options, ENQUEUE);
    const when = checkWhen(runAt);
    return await this.#producing('schedule', 1, async (trace) => {
      const admission = await this.admission.of(payload, own, trace);
      return await this.#admit<Scheduled>(own.id, admission, await this.#admissions(own), when);
    });
  }

  /**
   * Claims the first waiting job for `leaseMs`, or null: nothing waits, the queue is paused, or the head was an id
   * without a row (which is dropped: claim again while `counts` says that jobs wait).
   */
  async claim(options: { leaseMs: number }): Promise<Job<T> | null> {
    const { leaseMs } = known('claim', options, ['leaseMs']);
    const job = await this.runs.run(transitions.claim, { leaseMs: positive('leaseMs', leaseMs) });
    return job && new Job(job, this.admission.codec);
  }

  /** Claims up to `size` waiting jobs on one deadline; an empty array when there are none. */
  async claimBatch(options: { leaseMs: number; size: number }): Promise<Job<T>[]> {
    const { leaseMs, size } = known('claimBatch', options, ['leaseMs', 'size']);
    const input = { leaseMs: positive('leaseMs', leaseMs), size: positive('size', size) };
    return (await this.runs.run(transitions.claimBatch, input)).map((job) => new Job(job, this.admission.codec));
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
    return (await this.runs.run(transitions.take, input)).map((taken) => new TakenJob(taken, this.admission.codec));
  }

  /**
   * Hands a held job back untried: it waits again at once, and the claim does not count.
   * @throws EmqError `EMQSTALE`, `EMQSTATE` (not active).
   */
  async release(job: HeldJob): Promise<'released'> {
    return await this.runs.run(transitions.release, checkHeld(job));
  }

  /**
   * The job is done: it leaves no key behind. `gone`: it was done already. `result` is what a flow child gives its parent:
   * bytes as they are, anything else as JSON, at most 1 MiB. @throws `EMQSTALE` `EMQSTATE`.
   */
  async complete(job: HeldJob, options: { result?: unknown } = {}): Promise<'completed' | 'gone'> {
    const { result } = known('complete', options, ['result']);
    const held = checkHeld(job);
    const encoded = encodeResult(held.id, result);
    return (await complete(this.runs, held, () => encoded)).now;
  }

  /**
   * The job failed: it is tried again after `delayMs`, or `dead` once it was claimed `maxAttempts` times. Of the error the
   * row keeps 4 KiB.
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
      error: errorBytes(bytes('error', error)),
    };
    return (await fail(this.runs, failure)).now;
  }

  /**
   * Puts a held job off without a failure. The row's `credit` grows by one: it tells how many claims should not count,
   * and whoever fails the job later adds it to `maxAttempts`. @throws EmqError `EMQSTALE`, `EMQSTATE`.
   */
  async delay(job: HeldJob, runAt: RunAt): Promise<'scheduled'> {
    return await this.runs.run(transitions.delay, { ...checkHeld(job), when: checkWhen(runAt) });
  }

  /** The lease ends `leaseMs` from now. @throws EmqError `EMQSTALE`, `EMQSTATE` (the lease lapsed and was swept). */
  async extend(job: HeldJob, options: { leaseMs: number }): Promise<'extended' | 'gone'> {
    const { leaseMs } = known('extend', options, ['leaseMs']);
    return await this.runs.run(transitions.extend, { ...checkHeld(job), leaseMs: positive('leaseMs', leaseMs) });
  }

  /** Renews many leases in one step; answers the ids that could not be. */
  async extendMany(jobs: readonly HeldJob[], options: { leaseMs: number }): Promise<string[]> {
    const held = givenList('jobs', jobs).map(checkHeld);
    const leaseMs = positive('leaseMs', known('extendMany', options, ['leaseMs']).leaseMs);
    return held.length === 0 ? [] : await this.runs.run(transitions.extendMany, { leaseMs, held });
  }

  /** Lets up to `limit` scheduled jobs wait whose time has come; answers how many. */
  async promote(options: { limit?: number } = {}): Promise<number> {
    const { limit = 100 } = known('promote', options, ['limit']);
    return await this.runs.run(transitions.promote, { limit: positive('limit', limit) });
  }

  /** Lets up to `limit` jobs wait again whose lease has lapsed, uncounted; answers how many. */
  async reap(options: { limit?: number } = {}): Promise<number> {
    const { limit = 100 } = known('reap', options, ['limit']);
    return await this.runs.run(transitions.reap, { limit: positive('limit', limit) });
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
    return await this.runs.run(transitions.stalledCheck, input);
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

  /** Plain jobs keep their short layouts: only what has a lane or a dedup id goes by `admit`. */
  #landing(job: { readonly id: string; readonly admission: Admitted; readonly when?: When | undefined }): {
    readonly call: Call;
    readonly read: (reply: Reply) => Landed;
  } {
    const { id, when, admission } = job;
    const { group, dedup } = admission;
    if (group !== undefined || dedup !== undefined) {
      const call = callOf(this.keys, transitions.admit, { id, when, ...admission });
      return { call, read: (reply) => transitions.admit.read(reply) };
    }
    if (when === undefined) {
      const call = callOf(this.keys, transitions.enqueue, { id, ...admission });
      return { call, read: (reply) => ({ id, outcome: transitions.enqueue.read(reply) }) };
    }
    const call = callOf(this.keys, transitions.schedule, { id, when, ...admission });
    return { call, read: (reply) => ({ id, outcome: transitions.schedule.read(reply) }) };
  }

  async #admissions(durability: DurabilityOption): Promise<Admissions> {
    return await admissionsOf(this.wire, this.queue, this.admission.needs(durability));
  }

  /** The second try of one item of many: whatever becomes of it, the other items keep their answers. */
  async #enqueueAgain(admission: Admitted, admissions: Admissions): Promise<EnqueuedMany> {
    const ids: string[] = [];
    try {
      return await this.#admit<Enqueued>(undefined, admission, admissions, undefined, ids);
    } catch (error) {
      if (!(error instanceof EmqError)) throw error;
      return { id: ids.at(-1) ?? '', outcome: 'failed', error };
    }
  }

  /**
   * An id that was minted here and is taken means nothing to the caller: mint again (wire contract, section 1).
   * @param tried the ids that were sent.
   */
  async #admit<L extends Landed>(
    own: string | undefined,
    admission: Admitted,
    admissions: Admissions,
    when?: When,
    tried: string[] = [],
  ): Promise<L> {
    for (;;) {
      const id = own ?? mint();
      tried.push(id);
      const { call, read } = this.#landing({ id, admission, when });
      let landed: Landed;
      try {
        landed = await admissions.run(call, read);
      } catch (error) {
        if (!(error instanceof EmqError)) throw error;
        throw error.during(`${call.transition.name} ${id} on queue ${this.queue}`);
      }
      if (own !== undefined || landed.outcome !== 'duplicate') return landed as L;
      if (tried.length === MINT_TRIES) {
        throw inputError(
          `${MINT_TRIES} ids minted here were all taken, nothing was enqueued: another producer mints with the same node id; give each its own`,
        );
      }
    }
  }
}

function sizeOf({ admission }: { readonly admission: Admitted }): number {
  return admission.payload.length + (admission.opts?.length ?? 0);
}

function checkHeld(job: HeldJob): HeldJob {
  const what = 'job (what claim gave, or { id, token })';
  const { id, token } = fields(what, given(what, job), ['id', 'token']);
  return { id: checkId(id), token: positive('token', token) };
}
