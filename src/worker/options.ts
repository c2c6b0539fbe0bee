/**
 * The options of a consumer: what may be given, what is taken where nothing is given, and what is refused.
 *
 * Invariants: everything is checked before anything is started; an unknown option is refused.
 * Does not: know what is done with them.
 */
import { checkBackoff, type Backoff } from '../queue/backoff.js';
import { known, notNegative, positive } from '../queue/input.js';
import { checkTimer } from '../queue/opts.js';
import { inputError, show } from '../wire/errors.js';
import type { Source } from '../wire/transitions.js';

/** All times are in milliseconds. */
export interface ConsumeOptions {
  /** How many jobs at once. Default 1. */
  readonly concurrency?: number;
  /** How long a job stays this process's without a renewal; leases are renewed at half of it. Default 30 000. */
  readonly leaseMs?: number;
  /** The cadence at which due jobs are promoted and lapsed leases recovered. Default 1 000. */
  readonly beatMs?: number;
  /** How often a job may be claimed before it is dead; the job's own `maxAttempts` wins. Default 3. */
  readonly maxAttempts?: number;
  /** The pause before the next try. Default 1 000. */
  readonly retryDelayMs?: number;
  /** A policy for that pause instead of `retryDelayMs`, or a function of the attempt (from 1) and the error that gives ms. */
  readonly backoff?: Backoff;
  /**
   * What becomes of jobs whose lease has lapsed: `reap` lets them wait again (default), `stalled` counts, and kills at
   * `maxStalled`; `none` leaves them to other processes. The first consumer's choice is kept for the queue.
   */
  readonly recovery?: 'reap' | 'stalled' | 'none';
  /** With recovery `stalled`: at how many lapses a job is dead. Default 3. */
  readonly maxStalled?: number;
  /** How long one try may take; the job's own `timeoutMs` wins. Default: no limit. */
  readonly timeoutMs?: number;
  /**
   * How many dead jobs are kept, and for how long; false: all, for ever. Looked at once a minute; of several consumers of a
   * queue the strictest has its way. Default 10 000 jobs, 30 days.
   */
  readonly deadLetter?: { readonly maxJobs?: number; readonly maxAgeMs?: number } | false;
  /** Which jobs it serves: flat ones, those of lanes, or both in one order (default). */
  readonly source?: Source;
  /** Publish lifecycle events on the queue's channel. Default true. */
  readonly publish?: boolean;
  /** Closes the consumer, with the default `timeoutMs` of close. */
  readonly signal?: AbortSignal;
  /** For a processor given as a URL: worker threads (default) or child processes. */
  readonly processor?: 'thread' | 'process';
  /** For a processor: how long an aborted job may take to end before its child is killed. Default 5 000. */
  readonly killAfterMs?: number;
}

/** The bounds of the dead. */
export interface DeadLetter {
  readonly maxJobs: number;
  readonly maxAgeMs: number;
}

/** The settings that all consumers have. */
export interface SharedSettings {
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly beatMs: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly recovery: 'reap' | 'stalled' | 'none';
  readonly maxStalled: number;
  readonly deadLetter: DeadLetter | undefined;
  readonly publish: boolean;
  readonly signal: AbortSignal | undefined;
}

/** The options, checked and complete. */
export interface ConsumerSettings extends SharedSettings {
  readonly timeoutMs: number | undefined;
  readonly source: Source;
  readonly processor: 'thread' | 'process';
  readonly killAfterMs: number;
}

/** The options that all consumers have. */
export const SHARED = [
  ...(['concurrency', 'leaseMs', 'beatMs', 'maxAttempts', 'retryDelayMs', 'backoff'] as const),
  ...(['recovery', 'maxStalled', 'deadLetter', 'publish', 'signal'] as const),
] as const;
const NAMES = [...SHARED, 'timeoutMs', 'source', 'processor', 'killAfterMs'] as const;
const MOST_DEAD = 10_000;
const LONGEST_DEAD_MS = 30 * 86_400_000;

/** @throws EmqError `EMQ_INPUT` with what is wrong and what to give instead. */
export function readConsumeOptions(options: ConsumeOptions): ConsumerSettings {
  const own = known('consume', options, NAMES);
  const { source = 'both', timeoutMs, processor = 'thread', killAfterMs = 5_000 } = own;
  oneOf('source', source, ['flat', 'lanes', 'both']);
  oneOf('processor', processor, ['thread', 'process']);
  return {
    ...readShared(own),
    timeoutMs: timeoutMs === undefined ? undefined : checkTimer('timeoutMs', timeoutMs),
    killAfterMs: checkTimer('killAfterMs', killAfterMs),
    ...{ source, processor },
  };
}

/** What all consumers have. @throws EmqError `EMQ_INPUT`. */
export function readShared(options: Pick<ConsumeOptions, (typeof SHARED)[number]>): SharedSettings {
  const { concurrency = 1, leaseMs = 30_000, beatMs = 1_000, maxAttempts = 3, maxStalled = 3 } = options;
  const { recovery = 'reap', publish = true, signal, retryDelayMs = 1_000 } = options;
  if (options.backoff !== undefined && options.retryDelayMs !== undefined) {
    throw inputError('give backoff or retryDelayMs, not both: retryDelayMs is a fixed backoff');
  }
  const backoff =
    options.backoff === undefined
      ? checkBackoff('retryDelayMs', retryDelayMs)
      : checkBackoff('backoff', options.backoff);
  oneOf('recovery', recovery, ['reap', 'stalled', 'none']);
  if (typeof publish !== 'boolean') throw inputError(`publish must be true or false, got ${show(publish)}`);
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw inputError('signal must be an AbortSignal');
  return {
    concurrency: positive('concurrency', concurrency),
    leaseMs: checkTimer('leaseMs', leaseMs),
    beatMs: checkTimer('beatMs', beatMs),
    maxAttempts: positive('maxAttempts', maxAttempts),
    maxStalled: positive('maxStalled', maxStalled),
    deadLetter: readDeadLetter(options.deadLetter),
    ...{ backoff, recovery, publish, signal },
  };
}

function readDeadLetter(given: ConsumeOptions['deadLetter'] = {}): DeadLetter | undefined {
  if (given === false) return undefined;
  const { maxJobs = MOST_DEAD, maxAgeMs = LONGEST_DEAD_MS } = known('deadLetter', given, ['maxJobs', 'maxAgeMs']);
  return { maxJobs: notNegative('maxJobs', maxJobs), maxAgeMs: notNegative('maxAgeMs', maxAgeMs) };
}

export function oneOf(what: string, value: string, words: readonly string[]): void {
  if (!words.includes(value)) throw inputError(`${what} must be one of ${words.join(', ')}, got ${show(value)}`);
}
