/**
 * The options of a batch consumer: what may be given, what is taken where nothing is given, and what is refused.
 *
 * Invariants: everything is checked before anything is started; an unknown option is refused.
 * Does not: know what is done with them.
 */
import { known, positive } from '../queue/input.js';
import { checkTimer } from '../queue/opts.js';
import { inputError } from '../wire/errors.js';
import { oneOf, readShared, SHARED, type ConsumeOptions, type SharedSettings } from './options.js';

/** All times are in milliseconds. Those that a consumer of single jobs has too mean the same. */
export interface ConsumeBatchOptions extends Pick<ConsumeOptions, (typeof SHARED)[number]> {
  /**
   * So many jobs must wait, and limits and rates must let so many be claimed at once, for a batch to be taken, until
   * `timeoutMs` have passed. Looked at when somebody enqueues (of lanes: into one that was empty), and at every beat. Default 1.
   */
  readonly minSize?: number;
  /** The most jobs of a batch, 10 000 at most. Default 100. */
  readonly maxSize?: number;
  /**
   * How long fewer than `minSize` jobs are left waiting, from when the first of them was seen; of lanes it is one time for
   * all, and at its end each lane that waits gets a batch. Default 1 000.
   */
  readonly timeoutMs?: number;
  /** How many batches at once. Default 1. */
  readonly concurrency?: number;
  /** Flat jobs (default), or those of lanes: each batch is of one lane then. */
  readonly source?: 'flat' | 'lanes';
}

/** The options, checked and complete. */
export interface BatchSettings extends SharedSettings {
  readonly minSize: number;
  readonly maxSize: number;
  readonly timeoutMs: number;
  readonly source: 'flat' | 'lanes';
}

const NAMES = [...SHARED, 'minSize', 'maxSize', 'timeoutMs', 'source'] as const;
/** One claim takes them all, and holds up the server for everybody else meanwhile. */
const LARGEST_BATCH = 10_000;

/** @throws EmqError `EMQ_INPUT` with what is wrong and what to give instead. */
export function readBatchOptions(options: ConsumeBatchOptions): BatchSettings {
  const own = known('consumeBatch', options, NAMES);
  const { minSize = 1, timeoutMs = 1_000, source = 'flat' } = own;
  oneOf('source', source, ['flat', 'lanes']);
  positive('minSize', minSize);
  const { maxSize = Math.max(100, minSize) } = own;
  if (positive('maxSize', maxSize) > LARGEST_BATCH) {
    throw inputError(`maxSize must be at most ${LARGEST_BATCH}, got ${maxSize}: take more batches instead`);
  }
  if (minSize > maxSize) throw inputError(`minSize (${minSize}) must not be more than maxSize (${maxSize})`);
  return { ...readShared(own), minSize, maxSize, timeoutMs: checkTimer('timeoutMs', timeoutMs), source };
}
