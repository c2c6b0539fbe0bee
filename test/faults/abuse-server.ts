/**
 * Trouble that an operator, a stranger or a machine makes for a server at work: each is a typed error or a wait for whoever
 * calls, and each is recovered from, with the same connector and the same consumer, and without a job lost.
 *
 * The test files beside this one say which troubles they make.
 */
import { rmdir, mkdir, writeFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { defaultModulePath } from '../../src/dev/server.js';
import { freePort, TestServer } from '../wire/server.js';
import { Scene } from './abuse-scene.js';

/** The connection was given up: nothing was sent, or nobody knows. */
const LOST = ['EMQ_CONNECTION', 'EMQ_TIMEOUT', 'EMQ_UNKNOWN_OUTCOME'];

interface Trouble {
  /** What the producer may be told. */
  readonly codes: readonly string[];
  /** What it must have been told. */
  readonly told?: readonly string[];
  /** False: the connection must have held out. Left out: it may go either way. */
  readonly reconnects?: false;
  /** Makes the trouble, and ends it. */
  readonly make: (server: TestServer, scene: Scene) => Promise<unknown>;
}

const set = (server: TestServer, name: string, value: string) => server.admin.config('SET', name, value);

export const TROUBLES: Readonly<Record<string, Trouble>> = {
  'CLIENT PAUSE WRITE: calls take so much longer': {
    codes: [],
    reconnects: false,
    make: async (server, scene) => {
      await server.admin.client('PAUSE', 600, 'WRITE');
      await vi.waitUntil(() => scene.connector.stats().pending > 0);
      await server.admin.client('UNPAUSE');
    },
  },
  'CLIENT PAUSE ALL, a short one: calls take so much longer': {
    codes: [],
    reconnects: false,
    make: (server) => server.admin.client('PAUSE', 150, 'ALL'),
  },
  'CLIENT PAUSE ALL, a long one: the connection is given up': {
    codes: LOST,
    // the pause ends by itself: nobody can be asked to end it
    make: async (server, scene) => {
      await server.admin.client('PAUSE', 1_200, 'ALL');
      await vi.waitUntil(() => scene.connector.stats().state !== 'up', { timeout: 5_000 });
    },
  },
  'DEBUG SLEEP: the connection is given up': {
    codes: LOST,
    make: async (server, scene) => {
      const sleeping = server.admin.call('DEBUG', 'SLEEP', '1.2');
      await vi.waitUntil(() => scene.connector.stats().state !== 'up', { timeout: 5_000 });
      await sleeping;
    },
  },
  'a script of a stranger that does not end: BUSY, until it is killed': {
    codes: ['BUSY'],
    told: ['BUSY'],
    reconnects: false,
    make: async (server, scene) => {
      await set(server, 'busy-reply-threshold', '20');
      const stranger = server.admin.duplicate();
      const endless = stranger.eval('while true do end', 0).catch((error: unknown) => (error as Error).message);
      await scene.told('BUSY');
      await server.admin.script('KILL');
      expect(await endless).toMatch(/killed by user/i);
      stranger.disconnect();
    },
  },
  'a server that becomes a replica: READONLY': {
    codes: ['READONLY', ...LOST],
    told: ['READONLY'],
    make: async (server, scene) => {
      await server.admin.replicaof('127.0.0.1', await freePort());
      await scene.told('READONLY');
      await server.admin.replicaof('NO', 'ONE');
    },
  },
  'a snapshot that cannot be written: MISCONF': {
    codes: ['MISCONF'],
    told: ['MISCONF'],
    reconnects: false,
    make: async (server, scene) => {
      await set(server, 'save', '3600 1000000');
      // a folder where the file has to go, with something in it, so that it cannot be put in its place
      const place = join(server.dir, 'dump.rdb');
      await mkdir(place);
      await writeFile(join(place, 'x'), '');
      await server.admin.bgsave().catch(() => {});
      await scene.told('MISCONF');
      await rm(join(place, 'x'));
      await rmdir(place);
      await server.admin.bgsave();
      const saved = async () => /rdb_last_bgsave_status:ok/.test(await server.admin.info('persistence'));
      await vi.waitUntil(saved, { timeout: 10_000 });
      await set(server, 'save', '');
    },
  },
  'full memory, with nothing to evict: OOM for who adds jobs, and the consumer drains': {
    codes: ['OOM'],
    told: ['OOM'],
    reconnects: false,
    make: async (server, scene) => {
      await server.admin.call('CLIENT', 'NO-EVICT', 'ON');
      await set(server, 'maxmemory', '1');
      await scene.told('OOM');
      await vi.waitUntil(async () => (await scene.queue.counts(['pending'])).pending === 0, { timeout: 10_000 });
      expect([...scene.acknowledged].filter((id) => !scene.ran.has(id))).toEqual([]);
      await set(server, 'maxmemory', '0');
    },
  },
  'all clients killed, again and again': {
    codes: LOST,
    make: async (server, scene) => {
      for (let i = 0; i < 5; i += 1) {
        const { connects } = scene.connector.stats();
        await server.killClients();
        await vi.waitUntil(() => scene.connector.stats().connects > connects, { timeout: 5_000 });
      }
    },
  },
};

export function serverTroubles(executors: readonly (readonly [string, 4 | 6])[], names: readonly string[]): void {
  describe.each(executors)('a server in trouble, %s', (_executor, wire) => {
    it.each(names)('%s', async (name) => {
      const { codes, told = [], reconnects, make } = TROUBLES[name]!;
      await using server = await TestServer.start(...(wire === 6 ? ['--loadmodule', defaultModulePath()] : []));
      await using scene = await Scene.start(server, wire);
      await scene.works();
      await make(server, scene);
      await scene.recovered();
      expect(codes).toEqual(expect.arrayContaining(scene.codes));
      expect(scene.codes).toEqual(expect.arrayContaining([...told]));
      if (reconnects === false) expect(scene.connector.stats().reconnects).toBe(0);
    });
  });
}
