/**
 * Lanes: the groups of a queue, which are served in turn, so that one tenant's million jobs do not stand before another's
 * ten.
 *
 * A lane is named by a branded id of any namespace and is there as long as it has jobs or settings. A consumer of the queue
 * serves lanes and flat jobs by itself; a lane's jobs are settled, cancelled and read like any other (`Jobs`).
 * Invariants: everything is checked before the wire; what goes over many lanes or jobs goes in steps of 100; a setting that is
 * made null is gone, and then what is set for `*` holds.
 * Does not: create lanes: the first job does.
 */
import { EmqError, inputError, show } from '../wire/errors.js';
import { checkGroup, checkId } from '../wire/keyspace.js';
import type { LaneInfo, LaneSettingName, Settings } from '../wire/lane-transitions.js';
import { transitions } from '../wire/transitions.js';
import { ITEM, LANE_ENQUEUE, type EnqueueItem, type EnqueueOptions, type JobsOptions } from './admission.js';
import type { Runs } from './child.js';
import type { DurabilityOption } from './durability.js';
import { givenList, known, positive } from './input.js';
import { TakenJob } from './job.js';
import type { Enqueued, EnqueuedMany, Jobs, Scheduled, Wire } from './jobs.js';
import { jobsOf } from './jobs-of.js';
import { groupsIn, STEP, steps, WITH_JOBS, WITH_SETTINGS } from './lane-walk.js';
import { purge, type Purged } from './purge.js';
import { checkRate, type Rate } from './rate.js';
import type { RunAt } from './run-at.js';
import { QueueRunner } from './runner.js';

/** Mending a lane costs the server several times what looking at one does. */
const MEND_STEP = 25;

/** A job in a lane: the lane is an argument of its own. */
export type LaneEnqueueOptions = Omit<EnqueueOptions, 'group'>;

/**
 * What would happen to a job of the lane:
 * - `paused`: the lane is paused (or `Lanes.resume` is still to come).
 * - `waits`: it waits for its rate or a back-off, until `waitsUntil`.
 * - `at limit`: as many of its jobs are in flight as may be.
 * - `empty`: nothing waits in it.
 * - `ready`: its jobs are served in their turn.
 */
export type LaneCondition = 'ready' | 'empty' | 'paused' | 'at limit' | 'waits';

/** A lane as it is. */
export interface LaneState {
  readonly group: string;
  /** Jobs that wait in it, and jobs that are claimed. */
  readonly waiting: number;
  readonly active: number;
  /** The most jobs in flight; null: no ceiling. Its own, or that of `*`; so are weight and rate. */
  readonly limit: number | null;
  /** How many jobs it gives in its turn. */
  readonly weight: number;
  readonly rate: Rate | null;
  readonly state: LaneCondition;
  /** Unix ms; null unless it waits. */
  readonly waitsUntil: number | null;
}

/** The lanes of one queue. `T` and `Input` are as of `Jobs`. */
export class Lanes<T = unknown, Input = T> {
  readonly queue: string;
  readonly #jobs: Jobs<T, Input>;
  readonly #runs: Runs;

  /**
   * @param queue its name, with options; or the `Jobs` or `Queue` itself.
   * @throws EmqError `EMQ_INPUT` for a queue name outside the grammar, or a wrong option.
   */
  constructor(wire: Wire, queue: string | Jobs<T, Input>, options: JobsOptions<T, Input> = {}) {
    this.#jobs = jobsOf('Lanes', wire, queue, options);
    this.queue = this.#jobs.queue;
    this.#runs = new QueueRunner(wire).on(this.queue);
  }

  /** Adds a job to a lane: `Jobs.enqueue` with its `group`. It waits while the lane is paused, at its limit or its rate. */
  async enqueue(group: string, payload: Input | Uint8Array, options: LaneEnqueueOptions = {}): Promise<Enqueued> {
    const own = known('enqueue', options, LANE_ENQUEUE);
    return await this.#jobs.enqueue(payload, { ...own, group: checkGroup(group) });
  }

  /** Adds a job that goes to its lane when its time has come: `Jobs.schedule` with its `group`. */
  async schedule(
    group: string,
    payload: Input | Uint8Array,
    runAt: RunAt,
    options: LaneEnqueueOptions = {},
  ): Promise<Scheduled> {
    const own = known('schedule', options, LANE_ENQUEUE);
    return await this.#jobs.schedule(payload, runAt, { ...own, group: checkGroup(group) });
  }

  /** Adds many jobs to lanes, each with its `group`, in few writes: `Jobs.enqueueMany`. */
  async enqueueMany(
    items: readonly (EnqueueItem & { group: string; payload: Input | Uint8Array })[],
    options: DurabilityOption = {},
  ): Promise<EnqueuedMany[]> {
    const all = givenList('items', items).map((item) => known('an item', item, ITEM));
    for (const { group } of all) checkGroup(group);
    return await this.#jobs.enqueueMany(all, options);
  }

  /** Claims the next job of the lane whose turn it is, for `leaseMs`; null where no lane can be served. */
  async claim(options: { leaseMs: number }): Promise<TakenJob<T> | null> {
    const { leaseMs } = known('claim', options, ['leaseMs']);
    const [job] = await this.#jobs.take({ leaseMs, count: 1, source: 'lanes' });
    return job ?? null;
  }

  /**
   * Claims up to `size` jobs of one lane on one deadline: of the first in turn that holds `min` (1 by default) or
   * more and may give them.
   * Never more than the lane's limit and rate allow; an empty array where there is no such lane.
   */
  async claimBatch(options: { leaseMs: number; size: number; min?: number }): Promise<TakenJob<T>[]> {
    const { leaseMs, size, min = 1 } = known('claimBatch', options, ['leaseMs', 'size', 'min']);
    positive('leaseMs', leaseMs);
    if (positive('min', min) > positive('size', size)) {
      throw inputError(`min must not be more than size, got ${min} of ${size}`);
    }
    const jobs = await this.#runs.run(transitions.takeBatch, { leaseMs, size, min, source: 'lanes' });
    return jobs.map((job) => new TakenJob(job, this.#jobs.codec));
  }

  /** The most jobs of the lane that may be in flight; null: no ceiling of its own. Group `*`: of every lane without one. */
  async setLimit(group: string, limit: number | null): Promise<void> {
    await this.#set(group, [['limit', limit === null ? null : positive('limit', limit)]]);
  }

  /** How many jobs the lane gives in its turn (1 where nothing is set); null unsets. Group `*`: as of `setLimit`. */
  async setWeight(group: string, weight: number | null): Promise<void> {
    await this.#set(group, [['weight', weight === null ? null : positive('weight', weight)]]);
  }

  /**
   * How many jobs of the lane may be claimed in how many ms (1000 by default); null unsets. Tokens that were spent stay
   * spent. Group `*`: as of `setLimit`.
   */
  async setRate(group: string, rate: { max: number; durationMs?: number } | null): Promise<void> {
    const { max, durationMs } = rate === null ? { max: null, durationMs: null } : checkRate('rate', rate);
    await this.#set(group, [
      ['max', max],
      ['duration', durationMs],
    ]);
  }

  /** No job of the lane is claimed any more once this has returned; admissions and settles go on. */
  async pause(group: string): Promise<'paused' | 'was paused'> {
    return await this.#runs.run(transitions.lanePause, { group: checkGroup(group) });
  }

  async resume(group: string): Promise<'resumed' | 'not paused'> {
    return await this.#runs.run(transitions.laneResume, { group: checkGroup(group) });
  }

  /**
   * Moves a job that waits in its lane to another lane, to the place that its priority and age give it there.
   * `noop`: it is there already. `not found`: no such job, or it is in no lane. `not pending`: it does not wait in its lane.
   */
  async reassign(id: string, group: string): Promise<'reassigned' | 'noop' | 'not found' | 'not pending'> {
    return await this.#runs.run(transitions.reassign, { id: checkId(id), group: checkGroup(group) });
  }

  /**
   * Takes out all jobs that wait in the lane, in steps of 100; those in flight and the lane's settings stay. `kept`: jobs
   * that stay since a `:lock` holds them. Jobs that are added meanwhile go too.
   */
  async drain(group: string): Promise<Purged> {
    return await purge(this.#runs, { lane: checkGroup(group) }, 'drained');
  }

  /** Lets all jobs of the lane wait again whose lease has lapsed, uncounted; answers how many. In steps of 100. */
  async reap(group: string): Promise<number> {
    checkGroup(group);
    let recovered = 0;
    for (let offset: number | null = 0; offset !== null;) {
      const step: { recovered: number; next: number | null } = await this.#runs.run(transitions.reapGroup, {
        ...{ group, limit: STEP, offset },
      });
      recovered += step.recovered;
      offset = step.next;
    }
    return recovered;
  }

  /** How many jobs wait in the lane. */
  async depth(group: string): Promise<number> {
    return (await this.depths([group])).get(group) ?? 0;
  }

  /** How many jobs wait in each of these lanes, in their order. */
  async depths(groups: readonly string[]): Promise<Map<string, number>> {
    return new Map((await this.info(groups)).map(({ group, waiting }) => [group, waiting]));
  }

  /** These lanes as they are, in their order; in steps of 100. */
  async info(groups: readonly string[]): Promise<LaneState[]> {
    const found: LaneState[] = [];
    for (const step of steps(givenList('groups', groups).map(checkGroup))) found.push(...(await this.#info(step)));
    return found;
  }

  /**
   * All lanes that have jobs, waiting or in flight, or are paused, each once, in no order; with `configured` also those that
   * have settings of their own and no jobs. Read in steps of about 100: a lane that comes or goes meanwhile may be missed.
   */
  async *list(options: { configured?: boolean } = {}): AsyncGenerator<LaneState, void, undefined> {
    const { configured = false } = known('list', options, ['configured']);
    if (typeof configured !== 'boolean') throw inputError(`configured must be true or false, got ${show(configured)}`);
    const places = configured ? [...WITH_JOBS, ...WITH_SETTINGS] : WITH_JOBS;
    for await (const groups of groupsIn(this.#runs, places)) {
      for (const step of steps(groups)) yield* await this.#info(step);
    }
  }

  async #info(groups: readonly string[]): Promise<LaneState[]> {
    const infos = await this.#runs.run(transitions.laneInfo, { groups });
    return groups.map((group, i) => {
      const info = infos[i];
      if (info === undefined) throw new EmqError('ERR', `lane_info of ${groups.length} lanes told of ${infos.length}`);
      return stateOf(group, info);
    });
  }

  /** What is set for `*` bears on lanes that wait or are at their ceiling by the old one: they are mended in steps. */
  async #set(group: string, settings: Settings<LaneSettingName>): Promise<void> {
    if (group !== '*') checkGroup(group);
    await this.#runs.run(transitions.laneSet, { group, settings });
    // a weight is read when a lane gives, and nowhere before
    if (group !== '*' || settings.every(([name]) => name === 'weight')) return;
    for await (const groups of groupsIn(this.#runs, WITH_JOBS)) {
      for (const step of steps(groups, MEND_STEP)) await this.#runs.run(transitions.laneMend, { groups: step });
    }
  }
}

function stateOf(group: string, info: LaneInfo): LaneState {
  const { waiting, active, weight, max, durationMs, paused, waitsUntil } = info;
  const limit = info.limit === 0 ? null : info.limit;
  const full = limit !== null && active >= limit;
  return {
    ...{ group, waiting, active, limit, weight },
    rate: max > 0 ? { max, durationMs: durationMs || 1000 } : null,
    state: paused ? 'paused' : waitsUntil > 0 ? 'waits' : full ? 'at limit' : waiting === 0 ? 'empty' : 'ready',
    waitsUntil: waitsUntil > 0 ? waitsUntil : null,
  };
}
