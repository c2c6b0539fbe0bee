/**
 * What an act of the bounds is, and the queue that it is played on: the crowd (crowd.ts), and what makes time pass in it.
 *
 * Invariants: what an act needs is laid out before its call is measured; an act says itself whether its call did what it
 * stands for. Does not: choose the acts.
 */
import type { Redis } from 'ioredis';
import { Keyspace, transitions, type Source, type Taken, type Transition } from '../../../src/index.js';
import type { Stage } from '../../conformance/stage.js';
import { groupOf, idOf } from './crowd.js';
import { Meter } from './meter.js';

/** One call, whatever its transition: plays it, and says how long it took. Rejects where it did not do its work. */
export interface Act {
  readonly what: string;
  /** The name of the transition. */
  readonly name: string;
  play(world: World): Promise<number>;
}

export interface ActParts<I, R> {
  /** Lays out, unmeasured; what it answers is the input. */
  readonly input: (world: World) => I | Promise<I>;
  /** Whether the call did its work. */
  readonly did: (result: R, world: World) => boolean | Promise<boolean>;
  /** Takes back what would be in the way of others, unmeasured. */
  readonly after?: (world: World) => Promise<unknown>;
}

export function act<I, R>(what: string, transition: Transition<I, R>, { input, did, after }: ActParts<I, R>): Act {
  const { name } = transition;
  return {
    what: `${name}: ${what}`,
    name,
    async play(world) {
      const call = { transition, queue: world.k.queue, ...transition.layout(world.k, await input(world)) };
      const { reply, us } = await world.meter.run(call);
      const result = transition.read(reply);
      const done = await did(result, world);
      await after?.(world);
      if (!done) {
        throw new Error(`${name}: ${what} did not do its work: ${JSON.stringify(result)?.slice(0, 200)}`);
      }
      return us;
    },
  };
}

/** A command and its words. */
export type Words = readonly [string, ...(string | number)[]];

export const HOUR = 3_600_000;

export class World {
  readonly k: Keyspace;
  readonly stage: Stage;
  readonly meter: Meter;
  #fresh = 2_000_000;
  readonly #used = new Map<string, number>();

  private constructor(stage: Stage, queue: string, meter: Meter) {
    this.stage = stage;
    this.k = new Keyspace(queue);
    this.meter = meter;
  }

  static async on(stage: Stage, queue: string): Promise<World> {
    return new World(stage, queue, await Meter.on(stage));
  }

  get raw(): Redis {
    return this.stage.raw;
  }

  /** An id or group that was not there before, by its number. */
  fresh(): number {
    return (this.#fresh += 1);
  }

  /** The next `count` numbers from `from` on; each is given once. */
  next(from: number, count: number): number[] {
    const key = String(from);
    const first = this.#used.get(key) ?? from;
    this.#used.set(key, first + count);
    return Array.from({ length: count }, (_, i) => first + i);
  }

  /** Jobs in hand, unmeasured. */
  async hold(source: Source, count: number): Promise<Taken[]> {
    const jobs = await this.run(transitions.take, { leaseMs: HOUR, count, source });
    if (jobs.length !== count) throw new Error(`${jobs.length} of ${count} could be taken`);
    return jobs;
  }

  async one(source: Source): Promise<{ readonly id: string; readonly token: number }> {
    const [job] = await this.hold(source, 1);
    if (job === undefined) throw new Error('nothing was taken');
    return { id: job.id, token: job.attempts };
  }

  /** A call that is not measured. */
  async run<I, R>(transition: Transition<I, R>, input: I): Promise<R> {
    return transition.read(
      await this.stage.connector.run({ transition, queue: this.k.queue, ...transition.layout(this.k, input) }),
    );
  }

  /** Commands of the test, together. */
  async commands(list: readonly Words[]): Promise<void> {
    const pipeline = this.raw.pipeline();
    for (const [name, ...words] of list) pipeline.call(name, ...words.map(String));
    for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
  }

  /** `count` jobs of as many lanes whose time has come, all in `set` by their numbers. */
  async lapse(set: string, numbers: readonly number[]): Promise<void> {
    const before = await this.raw.zcount(set, 0, 1_000_000);
    await this.commands(numbers.map((n) => ['ZADD', set, 'XX', 1, idOf(n)]));
    const after = await this.raw.zcount(set, 0, 1_000_000);
    if (after - before !== numbers.length) throw new Error(`${after - before} of ${numbers.length} lapse`);
  }

  /** So many jobs that are in flight, each in a lane of its own; a new one, or one of the crowd's that is on the ring. */
  async inFlight(count: number, where: 'new' | 'ring'): Promise<number[]> {
    const numbers = Array.from({ length: count }, () => this.fresh());
    const ring = where === 'ring' ? await this.raw.lrange(this.k.ring, -count, -1) : [];
    const groups = new Map(numbers.map((n, i) => [n, ring[i] ?? groupOf(n)]));
    const groupOfJob = (n: number): string => groups.get(n) ?? '';
    const now = await this.stage.now();
    await this.commands(
      numbers.flatMap((n): Words[] => [
        ['HSET', this.k.job(idOf(n)), 'state', 'active', 'attempts', 1, 'payload', 'x', 'group', groupOfJob(n)],
        ['ZADD', this.k.active, now + HOUR, idOf(n)],
        ['HINCRBY', `${this.k.base}gactive`, groupOfJob(n), 1],
      ]),
    );
    return numbers;
  }
}
