/**
 * An operator's view of one queue, and hands: limits, pause, drain, trim, reprocess, obliterate; jobs by page, counts,
 * history.
 *
 * Invariants: everything is checked before the wire; what goes over many jobs goes in steps of 100 and says how many it
 * took; cut short, what was done stays done, and the same call goes on. Reads cost what a page costs, never what the queue
 * holds.
 * Does not: ask before it destroys (a caller does), or run jobs.
 */
import type { Connector } from '../wire/connector.js';
import { inputError, show } from '../wire/errors.js';
import type { LimitName } from '../wire/lane-transitions.js';
import { transitions, type CountName } from '../wire/transitions.js';
import {
  AdminReads,
  type JobDetails,
  type JobsPage,
  type Limits,
  type ListedJob,
  type Metrics,
  type QueueStats,
} from './admin-reads.js';
import {
  checkQueues,
  repairQueues,
  type Audit,
  type CheckOptions,
  type Repair,
  type RepairOptions,
} from './audit/check.js';
import { sourceOf } from './audit/source.js';
import type { Runs } from './child.js';
import { Courier } from './flow-delivery.js';
import { known, LARGEST, notNegative, positive } from './input.js';
import type { Jobs } from './jobs.js';
import { type Wire } from './jobs.js';
import { jobsOf } from './jobs-of.js';
import { groupsIn, WITH_JOBS } from './lane-walk.js';
import { Lanes, type LaneState } from './lanes.js';
import { obliterate, type Obliterated } from './obliterate.js';
import { purge, type Purged } from './purge.js';
import { checkRate } from './rate.js';
import { unregister } from './registry.js';
import { Repeats } from './repeats.js';
import { reprocessAll, type DeadFilter, type Reprocessed } from './reprocess.js';
import type { RunAt } from './run-at.js';
import { QueueRunner } from './runner.js';

/** Producers that go on must not keep a drain going for ever. */
const MOST_PASSES = 10;

/** The controls of one queue. */
export class Admin {
  readonly queue: string;
  /** The queue's repeats: list, pause, resume, remove. */
  readonly repeats: Repeats;
  readonly #wire: Wire;
  readonly #jobs: Jobs;
  readonly #lanes: Lanes;
  readonly #runs: Runs;
  readonly #reads: AdminReads;
  readonly #courier: Courier;

  /** @throws EmqError `EMQ_INPUT` for a queue name outside the grammar. */
  constructor(connector: Connector | Wire, queue: string | Jobs) {
    const runner = new QueueRunner(connector);
    this.#jobs = jobsOf('Admin', connector, queue);
    this.#lanes = new Lanes(connector, this.#jobs);
    this.repeats = new Repeats(connector, this.#jobs);
    this.queue = this.#jobs.queue;
    this.#wire = connector;
    this.#runs = runner.on(this.queue);
    this.#reads = new AdminReads(connector, this.#jobs.keys, this.#runs);
    this.#courier = new Courier(runner, this.queue);
  }

  /** The queue's limits, for all its jobs, flat and in lanes. Those of lanes: `Lanes`. */
  async limits(): Promise<Limits> {
    const { concurrency, rate, nextTokenMs } = await this.#reads.limits();
    return { concurrency, rate, nextTokenMs };
  }

  /**
   * Sets limits, which hold at once for whoever claims: `concurrency`, the most jobs in flight; `rate`, how many claims in
   * how many ms (1000 by default). Null unsets; what is not given stays. Of a rate that changes, tokens that were spent stay
   * spent. @throws EmqError `EMQ_INPUT`.
   */
  async setLimits(limits: {
    concurrency?: number | null;
    rate?: { max: number; durationMs?: number } | null;
  }): Promise<void> {
    const { concurrency, rate } = known('setLimits', limits, ['concurrency', 'rate']);
    const settings: [LimitName, number | null][] = [];
    if (concurrency !== undefined) {
      settings.push(['concurrency', concurrency === null ? null : atLeastOne('concurrency', concurrency)]);
    }
    if (rate !== undefined) {
      const { max, durationMs } = rate === null ? { max: null, durationMs: null } : checkRate('rate', rate);
      settings.push(['max', max], ['duration', durationMs]);
    }
    if (settings.length === 0)
      throw inputError('setLimits needs concurrency or rate: a number or { max, durationMs }, or null for none');
    await this.#runs.run(transitions.setLimits, { settings });
  }

  /** No job is claimed any more once this has returned; admissions, settles and sweeps go on. */
  async pause(): Promise<void> {
    await this.#jobs.pause();
  }

  async resume(): Promise<void> {
    await this.#jobs.resume();
  }

  /**
   * Takes out all jobs that wait, the flat ones and (unless `lanes` is false) those of lanes; with `scheduled` also those
   * that wait for a time. In steps of 100. Jobs in flight, the dead, held flow parents and repeats stay. `kept`: jobs that
   * stay since a `:lock` holds them. Jobs that are added meanwhile go too.
   */
  async drain(options: { scheduled?: boolean; lanes?: boolean } = {}): Promise<Purged> {
    const { scheduled = false, lanes = true } = known('drain', options, ['scheduled', 'lanes']);
    flag('scheduled', scheduled);
    flag('lanes', lanes);
    const total = { removed: 0, kept: 0 };
    // A job may go from one place to another behind the pass: another looks, until it finds nothing.
    for (let pass = 0; pass < MOST_PASSES; pass++) {
      const places = await this.#drain(scheduled, lanes);
      total.kept = places.kept;
      total.removed += places.removed;
      if (places.removed === 0) break;
    }
    return total;
  }

  /** What may be promoted meanwhile goes first, then where it would go to. */
  async #drain(scheduled: boolean, lanes: boolean): Promise<Purged> {
    const parts: Purged[] = [];
    if (scheduled) parts.push(await purge(this.#runs, 'scheduled', 'drained'));
    parts.push(await purge(this.#runs, 'pending', 'drained'));
    if (lanes) {
      for await (const groups of groupsIn(this.#runs, WITH_JOBS)) {
        for (const lane of groups) parts.push(await purge(this.#runs, { lane }, 'drained'));
      }
    }
    return parts.reduce((a, b) => ({ removed: a.removed + b.removed, kept: a.kept + b.kept }));
  }

  /**
   * Takes the whole queue away: jobs, lanes, limits, repeats, counters, and its name from the registry. In steps of 100; cut
   * short, call it again. The queue must be paused, and no job in flight, or `force` given. What its jobs have to say to flow
   * parents in other queues is delivered on the way; what cannot be stays, and with it the queue, unless `force` is given.
   * @throws EmqError `EMQSTATE` that says what to do.
   */
  async obliterate(options: { force?: boolean } = {}): Promise<Obliterated> {
    const { force = false } = known('obliterate', options, ['force']);
    const done = await obliterate(this.#runs, this.#courier, flag('force', force));
    await unregister(this.#wire, this.queue);
    return done;
  }

  /**
   * Takes out dead jobs: those that died `olderThanMs` ago or longer, and of the rest the oldest beyond `keep`. One of the
   * two has to be given. In steps of 100. @throws EmqError `EMQ_INPUT`.
   */
  async trimDead(options: { olderThanMs?: number; keep?: number }): Promise<Purged> {
    const { olderThanMs, keep } = known('trimDead', options, ['olderThanMs', 'keep']);
    if (olderThanMs === undefined && keep === undefined) {
      throw inputError('trimDead needs olderThanMs or keep ({ keep: 0 } takes out all of the dead)');
    }
    return await purge(this.#runs, 'dead', 'trimmed', {
      ageMs: olderThanMs === undefined ? undefined : notNegative('olderThanMs', olderThanMs),
      keep: keep === undefined ? undefined : notNegative('keep', keep),
    });
  }

  /** A dead job waits again: `Jobs.reprocess`. @throws EmqError `EMQSTATE` not dead. */
  async reprocess(id: string): Promise<'pending' | 'awaiting_children' | 'gone'> {
    return await this.#jobs.reprocess(id);
  }

  /**
   * All dead jobs that fit the filter wait again, those that died first at first, at most `limit`; without a filter all.
   * Jobs that die meanwhile are not looked at. @throws EmqError `EMQ_INPUT`.
   */
  async reprocessAll(options: { filter?: DeadFilter; limit?: number } = {}): Promise<Reprocessed> {
    const now = async (): Promise<number> =>
      (await this.#runs.run(transitions.repeats, { which: 'due', offset: 0, limit: 1 })).now;
    return await reprocessAll({ wire: this.#wire, keys: this.#jobs.keys, reads: this.#reads, now }, options);
  }

  /** Takes a job out, wherever it is; its dedup id is free. @throws EmqError `EMQLOCK`. */
  async remove(id: string): Promise<'removed' | 'gone'> {
    return await this.#jobs.remove(id);
  }

  /** `Jobs.cancel`. @throws EmqError `EMQLOCK`. */
  async cancel(id: string, reason = ''): Promise<'removed' | 'signalled' | 'dead' | 'gone'> {
    return await this.#jobs.cancel(id, reason);
  }

  /** A scheduled job waits from now on. @throws EmqError `EMQSTATE` not scheduled. */
  async promoteNow(id: string): Promise<'pending' | 'gone'> {
    return await this.#jobs.promoteNow(id);
  }

  /** A scheduled job gets another time. @throws EmqError `EMQSTATE` not scheduled. */
  async reschedule(id: string, runAt: RunAt): Promise<'scheduled' | 'gone'> {
    return await this.#jobs.reschedule(id, runAt);
  }

  /** Another payload, as JSON or as the bytes that are given, for a job in whatever state. */
  async updateData(id: string, payload: unknown): Promise<'updated' | 'gone'> {
    return await this.#jobs.updateData(id, payload);
  }

  /** The log lines of a job, as `Jobs.logs`. */
  async logs(id: string, options: { first?: number; last?: number } = {}): Promise<Buffer[] | 'gone'> {
    return await this.#jobs.logs(id, options);
  }

  /**
   * A page of the jobs in one state, each with its score; `offset` counts from the end that `order` names. A job that goes
   * between the two writes is left out. @throws EmqError `EMQ_INPUT`.
   */
  async jobs(options: JobsPage): Promise<ListedJob[]> {
    known('jobs', options, ['state', 'lane', 'order', 'offset', 'limit']);
    return await this.#reads.page(options);
  }

  /** One job with all that belongs to it, or null. */
  async job(id: string): Promise<JobDetails | null> {
    return await this.#reads.details(id);
  }

  /** `Jobs.counts`. */
  async counts(): Promise<Record<CountName, number>> {
    return await this.#jobs.counts();
  }

  /** The state of the queue in numbers. Costs a call for each 100 lanes, and a few more. */
  async stats(): Promise<QueueStats> {
    return await this.#reads.stats();
  }

  /**
   * What was completed and what died in each of the last minutes that are over (60, at most 1440). What was counted while
   * nobody closed a minute (a consumer does, and this call) is told of the last of them. @throws EmqError `EMQ_INPUT`.
   */
  async metrics(options: { minutes?: number } = {}): Promise<Metrics> {
    const { minutes = 60 } = known('metrics', options, ['minutes']);
    return await this.#reads.metrics(minutes);
  }

  /**
   * Verifies what always holds between two steps: each job in exactly one place and its row agreeing, counts and the ring
   * right, no key without an owner. In bounded steps, while consumers work: a queue at work gives no false alarm. Writes
   * nothing. What it costs grows with what the queue holds. @throws EmqError `NOPERM`: it needs `+scan +zscan +type`
   *   besides what a consumer may.
   */
  async check(options: CheckOptions = {}): Promise<Audit> {
    const own = audited(known('check', options, ['signal', 'most', 'onFinding']));
    return await checkQueues(await sourceOf('check', this.#wire, this.queue), this.queue, own);
  }

  /**
   * Mends what `check` finds, one atomic step for each, which looks again before it writes: may be run while consumers work,
   * be cut short and run again. Loses no job. `findings` are what stays, and says what to do. @throws EmqError as `check`.
   */
  async repair(options: RepairOptions = {}): Promise<Repair> {
    const own = audited(known('repair', options, ['signal', 'most', 'onFinding', 'onDone', 'dryRun']));
    return await repairQueues(await sourceOf('repair', this.#wire, this.queue), this.queue, own);
  }

  /** All lanes: `Lanes.list`. */
  lanes(options: { configured?: boolean } = {}): AsyncGenerator<LaneState, void, undefined> {
    return this.#lanes.list(options);
  }
}

/** @throws EmqError `EMQ_INPUT`. */
function audited<O extends RepairOptions>(options: O): O {
  const { signal, most, onFinding, onDone, dryRun } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw inputError('signal must be an AbortSignal');
  if (most !== undefined) positive('most', most);
  if (dryRun !== undefined) flag('dryRun', dryRun);
  for (const [name, listener] of Object.entries({ onFinding, onDone })) {
    if (listener === undefined || typeof listener === 'function') continue;
    throw inputError(`${name} must be a function, got ${show(listener)}`);
  }
  return options;
}

function atLeastOne(what: string, value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > LARGEST) {
    throw inputError(`${what} must be an integer from 1 to 2^52, or null for none, got ${show(value)}`);
  }
  return value;
}

function flag(what: string, value: boolean): boolean {
  if (typeof value !== 'boolean') throw inputError(`${what} must be true or false, got ${show(value)}`);
  return value;
}
