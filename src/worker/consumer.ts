/**
 * A consumer: claims jobs into its slots, runs the handler, takes each outcome to the server.
 *
 * A finished slot sends its settle and the next claim in one write. Between jobs it is the queue's metronome that asks
 * for its free slots.
 *
 * Invariants: never more handlers at once than `concurrency`; whatever a handler returns or throws, the loop goes on; and
 * those of job-holder.ts.
 * Does not: promise that a job runs once: it promises that it is not lost. The token tells runs apart.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Taken } from '../wire/transitions.js';
import type { ConsumerStats } from './consumer-stats.js';
import type { ConsumedJob, JobContext } from './handler.js';
import { JobHolder, type HolderParts } from './job-holder.js';
import type { SlotMember } from './metronome.js';
import type { ConsumerSettings } from './options.js';
import type { Run } from './run.js';
import type { Outcome } from './settle.js';

export type { ConsumerStats } from './consumer-stats.js';

/** What a consumer runs on. */
export interface ConsumerParts<T> extends HolderParts<T, ConsumerSettings> {
  /** A method, so that a consumer of numbers is a consumer of anything. */
  handler(job: ConsumedJob<T>, context: JobContext): unknown;
}

/** Handlers of one claim may hold the event loop so long before it gets a turn, for leases and outcomes. */
const MOST_A_TURN_MS = 10;

export class Consumer<T = unknown> extends JobHolder<T, ConsumerSettings> implements SlotMember {
  readonly #handler: ConsumerParts<T>['handler'];
  #running = 0;
  #rolling = false;

  /** @internal `queue.consume` makes consumers. */
  constructor(parts: ConsumerParts<T>) {
    super(parts);
    this.#handler = (job, context) => parts.handler(job, context);
    this.join();
  }

  /** What it has done and how it is. */
  stats(): ConsumerStats {
    return {
      state: this.state,
      concurrency: this.settings.concurrency,
      running: this.#running,
      held: this.keeper.size,
      ...this.counts,
    };
  }

  /** @internal */
  protected override asMember(): SlotMember {
    return this;
  }

  /** @internal */
  get free(): number {
    if (this.closing) return 0;
    return Math.max(0, this.settings.concurrency - this.#running - this.reserved - this.onHold);
  }

  /** @internal */
  reserve(slots: number): void {
    this.reserved += slots;
  }

  /** @internal */
  serve(jobs: readonly Taken[], reserved: number): void {
    this.reserved -= reserved;
    this.#running += jobs.length;
    void this.#begin(jobs.map((taken) => this.hold(taken)));
    this.answered();
  }

  /** Starts them one after the other: handlers that never wait must not keep the event loop for as long as all of them take. */
  async #begin(runs: readonly Run<T>[]): Promise<void> {
    let since = performance.now();
    for (const run of runs) {
      if (performance.now() - since >= MOST_A_TURN_MS) {
        await turn();
        since = performance.now();
      }
      if (!this.closing && run.aborted?.kind !== 'lost') {
        this.tell('claimed', run.job);
        void this.#work(run);
        continue;
      }
      // Claimed by a call that was under way when the close began, or lost before its turn came.
      this.#running--;
      void this.end(run, { kind: 'release' });
    }
  }

  async #work(run: Run<T>): Promise<void> {
    run.startedAt = performance.now();
    let outcome = this.worn(run);
    if (outcome === undefined) {
      const timeoutMs = run.own.timeoutMs ?? this.settings.timeoutMs;
      if (timeoutMs !== undefined) run.timer = setTimeout(() => this.#timeUp(run, timeoutMs), timeoutMs);
      outcome = await this.#outcome(run);
      clearTimeout(run.timer);
    }
    this.#running--;
    void this.end(run, outcome);
    this.freed();
  }

  async #outcome(run: Run<T>): Promise<Outcome> {
    try {
      return { kind: 'complete', result: await this.#call(run) };
    } catch (thrown) {
      return this.judge(run, thrown);
    }
  }

  async #call(run: Run<T>): Promise<unknown> {
    if (this.traced === undefined) return this.#handler(run.job, run.context);
    const { queue, id, name, attempts } = run.job;
    const what = { queue, id, name, attempts, carrier: run.own.trace };
    return this.traced.consuming(what, async () => this.#handler(run.job, run.context));
  }

  #timeUp(run: Run<T>, timeoutMs: number): void {
    if (run.decided) return;
    const error = new Error(`timed out after ${timeoutMs} ms`);
    run.abort('timeout', error.message);
    // A job that was cancelled before stays cancelled: the handler has only not listened.
    void this.settle(run, this.judge(run, error));
  }

  /** @internal Claims for what has become free in this turn, together with the settles that were sent in it. */
  protected override freed(): void {
    if (this.#rolling || this.closing) return;
    this.#rolling = true;
    queueMicrotask(() => {
      this.#rolling = false;
      this.metronome.roll(this);
    });
  }
}
