/**
 * What a consumer tells in its own process. The names of outcomes are those of the queue's channel.
 *
 * Invariants: there is no `error` event, so nothing that goes wrong ends the process; trouble that is not a job's is a
 * `warning`. Does not: reach other processes (QueueEvents does).
 */
import type { EmqError } from '../wire/errors.js';
import type { ConsumedJob } from './handler.js';

export interface ConsumerEvents<T> {
  /** A job is about to run. */
  claimed: [job: ConsumedJob<T>];
  /** `result` is what the handler gave. */
  completed: [job: ConsumedJob<T>, info: { readonly result: unknown; readonly durationMs: number }];
  /** Failed, and tried again after `delayMs`. */
  scheduled: [
    job: ConsumedJob<T>,
    info: { readonly error: Error; readonly delayMs: number; readonly durationMs: number },
  ];
  /** Dead. */
  failed: [job: ConsumedJob<T>, info: { readonly error: Error; readonly durationMs: number }];
  /** Put off by a DelayError; `rateLimit`: handed back by a RateLimitError, and nothing more is claimed for `ms`. */
  delayed: [
    job: ConsumedJob<T>,
    info: {
      readonly durationMs: number;
      readonly rateLimit?: { readonly ms: number; readonly scope: 'own' | 'queue' };
    },
  ];
  /** Handed back by a close. */
  released: [job: ConsumedJob<T>];
  /** The lease was lost while the handler ran; its signal is aborted. */
  lost: [job: ConsumedJob<T>];
  /** The outcome was refused: another run has the job, or it was removed. */
  stale: [job: ConsumedJob<T>, error: EmqError];
  /** The counted sweep found lapsed leases, here or anywhere. */
  stalled: [jobs: { readonly recovered: readonly string[]; readonly dead: readonly string[] }];
  /** A row that cannot be read went to the morgue. */
  quarantined: [row: { readonly id: string; readonly why: string }];
  /** Something is wrong that is no job's failure: the connection, a right, an option. It goes on. */
  warning: [error: EmqError];
  /** Closed; the last event. */
  closed: [];
}
