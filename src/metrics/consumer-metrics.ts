/**
 * What the consumers of this process have done: outcomes counted, durations in a histogram.
 *
 * Invariants: it only listens; an outcome is counted once, when the server has said so; what it keeps is bounded: after
 * `maxNames` different job names all further ones are counted together, since a job's name may be anybody's.
 * Does not: ask the server (prometheus.ts does), or reset.
 */
import { EventEmitter } from 'node:events';

import { known, positive } from '../queue/input.js';
import { inputError, show } from '../wire/errors.js';
import { numberText, type Family, type Sample } from './text.js';

/** The events of a consumer that are counted; the duration, where there is one, is in ms. */
const OUTCOMES = ['completed', 'scheduled', 'failed', 'delayed', 'released', 'stale'] as const;
type Outcome = (typeof OUTCOMES)[number];

export interface ConsumerMetricsOptions {
  /** Upper bounds of the duration histogram, in seconds, ascending. Default 5 ms to 5 minutes. */
  readonly buckets?: readonly number[];
  /** How many job names are told apart; the others are `_other`. Default 100. */
  readonly maxNames?: number;
}

const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** The name of all the names that are too many. */
const OTHER = '_other';

interface Tally {
  readonly labels: { readonly queue: string; readonly name: string; readonly outcome: Outcome };
  count: number;
  /** How many had a duration, their sum in seconds, and how many were in each bucket and in no lower one. */
  timed: number;
  seconds: number;
  readonly buckets: number[];
}

/** Counts for the consumers that it watches. One for a process is enough. */
export class ConsumerMetrics {
  readonly #bounds: readonly number[];
  readonly #maxNames: number;
  readonly #names = new Set<string>();
  readonly #tallies = new Map<string, Tally>();
  readonly #watched = new WeakSet<EventEmitter>();

  /** @throws EmqError `EMQ_INPUT` for a wrong option. */
  constructor(options: ConsumerMetricsOptions = {}) {
    const { buckets = BUCKETS, maxNames = 100 } = known('ConsumerMetrics', options, ['buckets', 'maxNames']);
    this.#bounds = checkBuckets(buckets);
    this.#maxNames = positive('maxNames', maxNames);
  }

  /** Counts what this consumer does from now on. Once is enough. */
  watch(consumer: EventEmitter): this {
    if (!(consumer instanceof EventEmitter)) {
      throw inputError(`watch takes a consumer (what queue.consume gives), got ${show(consumer)}`);
    }
    if (this.#watched.has(consumer)) return this;
    this.#watched.add(consumer);
    for (const outcome of OUTCOMES) {
      consumer.on(outcome, (job: { queue: string; name?: string }, info?: { durationMs?: number }) =>
        this.#count(job, outcome, info?.durationMs),
      );
    }
    return this;
  }

  /** @internal For the exporter. */
  families(): Family[] {
    const tallies = [...this.#tallies.values()];
    return [
      {
        name: 'echomq_processed_total',
        help: 'Jobs that consumers of this process have run, by outcome.',
        type: 'counter',
        samples: tallies.map(({ labels, count }) => ({ labels, value: count })),
      },
      {
        name: 'echomq_process_duration_seconds',
        help: 'How long they ran.',
        type: 'histogram',
        samples: tallies.filter(({ timed }) => timed > 0).flatMap((tally) => this.#histogram(tally)),
      },
    ];
  }

  #count(job: { queue: string; name?: string }, outcome: Outcome, durationMs: number | undefined): void {
    const { queue } = job;
    const name = this.#known(job.name ?? '');
    const key = JSON.stringify([queue, name, outcome]);
    let tally = this.#tallies.get(key);
    if (tally === undefined) {
      const buckets = Array<number>(this.#bounds.length).fill(0);
      tally = { labels: { queue, name, outcome }, count: 0, timed: 0, seconds: 0, buckets };
      this.#tallies.set(key, tally);
    }
    tally.count++;
    if (durationMs === undefined) return;
    const seconds = durationMs / 1_000;
    tally.timed++;
    tally.seconds += seconds;
    const bucket = this.#bounds.findIndex((bound) => seconds <= bound);
    if (bucket >= 0) tally.buckets[bucket] = (tally.buckets[bucket] ?? 0) + 1;
  }

  #known(name: string): string {
    if (this.#names.has(name)) return name;
    if (this.#names.size >= this.#maxNames) return OTHER;
    this.#names.add(name);
    return name;
  }

  /** Cumulative, as the format wants it. */
  #histogram({ labels, timed, seconds, buckets }: Tally): Sample[] {
    let below = 0;
    const bounded = this.#bounds.map((bound, i): Sample => {
      below += buckets[i] ?? 0;
      return { suffix: '_bucket', labels: { ...labels, le: numberText(bound) }, value: below };
    });
    return [
      ...bounded,
      { suffix: '_bucket', labels: { ...labels, le: '+Inf' }, value: timed },
      { suffix: '_sum', labels, value: seconds },
      { suffix: '_count', labels, value: timed },
    ];
  }
}

function checkBuckets(buckets: readonly number[]): readonly number[] {
  const bounds: readonly unknown[] = Array.isArray(buckets) ? Array.from(buckets as readonly unknown[]) : [buckets];
  const wrong = bounds.findIndex(
    (bound, i) => !Number.isFinite(bound) || (bound as number) <= (i === 0 ? 0 : (bounds[i - 1] as number)),
  );
  if (wrong < 0) return bounds as readonly number[];
  throw inputError(
    `buckets must be numbers of seconds above 0, each greater than the one before, got ${show(bounds[wrong])}`,
  );
}
