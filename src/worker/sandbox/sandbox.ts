/**
 * Runs a processor file in children, so that it may block, crash or eat memory without harm to the consumer.
 *
 * Invariants: never more than `size` children at once, those that are ending included; a child has one job at a time; one
 * that did not load, died or was killed gets no other job; idle ones do not keep this process alive.
 * Does not: settle jobs or try them again. To the consumer it is a handler like any other.
 */
import { known, positive } from '../../queue/input.js';
import { checkTimer } from '../../queue/opts.js';
import { EmqError, inputError, show } from '../../wire/errors.js';
import { asError } from '../failure.js';
import type { ConsumedJob, JobContext } from '../handler.js';
import type { ChildKind } from './channel.js';
import { ProcessorChild, type ProcessorChildOptions } from './processor-child.js';

export interface SandboxOptions {
  /** Worker threads of this process, or processes of their own. */
  readonly kind: ChildKind;
  /** The most children at once. */
  readonly size: number;
  /** How long a job may take to end once its signal was aborted, before its child is killed, in ms. Default 5 000. */
  readonly killAfterMs?: number;
  /** After how many ms without a job a child is ended; the next job starts a new one. Default 60 000. */
  readonly idleMs?: number;
  /** Told when a child died between two jobs, where no job can tell it. */
  readonly onIdleDeath?: (error: Error) => void;
}

export interface SandboxStats {
  /** Children that there are, the starting and the ending ones included. */
  readonly children: number;
  readonly busy: number;
  readonly idle: number;
  /** Jobs that wait for a child. */
  readonly waiting: number;
  /** Children ever started. */
  readonly started: number;
}

interface Waiting {
  readonly serve: (child: ProcessorChild) => void;
  readonly refuse: (error: Error) => void;
}

export class Sandbox {
  readonly #child: ProcessorChildOptions;
  readonly #size: number;
  readonly #idleMs: number;
  readonly #onIdleDeath: ((error: Error) => void) | undefined;
  readonly #children = new Set<ProcessorChild>();
  /** The one that was used last is the last: so that those which are not needed grow old. */
  readonly #idle: { readonly child: ProcessorChild; readonly since: number }[] = [];
  readonly #waiting = new Set<Waiting>();
  #started = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  /**
   * Starts nothing yet: children start with the first jobs.
   * @param url a file with `export default async function (job, context) { ... }`, of any kind that node itself can load
   *   with the flags of this process. If it exports a `codec` (its `decode` is enough), that reads payloads, else JSON does.
   * @throws EmqError `EMQ_INPUT`.
   */
  constructor(url: URL, options: SandboxOptions) {
    known('Sandbox', options, ['kind', 'size', 'killAfterMs', 'idleMs', 'onIdleDeath']);
    const { kind, size, killAfterMs = 5000, idleMs = 60_000, onIdleDeath } = options;
    if (!(url instanceof URL) || url.protocol !== 'file:') {
      throw inputError(
        `a processor must be the URL of a file, such as new URL('./work.js', import.meta.url), got ${url instanceof URL ? show(url.href) : show(url)}`,
      );
    }
    if (!['thread', 'process'].includes(kind)) throw inputError(`kind must be thread or process, got ${show(kind)}`);
    this.#size = positive('size', size);
    this.#idleMs = checkTimer('idleMs', idleMs);
    this.#child = { url, kind, killAfterMs: checkTimer('killAfterMs', killAfterMs) };
    this.#onIdleDeath = onIdleDeath;
  }

  /**
   * Runs the processor on a job, in a child that is free or a new one, and gives its result: what can be cloned, bytes as a
   * Buffer. `DelayError`, `RateLimitError`, `UnrecoverableError` and `EmqError` come back as themselves, all else as an Error of that name.
   * @throws what the processor threw; an Error that says how the child ended, when it did not load the processor, died or
   *   was killed; the signal's reason when it was aborted before the processor began; EmqError `EMQ_CLOSED`.
   */
  async run(job: ConsumedJob, context: JobContext): Promise<unknown> {
    const { signal } = context;
    if (this.#closed) throw closed();
    if (signal.aborted) throw asError(signal.reason);
    const room = this.#children.size < this.#size;
    const child = this.#idle.pop()?.child ?? (room ? this.#start() : await this.#wait(signal));
    try {
      // it may have waited
      if (this.#closed) throw closed();
      if (signal.aborted) throw asError(signal.reason);
      return await child.run(job, context);
    } finally {
      this.#free(child);
    }
  }

  /**
   * Ends all children: idle ones in good order, busy ones at once, so that their jobs reject. Resolves when none is left,
   * but for threads in native code that cannot be interrupted. May be called again.
   */
  close(): Promise<void> {
    this.#closed ??= this.#shutDown();
    return this.#closed;
  }

  stats(): SandboxStats {
    return {
      children: this.#children.size,
      busy: [...this.#children].filter(({ busy }) => busy).length,
      idle: this.#idle.length,
      waiting: this.#waiting.size,
      started: this.#started,
    };
  }

  #wait(signal: AbortSignal): Promise<ProcessorChild> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.delete(waiting);
        signal.removeEventListener('abort', onAbort);
      };
      const waiting: Waiting = {
        serve: (child) => {
          leave();
          resolve(child);
        },
        refuse: (error) => {
          leave();
          reject(error);
        },
      };
      const onAbort = (): void => waiting.refuse(asError(signal.reason));
      signal.addEventListener('abort', onAbort);
      this.#waiting.add(waiting);
    });
  }

  #start(): ProcessorChild {
    const child = new ProcessorChild(this.#child);
    this.#started += 1;
    this.#children.add(child);
    void child.ended.then((death) => this.#ended(child, death));
    return child;
  }

  #ended(child: ProcessorChild, death: Error | undefined): void {
    this.#children.delete(child);
    const at = this.#idle.findIndex((one) => one.child === child);
    if (at >= 0) this.#idle.splice(at, 1);
    for (let next = this.#next(); next !== undefined && this.#children.size < this.#size; next = this.#next()) {
      try {
        next.serve(this.#start());
      } catch (error) {
        next.refuse(asError(error));
      }
    }
    if (death) this.#onIdleDeath?.(death);
  }

  #free(child: ProcessorChild): void {
    // one that is over makes room when it has ended
    if (!child.usable) return;
    const next = this.#next();
    if (next) return next.serve(child);
    this.#idle.push({ child, since: performance.now() });
    this.#timer ??= setTimeout(() => this.#sweep(), this.#idleMs).unref();
  }

  #next(): Waiting | undefined {
    const [next] = this.#waiting;
    return next;
  }

  /** Ends those that were idle for too long, and comes again when the next one may be. */
  #sweep(): void {
    const now = performance.now();
    while (this.#idle[0] !== undefined && now - this.#idle[0].since >= this.#idleMs) this.#idle.shift()?.child.end();
    const [oldest] = this.#idle;
    this.#timer = oldest && setTimeout(() => this.#sweep(), Math.ceil(oldest.since + this.#idleMs - now)).unref();
  }

  async #shutDown(): Promise<void> {
    clearTimeout(this.#timer);
    for (const { refuse } of this.#waiting) refuse(closed());
    for (const child of this.#children) {
      if (child.busy) child.kill('was killed: its sandbox was closed');
      else child.end();
    }
    this.#idle.length = 0;
    await Promise.all([...this.#children].map((child) => child.givenUp));
  }
}

function closed(): EmqError {
  return new EmqError('EMQ_CLOSED', 'the sandbox was closed');
}
