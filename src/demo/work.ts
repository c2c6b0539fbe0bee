/**
 * The work of the demo: one job a file, several loops that claim, hash and complete, and a record of what came of
 * each job.
 *
 * Invariants: the ledger holds every completion, one that was answered with `gone` too, so that work done twice shows; a
 * job that fails is tried a second time and is then dead. Does not: judge the ledger (verdict.ts).
 */
import { Jobs, type Job, type Wire } from '../index.js';
import { hashByStream, reasonOf, type Digest, type FilePath } from './files.js';

/** What came of the jobs, by their ids. */
export interface Ledger {
  readonly enqueued: Map<string, FilePath>;
  /** A list, since nothing but the server forbids that a job is completed twice. */
  readonly completed: Map<string, Digest[]>;
  /** Why a job is dead. */
  readonly dead: Map<string, string>;
  bytes: number;
}

/** Called as jobs are enqueued or settled, with how many there are so far. */
export type Told = (done: number) => void;

/** Longer than any file takes: nobody sweeps here. */
const LEASE_MS = 3_600_000;
const MAX_ATTEMPTS = 2;
const STEP = 1_000;

export function newLedger(): Ledger {
  return { enqueued: new Map(), completed: new Map(), dead: new Map(), bytes: 0 };
}

/** Adds one job for each file. @throws the first error of an enqueue. */
export async function enqueueFiles(
  jobs: Jobs<FilePath>,
  files: readonly FilePath[],
  ledger: Ledger,
  told: Told,
): Promise<void> {
  for (let at = 0; at < files.length; at += STEP) {
    const step = files.slice(at, at + STEP);
    const results = await jobs.enqueueMany(step.map((payload) => ({ payload })));
    for (const [i, result] of results.entries()) {
      if (result.outcome === 'failed') throw result.error;
      const file = step[i];
      if (file !== undefined) ledger.enqueued.set(result.id, file);
    }
    told(ledger.enqueued.size);
  }
}

/** Works until no job waits, in so many loops at once. */
export async function workAll(jobs: Jobs<FilePath>, loops: number, ledger: Ledger, told: Told): Promise<void> {
  const settled = (): void => told(ledger.completed.size + ledger.dead.size);
  const loop = async (): Promise<void> => {
    for (
      let job = await jobs.claim({ leaseMs: LEASE_MS });
      job !== null;
      job = await jobs.claim({ leaseMs: LEASE_MS })
    ) {
      await workOne(jobs, job, ledger);
      settled();
    }
  };
  await Promise.all(Array.from({ length: loops }, loop));
}

async function workOne(jobs: Jobs<FilePath>, job: Job<FilePath>, ledger: Ledger): Promise<void> {
  let result: Digest;
  try {
    result = await hashByStream(job.payload);
  } catch (error) {
    const reason = reasonOf(error);
    const outcome = await jobs.fail(job, { delayMs: 0, maxAttempts: MAX_ATTEMPTS, error: reason });
    if (outcome === 'dead') ledger.dead.set(job.id, reason);
    // due at once; this loop goes on to claim, so the job is not left behind
    else await jobs.promote();
    return;
  }
  await jobs.complete(job);
  ledger.completed.set(job.id, [...(ledger.completed.get(job.id) ?? []), result]);
  ledger.bytes += result.size;
}

/** The queue of the demo. */
export function fileJobs(wire: Wire): Jobs<FilePath> {
  return new Jobs<FilePath>(wire, 'files');
}
