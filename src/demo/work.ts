/**
 * The work of the demo: one job a file, a consumer that hashes several at once, and a record of what came of each job.
 *
 * Invariants: the ledger holds every completion, one that was answered with `gone` too, so that work done twice shows; a
 * job that fails is tried a second time and is then dead. Does not: judge the ledger (verdict.ts).
 */
import { Queue, type Connector, type Jobs } from '../index.js';
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

/** Works until every job that was enqueued has ended, so many at once. @throws what the connection met. */
export async function workAll(
  queue: Queue<FilePath>,
  concurrency: number,
  ledger: Ledger,
  told: Told,
  signal?: AbortSignal,
): Promise<void> {
  if (ledger.enqueued.size === 0) return;
  const consumer = queue.consume((job) => hashByStream(job.payload), {
    concurrency,
    maxAttempts: MAX_ATTEMPTS,
    retryDelayMs: 0,
    ...(signal && { signal }),
  });
  try {
    await new Promise<void>((resolve, reject) => {
      const ended = (): void => {
        const settled = ledger.completed.size + ledger.dead.size;
        told(settled);
        if (settled === ledger.enqueued.size) resolve();
      };
      consumer
        .on('completed', (job, { result }) => {
          const digest = result as Digest;
          ledger.completed.set(job.id, [...(ledger.completed.get(job.id) ?? []), digest]);
          ledger.bytes += digest.size;
          ended();
        })
        .on('failed', (job, { error }) => {
          ledger.dead.set(job.id, reasonOf(error));
          ended();
        })
        .on('warning', reject)
        .on('closed', () => reject(new Error('ended')));
    });
  } finally {
    await consumer.close();
  }
}

/** The queue of the demo. */
export function fileQueue(connector: Connector): Queue<FilePath> {
  return new Queue<FilePath>(connector, 'files');
}
