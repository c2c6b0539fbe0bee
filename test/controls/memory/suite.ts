/**
 * Jobs leave no trace: whichever way they go, the keys are those of the start, and so is the memory but for a small margin.
 *
 * The start is a queue that has seen each exit once, with few jobs: its counters are there, and the server has the buffers and
 * tables that it keeps. The margin is for the sizes of these: a table or a buffer of the server's may stand at another step. A job of
 * these exits takes more than 300 bytes, so less than a byte for each means that none was left.
 * Invariants: what has a TTL is made to lapse, and waited for by looking. Does not: look at the clients' memory.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Admin } from '../../../src/index.js';
import { readKeys } from '../../../src/parity/keyspace-dump.js';
import { EXECUTORS, Stage } from '../../conformance/stage.js';
import { EXITS, lapsing, Scene } from './exits.js';

export interface Amount {
  /** Jobs, over all exits. */
  readonly jobs: number;
  /** How many bytes more may be in use at the end. */
  readonly marginBytes: number;
  readonly timeoutMs: number;
}

/** Brands, what is configured and what is counted. */
const MAY_STAY = /^\{emq\}:version$|:(meta|wake|metrics:(completed|failed))$/;
const WARM_UP = 200;
/** Enough that the server keeps them in tables, of which a scan gives a piece at a time. */
const OFF_RING = 9_000;
const PATIENCE = { timeout: 30_000, interval: 50 };

export function memorySuite({ jobs, marginBytes, timeoutMs }: Amount): void {
  describe.each(EXECUTORS)('%s', (_, wire) => {
    let stage: Stage;
    beforeAll(async () => {
      stage = await Stage.start(wire);
    });
    afterAll(() => stage[Symbol.asyncDispose]());

    it(
      'jobs leave no key and no memory behind, and an obliterated queue nothing at all',
      async () => {
        const scene = new Scene(stage, 'exits');
        await all(scene, WARM_UP);
        const before = await settled(stage);
        await all(scene, Math.ceil(jobs / Object.keys(EXITS).length));
        const after = await settled(stage);

        expect(after.keys).toEqual(before.keys);
        expect(Object.keys(after.keys).filter((key) => !MAY_STAY.test(key))).toEqual([]);
        const grown = after.bytes - before.bytes;
        console.info(`wire ${wire}: ${before.bytes} bytes in use before ${jobs} jobs, ${grown} more after`);
        expect(grown).toBeLessThan(marginBytes);

        for (const queue of [scene.queue, `${scene.queue}.b`]) {
          const admin = new Admin(stage.connector, queue);
          await admin.pause();
          await admin.obliterate();
        }
        expect(await stage.raw.keys('emq:*')).toEqual([]);
      },
      timeoutMs,
    );

    it(
      'lanes that are on no ring go with their queue',
      async () => {
        const scene = new Scene(stage, 'off-ring');
        const { keys } = scene.jobs;
        const groups = Array.from({ length: OFF_RING }, (_, n) => `TEN1${String(n).padStart(10, '0')}`);
        await scene.lanes.enqueueMany(groups.flatMap((group) => [1, 2].map((payload) => ({ group, payload }))));
        // a third is paused, a third has as many in flight as may be, a third waits
        const third = groups.length / 3;
        await scene.lanes.setLimit('*', 1);
        await scene.jobs.take({ leaseMs: 3_600_000, count: third, source: 'lanes' });
        const ring = await stage.raw.lrange(keys.ring, 0, -1);
        expect(ring.length).toBe(2 * third);
        await Promise.all(ring.slice(0, third).map((group) => scene.lanes.pause(group)));
        const pipeline = stage.raw.pipeline();
        for (const group of ring.slice(third)) pipeline.zadd(`${keys.base}gwait`, 4e12, group);
        await pipeline.del(keys.ring).exec();

        await scene.admin.pause();
        await scene.admin.obliterate({ force: true });
        expect((await stage.raw.keys(`${keys.base}*`)).slice(0, 10)).toEqual([]);
      },
      timeoutMs,
    );
  });
}

async function all(scene: Scene, count: number): Promise<void> {
  for (const [name, exit] of Object.entries(EXITS)) {
    try {
      await exit(scene, count);
    } catch (error) {
      throw new Error(`${name}: ${(error as Error).message}`, { cause: error });
    }
    const left = (await scene.admin.counts()) as Record<string, number>;
    const { completed, failed, ...places } = left;
    const there = Object.entries(places).filter(([, jobs]) => jobs > 0);
    if (there.length > 0) throw new Error(`${name} leaves ${JSON.stringify(there)} (${completed}, ${failed})`);
  }
}

/** Every key that has a TTL lapses now. */
const LAPSE = `
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) >= 0 then redis.call('PEXPIRE', key, '1') end
end`;

/** The keys, and the memory in use, when nothing moves any more: nothing lapses, and the server has tidied up. */
async function settled(stage: Stage): Promise<{ readonly keys: Record<string, number>; readonly bytes: number }> {
  const { raw } = stage;
  await raw.eval(LAPSE, 0);
  await vi.waitUntil(async () => (await lapsing({ stage })) === 0, PATIENCE);
  // first what takes memory of its own
  const keys = await sizes(stage);
  let last = Infinity;
  await vi.waitUntil(async () => {
    await raw.call('MEMORY', 'PURGE');
    const now = await used(stage);
    const same = now === last;
    last = now;
    return same;
  }, PATIENCE);
  return { keys, bytes: last };
}

/** Every key, and how much it holds; of `wake`, which holds 64 at most, only that it is there. */
async function sizes({ raw }: Stage): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const [key, entry] of await readKeys(raw)) {
    if (entry.type === 'zset') found[key] = entry.scores.size;
    else if (entry.type === 'hash') found[key] = entry.fields.size;
    else if (entry.type === 'list' && !key.endsWith(':wake')) found[key] = entry.items.length;
    else found[key] = entry.type === 'set' ? entry.members.size : 1;
  }
  return found;
}

async function used({ raw }: Stage): Promise<number> {
  const info = await raw.info('memory');
  return Number(/^used_memory:(\d+)/m.exec(info)?.[1]);
}
