/**
 * What the handler of a batch gets, and what a batch consumer tells in its own process.
 *
 * Invariants: each job of a batch has its own context, with its own signal; the batch's signal is aborted when no job is left
 * to work for. Does not: talk to the server.
 */
import type { BatchPartition, Verdicts } from './batch-verdicts.js';
import type { ConsumerEvents } from './consumer-events.js';
import type { ConsumedJob, JobContext } from './handler.js';

/** What a handler may do about its batch while it runs. It may be taken apart. */
export interface BatchContext {
  /** Aborted when none of the jobs is this handler's to finish any more, or the consumer must close. */
  readonly signal: AbortSignal;
  /**
   * What a handler of that job alone would have: its own signal (aborted when it is cancelled, or its lease lost), progress,
   * log, extend, children. @throws EmqError `EMQ_INPUT` for a job that is not in the batch.
   */
  readonly of: (job: { readonly id: string }) => JobContext;
}

/** Does the work of many jobs, and says of each what became of it. Throwing fails them all. */
export type BatchHandler<T = unknown> = (
  jobs: readonly ConsumedJob<T>[],
  context: BatchContext,
) => Verdicts | Promise<Verdicts>;

export interface BatchConsumerEvents<T> extends ConsumerEvents<T> {
  /** All jobs of a batch have been settled; told after their own events. */
  batch: [partition: BatchPartition, info: { readonly durationMs: number }];
}
