/**
 * What an operator asks of a queue and its jobs, one method for each transition: the verbs that `Jobs` has besides
 * admissions, claims, settles and sweeps.
 *
 * Invariants: everything is checked before the wire; ordinary outcomes are values (`gone`, `dead`, null), refusals are
 * `EmqError`s that left nothing written. One call is one step at the server, of bounded length.
 * Does not: repeat a step until all is done (admin.ts does), or keep any state but its settings.
 */
import { EmqError, inputError, show } from '../wire/errors.js';
import type { Call, Outcome, Reply, Transition } from '../wire/call.js';
import { checkDedupId, checkGroup, checkId, Keyspace } from '../wire/keyspace.js';
import {
  COUNT_NAMES,
  transitions,
  type CountName,
  type JobState,
  type PlaceName,
  type RecoveryLeg,
} from '../wire/transitions.js';
import { Admission, type JobsOptions } from './admission.js';
import { checkLine, checkProgress, checkReason } from './bounds.js';
import type { Runs } from './child.js';
import type { Codec } from './codec.js';
import { anyInteger, bytes, givenList, known, notNegative, positive } from './input.js';
import { readRow, type JobRow } from './job.js';
import { checkWhen, type RunAt } from './run-at.js';

/** What the verbs need of a connector. `Connector` is one. */
export interface Wire {
  run(call: Call): Promise<Reply>;
  runAll(calls: readonly Call[]): Promise<Outcome[]>;
}

/** @throws EmqError `EMQ_INPUT` for what does not run calls. */
export function checkWire(what: string, wire: Wire): Wire {
  const { run, runAll } = (wire ?? {}) as Partial<Record<keyof Wire, unknown>>;
  if (typeof run === 'function' && typeof runAll === 'function') return wire;
  throw inputError(`the first argument of ${what} is a Connector (await Connector.connect(...)), got ${show(wire)}`);
}

/** In which order ids are listed: as they are to be served, or the other way round. */
export type Order = 'asc' | 'desc';

/** The job that holds a dedup id. */
export interface DedupOwner {
  readonly id: string;
  /** The name is free in so many ms at the latest; null: when its job is done. */
  readonly ttlMs: number | null;
}

/** The operator's verbs of one queue. `Jobs` extends it. */
export class JobControls<T = unknown, Input = T> {
  readonly queue: string;
  readonly keys: Keyspace;
  readonly #wire: Wire;
  readonly #admission: Admission<T, Input>;
  /** Runs transitions on this queue; an error names the transition, the job and the queue. @internal */
  protected readonly runs: Runs;

  /** @throws EmqError `EMQ_INPUT` for a queue name outside the grammar. */
  constructor(wire: Wire, queue: string, options: JobsOptions<T, Input> = {}) {
    this.#admission = new Admission(options);
    this.keys = new Keyspace(queue);
    this.queue = queue;
    this.#wire = checkWire('Jobs', wire);
    this.runs = { run: (transition, input) => this.#run(transition, input) };
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

  /** No job is claimed any more once this has returned; admissions, settles and sweeps go on. */
  async pause(): Promise<void> {
    return await this.runs.run(transitions.pause, undefined);
  }

  async resume(): Promise<void> {
    return await this.runs.run(transitions.resume, undefined);
  }

  /** Another payload for a job in whatever state. */
  async updateData(id: string, payload: Input | Uint8Array): Promise<'updated' | 'gone'> {
    return await this.runs.run(transitions.updateData, {
      id: checkId(id),
      payload: await this.#admission.payload(payload),
    });
  }

  /** Writes how far a job is, at most 64 KiB, and publishes it on the queue's events channel. */
  async updateProgress(id: string, progress: string | number): Promise<'updated' | 'gone'> {
    if (typeof progress !== 'string' && typeof progress !== 'number') {
      throw inputError(`progress must be text or a number, got ${show(progress)}`);
    }
    return await this.runs.run(transitions.updateProgress, { id: checkId(id), progress: checkProgress(progress) });
  }

  /** Adds a log line of at most 64 KiB; with `keep` only that many of the newest stay. Answers the number of lines. */
  async addLog(id: string, line: string | Uint8Array, options: { keep?: number } = {}): Promise<number | 'gone'> {
    const { keep = 0 } = known('addLog', options, ['keep']);
    const input = { id: checkId(id), line: checkLine(bytes('line', line)), keep: notNegative('keep', keep) };
    return await this.runs.run(transitions.addLog, input);
  }

  /** The log lines of a job, oldest first; `first` and `last` are places as of LRANGE (-1 is the newest). */
  async logs(id: string, options: { first?: number; last?: number } = {}): Promise<Buffer[] | 'gone'> {
    const { first = 0, last = -1 } = known('logs', options, ['first', 'last']);
    const input = { id: checkId(id), first: anyInteger('first', first), last: anyInteger('last', last) };
    return await this.runs.run(transitions.logs, input);
  }

  /** Takes a job out, wherever it is; frees its dedup key if that holds this id. @throws EmqError `EMQLOCK`. */
  async remove(id: string, options: { dedupId?: string } = {}): Promise<'removed' | 'gone'> {
    const { dedupId } = known('remove', options, ['dedupId']);
    return await this.runs.run(transitions.remove, { id: checkId(id), dedupId });
  }

  /**
   * Cancels a job wherever it is: one that waits or is scheduled is removed; one that runs is `signalled`: its consumer,
   * on whatever process, aborts its signal, and if the handler then throws the job is dead. A signal is heard only by a
   * consumer that is connected now. A reason has at most 4 KiB. @throws EmqError `EMQLOCK`.
   */
  async cancel(id: string, reason = ''): Promise<'removed' | 'signalled' | 'dead' | 'gone'> {
    if (typeof reason !== 'string') throw inputError(`the reason of a cancel must be text, got ${show(reason)}`);
    return await this.runs.run(transitions.cancel, { id: checkId(id), reason: checkReason(reason) });
  }

  /**
   * Moves jobs whose rows cannot be read, and which therefore stop claims and sweeps, to the dead; answers which and why.
   * `limit` should be as large as the claims and sweeps are.
   */
  async quarantine(options: { limit?: number } = {}): Promise<{ readonly id: string; readonly why: string }[]> {
    const { limit = 100 } = known('quarantine', options, ['limit']);
    return await this.runs.run(transitions.quarantine, { limit: positive('limit', limit) });
  }

  /** How consumers of this queue recover lapsed leases from now on, whatever they were started with. */
  async setRecovery(leg: RecoveryLeg): Promise<void> {
    if (!['reap', 'stalled'].includes(leg)) throw inputError(`recovery must be reap or stalled, got ${show(leg)}`);
    await this.runs.run(transitions.recovery, { leg, mode: 'set' });
  }

  /**
   * A dead job waits again; its last error and stall count are forgotten, and its claims so far no longer count
   * (`credit`): a consumer tries it as often as a new one. A flow parent waits again for children that are still open,
   * those that died among them: bring them back too, or remove them. @throws EmqError `EMQSTATE` not dead.
   */
  async reprocess(id: string): Promise<'pending' | 'awaiting_children' | 'gone'> {
    return await this.runs.run(transitions.reprocess, { id: checkId(id) });
  }

  /**
   * A scheduled job waits from now on, whatever its time. @throws EmqError `EMQSTATE` not scheduled.
   */
  async promoteNow(id: string): Promise<'pending' | 'gone'> {
    return await this.runs.run(transitions.promoteNow, { id: checkId(id) });
  }

  /** A scheduled job gets another time. @throws EmqError `EMQSTATE` not scheduled. */
  async reschedule(id: string, runAt: RunAt): Promise<'scheduled' | 'gone'> {
    return await this.runs.run(transitions.reschedule, { id: checkId(id), when: checkWhen(runAt) });
  }

  /**
   * Asks whether the queue's limits would let a job be claimed now: `ok`, and nothing is taken or reserved. A claim looks
   * at them itself; this is for whoever wants to know beforehand.
   * @throws EmqError `EMQRATE` at the concurrency ceiling, or at the rate ceiling.
   */
  async consult(): Promise<'ok'> {
    return await this.runs.run(transitions.consult, undefined);
  }

  /** Which job holds a dedup id; null when nobody does. */
  async dedupOwner(dedupId: string): Promise<DedupOwner | null> {
    const found = await this.runs.run(transitions.dedup, { id: checkDedupId(dedupId) });
    return found && { id: found.owner, ttlMs: found.ttlMs };
  }

  /** Frees a dedup id, whoever holds it; that job stays. */
  async freeDedup(dedupId: string): Promise<'freed' | 'absent'> {
    return await this.runs.run(transitions.dedupFree, { id: checkDedupId(dedupId) });
  }

  /** A job's row, or null. */
  async get(id: string): Promise<JobRow | null> {
    const fields = await this.runs.run(transitions.get, { id: checkId(id) });
    return fields && readRow(id, fields);
  }

  /** Where a job is, by the set that holds it. */
  async state(id: string): Promise<JobState> {
    return await this.runs.run(transitions.state, { id: checkId(id) });
  }

  /**
   * Ids of one set, by default the last to be served first (`desc`): with equal scores that is the newest. With `lane`,
   * `pending` is that lane's waiting jobs. Costs O(log N + offset + limit) at the server, so page on by small steps.
   */
  async browse(
    state: PlaceName,
    options: { offset?: number; limit?: number; order?: Order; lane?: string } = {},
  ): Promise<string[]> {
    return await this.runs.run(transitions.browse, browseInput(state, options));
  }

  /** How many jobs are in each set, and how many were completed and died. @throws EmqError `EMQ_INPUT` unknown state. */
  async counts<N extends CountName = CountName>(
    names: readonly N[] = COUNT_NAMES as readonly N[],
  ): Promise<Record<N, number>> {
    const unknown = givenList('names', names).find((name) => !COUNT_NAMES.includes(name));
    if (unknown !== undefined) {
      throw inputError(`unknown state ${show(unknown)}: use ${COUNT_NAMES.join(', ')}`);
    }
    const numbers = await this.runs.run(transitions.counts, { names });
    return Object.fromEntries(names.map((name, i) => [name, numbers[i] ?? 0])) as Record<N, number>;
  }

  /** One counter of finished jobs. */
  async metrics(outcome: 'completed' | 'failed'): Promise<{ readonly count: number }> {
    if (!['completed', 'failed'].includes(outcome)) {
      throw inputError(`unknown metric ${show(outcome)}: use completed or failed`);
    }
    return { count: await this.runs.run(transitions.metrics, { outcome }) };
  }

  async #run<I extends object | void, R>(transition: Transition<I, R>, input: I): Promise<R> {
    const call = callOf(this.keys, transition, input);
    try {
      return transition.read(await this.#wire.run(call));
    } catch (error) {
      if (!(error instanceof EmqError)) throw error;
      const id = typeof input === 'object' && 'id' in input ? ` ${String(input.id)}` : '';
      throw error.during(`${transition.name}${id} on queue ${this.queue}`);
    }
  }
}

/** One call on a queue, laid out. */
export function callOf<I, R>(keys: Keyspace, transition: Transition<I, R>, input: I): Call {
  return { transition, queue: keys.queue, ...transition.layout(keys, input) };
}

/** What a page of ids is read with. @throws EmqError `EMQ_INPUT`. */
export function browseInput(
  state: PlaceName,
  options: { offset?: number; limit?: number; order?: Order; lane?: string },
): { state: PlaceName; offset: number; limit: number; order?: Order; lane?: string } {
  const { offset = 0, limit = 100, order, lane } = known('browse', options, ['offset', 'limit', 'order', 'lane']);
  if (order !== undefined && !['asc', 'desc'].includes(order)) {
    throw inputError(`order must be asc (the first to be served first) or desc, got ${show(order)}`);
  }
  if (lane !== undefined && state !== 'pending') {
    throw inputError(`only jobs that wait are in a lane: lane goes with pending, not with ${show(state)}`);
  }
  return {
    ...{ state, offset: notNegative('offset', offset), limit: positive('limit', limit) },
    ...(order === undefined ? {} : { order }),
    ...(lane === undefined ? {} : { lane: checkGroup(lane) }),
  };
}
