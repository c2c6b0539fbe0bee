/**
 * What every kind of consumer is: it holds jobs, keeps their leases, takes their outcomes to the server, and closes.
 *
 * Invariants:
 * - Every job that was claimed here ends in one event: completed, scheduled, failed, delayed, released, stale, or a
 *   warning that it could not be settled.
 * - Leases are renewed until the outcome has been answered, during a graceful close too.
 * - `close()` always ends, and leaves no timer and no connection of its own.
 * Does not: claim, or call a handler (consumer.ts and batch-consumer.ts do).
 */
import { EventEmitter, setMaxListeners } from 'node:events';
import { delayOf } from '../queue/backoff.js';
import type { Codec } from '../queue/codec.js';
import { checkTimer } from '../queue/opts.js';
import { checkWhen } from '../queue/run-at.js';
import { telemetry, type Telemetry } from '../telemetry/index.js';
import type { Connector } from '../wire/connector.js';
import { EmqError, inputError, show } from '../wire/errors.js';
import type { Keyspace } from '../wire/keyspace.js';
import type { Source, Taken } from '../wire/transitions.js';
import { readCloseTimeout, type CloseOptions } from './close.js';
import type { ConsumerEvents } from './consumer-events.js';
import { asError, partOf } from './failure.js';
import type { DelayError, RateLimitError } from './handler.js';
import { LeaseKeeper } from './lease-keeper.js';
import { Metronome } from './metronome.js';
import type { DeadLetter, SharedSettings } from './options.js';
import { Run } from './run.js';
import { settle, type Answer, type Outcome } from './settle.js';

/** The settings that it needs. */
export interface HolderSettings extends SharedSettings {
  readonly source: Source;
}

/** What a consumer runs on. */
export interface HolderParts<T, S extends HolderSettings> {
  readonly connector: Connector;
  readonly keys: Keyspace;
  readonly codec: Codec<T>;
  readonly settings: S;
  /** Called when the last job has ended: what the handler needs is no longer needed. */
  readonly atEnd?: () => Promise<void>;
}

/** So many cancels are kept that may be for jobs whose claim is on its way. */
const MOST_EARLY = 1_000;
/** How long a forced close waits for the answers to its hand-backs. */
const LAST_WORDS_MS = 2_000;

export abstract class JobHolder<
  T,
  S extends HolderSettings,
  E extends Record<keyof E, unknown[]> = ConsumerEvents<T>,
> extends EventEmitter<E> {
  readonly queue: string;
  /** @internal */
  protected readonly settings: S;
  /** @internal */
  protected readonly metronome: Metronome;
  /** @internal */
  protected readonly keeper: LeaseKeeper<Run<T>>;
  /** @internal */
  protected readonly traced: Telemetry | undefined = telemetry();
  /** @internal Since the start. */
  protected readonly counts = { claimed: 0, completed: 0, scheduled: 0, failed: 0, delayed: 0, released: 0, stale: 0 };
  /** @internal Slots for which a claim is under way. */
  protected reserved = 0;
  /** @internal Outcomes that could not be sent at the first try. */
  protected onHold = 0;
  /** @internal */
  protected closing = false;
  readonly #parts: HolderParts<T, S>;
  readonly #runs = new Set<Run<T>>();
  readonly #giveUp = new AbortController();
  readonly #force = new AbortController();
  readonly #onAbort = (): void => void this.close();
  /** Cancels of jobs that are not here, while a claim is under way: its reply may come after the cancel. */
  readonly #early = new Map<string, string>();
  #closed: Promise<void> | undefined;
  #over = false;
  #onIdle: (() => void) | undefined;
  readonly #warned = new Set<string>();

  /** @internal */
  protected constructor(parts: HolderParts<T, S>) {
    super();
    const { connector, keys, settings } = parts;
    this.#parts = parts;
    this.settings = settings;
    this.queue = keys.queue;
    this.metronome = Metronome.of(connector, keys);
    this.keeper = new LeaseKeeper(this.metronome.runner, settings.leaseMs, {
      lost: (run) => this.#lost(run),
      trouble: (error) => this.metronome.trouble(error),
    });
  }

  /** @internal Room for a claim may have come up. */
  protected abstract freed(): void;

  /** @internal It takes part from now on. The last step of a constructor: it is asked for its free slots at once. */
  protected join(): void {
    const { signal } = this.settings;
    this.metronome.join(this.asMember());
    // Outcomes on hold, calls of close, and consumers that share a signal: as many as there are, that is no leak.
    setMaxListeners(0, this.#giveUp.signal, this.#force.signal, ...(signal ? [signal] : []));
    if (signal?.aborted === true) void this.close();
    else signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** @internal */
  protected abstract asMember(): Parameters<Metronome['join']>[0];

  /** @internal */
  protected get state(): 'running' | 'closing' | 'closed' {
    return this.#over ? 'closed' : this.closing ? 'closing' : 'running';
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
    return this.settings.leaseMs;
  }

  /** @internal */
  get source(): Source {
    return this.settings.source;
  }

  /** @internal */
  get beatMs(): number {
    return this.settings.beatMs;
  }

  /** @internal */
  get recovery(): HolderSettings['recovery'] {
    return this.settings.recovery;
  }

  /** @internal */
  get maxStalled(): number {
    return this.settings.maxStalled;
  }

  /** @internal */
  get publishes(): boolean {
    return this.settings.publish;
  }

  /** @internal */
  get deadLetter(): DeadLetter | undefined {
    return this.settings.deadLetter;
  }

  /** @internal */
  renew(): Promise<void> {
    return this.keeper.renew();
  }

  /** @internal */
  renewIfDue(): void {
    this.keeper.renewIfDue();
  }

  /** @internal */
  cancel(id: string, reason: string): void {
    const text = reason === '' ? 'cancelled' : `cancelled: ${reason}`;
    const run = this.keeper.get(id);
    if (run !== undefined) run.abort('cancelled', text);
    else if (this.reserved > 0) {
      this.#early.set(id, text);
      const [oldest] = this.#early.keys();
      if (this.#early.size > MOST_EARLY && oldest !== undefined) this.#early.delete(oldest);
    }
  }

  /** @internal */
  stalled(jobs: { readonly recovered: readonly string[]; readonly dead: readonly string[] }): void {
    this.tell('stalled', jobs);
  }

  /** @internal */
  quarantined(rows: readonly { readonly id: string; readonly why: string }[]): void {
    for (const row of rows) this.tell('quarantined', row);
  }

  /** @internal */
  warn(error: EmqError): void {
    if (this.#over || (error.code === 'EMQ_CLOSED' && this.closing)) return;
    if (this.#listeners('warning') > 0) return this.tell('warning', error);
    // Nobody listens: said once of a kind, where Node says such things.
    if (this.#warned.has(error.code)) return;
    this.#warned.add(error.code);
    process.emitWarning(`consumer of queue ${this.queue}: ${error.message}`, { code: error.code });
  }

  /** @internal */
  cutOff(): void {
    if (this.#over) return;
    const held = this.keeper.size;
    if (held > 0) {
      const text = `the connector was closed while ${held} jobs ran: they run again when their leases have lapsed; close consumers first`;
      this.warn(new EmqError('EMQ_CONNECTION', text));
    }
    void this.close({ timeoutMs: 0 });
  }

  // ---- a job's way ------------------------------------------------------------------------------------------------

  /** @internal The job is ours. */
  protected hold(taken: Taken): Run<T> {
    const { keys, codec } = this.#parts;
    this.counts.claimed++;
    const run = new Run(keys.queue, taken, codec, this.settings.maxAttempts, this.metronome.runner);
    this.#runs.add(run);
    this.keeper.hold(run);
    const cancelled = this.#early.get(run.id);
    if (cancelled !== undefined) run.abort('cancelled', cancelled);
    this.#early.delete(run.id);
    return run;
  }

  /** @internal A claim has been answered, and what it gave is held. */
  protected answered(): void {
    if (this.reserved === 0) this.#early.clear();
    this.#lookIdle();
  }

  /** @internal What it is that a job was claimed more often than it may be; undefined when it was not. */
  protected worn(run: Run<T>): Outcome | undefined {
    const { attempts, maxAttempts } = run.job;
    if (attempts <= maxAttempts) return undefined;
    const text = `claimed ${attempts} times and ${maxAttempts} are allowed: its earlier tries ended without a word, as when a process is killed or hangs`;
    return { kind: 'fail', error: new Error(text), delayMs: 0, maxAttempts };
  }

  /** @internal What a thrown value means. Never throws, whatever it is. */
  protected judge(run: Run<T>, thrown: unknown): Outcome {
    const error = asError(thrown);
    const { attempts, maxAttempts } = run.job;
    if (run.aborted?.kind === 'cancelled') {
      return { kind: 'fail', error: run.aborted, delayMs: 0, maxAttempts: attempts };
    }
    const name = partOf(error, 'name');
    if (name === 'UnrecoverableError') return { kind: 'fail', error, delayMs: 0, maxAttempts: attempts };
    try {
      if (name === 'DelayError') return { kind: 'delay', when: checkWhen((error as DelayError).runAt) };
      if (name === 'RateLimitError') return backOffOf(error as RateLimitError);
    } catch (cause) {
      return this.#failure(run, asError(cause));
    }
    if (attempts >= maxAttempts) return { kind: 'fail', error, delayMs: 0, maxAttempts };
    return this.#failure(run, error);
  }

  #failure(run: Run<T>, error: Error): Outcome {
    const backoff = run.own.backoff ?? this.settings.backoff;
    const delayMs = delayOf(backoff, run.failures, error, (problem) => {
      this.warn(new EmqError('EMQ_INPUT', `the backoff of queue ${this.queue} failed: ${problem.message}`));
    });
    return { kind: 'fail', error, delayMs, maxAttempts: run.job.maxAttempts };
  }

  /** @internal The handler has ended. An outcome that was sent before (its time was up, or it was handed back) stands. */
  protected async end(run: Run<T>, outcome: Outcome): Promise<void> {
    run.ended = true;
    if (run.decided) this.#leave(run);
    else await this.settle(run, outcome);
  }

  /** @internal The first try is sent in this turn. */
  protected async settle(run: Run<T>, outcome: Outcome): Promise<void> {
    run.decided = true;
    run.settling = true;
    let held = false;
    let sent = outcome;
    const answer = await settle(this.metronome.runner, run.job, outcome, {
      giveUp: this.#giveUp.signal,
      onLetter: () => this.metronome.deliver(),
      unsendable: (error) => (sent = this.judge(run, error)),
      onHold: () => {
        if (held) return;
        held = true;
        this.onHold++;
        // as long as there is no answer the lease is still ours to keep
        run.settling = false;
      },
    });
    run.settling = true;
    if (held) this.onHold--;
    this.keeper.drop(run);
    run.settled = true;
    run.answer = answer.now;
    this.#report(run, sent, answer);
    if (run.ended) this.#leave(run);
    if (held) this.freed();
  }

  #report(run: Run<T>, outcome: Outcome, answer: Answer): void {
    const { job, durationMs } = run;
    const publish = (event: string, extras?: Record<string, string>): void => {
      if (this.settings.publish) this.metronome.publisher.publish(event, job.id, extras);
    };
    const measured = (what: Parameters<Telemetry['settled']>[0]['outcome']): void =>
      this.traced?.settled({ queue: this.queue, name: job.name, outcome: what, durationMs });
    const error = outcome.kind === 'fail' ? outcome.error : new Error('unknown');
    const text = (): string => partOf(error, 'message');
    switch (answer.now) {
      case 'completed':
        this.counts.completed++;
        publish('completed');
        measured('completed');
        return this.tell('completed', job, {
          result: outcome.kind === 'complete' ? outcome.result : undefined,
          durationMs,
        });
      case 'scheduled':
        this.counts.scheduled++;
        publish('scheduled', { error: text() });
        measured('scheduled');
        return this.tell('scheduled', job, {
          error,
          delayMs: outcome.kind === 'fail' ? outcome.delayMs : 0,
          durationMs,
        });
      case 'dead':
        this.counts.failed++;
        publish('failed', { error: text() });
        measured('failed');
        return this.tell('failed', job, { error, durationMs });
      case 'delayed':
        this.counts.delayed++;
        publish('delayed');
        measured('delayed');
        return this.tell('delayed', job, { durationMs });
      case 'backed off': {
        this.counts.delayed++;
        publish('delayed', { reason: 'rate limit' });
        measured('delayed');
        const { ms, scope } = outcome as Outcome & { kind: 'backOff' };
        // nothing wakes anybody when the time is up
        this.metronome.expect(ms);
        return this.tell('delayed', job, { durationMs, rateLimit: { ms, scope } });
      }
      case 'released':
        this.counts.released++;
        measured('released');
        return this.tell('released', job);
      case 'stale':
        this.counts.stale++;
        measured('stale');
        return this.tell('stale', job, answer.error);
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
    this.tell('lost', run.job);
  }

  // ---- the end ----------------------------------------------------------------------------------------------------

  #lookIdle(): void {
    if (this.#runs.size === 0 && this.reserved === 0) this.#onIdle?.();
  }

  async #shutDown(): Promise<void> {
    this.closing = true;
    this.settings.signal?.removeEventListener('abort', this.#onAbort);
    const idle = new Promise<void>((resolve) => (this.#onIdle = resolve));
    const forced = new Promise<void>((resolve) => {
      if (this.#force.signal.aborted) resolve();
      else this.#force.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    this.#lookIdle();
    await Promise.race([idle, forced]);
    if (this.#runs.size > 0 || this.reserved > 0) await this.#handBack(idle);
    this.#force.abort();
    this.#giveUp.abort();
    this.keeper.stop();
    await this.#parts.atEnd?.();
    await this.metronome.leave(this.asMember());
    this.#over = true;
    this.tell('closed');
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
    for (const run of unfinished) void this.settle(run, { kind: 'release' });
    let timer: NodeJS.Timeout | undefined;
    const enough = new Promise<void>((resolve) => (timer = setTimeout(resolve, LAST_WORDS_MS)));
    await Promise.race([idle, enough]);
    clearTimeout(timer);
  }

  #listeners(event: string): number {
    return (this as unknown as EventEmitter).listenerCount(event);
  }

  /** @internal A listener that throws must not break the loop: it is thrown where nobody of ours stands in between. */
  protected tell<K extends keyof ConsumerEvents<T>>(event: K, ...args: ConsumerEvents<T>[K]): void {
    this.tellAny(event, args);
  }

  /** @internal The same for an event that not all consumers have. */
  protected tellAny(event: string, args: readonly unknown[]): void {
    if (this.#listeners(event) === 0) return;
    process.nextTick(() => (this as unknown as EventEmitter).emit(event, ...args));
  }
}

/** @throws EmqError `EMQ_INPUT`. */
function backOffOf({ ms, scope = 'own' }: RateLimitError): Outcome {
  if (scope !== 'own' && scope !== 'queue') {
    throw inputError(`the scope of a RateLimitError must be queue, or absent, got ${show(scope)}`);
  }
  return { kind: 'backOff', ms: checkTimer('ms of a RateLimitError', ms), scope };
}
