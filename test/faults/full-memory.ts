/**
 * Full memory under load, with every eviction policy. Where only keys that have a TTL may go, and where none may, nothing
 * that was acknowledged is lost: admissions are refused (`OOM`), the consumer drains. Where any key may go the connector has
 * warned of it; jobs may be lost, and all that is left, the consumer, the connector and what comes after, goes on.
 */
import { describe, expect, it, vi } from 'vitest';
import type { EmqError } from '../../src/index.js';
import { defaultModulePath } from '../../src/dev/server.js';
import { TestServer } from '../wire/server.js';
import { Scene } from './abuse-scene.js';

export const POLICIES = [
  ...['noeviction', 'volatile-lru', 'volatile-lfu', 'volatile-random', 'volatile-ttl'],
  ...['allkeys-lru', 'allkeys-lfu', 'allkeys-random'],
] as const;

const PATIENCE = { timeout: 20_000, interval: 10 } as const;
const PAYLOAD_BYTES = 4_000;
/** So much may be added before the memory is full. */
const ROOM = 2 * 1_048_576;
/** Of a cache that lives on the same server. */
const CACHED = 100;

export function fullMemory(executors: readonly (readonly [string, 4 | 6])[], policies: readonly string[]): void {
  describe.each(executors)('full memory, %s', (_executor, wire) => {
    it.each(policies)('%s', async (policy) => {
      const module = wire === 6 ? ['--loadmodule', defaultModulePath()] : [];
      await using server = await TestServer.start('--maxmemory-policy', policy, ...module);
      const { admin } = server;
      const evicted = async (): Promise<number> =>
        Number(/evicted_keys:(\d+)/.exec(await admin.info('stats'))?.[1] ?? 'none');
      await using scene = await Scene.start(server, wire, {}, PAYLOAD_BYTES);
      const warnings: EmqError[] = [];
      scene.connector.on('warning', (warning) => warnings.push(warning));
      await scene.works();

      // jobs pile up
      await scene.queue.pause();
      for (let i = 0; i < CACHED; i += 1) await admin.set(`cache:${i}`, 'c'.repeat(1_000), 'EX', 1_000);
      await scene.queue.enqueue(Buffer.from('one'), { dedup: { id: 'once', ttlMs: 600_000 } });
      const used = Number(/^used_memory:(\d+)/m.exec(await admin.info('memory'))?.[1]);
      await admin.config('SET', 'maxmemory', String(used + ROOM));
      const anyKey = policy.startsWith('allkeys-');
      if (anyKey) {
        await vi.waitUntil(async () => (await evicted()) > 0, PATIENCE);
        // then all of it goes, brand, pause and jobs
        await admin.config('SET', 'maxmemory', '1');
        // without a brand, and no room to write one, there is no connection either
        await Promise.race([scene.told('OOM'), scene.told('EMQ_CONNECTION')]);
      } else await scene.told('OOM');

      if (anyKey) {
        expect(warnings.map(({ code }) => code)).toEqual(['EMQ_EVICTION']);
        expect(await evicted()).toBeGreaterThan(CACHED);
      } else {
        expect(warnings).toEqual([]);
        const cached = (await admin.keys('cache:*')).length;
        expect(await evicted()).toBe(policy === 'noeviction' ? 0 : CACHED + 1);
        expect(cached).toBe(policy === 'noeviction' ? CACHED : 0);
        // a full server drains: the oldest first, while the producer fills what becomes free
        const waiting = [...scene.acknowledged].filter((id) => !scene.ran.has(id));
        expect(waiting.length).toBeGreaterThan(100);
        await scene.queue.resume();
        await vi.waitUntil(() => waiting.every((id) => scene.ran.has(id)), PATIENCE);
      }

      // it is mended while all of this goes on
      await admin.config('SET', 'maxmemory-policy', 'noeviction', 'maxmemory', '0');
      await scene.queue.resume();
      if (!anyKey) return await scene.recovered();
      await scene.works();
      // what was lost was lost, and nothing waits for ever for it
      await scene.drained();
      const after = await scene.queue.enqueue(1);
      await vi.waitUntil(() => scene.ran.has(after.id), PATIENCE);
      expect(scene.connector.stats().state).toBe('up');
    });
  });
}
