/**
 * Every way in which jobs leave a queue: each sends so many jobs through, and leaves nothing but what counts and configures.
 *
 * Invariants: an exit says itself whether all of its jobs went its way. Does not: measure memory (suite.ts does).
 */
import { Admin, Flows, Lanes, transitions, type HeldJob, type Jobs } from '../../../src/index.js';
import type { Stage } from '../../conformance/stage.js';

const LEASE = { leaseMs: 3_600_000 };
const STEP = 500;
const PAYLOAD = 'x'.repeat(200);
const LANES = 50;
/** For so long dedup ids and buckets outlive what they were for, if nobody makes them lapse. */
const LAPSE_MS = 600_000;
const DEATH = { delayMs: 0, maxAttempts: 1, error: 'broken' } as const;

export const groupOf = (n: number): string => `TEN0${String(n % LANES).padStart(10, '0')}`;

/** A queue and all that is done with it. */
export class Scene {
  readonly stage: Stage;
  readonly queue: string;
  readonly jobs: Jobs<unknown>;
  readonly lanes: Lanes<unknown>;
  readonly admin: Admin;
  readonly flows: Flows<unknown>;

  constructor(stage: Stage, queue: string) {
    this.stage = stage;
    this.queue = queue;
    this.jobs = stage.jobs(queue);
    this.lanes = new Lanes(stage.connector, queue);
    this.admin = new Admin(stage.connector, queue);
    this.flows = new Flows(stage.connector, queue);
  }

  /** Adds so many flat jobs; answers their ids. */
  async add(count: number, options: object = {}): Promise<string[]> {
    const added = await this.jobs.enqueueMany(Array.from({ length: count }, () => ({ payload: PAYLOAD, ...options })));
    need(
      'enqueued',
      added.filter(({ outcome }) => outcome === 'enqueued'),
      count,
    );
    return added.map(({ id }) => id);
  }

  /** Everything that waits, flat and in lanes, step by step. */
  async each(what: (jobs: readonly HeldJob[]) => Promise<unknown>): Promise<number> {
    for (let total = 0; ;) {
      const jobs = await this.jobs.take({ ...LEASE, count: STEP });
      if (jobs.length === 0) return total;
      total += jobs.length;
      await what(jobs);
    }
  }

  /** The same for single jobs. */
  every(what: (job: HeldJob) => Promise<unknown>): Promise<number> {
    return this.each((jobs) => Promise.all(jobs.map(what)));
  }

  async complete(count: number): Promise<void> {
    need('completed', await this.every((job) => this.jobs.complete(job)), count);
  }

  async kill(count: number): Promise<void> {
    need('dead', await this.every((job) => this.jobs.fail(job, DEATH)), count);
  }

  async trim(count: number): Promise<void> {
    need('trimmed', (await this.admin.trimDead({ keep: 0 })).removed, count);
  }

  /** All that is in the set is due: leases have lapsed, times have come. */
  async lapse(set: 'active' | 'schedule'): Promise<void> {
    const key = this.jobs.keys[set];
    const ids = await this.stage.raw.zrange(key, '0', '-1');
    const pipeline = this.stage.raw.pipeline();
    for (const id of ids) pipeline.zadd(key, 'XX', 1, id);
    await pipeline.exec();
  }
}

function need(what: string, found: number | readonly unknown[], count: number): void {
  const number = typeof found === 'number' ? found : found.length;
  if (number !== count) throw new Error(`${number} of ${count} jobs were ${what}`);
}

/** How many keys of the server have a TTL. */
export async function lapsing({ stage }: Pick<Scene, 'stage'>): Promise<number> {
  const info = await stage.raw.info('keyspace');
  return Number(/^db0:.*expires=(\d+)/m.exec(info)?.[1] ?? 0);
}

/** Jobs, `STEP` at a time; answers what came of each. */
async function bySteps<R>(ids: readonly string[], what: (id: string) => Promise<R>): Promise<R[]> {
  const found: R[] = [];
  for (let i = 0; i < ids.length; i += STEP) found.push(...(await Promise.all(ids.slice(i, i + STEP).map(what))));
  return found;
}

export type Exit = (scene: Scene, count: number) => Promise<void>;

/** By name; each gets `count` jobs. */
export const EXITS: Readonly<Record<string, Exit>> = {
  async completed(s, count) {
    await s.add(count);
    await s.complete(count);
  },
  async 'completed, with progress and logs'(s, count) {
    await bySteps(await s.add(count), async (id) => {
      await s.jobs.updateProgress(id, 50);
      await s.jobs.addLog(id, 'a line of it');
    });
    await s.complete(count);
  },
  async 'dead and trimmed'(s, count) {
    await s.add(count);
    await s.kill(count);
    await s.trim(count);
  },
  async 'dead, reprocessed and completed'(s, count) {
    await s.add(count);
    await s.kill(count);
    await s.admin.reprocessAll();
    await s.complete(count);
  },
  async 'retried, delayed and released'(s, count) {
    await s.add(count);
    let n = 0;
    await s.each((jobs) =>
      Promise.all(
        jobs.map((job) => {
          n += 1;
          if (job.token > 2) return s.jobs.complete(job);
          if (n % 3 === 0) return s.jobs.fail(job, { delayMs: 60_000, maxAttempts: 5, error: 'not yet' });
          return n % 3 === 1 ? s.jobs.delay(job, { inMs: 60_000 }) : s.jobs.release(job);
        }),
      ),
    );
    await s.lapse('schedule');
    while ((await s.jobs.promote({ limit: STEP })) > 0);
    await s.every((job) => s.jobs.complete(job));
  },
  async removed(s, count) {
    const went = await bySteps(await s.add(count), (id) => s.jobs.remove(id));
    need(
      'removed',
      went.filter((how) => how === 'removed'),
      count,
    );
  },
  async 'removed from workers and from the dead'(s, count) {
    await s.add(count);
    await s.each(async (jobs) => {
      await Promise.all(jobs.slice(1).map((job) => s.jobs.remove(job.id)));
      await Promise.all(jobs.slice(0, 1).map((job) => s.jobs.fail(job, DEATH)));
      await Promise.all(jobs.slice(0, 1).map((job) => s.jobs.remove(job.id)));
    });
  },
  async cancelled(s, count) {
    const went = await bySteps(await s.add(count), (id) => s.jobs.cancel(id));
    need(
      'cancelled',
      went.filter((how) => how === 'removed'),
      count,
    );
  },
  async drained(s, count) {
    await s.add(count - LANES);
    for (let n = 0; n < LANES; n += 1) await s.lanes.enqueue(groupOf(n), PAYLOAD);
    need('drained', (await s.admin.drain()).removed, count);
  },
  async scheduled(s, count) {
    const half = Math.floor(count / 2);
    for (let n = 0; n < count; n += STEP) {
      const step = Array.from({ length: Math.min(STEP, count - n) }, (_, i) => n + i);
      await Promise.all(
        step.map((i) => {
          const options = i % 2 === 0 ? { group: groupOf(i) } : {};
          return s.jobs.schedule(PAYLOAD, { inMs: 3_600_000 }, i < half ? options : {});
        }),
      );
    }
    need('drained', (await s.admin.drain({ scheduled: true })).removed, count);
  },
  async 'scheduled, come due and completed'(s, count) {
    for (let n = 0; n < count; n += STEP) {
      const step = Array.from({ length: Math.min(STEP, count - n) }, (_, i) => groupOf(n + i));
      await Promise.all(step.map((group) => s.jobs.schedule(PAYLOAD, { inMs: 3_600_000 }, { group })));
    }
    await s.lapse('schedule');
    for (let left = count; left > 0;) left -= await s.jobs.promote({ limit: STEP });
    await s.complete(count);
  },
  async 'stalled out'(s, count) {
    await s.add(count);
    await s.each(async () => {
      await s.lapse('active');
      await s.jobs.stalledCheck({ maxStalled: 1, limit: STEP });
    });
    need('dead', (await s.jobs.counts(['dead'])).dead, count);
    await s.trim(count);
  },
  async 'recovered and completed'(s, count) {
    await s.add(count);
    let lapsed = 0;
    await s.each(async (jobs) => {
      if (lapsed >= count) return Promise.all(jobs.map((job) => s.jobs.complete(job)));
      await s.lapse('active');
      lapsed += await s.jobs.reap({ limit: STEP });
    });
  },
  async quarantined(s, count) {
    const ids = await s.add(count);
    await bySteps(ids, (id) => s.stage.raw.hset(s.jobs.keys.job(id), 'attempts', 'x'));
    for (let left = count; left > 0;) left -= (await s.jobs.quarantine({ limit: STEP })).length;
    await s.trim(count);
  },
  async 'with a dedup id that is dropped'(s, count) {
    const id = 'drop';
    const items = Array.from({ length: count }, () => ({ payload: PAYLOAD, dedup: { id } }));
    const added = await s.jobs.enqueueMany(items);
    need(
      'deduplicated',
      added.filter(({ outcome }) => outcome === 'deduplicated'),
      count - 1,
    );
    await s.complete(1);
  },
  async 'with dedup ids of their own, freed in every way'(s, count) {
    const items = Array.from({ length: count }, (_, n) => ({ payload: PAYLOAD, dedup: { id: `own-${n}` } }));
    const added = await s.jobs.enqueueMany(items);
    await bySteps(
      added.slice(0, 100).map(({ id }) => id),
      (id) => s.jobs.cancel(id),
    );
    let n = 0;
    const went = await s.every((job) => ((n += 1) % 2 === 0 ? s.jobs.complete(job) : s.jobs.fail(job, DEATH)));
    need('claimed', went, count - 100);
    await s.admin.trimDead({ keep: 0 });
  },
  async 'with dedup ids that are replaced'(s, count) {
    const items = Array.from({ length: count }, (_, n) => ({
      payload: PAYLOAD,
      dedup: { id: `replace-${n % 10}`, mode: 'replace' as const },
    }));
    const added = await s.jobs.enqueueMany(items);
    need(
      'replaced',
      added.filter(({ outcome }) => outcome === 'replaced'),
      count - 10,
    );
    await s.complete(10);
  },
  async 'with dedup ids that outlive them, and lapse'(s, count) {
    const items = Array.from({ length: count }, (_, n) => ({
      payload: PAYLOAD,
      dedup:
        n % 2 === 0
          ? { id: `throttle-${n}`, mode: 'throttle' as const, ttlMs: LAPSE_MS }
          : { id: `keep-${n}`, ttlMs: LAPSE_MS, keep: true },
    }));
    await s.jobs.enqueueMany(items);
    await s.complete(count);
    need('remembered by their dedup ids', await lapsing(s), count);
  },
  async 'in lanes with limits, weights and rates'(s, count) {
    await s.lanes.setLimit('*', STEP);
    await s.lanes.setWeight(groupOf(0), 3);
    await s.lanes.setRate('*', { max: 1_000_000_000, durationMs: LAPSE_MS });
    await s.admin.setLimits({ concurrency: 2 * STEP, rate: { max: 1_000_000_000, durationMs: LAPSE_MS } });
    await s.lanes.enqueueMany(Array.from({ length: count }, (_, n) => ({ group: groupOf(n), payload: PAYLOAD })));
    for (const job of (await s.jobs.browse('pending', { lane: groupOf(1) })).slice(0, 10)) {
      await s.lanes.reassign(job, groupOf(2));
    }
    await s.lanes.pause(groupOf(3));
    await s.lanes.resume(groupOf(3));
    await s.lanes.drain(groupOf(4));
    for (let done = -1; done !== 0;) {
      const batch = await s.lanes.claimBatch({ ...LEASE, size: STEP });
      done = batch.length;
      await Promise.all(batch.map((job) => s.jobs.complete(job)));
    }
    await s.lanes.setLimit('*', null);
    await s.lanes.setWeight(groupOf(0), null);
    await s.lanes.setRate('*', null);
    await s.admin.setLimits({ concurrency: null, rate: null });
  },
  async 'backed off and completed'(s, count) {
    await s.lanes.enqueueMany(Array.from({ length: count }, (_, n) => ({ group: groupOf(n), payload: PAYLOAD })));
    const { keys } = s.jobs;
    const { backOff: transition } = transitions;
    for (let n = 0; n < LANES; n += 1) {
      const job = await s.lanes.claim(LEASE);
      if (job === null) throw new Error('no lane can be served');
      const input = { ...{ id: job.id, token: job.token }, ms: 60_000, scope: 'own' as const };
      await s.stage.connector.run({ transition, queue: s.queue, ...transition.layout(keys, input) });
    }
    await s.stage.raw.eval(
      "for _, g in ipairs(redis.call('ZRANGE', KEYS[1], '0', '-1')) do redis.call('ZADD', KEYS[1], 1, g) end",
      1,
      `${keys.base}gwait`,
    );
    await s.jobs.promote({ limit: LANES });
    await s.complete(count);
  },
  async 'in flows'(s, count) {
    const size = 20;
    const elsewhere = `${s.queue}.b`;
    const there = new Scene(s.stage, elsewhere);
    const flows = Array.from({ length: Math.floor(count / size) }, () => ({
      payload: PAYLOAD,
      children: Array.from({ length: size - 1 }, (_, n) => ({
        ...{ payload: PAYLOAD, onFailure: 'ignore' as const },
        ...(n % 4 === 0 ? { queue: elsewhere } : {}),
      })),
    }));
    for (let n = 0; n < flows.length; n += 20) await s.flows.addBulk(flows.slice(n, n + 20));
    for (;;) {
      let n = 0;
      let went = 0;
      for (const one of [s, there]) {
        went += await one.every((job) => ((n += 1) % 10 === 0 ? one.jobs.fail(job, DEATH) : one.jobs.complete(job)));
        const { delivered, errors } = await one.flows.deliver();
        if (errors.length > 0) throw new Error(String(errors[0]));
        went += delivered;
      }
      if (went === 0) break;
    }
    for (const one of [s, there]) {
      await one.admin.trimDead({ keep: 0 });
      while ((await one.flows.deliver()).delivered > 0);
    }
  },
};
