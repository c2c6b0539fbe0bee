/**
 * One job in this process: from the claim to its outcome.
 *
 * Invariants: there is one outcome at most, and it stands once it is `decided`; the signal is aborted at most once with an Error that says why. Does not: talk to the server but for what a handler asks.
 */
import type { Codec } from '../queue/codec.js';
import { checkLine, checkProgress } from '../queue/bounds.js';
import { children } from '../queue/flow-reads.js';
import { TakenJob } from '../queue/job.js';
import { LARGEST, positive } from '../queue/input.js';
import type { ReadOpts } from '../queue/opts.js';
import { EmqError, inputError, show } from '../wire/errors.js';
import { transitions, type Taken } from '../wire/transitions.js';
import type { Runner } from './calls.js';
import { JobAbortedError, type ConsumedJob, type JobContext } from './handler.js';
import type { Holding } from './lease-keeper.js';
import type { Answer } from './settle.js';

/** A claimed job with everything a handler may ask of it. */
class WorkedJob<T> extends TakenJob<T> implements ConsumedJob<T> {
  readonly queue: string;
  readonly maxAttempts: number;

  constructor(queue: string, taken: Taken, codec: Codec<T>, maxAttempts: number) {
    super(taken, codec);
    this.queue = queue;
    // a row may be anyone's: what `fail` is told must be a number of the wire
    this.maxAttempts = Math.min(Math.max((this.own.maxAttempts ?? maxAttempts) + taken.credit, 1), LARGEST);
  }
}

export class Run<T> implements Holding {
  readonly job: ConsumedJob<T>;
  /** The job's own limits and trace. */
  readonly own: ReadOpts;
  /** For the handler, which may take it apart: nothing in it needs its `this`. */
  readonly context: JobContext;
  /** performance.now() when its handler was called; before that, when it was claimed. */
  startedAt = performance.now();
  /** There is an outcome: what the handler still says no longer counts. */
  decided = false;
  settling = false;
  settled = false;
  /** What became of it, once it is settled. */
  answer: Answer['now'] | undefined;
  extendedUntil = 0;
  /** The handler has returned, or was never called, or is not waited for. */
  ended = false;
  /** Runs while the handler may take only so long. */
  timer: NodeJS.Timeout | undefined;

  readonly #runner: Runner;
  #controller: AbortController | undefined;
  #aborted: JobAbortedError | undefined;
  /** It may have been aborted for another reason before. */
  #leaseLost = false;

  constructor(queue: string, taken: Taken, codec: Codec<T>, maxAttempts: number, runner: Runner) {
    const job = new WorkedJob(queue, taken, codec, maxAttempts);
    this.job = job;
    this.own = job.own;
    this.#runner = runner;
    const signal = (): AbortSignal => this.#signal;
    this.context = {
      get signal() {
        return signal();
      },
      progress: (value) => this.#progress(value),
      log: (line) => this.#log(line),
      extend: (leaseMs) => this.#extend(leaseMs),
      children: () => children(this.#runner, this.id),
    };
  }

  get id(): string {
    return this.job.id;
  }

  get token(): number {
    return this.job.token;
  }

  /** How many tries have failed when this one does, from 1. */
  get failures(): number {
    return Math.max(1, this.job.attempts - this.job.credit);
  }

  get durationMs(): number {
    return performance.now() - this.startedAt;
  }

  /** Why the signal was aborted, if it was. */
  get aborted(): JobAbortedError | undefined {
    return this.#aborted;
  }

  /** Made when it is first asked for: most handlers never look. */
  get #signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted);
    }
    return this.#controller.signal;
  }

  abort(kind: JobAbortedError['kind'], message: string): void {
    if (kind === 'lost') this.#leaseLost = true;
    if (this.#aborted !== undefined) return;
    this.#aborted = new JobAbortedError(kind, message);
    this.#controller?.abort(this.#aborted);
  }

  async #progress(value: string | number): Promise<void> {
    if (typeof value !== 'string' && typeof value !== 'number') {
      throw inputError(`progress must be text or a number, got ${show(value)}`);
    }
    this.#ours();
    this.#there(await this.#runner.run(transitions.updateProgress, { id: this.id, progress: checkProgress(value) }));
  }

  async #log(line: string): Promise<void> {
    if (typeof line !== 'string') throw inputError(`a log line must be text, got ${show(line)}`);
    this.#ours();
    this.#there(await this.#runner.run(transitions.addLog, { id: this.id, line: checkLine(line), keep: 0 }));
  }

  async #extend(leaseMs: number): Promise<void> {
    positive('leaseMs', leaseMs);
    const until = performance.now() + leaseMs;
    this.#there(await this.#runner.run(transitions.extend, { id: this.id, token: this.token, leaseMs }));
    this.extendedUntil = until;
  }

  /** A run that lost its lease, or whose outcome stands, must not write over what the next one writes. */
  #ours(): void {
    if (!this.#leaseLost && !this.decided) return;
    const why = this.#aborted?.message ?? 'its outcome stands';
    throw new EmqError('EMQSTALE', `EMQSTALE ${this.id} is no longer this run's to write to: ${why}`);
  }

  #there(answer: unknown): void {
    if (answer === 'gone') throw new EmqError('EMQSTALE', `EMQSTALE job gone: ${this.id} was removed or completed`);
  }
}
