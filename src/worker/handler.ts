/**
 * What a handler gets and what it may throw.
 *
 * Invariants: resolving completes the job and the value is its result; throwing fails it; the three errors below are the
 * only ones with a meaning of their own. They are recognised by name, so that a copy of the package, a worker thread or
 * a child process may throw them.
 * Does not: talk to the server.
 */
import type { Children } from '../queue/flow-reads.js';
import type { HeldJob } from '../queue/job.js';
import type { RunAt } from '../queue/run-at.js';

/** A job in a handler's hands. */
export interface ConsumedJob<T = unknown> extends HeldJob {
  readonly id: string;
  readonly queue: string;
  /** The decoded payload. @throws EmqError `EMQ_INPUT` when the bytes are not of the codec. */
  readonly payload: T;
  /** The payload as it was enqueued, byte for byte. */
  readonly bytes: Buffer;
  /** The name given at enqueue, if any. */
  readonly name: string | undefined;
  /** The claims so far, this one included. */
  readonly attempts: number;
  /** The fencing token, the same number as `attempts`: give it to every store that can refuse an older one. */
  readonly token: number;
  /** Claims that do not count against the cap: delays, hand-backs, uncounted recoveries. */
  readonly credit: number;
  /** How often this job may be claimed before it is dead, credit included. */
  readonly maxAttempts: number;
  /** The lane it came from; undefined for a flat job. */
  readonly group: string | undefined;
  /** All that was given as `opts` at enqueue; `opts.repeat` tells the slot of a job of a repeat. */
  readonly opts: Readonly<Record<string, unknown>>;
}

/** What a handler may do about its job while it runs. It may be taken apart: `(job, { signal, log }) => ...`. */
export interface JobContext {
  /**
   * Aborted when the job is no longer this handler's to finish: its lease was lost, it was cancelled, its time is up, or
   * the consumer must close. `signal.reason` is an Error that says which.
   */
  readonly signal: AbortSignal;
  /** Writes how far the job is, at most 64 KiB, and publishes it. @throws EmqError */
  readonly progress: (value: string | number) => Promise<void>;
  /** Adds a line of at most 64 KiB to the job's log. @throws EmqError */
  readonly log: (line: string) => Promise<void>;
  /**
   * Makes the lease end `leaseMs` from now. Not needed to stay alive: leases are renewed by themselves while the event
   * loop turns; it helps before work that blocks it. @throws EmqError `EMQSTALE`, `EMQSTATE` when the lease is lost.
   */
  readonly extend: (leaseMs: number) => Promise<void>;
  /**
   * What the job's children have left, when it is the parent of a flow: the values of those that completed, and why others
   * died. Empty maps for any other job. Read anew at each call. @throws EmqError
   */
  readonly children: () => Promise<Children>;
}

/** Does the work of one job. */
export type Handler<T = unknown, R = unknown> = (job: ConsumedJob<T>, context: JobContext) => R | Promise<R>;

/** Thrown by a handler: the job is put off without a failure. A number is ms from now. */
export class DelayError extends Error {
  override readonly name = 'DelayError';
  readonly runAt: RunAt;

  constructor(runAt: RunAt | Date | number) {
    const when = typeof runAt === 'number' ? { inMs: runAt } : runAt instanceof Date ? { at: runAt } : runAt;
    // Whatever was given, the consumer says what is wrong with it: a constructor that throws would only hide it.
    const { inMs, at } = Object(when) as { readonly inMs?: number; readonly at?: number | Date };
    super(at === undefined ? `delayed by ${inMs} ms` : `delayed until ${Number(at)} (Unix ms)`);
    this.runAt = when;
  }
}

/**
 * Thrown by a handler: what the job needs is too busy just now. The job waits again at once, untried, and nothing more is
 * claimed for `ms`: from the job's lane, where it is in one, else from the whole queue.
 */
export class RateLimitError extends Error {
  override readonly name = 'RateLimitError';
  /** From 1; by the server's clock. */
  readonly ms: number;
  /** `own`: the job's lane where it is in one. `queue`: everything, lanes too. */
  readonly scope: 'own' | 'queue';

  constructor(ms: number, options: { readonly scope?: 'queue' } = {}) {
    super(`rate limited for ${ms} ms`);
    // Whatever was given, the consumer says what is wrong with it.
    this.ms = ms;
    this.scope = (Object(options) as typeof options).scope ?? 'own';
  }
}

/** Thrown by a handler: no further try can help, the job is dead at once. */
export class UnrecoverableError extends Error {
  override readonly name = 'UnrecoverableError';
}

/** Why a context's signal was aborted. */
export class JobAbortedError extends Error {
  override readonly name = 'JobAbortedError';
  /** `lost`: the lease; `cancelled`; `timeout`; `closing`. */
  readonly kind: 'lost' | 'cancelled' | 'timeout' | 'closing';

  constructor(kind: JobAbortedError['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}
