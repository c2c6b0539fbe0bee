/**
 * Runs what a queue holds in this process, now, and tells what ran.
 *
 * It is a consumer like any other that is closed when nothing is left: handlers, outcomes, retries and limits are those of
 * production. Only what could make a test wait is different: lapsed leases are recovered at once, not with a beat.
 * Invariants: it ends: when nothing can be run any more, or when that takes more than `limit` runs or `withinMs`; its consumer is
 * closed then. Does not: make time pass: what is scheduled for later stays (advanceTime).
 */
import { setImmediate as turn } from 'node:timers/promises';
import { positive } from '../queue/input.js';
import { checkTimer } from '../queue/opts.js';
import { transitions } from '../wire/transitions.js';
import { EmqError, inputError } from '../wire/errors.js';
import type { Consumer } from '../worker/consumer.js';
import type { ConsumedJob, Handler } from '../worker/handler.js';
import type { ConsumeOptions } from '../worker/options.js';
import type { Queue } from '../worker/queue.js';
import { call } from './call.js';
import { standing } from './scripts.js';

export interface DrainOptions extends Omit<ConsumeOptions, 'recovery' | 'beatMs' | 'signal'> {
  /** More runs than this are an error: some job always comes back. Default 1 000. */
  readonly limit?: number;
  /** How long all of it may take. Default 10 000. */
  readonly withinMs?: number;
}

/** One run of one job. A job that fails at once and is due again at once is run again: two runs. */
export interface DrainedJob<T = unknown> {
  readonly job: ConsumedJob<T>;
  /**
   * `scheduled`: it failed and is to be tried again; `failed`: it is dead; `delayed`: it put itself off; `stale`: its
   * outcome was refused, since it was removed or run elsewhere meanwhile.
   */
  readonly outcome: 'completed' | 'scheduled' | 'failed' | 'delayed' | 'stale';
  /** What the handler gave. */
  readonly result?: unknown;
  /** Why it was not completed. */
  readonly error?: Error;
}

/** How long it looks for a change that nothing tells, in ms: another process may have taken a job. */
const LOOK_MS = 10;
/** Nothing is left to the beat. */
const BEAT_MS = 600_000;
/** So many are recovered at once; the rest the next time. */
const RECOVERED = 1000;
/** Options of a consumer that mean nothing here. */
const WHY_NOT = {
  recovery: 'lapsed leases are recovered at once, the way the queue keeps',
  beatMs: 'it does not wait for beats',
  signal: 'it ends by itself, within withinMs',
} as const;
const NOT_HERE = Object.keys(WHY_NOT) as (keyof typeof WHY_NOT)[];

/**
 * Runs every job that waits or is due, also those that come up meanwhile, one after the other (`concurrency` 1), until
 * none is left; what a rate or a back-off holds back, of the queue or of a lane, is waited for. Gives the runs in the order in which they began.
 * @param handler as for `queue.consume`.
 * @throws EmqError `EMQ_INPUT` when the queue is paused, for a wrong option, or when `limit` was not enough;
 *   `EMQ_TIMEOUT` when it took longer than `withinMs`.
 */
export async function drain<T, Input>(
  queue: Queue<T, Input>,
  handler: Handler<T> | URL,
  options: DrainOptions = {},
): Promise<DrainedJob<T>[]> {
  const { limit = 1000, withinMs = 10_000, ...consume } = options;
  positive('limit', limit);
  checkTimer('withinMs', withinMs);
  const none = NOT_HERE.find((name) => name in consume);
  if (none !== undefined) throw inputError(`drain takes no ${none}: ${WHY_NOT[none]}`);
  if ((await call(queue, standing, undefined)).paused) {
    throw inputError(`queue ${queue.queue} is paused, so nothing would run: resume it first`);
  }
  const consumer = queue.consume(handler, { ...consume, recovery: 'none', beatMs: BEAT_MS });
  const log = new Log(consumer);
  try {
    const end = performance.now() + withinMs;
    for (;;) {
      await recover(queue, consume.maxStalled);
      const before = consumer.stats();
      const { flat, lanes, due } = await call(queue, standing, undefined);
      const claimable = (consume.source === 'lanes' ? 0 : flat) + (consume.source === 'flat' ? 0 : lanes);
      // what was claimed before that answer has arrived before it, and what has ended has been told
      await turn();
      const after = consumer.stats();
      // a job in hand may come back to the queue behind that look
      const idle = before.held === 0 && after.held === 0 && before.claimed === after.claimed;
      const { ran, running } = log;
      if (ran.length > limit) {
        const { job, outcome } = ran.at(-1) as DrainedJob<T>;
        throw inputError(
          `draining queue ${queue.queue} took more than ${limit} runs, the last of ${job.id} (${outcome}): is there a job that always comes back? Else raise limit`,
        );
      }
      if (idle && claimable === 0 && due === 0) break;
      const left = end - performance.now();
      if (left <= 0) {
        const at = running.length === 0 ? `${claimable} wait` : `${running.join(', ')} still run`;
        throw new EmqError('EMQ_TIMEOUT', `draining queue ${queue.queue} took longer than ${withinMs} ms: ${at}`);
      }
      await log.change(Math.min(LOOK_MS, left));
    }
  } catch (error) {
    await consumer.close({ timeoutMs: 0 });
    throw error;
  }
  await consumer.close();
  return log.ran;
}

/** Lapsed leases, by the leg that the queue keeps. What is due the consumer promotes by itself. */
async function recover<T, Input>(queue: Queue<T, Input>, maxStalled = 3): Promise<void> {
  const { recovery } = await call(queue, transitions.agenda, undefined);
  if (recovery === 'stalled') await queue.stalledCheck({ maxStalled, limit: RECOVERED });
  else await queue.reap({ limit: RECOVERED });
}

/** What a consumer tells of its runs. */
class Log<T> {
  /** In the order in which they began: outcomes may be told in another. Undefined while it runs. */
  readonly #runs = new Map<ConsumedJob<T>, DrainedJob<T> | undefined>();
  #changed: (() => void) | undefined;

  constructor(consumer: Consumer<T>) {
    consumer.on('claimed', (job) => this.#runs.set(job, undefined));
    consumer.on('completed', (job, { result }) => this.#end({ job, outcome: 'completed', result }));
    consumer.on('scheduled', (job, { error }) => this.#end({ job, outcome: 'scheduled', error }));
    consumer.on('failed', (job, { error }) => this.#end({ job, outcome: 'failed', error }));
    consumer.on('delayed', (job) => this.#end({ job, outcome: 'delayed' }));
    consumer.on('stale', (job, error) => this.#end({ job, outcome: 'stale', error }));
  }

  get ran(): DrainedJob<T>[] {
    return [...this.#runs.values()].filter((run) => run !== undefined);
  }

  /** The ids of jobs that run. */
  get running(): string[] {
    return [...this.#runs].filter(([, run]) => run === undefined).map(([{ id }]) => id);
  }

  /** Resolves with the end of the next run, or after `ms`. */
  async change(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#changed = resolve;
      timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
  }

  #end(run: DrainedJob<T>): void {
    this.#runs.set(run.job, run);
    this.#changed?.();
  }
}
