/**
 * What an operator sees of a queue: pages of jobs, one job whole, and the state of the queue in numbers.
 *
 * Invariants: nothing here writes, but that `metrics` closes the minutes that are over; no call at the server is longer than
 * a page. What is read in several calls is not one moment.
 * Does not: know a payload's codec: rows hold bytes.
 */
import { isBranded, parseId } from '../ids/brand.js';
import type { FlowCounts } from '../wire/flow-transitions.js';
import type { EmqError } from '../wire/errors.js';
import { inputError, show } from '../wire/errors.js';
import type { Keyspace } from '../wire/keyspace.js';
import { checkId } from '../wire/keyspace.js';
import { COUNT_NAMES, transitions, type CountName, type JobState, type PlaceName } from '../wire/transitions.js';
import type { Reply, Transition } from '../wire/call.js';
import type { Runs } from './child.js';
import { readRow, type JobRow } from './job.js';
import { browseInput, callOf, type Order, type Wire } from './job-controls.js';
import { groupsIn, steps, WITH_JOBS } from './lane-walk.js';
import { readOpts, type ReadOpts } from './opts.js';
import type { Rate } from './rate.js';

/** What `Admin.jobs` lists. */
export interface JobsPage {
  state: PlaceName;
  /** The waiting jobs of this lane, with state `pending`. Default: the flat ones. */
  lane?: string;
  /** `asc` (default): the first to be served, to lapse, to come due, or dead the longest, comes first. */
  order?: Order;
  /** Default 0. */
  offset?: number;
  /** At most 1000, default 100. */
  limit?: number;
}

/** A job of a page. */
export interface ListedJob extends JobRow {
  /**
   * What its set is sorted by: its priority (`pending`), the end of its lease (`active`), the time it waits for
   * (`scheduled`), when it died (`dead`), since when it waits for its children (`awaiting_children`); times are Unix ms.
   */
  readonly score: number;
}

/** One job, whole. */
export interface JobDetails {
  readonly id: string;
  readonly state: JobState;
  readonly row: JobRow;
  /** The row's `opts`, read: its name and its own limits. */
  readonly own: ReadOpts;
  /** When its id was minted, Unix ms. */
  readonly mintedAt: number;
  /** Its last log lines, at most 100, oldest first. */
  readonly logs: readonly Buffer[];
  /** Its counts as a flow parent; all 0 for a job that is none. */
  readonly flow: FlowCounts;
}

/** The limits of a queue. */
export interface Limits {
  /** The most jobs in flight; null: no ceiling. */
  readonly concurrency: number | null;
  readonly rate: Rate | null;
  /** In so many ms the rate, or a back-off, lets the next job be claimed; 0: now. */
  readonly nextTokenMs: number;
}

export interface QueueStats {
  readonly counts: Readonly<Record<CountName, number>>;
  readonly paused: boolean;
  readonly limits: Limits;
  /** Lanes that have jobs or are paused, and the jobs that wait in them: these are not in `counts.pending`. */
  readonly lanes: { readonly count: number; readonly waiting: number };
  /** How long ago the id of the flat job was minted that is served next, in ms; null: none waits. */
  readonly nextJobAgeMs: number | null;
  /** In so many ms the next job, lane or token is due, 0 or less: now; null: nothing waits for a time. */
  readonly dueInMs: number | null;
  /** Letters to flow parents that have not been delivered; null: the outbox cannot be read. */
  readonly letters: number | null;
  /** How lapsed leases are recovered; null: no consumer has said so yet. */
  readonly recovery: string | null;
}

/** What was counted, minute by minute. */
export interface Metrics {
  /** One number a minute, oldest first. */
  readonly completed: readonly number[];
  readonly failed: readonly number[];
  /** When the first of these minutes began, Unix ms, by the server's clock. The last is the last one that is over. */
  readonly from: number;
  /** What was counted since the queue is there. */
  readonly total: { readonly completed: number; readonly failed: number };
}

const MOST_ROWS = 1000;
/** As many minutes as are kept: a day. */
const MOST_MINUTES = 1440;
const MINUTE_MS = 60_000;
const LOG_LINES = 100;

/** Reads of one queue, for `Admin`. */
export class AdminReads {
  readonly #wire: Wire;
  readonly #keys: Keyspace;
  readonly #runs: Runs;

  constructor(wire: Wire, keys: Keyspace, runs: Runs) {
    this.#wire = wire;
    this.#keys = keys;
    this.#runs = runs;
  }

  /** Ids of a page with their scores, and their rows; those that went in between are null. */
  async rows(input: {
    state: PlaceName;
    offset: number;
    limit: number;
    order?: Order;
    lane?: string;
  }): Promise<{ readonly id: string; readonly score: number; readonly row: JobRow | null }[]> {
    const order = input.order ?? 'asc';
    const flat = await this.#runs.run(transitions.browse, { ...input, order, scores: true });
    const found = Array.from({ length: flat.length / 2 }, (_, i) => ({
      id: flat[2 * i] ?? '',
      score: Number(flat[2 * i + 1]),
    }));
    const fields = await this.all(
      transitions.get,
      found.map(({ id }) => ({ id })),
    );
    return found.map((one, i) => {
      const row = fields[i];
      return { ...one, row: row ? readRow(one.id, row) : null };
    });
  }

  async page(options: JobsPage): Promise<ListedJob[]> {
    const { state, ...rest } = options;
    const input = browseInput(state, rest);
    if (input.limit > MOST_ROWS) {
      throw inputError(
        `limit must be an integer from 1 to ${MOST_ROWS}, got ${show(input.limit)}: page on with offset`,
      );
    }
    const found = await this.rows(input);
    return found.flatMap(({ score, row }) => (row === null ? [] : [{ ...row, score }]));
  }

  async details(id: string): Promise<JobDetails | null> {
    checkId(id);
    const logs = { id, first: -LOG_LINES, last: -1 };
    const calls = [
      callOf(this.#keys, transitions.get, { id }),
      callOf(this.#keys, transitions.state, { id }),
      callOf(this.#keys, transitions.logs, logs),
      callOf(this.#keys, transitions.flow, { id }),
    ];
    const [get, state, lines, flow] = (await this.#wire.runAll(calls)).map(replyOf);
    const fields = transitions.get.read(get ?? null);
    if (fields === null) return null;
    const row = readRow(id, fields);
    const found = transitions.logs.read(lines ?? null);
    return {
      ...{ id, row, own: readOpts(fields.get('opts') ?? null), mintedAt: parseId(id).unixMs },
      state: transitions.state.read(state ?? null),
      logs: found === 'gone' ? [] : found,
      flow: transitions.flow.read(flow ?? null),
    };
  }

  async limits(): Promise<Limits & { readonly paused: boolean }> {
    const { concurrency, max, durationMs, nextTokenMs, paused } = await this.#runs.run(transitions.limits, undefined);
    return {
      concurrency: concurrency > 0 ? concurrency : null,
      rate: max > 0 ? { max, durationMs: durationMs || 1000 } : null,
      ...{ nextTokenMs, paused },
    };
  }

  async stats(): Promise<QueueStats> {
    const [numbers, { paused, ...limits }, agenda, [head], lanes] = await Promise.all([
      this.#runs.run(transitions.counts, { names: COUNT_NAMES }),
      this.limits(),
      this.#runs.run(transitions.agenda, undefined),
      this.#runs.run(transitions.browse, { state: 'pending', offset: 0, limit: 1, order: 'asc' }),
      this.#lanes(),
    ]);
    return {
      counts: Object.fromEntries(COUNT_NAMES.map((name, i) => [name, numbers[i] ?? 0])) as Record<CountName, number>,
      ...{ paused, limits, lanes },
      // whoever writes ids of another kind has no age
      nextJobAgeMs: head === undefined || !isBranded(head) ? null : Math.max(0, Date.now() - parseId(head).unixMs),
      ...{ dueInMs: agenda.dueInMs, letters: agenda.letters, recovery: agenda.recovery },
    };
  }

  async metrics(minutes: number): Promise<Metrics> {
    if (!Number.isInteger(minutes) || minutes < 1 || minutes > MOST_MINUTES) {
      throw inputError(`minutes must be an integer from 1 to ${MOST_MINUTES} (a day), got ${show(minutes)}`);
    }
    await this.#runs.run(transitions.metricsRoll, undefined);
    const outcomes = ['completed', 'failed'] as const;
    const [histories, totals] = await Promise.all([
      this.all(
        transitions.history,
        outcomes.map((outcome) => ({ outcome, first: 0, count: minutes })),
      ),
      this.all(
        transitions.metrics,
        outcomes.map((outcome) => ({ outcome })),
      ),
    ]);
    const minute = histories[0]?.minute ?? Math.floor(Date.now() / MINUTE_MS);
    const series = outcomes.map((_, i) => {
      const newestFirst = histories[i]?.counts ?? [];
      return Array.from({ length: minutes }, (_item, back) => newestFirst[minutes - 1 - back] ?? 0);
    });
    return {
      completed: series[0] ?? [],
      failed: series[1] ?? [],
      from: (minute - minutes) * MINUTE_MS,
      total: { completed: totals[0] ?? 0, failed: totals[1] ?? 0 },
    };
  }

  /** The same transition on many inputs, in one write. @throws EmqError the first refusal. */
  async all<I, R>(transition: Transition<I, R>, inputs: readonly I[]): Promise<R[]> {
    const outcomes = await this.#wire.runAll(inputs.map((input) => callOf(this.#keys, transition, input)));
    return outcomes.map((outcome) => transition.read(replyOf(outcome)));
  }

  async #lanes(): Promise<QueueStats['lanes']> {
    let [count, waiting] = [0, 0];
    for await (const groups of groupsIn(this.#runs, WITH_JOBS)) {
      count += groups.length;
      const infos = await this.all(
        transitions.laneInfo,
        [...steps(groups)].map((step) => ({ groups: step })),
      );
      for (const info of infos.flat()) waiting += info.waiting;
    }
    return { count, waiting };
  }
}

function replyOf(outcome: { ok: true; reply: Reply } | { ok: false; error: EmqError }): Reply {
  if (outcome.ok) return outcome.reply;
  throw outcome.error;
}
