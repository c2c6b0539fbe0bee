/**
 * A consumer: claims jobs into its slots, runs the handler, takes each outcome to the server.
 *
 * A finished slot sends its settle and the next claim in one write. Between jobs it is the queue's metronome that asks
 * for its free slots.
 *
 * Invariants:
 * - Never more handlers at once than `concurrency`; whatever a handler returns or throws, the loop goes on.
 * - Every job that was claimed here ends in one event: completed, scheduled, failed, delayed, released, stale, or a
 *   warning that it could not be settled.
 * - Leases are renewed until the outcome has been answered, during a graceful close too.
 * - `close()` always ends, and leaves no timer and no connection of its own.
 * Does not: promise that a job runs once: it promises that it is not lost. The token tells runs apart.
 */
import { EventEmitter, setMaxListeners } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { delayOf } from '../queue/backoff.js';
import type { Codec } from '../queue/codec.js';
import { checkWhen } from '../queue/run-at.js';
import { telemetry, type Telemetry } from '../telemetry/index.js';
import type { Connector } from '../wire/connector.js';
import { EmqError } from '../wire/errors.js';
import type { Keyspace } from '../wire/keyspace.js';
import type { Source, Taken } from '../wire/transitions.js';
import { readCloseTimeout, type CloseOptions } from './close.js';
import type { ConsumerEvents } from './consumer-events.js';
import type { ConsumerStats } from './consumer-stats.js';
import { asError, partOf } from './failure.js';
import type { ConsumedJob, DelayError, JobContext } from './handler.js';
import { LeaseKeeper } from './lease-keeper.js';
import { Metronome, type Member } from './metronome.js';
import type { ConsumerSettings } from './options.js';
import { Run } from './run.js';
import { settle, type Answer, type Outcome } from './settle.js';

export type { ConsumerStats } from './consumer-stats.js';

/** What a consumer runs on. */
export interface ConsumerParts<T> {
  readonly connector: Connector;
  readonly keys: Keyspace;
  readonly codec: Codec<T>;
  /** A method, so that a consumer of numbers is a consumer of anything. */
  handler(job: ConsumedJob<T>, context: JobContext): unknown;
  readonly settings: ConsumerSettings;
  /** Called when the last job has ended: what the handler needs is no longer needed. */
  readonly atEnd?: () => Promise<void>;
}

/** Handlers of one claim may hold the event loop so long before it gets a turn, for leases and outcomes. */
const MOST_A_TURN_MS = 10;
/** So many cancels are kept that may be for jobs whose claim is on its way. */
const MOST_EARLY = 1_000;
/** How long a forced close waits for the answers to its hand-backs. */
const LAST_WORDS_MS = 2_000;

export class Consumer<T = unknown> extends EventEmitter<ConsumerEvents<T>> implements Member {
  readonly queue: string;
  readonly #parts: ConsumerParts<T>;
  readonly #settings: ConsumerSettings;
  readonly #metronome: Metronome;
  readonly #keeper: LeaseKeeper<Run<T>>;
  readonly #telemetry: Telemetry | undefined = telemetry();
  readonly #runs = new Set<Run<T>>();
  readonly #counts = { claimed: 0, completed: 0, scheduled: 0, failed: 0, delayed: 0, released: 0, stale: 0 };
  readonly #giveUp = new AbortController();
  readonly #force = new AbortController();
  readonly #onAbort = (): void => void this.close();
  #running = 0;
  #reserved = 0;
  /** Outcomes that could not be sent at the first try. */
  #onHold = 0;
  #rolling = false;
  /** Cancels of jobs that are not here, while a claim is under way: its reply may come after the cancel. */
  readonly #early = new Map<string, string>();
  #closing = false;
  #closed: Promise<void> | undefined;
  #over = false;
  #onIdle: (() => void) | undefined;
  readonly #warned = new Set<string>();

  /** @internal `queue.consume` makes consumers. */
  constructor(parts: ConsumerParts<T>) {
    super();
    const { connector, keys, settings } = parts;
    this.#parts = parts;
    this.#settings = settings;
    this.queue = keys.queue;
    this.#metronome = Metronome.of(connector, keys);
    this.#keeper = new LeaseKeeper(this.#metronome.runner, settings.leaseMs, {
      lost: (run) => this.#lost(run),
      trouble: (error) => this.#metronome.trouble(error),
    });
    this.#metronome.join(this);
    // Outcomes on hold, calls of close, and consumers that share a signal: as many as there are, that is no leak.
    setMaxListeners(0, this.#giveUp.signal, this.#force.signal, ...(settings.signal ? [settings.signal] : []));
    if (settings.signal?.aborted === true) void this.close();
    else settings.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** What it has done and how it is. */
  stats(): ConsumerStats {
    return {
      state: this.#over ? 'closed' : this.#closing ? 'closing' : 'running',
      concurrency: this.#settings.concurrency,
      running: this.#running,
      held: this.#keeper.size,
      ...this.#counts,
    };
  }

  /**
   * Stops claiming and waits until the jobs in hand have ended, `timeoutMs` at most (default 5 000). What has not ended
   * then is aborted and handed back at once: another worker can have it, and the try does not count. May be called again,
   * also with a shorter time. Never rejects; works with the server down. The connector stays open.
   */
  close(options: CloseOptions = {}): Promise<void> {
    const timeoutMs = readCloseTimeout(options);
    if (!this.#over && !this.#force.signal.aborted) {
      if (timeoutMs === 0) this.#force.abort();
      else {
        const timer = setTimeout(() => this.#force.abort(), timeoutMs);
        this.#force.signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
      }
    }
    this.#closed ??= this.#shutDown();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // ---- what the metronome asks ------------------------------------------------------------------------------------

  /** @internal */
  get leaseMs(): number {
    return this.#settings.leaseMs;
  }

  /** @internal */
  get source(): Source {
    return this.#settings.source;
  }

  /** @internal */
  get beatMs(): number {
    return this.#settings.beatMs;
  }

  /** @internal */
  get recovery(): ConsumerSettings['recovery'] {
    return this.#settings.recovery;
  }

  /** @internal */
  get maxStalled(): number {
    return this.#settings.maxStalled;
  }

  /** @internal */
  get publishes(): boolean {
    return this.#settings.publish;
  }

  /** @internal */
  get free(): number {
    if (this.#closing) return 0;
    return Math.max(0, this.#settings.concurrency - this.#running - this.#reserved - this.#onHold);
  }

  /** @internal */
  reserve(slots: number): void {
    this.#reserved += slots;
  }

  /** @internal */
  serve(jobs: readonly Taken[], reserved: number): void {
    this.#reserved -= reserved;
    void this.#begin(jobs.map((taken) => this.#hold(taken)));
    if (this.#reserved === 0) this.#early.clear();
    this.#lookIdle();
  }

  /** @internal */
  renew(): Promise<void> {
    return this.#keeper.renew();
  }

  /** @internal */
  renewIfDue(): void {
    this.#keeper.renewIfDue();
  }

  /** @internal */
  cancel(id: string, reason: string): void {
    const text = reason === '' ? 'cancelled' : `cancelled: ${reason}`;
    const run = this.#keeper.get(id);
    if (run !== undefined) run.abort('cancelled', text);
    else if (this.#reserved > 0) {
      this.#early.set(id, text);
      const [oldest] = this.#early.keys();
      if (this.#early.size > MOST_EARLY && oldest !== undefined) this.#early.delete(oldest);
    }
  }

  /** @internal */
  stalled(jobs: { readonly recovered: readonly string[]; readonly dead: readonly string[] }): void {
    this.#tell('stalled', jobs);
  }

  /** @internal */
  quarantined(rows: readonly { readonly id: string; readonly why: string }[]): void {
    for (const row of rows) this.#tell('quarantined', row);
  }

  /** @internal */
  warn(error: EmqError): void {
    if (this.#over || (error.code === 'EMQ_CLOSED' && this.#closing)) return;
    if (this.listenerCount('warning') > 0) return this.#tell('warning', error);
    // Nobody listens: said once of a kind, where Node says such things.
    if (this.#warned.has(error.code)) return;
    this.#warned.add(error.code);
    process.emitWarning(`consumer of queue ${this.queue}: ${error.message}`, { code: error.code });
  }

  /** @internal */
  cutOff(): void {
    if (this.#over) return;
    const held = this.#keeper.size;
    if (held > 0) {
      const text = `the connector was closed while ${held} jobs ran: they run again when their leases have lapsed; close consumers first`;
      this.warn(new EmqError('EMQ_CONNECTION', text));
    }
    void this.close({ timeoutMs: 0 });
  }

  // ---- a job's way ------------------------------------------------------------------------------------------------

  /** The job is ours, and takes a slot. */
  #hold(taken: Taken): Run<T> {
    const { keys, codec } = this.#parts;
    this.#counts.claimed++;
    const run = new Run(keys.queue, taken, codec, this.#settings.maxAttempts, this.#metronome.runner);
    this.#runs.add(run);
    this.#keeper.hold(run);
    this.#running++;
    const cancelled = this.#early.get(run.id);
    if (cancelled !== undefined) run.abort('cancelled', cancelled);
    this.#early.delete(run.id);
    return run;
  }

  /** Starts them one after the other: handlers that never wait must not keep the event loop for as long as all of them take. */
  async #begin(runs: readonly Run<T>[]): Promise<void> {
    let since = performance.now();
    for (const run of runs) {
      if (performance.now() - since >= MOST_A_TURN_MS) {
        await turn();
        since = performance.now();
      }
      if (!this.#closing && run.aborted?.kind !== 'lost') {
        this.#tell('claimed', run.job);
        void this.#work(run);
        continue;
      }
      // Claimed by a call that was under way when the close began, or lost before its turn came.
      this.#running--;
      run.ended = true;
      if (run.decided) this.#leave(run);
      else void this.#settle(run, { kind: 'release' });
    }
  }

  async #work(run: Run<T>): Promise<void> {
    const { attempts, maxAttempts } = run.job;
    run.startedAt = performance.now();
    let outcome: Outcome;
    if (attempts > maxAttempts) {
      const text = `claimed ${attempts} times and ${maxAttempts} are allowed: its earlier tries ended without a word, as when a process is killed or hangs`;
      outcome = { kind: 'fail', error: new Error(text), delayMs: 0, maxAttempts };
    } else {
      const timeoutMs = run.own.timeoutMs ?? this.#settings.timeoutMs;
      if (timeoutMs !== undefined) run.timer = setTimeout(() => this.#timeUp(run, timeoutMs), timeoutMs);
      try {
        outcome = { kind: 'complete', result: await this.#call(run) };
      } catch (thrown) {
        outcome = this.#judge(run, thrown);
      }
      clearTimeout(run.timer);
    }
    run.ended = true;
    this.#running--;
    // An outcome that was sent before the handler ended (its time was up, or it was handed back) stands.
    if (run.decided) this.#leave(run);
    else void this.#settle(run, outcome);
    this.#roll();
  }

  async #call(run: Run<T>): Promise<unknown> {
    const parts = this.#parts;
    if (this.#telemetry === undefined) return parts.handler(run.job, run.context);
    const { queue, id, name, attempts } = run.job;
    const what = { queue, id, name, attempts, carrier: run.own.trace };
    return this.#telemetry.consuming(what, async () => parts.handler(run.job, run.context));
  }

  /** What a thrown value means. Never throws, whatever it is. */
  #judge(run: Run<T>, thrown: unknown): Outcome {
    const error = asError(thrown);
    const { attempts, maxAttempts } = run.job;
    if (run.aborted?.kind === 'cancelled') {
      return { kind: 'fail', error: run.aborted, delayMs: 0, maxAttempts: attempts };
    }
    const name = partOf(error, 'name');
    if (name === 'UnrecoverableError') return { kind: 'fail', error, delayMs: 0, maxAttempts: attempts };
    if (name === 'DelayError') {
      try {
        return { kind: 'delay', when: checkWhen((error as DelayError).runAt) };
      } catch (cause) {
        return this.#failure(run, asError(cause));
      }
    }
    if (attempts >= maxAttempts) return { kind: 'fail', error, delayMs: 0, maxAttempts };
    return this.#failure(run, error);
  }

  #failure(run: Run<T>, error: Error): Outcome {
    const backoff = run.own.backoff ?? this.#settings.backoff;
    const delayMs = delayOf(backoff, run.failures, error, (problem) => {
      this.warn(new EmqError('EMQ_INPUT', `the backoff of queue ${this.queue} failed: ${problem.message}`));
    });
    return { kind: 'fail', error, delayMs, maxAttempts: run.job.maxAttempts };
  }

  #timeUp(run: Run<T>, timeoutMs: number): void {
    if (run.decided) return;
    const error = new Error(`timed out after ${timeoutMs} ms`);
    run.abort('timeout', error.message);
    // A job that was cancelled before stays cancelled: the handler has only not listened.
    void this.#settle(run, this.#judge(run, error));
  }

  /** The first try is sent in this turn. */
  async #settle(run: Run<T>, outcome: Outcome): Promise<void> {
    run.decided = true;
    run.settling = true;
    let held = false;
    let sent = outcome;
    const answer = await settle(this.#metronome.runner, run.job, outcome, {
      giveUp: this.#giveUp.signal,
      onLetter: () => this.#metronome.deliver(),
      unsendable: (error) => (sent = this.#judge(run, error)),
      onHold: () => {
        if (held) return;
        held = true;
        this.#onHold++;
        // as long as there is no answer the lease is still ours to keep
        run.settling = false;
      },
    });
    run.settling = true;
    if (held) this.#onHold--;
    this.#keeper.drop(run);
    run.settled = true;
    this.#report(run, sent, answer);
    if (run.ended) this.#leave(run);
    if (held) this.#roll();
  }

  #report(run: Run<T>, outcome: Outcome, answer: Answer): void {
    const { job, durationMs } = run;
    const publish = (event: string, extras?: Record<string, string>): void => {
      if (this.#settings.publish) this.#metronome.publisher.publish(event, job.id, extras);
    };
    const measured = (what: Parameters<Telemetry['settled']>[0]['outcome']): void =>
      this.#telemetry?.settled({ queue: this.queue, name: job.name, outcome: what, durationMs });
    const error = outcome.kind === 'fail' ? outcome.error : new Error('unknown');
    const text = (): string => partOf(error, 'message');
    switch (answer.now) {
      case 'completed':
        this.#counts.completed++;
        publish('completed');
        measured('completed');
        return this.#tell('completed', job, {
          result: outcome.kind === 'complete' ? outcome.result : undefined,
          durationMs,
        });
      case 'scheduled':
        this.#counts.scheduled++;
        publish('scheduled', { error: text() });
        measured('scheduled');
        return this.#tell('scheduled', job, {
          error,
          delayMs: outcome.kind === 'fail' ? outcome.delayMs : 0,
          durationMs,
        });
      case 'dead':
        this.#counts.failed++;
        publish('failed', { error: text() });
        measured('failed');
        return this.#tell('failed', job, { error, durationMs });
      case 'delayed':
        this.#counts.delayed++;
        publish('delayed');
        measured('delayed');
        return this.#tell('delayed', job, { durationMs });
      case 'released':
        this.#counts.released++;
        measured('released');
        return this.#tell('released', job);
      case 'stale':
        this.#counts.stale++;
        measured('stale');
        return this.#tell('stale', job, answer.error);
      case 'unsettled': {
        const why = `the outcome of ${job.id} (${outcome.kind}) could not be taken to the server: the job runs again when its lease has lapsed (${answer.error.reason})`;
        return this.warn(new EmqError(answer.error.code, why, { cause: answer.error }));
      }
    }
  }

  /** The job has ended in every respect. */
  #leave(run: Run<T>): void {
    if (!run.ended || !run.settled) return;
    this.#runs.delete(run);
    this.#lookIdle();
  }

  #lost(run: Run<T>): void {
    run.abort('lost', `the lease of ${run.id} was lost: another worker may have the job`);
    this.#tell('lost', run.job);
  }

  /** Claims for what has become free in this turn, together with the settles that were sent in it. */
  #roll(): void {
    if (this.#rolling || this.#closing) return;
    this.#rolling = true;
    queueMicrotask(() => {
      this.#rolling = false;
      this.#metronome.roll(this);
    });
  }

  // ---- the end ----------------------------------------------------------------------------------------------------

  #lookIdle(): void {
    if (this.#runs.size === 0 && this.#reserved === 0) this.#onIdle?.();
  }

  async #shutDown(): Promise<void> {
    this.#closing = true;
    this.#settings.signal?.removeEventListener('abort', this.#onAbort);
    const idle = new Promise<void>((resolve) => (this.#onIdle = resolve));
    const forced = new Promise<void>((resolve) => {
      if (this.#force.signal.aborted) resolve();
      else this.#force.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    this.#lookIdle();
    await Promise.race([idle, forced]);
    if (this.#runs.size > 0 || this.#reserved > 0) await this.#handBack(idle);
    this.#force.abort();
    this.#giveUp.abort();
    this.#keeper.stop();
    await this.#parts.atEnd?.();
    await this.#metronome.leave(this);
    this.#over = true;
    this.#tell('closed');
  }

  /** Aborts what runs and hands it back, all in one write. Handlers may take their time: their say no longer counts. */
  async #handBack(idle: Promise<void>): Promise<void> {
    const unfinished: Run<T>[] = [];
    for (const run of this.#runs) {
      run.abort('closing', 'the consumer is closing');
      clearTimeout(run.timer);
      run.ended = true;
      // Whoever still runs after its outcome was sent, since its time was up, is not waited for.
      if (run.decided) this.#leave(run);
      else unfinished.push(run);
      run.decided = true;
    }
    // A processor's children are ended before another worker can have their jobs.
    await this.#parts.atEnd?.();
    for (const run of unfinished) void this.#settle(run, { kind: 'release' });
    let timer: NodeJS.Timeout | undefined;
    const enough = new Promise<void>((resolve) => (timer = setTimeout(resolve, LAST_WORDS_MS)));
    await Promise.race([idle, enough]);
    clearTimeout(timer);
  }

  /** A listener that throws must not break the loop: it is thrown where nobody of ours stands in between. */
  #tell<K extends keyof ConsumerEvents<T>>(event: K, ...args: ConsumerEvents<T>[K]): void {
    if (this.listenerCount(event) === 0) return;
    process.nextTick(() => (this as EventEmitter).emit(event, ...args));
  }
}
