/**
 * The exit codes of `emq`, and how an error finds its own.
 *
 * Invariants: every command ends with one of these; `--help` lists them; nothing that leaves here holds a password.
 * Does not: print.
 */
import { EmqError, type EmqCode } from '../wire/errors.js';

export const EXIT = {
  ok: 0,
  /** The thing that was checked is not in order. */
  notInOrder: 1,
  /** Wrong usage or input. */
  input: 2,
  /** No connection, or something on this machine is missing. */
  environment: 3,
  /** Refused: by the fence, by the node's access rules, or to protect what is there. */
  refused: 4,
  /** A mistake in emq itself. */
  bug: 70,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export const EXIT_HELP = `
Exit codes:
  0   ok: done, or there was nothing to do
  1   not in order: what was checked, or no such job or queue, or not in a state that allows it
  2   wrong usage or input, or --yes is wanting
  3   no connection, or something on this machine is missing
  4   refused: by the fence, by access rules, by whoever was asked, or to protect what is there
  70  a mistake in emq itself: please report it
  128 + n  ended by signal n (Ctrl-C: 130)`;

/** An error that knows its exit code. */
export class CliError extends Error {
  override readonly name = 'CliError';

  constructor(
    readonly exit: ExitCode,
    readonly code: EmqCode | 'EMQ_ENVIRONMENT' | 'EMQ_REFUSED',
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Something on this machine is missing: the text says what to install. */
export function missing(error: unknown): CliError {
  if (error instanceof EmqError && error.code === 'EMQ_INPUT') {
    return new CliError(EXIT.environment, 'EMQ_ENVIRONMENT', error.reason, { cause: error });
  }
  throw error;
}

/** Refused before anything was written, so that nothing of the user's is touched. */
export function refuse(reason: string): CliError {
  return new CliError(EXIT.refused, 'EMQ_REFUSED', reason);
}

const REFUSALS: ReadonlySet<EmqCode> = new Set([
  'EMQWIRE',
  'NOPERM',
  'NOAUTH',
  'WRONGPASS',
  'READONLY',
  'MOVED',
  'OOM',
  'MISCONF',
]);
const UNREACHABLE: ReadonlySet<EmqCode> = new Set([
  'EMQ_CONNECTION',
  'EMQ_TIMEOUT',
  'EMQ_CLOSED',
  'EMQ_UNKNOWN_OUTCOME',
  'LOADING',
  'BUSY',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
]);

/** What is told of an error: its code, its text without passwords, and the exit code. */
export interface Failure {
  readonly code: string;
  readonly reason: string;
  readonly exit: ExitCode;
}

export function failureOf(error: unknown): Failure {
  if (error instanceof CliError) return { code: error.code, reason: error.message, exit: error.exit };
  // EmqErrors never hold a password: an argument that may is scrubbed before it is judged, since the texts show URL forms
  if (error instanceof EmqError) return { code: error.code, reason: error.reason, exit: exitOf(error.code) };
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code: 'BUG', reason: scrub(text), exit: EXIT.bug };
}

function exitOf(code: EmqCode): ExitCode {
  if (code === 'EMQ_INPUT') return EXIT.input;
  if (UNREACHABLE.has(code)) return EXIT.environment;
  return REFUSALS.has(code) ? EXIT.refused : EXIT.notInOrder;
}

/**
 * Takes the user and password out of every URL in a text: what a user mistyped may hold one, with any character in it. So it
 * is all up to the last @ of the line that goes; but for the places of a stack, which are URLs of files.
 */
export function scrub(text: string): string {
  return text.replace(/((?<!\bfil)\w:\/\/)[^\n]*@/g, '$1***@');
}
