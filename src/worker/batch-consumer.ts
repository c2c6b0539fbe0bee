/**
 * A consumer of batches: claims many jobs at once, runs one handler for them, settles each by what the handler says of it.
 *
 * Invariants: never more batches at once than `concurrency`; a batch is of one source, of lanes: of one lane; its jobs are
 * settled independently, so that one that is stale leaves the others as they are; whatever a handler returns or throws,
 * the loop goes on; where nothing can be claimed it is asked again at a wake, a beat or the end of its window, no more, and
 * then all lanes are looked at; and those of job-holder.ts.
 * Does not: time out a handler, or trace it: a batch is no one job's run.
 */
import { inputError, show, type EmqError } from '../wire/errors.js';
import { transitions } from '../wire/transitions.js';
import type { BatchConsumerEvents, BatchContext, BatchHandler } from './batch-handler.js';
import type { BatchSettings } from './batch-options.js';
import { partition, readVerdicts, type Reading } from './batch-verdicts.js';
import { BatchWindow } from './batch-window.js';
import type { ConsumerStats } from './consumer-stats.js';
import { JobHolder, type HolderParts } from './job-holder.js';
import type { BatchMember } from './metronome.js';
import { RingRound } from './ring-round.js';
import type { Run } from './run.js';
import type { Outcome } from './settle.js';

/** What a batch consumer runs on. */
export interface BatchConsumerParts<T> extends HolderParts<T, BatchSettings> {
  /** A method, so that a consumer of numbers is a consumer of anything. */
  handler(...args: Parameters<BatchHandler<T>>): unknown;
}

/** In numbers; `concurrency` and `running` count batches, all others jobs. */
export interface BatchStats extends ConsumerStats {
  /** Batches that have been settled. */
  readonly batches: number;
}

export class BatchConsumer<T = unknown>
  extends JobHolder<T, BatchSettings, BatchConsumerEvents<T>>
  implements BatchMember
{
  readonly #handler: BatchConsumerParts<T>['handler'];
  readonly #window: BatchWindow;
  readonly #round = new RingRound();
  #timer: NodeJS.Timeout | undefined;
  #running = 0;
  #batches = 0;
  #rolling = false;

  /** @internal `queue.consumeBatch` makes them. */
  constructor(parts: BatchConsumerParts<T>) {
    super(parts);
    const { minSize, timeoutMs, source } = parts.settings;
    this.#handler = (jobs, context) => parts.handler(jobs, context);
    this.#window = new BatchWindow(minSize, timeoutMs, source === 'lanes');
    this.join();
  }

  /** What it has done and how it is. */
  stats(): BatchStats {
    return {
      state: this.state,
      concurrency: this.settings.concurrency,
      running: this.#running,
      held: this.keeper.size,
      ...this.counts,
      batches: this.#batches,
    };
  }

  /** @internal */
  protected override asMember(): BatchMember {
    return this;
  }

  /** @internal */
  get free(): number {
    // where outcomes do not get through, no more work is begun
    if (this.closing || this.onHold > 0) return 0;
    // the claims of a round are made one by one: whoever asks meanwhile must be heard, and is answered at its end
    if (this.#round.underWay) return Math.max(0, this.settings.concurrency - this.#running);
    return Math.max(0, this.settings.concurrency - this.#running - this.reserved);
  }

  /** @internal */
  get patient(): boolean {
    return this.settings.minSize > 1;
  }

  /** @internal */
  async draw(): Promise<boolean> {
    if (this.#round.underWay) {
      this.#round.asked();
      return false;
    }
    const { taken, min, waiting } = await this.#claim();
    if (!taken) {
      // where there must be more than one, the next token is no reason to claim again
      this.metronome.short(min === 1);
      const some = this.settings.source === 'lanes' && min > 1 ? (waiting ?? 0) : 0;
      // not waited for: the slots of other consumers are filled meanwhile
      if (this.#round.begins(performance.now(), some)) void this.#goRound();
    }
    if (this.patient) this.#arm();
    return taken;
  }

  /** Claims on along the ring. Never rejects. */
  async #goRound(): Promise<void> {
    let [taken, min] = [false, Infinity];
    while (!taken && min > 1 && !this.closing && this.#round.goesOn()) ({ taken, min } = await this.#claim());
    this.#round.ends(performance.now(), taken);
    if (taken) this.metronome.fill();
    this.#arm();
  }

  /** One claim, and a look at what is left. Never rejects. */
  async #claim(): Promise<{ taken: boolean; min: number; waiting: number | undefined }> {
    const { leaseMs, maxSize: size, source } = this.settings;
    const min = this.#window.least(performance.now());
    this.reserved++;
    const claiming = this.metronome.claim(() =>
      this.metronome.runner.run(transitions.takeBatch, { leaseMs, size, min, source }),
    );
    // in the same write
    const looking = this.patient ? this.#waiting() : undefined;
    const jobs = await claiming;
    this.reserved--;
    const taken = jobs.length > 0;
    if (taken) void this.#work(jobs.map((one) => this.hold(one)));
    this.answered();
    const waiting = await looking;
    if (waiting !== undefined) this.#window.claimed(performance.now(), min, taken, waiting);
    return { taken, min, waiting };
  }

  /** How many jobs wait, or lanes that can be served; undefined when that could not be read. */
  async #waiting(): Promise<number | undefined> {
    const name = this.settings.source === 'flat' ? 'pending' : 'ring';
    try {
      return (await this.metronome.runner.run(transitions.counts, { names: [name] }))[0];
    } catch (error) {
      this.metronome.trouble(error as EmqError);
      return undefined;
    }
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const now = performance.now();
    const restMs = Math.min(this.#window.restMs(now) ?? Infinity, this.#round.restMs(now) ?? Infinity);
    if (restMs === Infinity || this.closing) return;
    this.#timer = setTimeout(() => this.metronome.fill(), Math.ceil(restMs));
  }

  async #work(runs: readonly Run<T>[]): Promise<void> {
    const ids = runs.map(({ id }) => id);
    const startedAt = performance.now();
    this.#running++;
    const outcomes = new Map<Run<T>, Outcome>();
    const working: Run<T>[] = [];
    for (const run of runs) {
      run.startedAt = startedAt;
      const worn = this.worn(run);
      // claimed by a call that was under way when the close began
      if (this.closing) outcomes.set(run, { kind: 'release' });
      else if (worn !== undefined) outcomes.set(run, worn);
      else working.push(run);
    }
    for (const run of working) this.tell('claimed', run.job);
    if (working.length > 0) await this.#handle(working, outcomes);
    this.#running--;
    const settled = runs.map((run) => this.end(run, outcomes.get(run) ?? { kind: 'release' }));
    this.freed();
    await Promise.all(settled);
    // a forced close does not wait for handlers, and is the last that is told
    if (this.state === 'closed') return;
    const answers = new Map(runs.flatMap(({ id, answer }) => (answer === undefined ? [] : [[id, answer] as const])));
    this.#batches++;
    this.tellAny('batch', [partition(ids, answers), { durationMs: performance.now() - startedAt }]);
  }

  /** Runs the handler, and reads what is to become of each job. Never rejects. */
  async #handle(runs: readonly Run<T>[], outcomes: Map<Run<T>, Outcome>): Promise<void> {
    let reading: Reading;
    try {
      const returned = await this.#handler(
        runs.map(({ job }) => job),
        contextOf(runs),
      );
      reading = readVerdicts(
        runs.map(({ id }) => id),
        returned,
      );
    } catch (thrown) {
      for (const run of runs) outcomes.set(run, this.judge(run, thrown));
      return;
    }
    for (const run of runs) {
      const said = reading.said.get(run.id);
      if (said === undefined) continue;
      outcomes.set(run, 'thrown' in said ? this.judge(run, said.thrown) : { kind: 'complete', result: said.result });
    }
    const [stranger] = reading.strangers;
    if (stranger === undefined) return;
    const text = `the handler gave a verdict for ${show(stranger)}${reading.strangers.length > 1 ? ` and ${reading.strangers.length - 1} others` : ''}, no job of its batch: it is ignored`;
    this.warn(inputError(text));
  }

  /** @internal Claims for what has become free in this turn, together with the settles that were sent in it. */
  protected override freed(): void {
    if (this.#rolling || this.closing) return;
    this.#rolling = true;
    queueMicrotask(() => {
      this.#rolling = false;
      this.metronome.fill();
    });
  }

  override close(...args: Parameters<JobHolder<T, BatchSettings>['close']>): Promise<void> {
    const closed = super.close(...args);
    clearTimeout(this.#timer);
    return closed;
  }
}

function contextOf<T>(runs: readonly Run<T>[]): BatchContext {
  let controller: AbortController | undefined;
  return {
    // made when it is first asked for: most handlers never look
    get signal() {
      controller ??= together(runs.map(({ context }) => context.signal));
      return controller.signal;
    },
    of: ({ id }) => {
      const run = runs.find((one) => one.id === id);
      if (run === undefined) throw inputError(`${show(id)} is no job of this batch`);
      return run.context;
    },
  };
}

/** Aborted with the last of them. */
function together(signals: readonly AbortSignal[]): AbortController {
  const controller = new AbortController();
  let left = signals.length;
  for (const signal of signals) {
    const onAbort = (): void => {
      if (--left === 0) controller.abort(signal.reason);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  }
  return controller;
}
