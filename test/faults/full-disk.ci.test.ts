/**
 * A full disk under the log of writes (AOF), with a producer and a consumer at work. With `everysec` the server refuses
 * writes (`MISCONF`) until there is room again; with `always` it ends, so that it never says done to what it could not write,
 * and is started again. Either way: typed errors, and nothing lost that was acknowledged.
 */
import { describe, expect, it } from 'vitest';
import { defaultModulePath } from '../../src/dev/server.js';
import { EXECUTORS } from '../conformance/stage.js';
import { missingTools, runs } from '../module/tools.js';
import { Scene } from './abuse-scene.js';
import { DiskServer } from './full-disk.js';

const missing = missingTools('prlimit');
const LOST = ['EMQ_CONNECTION', 'EMQ_TIMEOUT', 'EMQ_UNKNOWN_OUTCOME'];

if (runs('full-disk.ci.test.ts', missing)) {
  describe.each(EXECUTORS)('a full disk, %s', (_executor, wire) => {
    const module = wire === 6 ? ['--loadmodule', defaultModulePath()] : [];

    it('everysec: MISCONF until there is room, on the same connection', async () => {
      await using server = await DiskServer.start('--appendfsync', 'everysec', ...module);
      await using scene = await Scene.start(server, wire);
      await scene.works();
      await server.fill();
      await scene.told('MISCONF');
      // who only reads is served
      expect(await scene.queue.counts(['dead'])).toEqual({ dead: 0 });
      await server.free();
      await scene.recovered();
      expect(scene.codes).toEqual(['MISCONF']);
      expect(scene.connector.stats().reconnects).toBe(0);
    });

    it('always: the server ends, and goes on where it was when there is room', async () => {
      await using server = await DiskServer.start('--appendfsync', 'always', ...module);
      await using scene = await Scene.start(server, wire);
      await scene.works();
      await server.fill();
      expect(await server.ended()).toEqual({ code: 1, signal: null });
      expect(await server.log()).toMatch(/Can't recover from AOF write error/);
      await server.boot();
      await scene.recovered();
      expect([...LOST, 'LOADING']).toEqual(expect.arrayContaining(scene.codes));
      expect(scene.connector.stats().reconnects).toBeGreaterThan(0);
    });
  });
}
