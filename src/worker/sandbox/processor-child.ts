/**
 * One child of a sandbox, and the job it has.
 *
 * States: idle (unreferenced), busy with one job, and over: it failed to load, was told to end, was killed or died; from
 * over there is no way back, and only its end is waited for.
 * Invariants: a run settles once, and when it rejects because the child was killed or died, the processor no longer runs
 * (unless it could not be stopped, and then the error says so).
 * Does not: choose a job, or start another child.
 */
import { asBuffer } from '../../queue/input.js';
import type { ConsumedJob, JobContext } from '../handler.js';
import { openChannel, type Channel, type ChildKind } from './channel.js';
import { packError, packJob, unpackError, type Asked, type FromChild } from './protocol.js';

/** How long the end of a killed child is waited for, in ms: a thread in the middle of native code cannot be stopped. */
const KILL_MS = 1000;

/** What a job's context does for a child. */
const ASKED: Readonly<Record<Asked, (context: JobContext, value: unknown) => Promise<unknown>>> = {
  progress: (context, value) => context.progress(value as string),
  log: (context, value) => context.log(value as string),
  extend: (context, value) => context.extend(value as number),
  children: (context) => context.children(),
};

interface Run {
  readonly run: number;
  readonly context: JobContext;
  readonly settle: (error: Error | undefined, result?: unknown) => void;
}

export interface ProcessorChildOptions {
  readonly url: URL;
  readonly kind: ChildKind;
  /** How long a job may take to end once its signal was aborted, and an idle child to end when told to, in ms. */
  readonly killAfterMs: number;
}

export class ProcessorChild {
  /** Resolves when nothing of it is left; with an error if it died by itself and had no job to tell it. */
  readonly ended: Promise<Error | undefined>;
  /** Resolves when it has ended, or was killed and did not end in time. */
  readonly givenUp: Promise<void>;
  readonly #options: ProcessorChildOptions;
  readonly #channel: Channel;
  #over = false;
  #run: Run | undefined;
  #runs = 0;
  /** Why it was killed. */
  #killed: string | undefined;
  /** Why its processor did not load. */
  #broken: Error | undefined;
  #timer: NodeJS.Timeout | undefined;
  #giveUp!: () => void;

  /** @throws what `openChannel` throws. */
  constructor(options: ProcessorChildOptions) {
    this.#options = options;
    this.givenUp = new Promise((resolve) => (this.#giveUp = resolve));
    let tellEnd!: (death: Error | undefined) => void;
    this.ended = new Promise((resolve) => (tellEnd = resolve));
    this.#channel = openChannel(options.kind, options.url, {
      message: (message) => this.#receive(message),
      ended: (how) => {
        const untold = this.#over || this.#run ? undefined : this.#death(`${how} between two jobs`);
        this.#over = true;
        clearTimeout(this.#timer);
        this.#run?.settle(this.#death(how));
        this.#giveUp();
        tellEnd(untold);
      },
    });
  }

  /** False when it must not get another job. */
  get usable(): boolean {
    return !this.#over;
  }

  get busy(): boolean {
    return this.#run !== undefined;
  }

  /** Runs the processor on a job. Only for a child that is usable and not busy. */
  run(job: ConsumedJob, context: JobContext): Promise<unknown> {
    const { signal } = context;
    const run = (this.#runs += 1);
    let timer: NodeJS.Timeout | undefined;
    const onAbort = (): void => {
      const { killAfterMs } = this.#options;
      const reason = packError(signal.reason);
      this.#channel.send({ emq: 'abort', run, reason });
      timer = setTimeout(
        () => this.kill(`was killed: it did not end within ${killAfterMs} ms of its abort (${reason.message})`),
        killAfterMs,
      );
    };
    return new Promise((resolve, reject) => {
      const settle: Run['settle'] = (error, result) => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        this.#run = undefined;
        if (!this.#over) this.#channel.unref();
        if (error === undefined) resolve(result);
        else reject(error);
      };
      this.#run = { run, context, settle };
      this.#channel.ref();
      this.#channel.send({ emq: 'run', run, job: packJob(job) });
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** Lets it end in good order, its exit handlers included, and kills it when that takes too long. */
  end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#channel.ref();
    this.#channel.send({ emq: 'end' });
    this.#timer = setTimeout(() => this.kill('was killed: it did not end when told to'), this.#options.killAfterMs);
  }

  /** Ends it at once. @param why such as `was killed: ...`; the first one is told. */
  kill(why: string): void {
    if (this.#killed !== undefined) return;
    this.#killed = why;
    this.#over = true;
    clearTimeout(this.#timer);
    this.#channel.ref();
    this.#channel.kill();
    this.#timer = setTimeout(() => {
      this.#channel.unref();
      this.#killed = `${why}, but it still runs: native code cannot be interrupted`;
      this.#run?.settle(this.#death(this.#killed));
      this.#giveUp();
    }, KILL_MS);
  }

  #receive(message: FromChild): void {
    if (message.emq === 'ask') return void this.#answer(message);
    if (message.emq === 'crash' || this.#run?.run !== message.run) return;
    // What comes after a kill comes too late: the run ends with the child.
    if (this.#killed !== undefined) return;
    const { settle } = this.#run;
    switch (message.emq) {
      case 'done':
        return settle(undefined, message.result instanceof Uint8Array ? asBuffer(message.result) : message.result);
      case 'failed':
        return settle(unpackError(message.error));
      case 'broken':
        this.#broken = unpackError(message.error);
        this.kill('was killed: its processor did not load');
    }
  }

  async #answer({ run, ask, what, value }: FromChild & { emq: 'ask' }): Promise<void> {
    let answer, error;
    try {
      if (this.#run?.run !== run) throw new Error(`the job has ended: ${what} comes too late`);
      answer = await ASKED[what](this.#run.context, value);
    } catch (cause) {
      error = packError(cause);
    }
    this.#channel.send({ emq: 'answer', ask, value: answer, error });
  }

  #death(how: string): Error {
    return this.#broken ?? new Error(`the ${this.#options.kind} of the processor ${this.#killed ?? how}`);
  }
}
