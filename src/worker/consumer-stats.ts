/**
 * A consumer in numbers.
 * Does not: count (consumer.ts does).
 */

/** A snapshot of a consumer's work. Counts are since its start. */
export interface ConsumerStats {
  readonly state: 'running' | 'closing' | 'closed';
  readonly concurrency: number;
  /** Handlers that run now. */
  readonly running: number;
  /** Jobs whose lease is kept now: those that run, and those whose outcome is on its way. */
  readonly held: number;
  readonly claimed: number;
  readonly completed: number;
  /** Failed, and to be tried again. */
  readonly scheduled: number;
  /** Dead. */
  readonly failed: number;
  readonly delayed: number;
  readonly released: number;
  /** Outcomes that were refused, since another run has the job. */
  readonly stale: number;
}
