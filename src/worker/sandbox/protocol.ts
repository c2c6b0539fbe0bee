/**
 * What a consumer's process and the children that run its processor say to each other, and how an error crosses.
 *
 * Invariants: every message of ours has the field `emq`, so that what a processor sends of its own is told apart; a job
 * crosses as its bytes and is decoded where it is read. child.js speaks the other side of this, and packs its own errors.
 * Does not: send anything (channel.ts does).
 */
import { EmqError, type EmqCode } from '../../wire/errors.js';
import { asError } from '../failure.js';
import { DelayError, RateLimitError, UnrecoverableError, type ConsumedJob, type JobContext } from '../handler.js';

/** An error as plain data. Besides the three that every error has: what ours carry. */
export interface PackedError {
  readonly name: string;
  readonly message: string;
  readonly stack?: string | undefined;
  readonly code?: string | number | undefined;
  /** Of an EmqError. */
  readonly reason?: string | undefined;
  /** Of a JobAbortedError. */
  readonly kind?: string | undefined;
  /** Of a DelayError; a Date is its Unix ms. */
  readonly runAt?: { readonly inMs: number } | { readonly at: number } | undefined;
  /** Of a RateLimitError. */
  readonly ms?: number | undefined;
  readonly scope?: string | undefined;
}

/** All of a job but what is made of its bytes. */
export type PackedJob = Omit<ConsumedJob, 'payload'>;

/** What a handler may ask of its job. */
export type Asked = Exclude<keyof JobContext, 'signal'>;

export type ToChild =
  | { readonly emq: 'run'; readonly run: number; readonly job: PackedJob }
  | { readonly emq: 'abort'; readonly run: number; readonly reason: PackedError }
  /** The answer to `ask`. */
  | { readonly emq: 'answer'; readonly ask: number; readonly value?: unknown; readonly error?: PackedError | undefined }
  /** Nothing more will come: end in good order. */
  | { readonly emq: 'end' };

export type FromChild =
  | { readonly emq: 'done'; readonly run: number; readonly result: unknown }
  | { readonly emq: 'failed'; readonly run: number; readonly error: PackedError }
  /** As failed, and no other job can do better: the processor did not load. */
  | { readonly emq: 'broken'; readonly run: number; readonly error: PackedError }
  | { readonly emq: 'ask'; readonly run: number; readonly ask: number; readonly what: Asked; readonly value: unknown }
  /** An uncaught error: the process is about to end of it. */
  | { readonly emq: 'crash'; readonly error: PackedError };

export function packJob(job: ConsumedJob): PackedJob {
  // one by one: a job has getters, and whoever adds a field is told to add it here
  const { id, queue, bytes, name, attempts, token, credit, maxAttempts, group, opts } = job;
  return { id, queue, bytes, name, attempts, token, credit, maxAttempts, group, opts };
}

export function packError(thrown: unknown): PackedError {
  const { name, message, stack, code, reason, kind } = asError(thrown) as Error & Partial<PackedError>;
  return { name, message, stack, code, reason, kind };
}

/** The error again: of its class where that means something, else an Error of its name; stack and message are the child's. */
export function unpackError(packed: PackedError): Error {
  const { name, message, stack, code } = packed;
  const error = rebuilt(packed);
  error.message = message;
  if (error.name !== name) error.name = name;
  if (stack !== undefined) error.stack = stack;
  return code === undefined ? error : Object.assign(error, { code });
}

function rebuilt({ name, message, code, reason, runAt, ms, scope }: PackedError): Error {
  if (name === 'DelayError' && runAt !== undefined) return new DelayError(runAt);
  // a scope that makes no sense is judged as one thrown here would be
  if (name === 'RateLimitError' && ms !== undefined) return Object.assign(new RateLimitError(ms), { scope });
  if (name === 'UnrecoverableError') return new UnrecoverableError(message);
  if (name === 'EmqError' && code !== undefined && reason !== undefined) return new EmqError(code as EmqCode, reason);
  return new Error(message);
}
