/**
 * What a node of a cluster refuses in words of its own, read as the same code on all versions: two nodes, of which the first has
 * all slots, and one slot on its way to the second. By scripts, which is where the words differ.
 */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, test, vi } from 'vitest';

import { startServer, type EmbeddedServer } from '../../src/dev/index.js';
import { ask, loadScripts, need, perform, type Answer } from '../../src/parity/node.js';
import type { EmqCode } from '../../src/wire/errors.js';
import { complete, enqueue, judge } from './refusals.js';
import type { Version } from './servers.js';

/** Both nodes, of which the second serves nothing; and what sets the slot of the queue on its way to it. */
type Pair = readonly [here: Redis, there: Redis];
type Move = () => Promise<void>;

export const CLUSTER_PROVOCATIONS: Readonly<
  Record<string, { readonly code: EmqCode; readonly provoke: (pair: Pair, move: Move) => Promise<Answer> }>
> = {
  'a slot that another node serves': { code: 'MOVED', provoke: ([, there]) => run(there, enqueue) },
  'keys of two slots': {
    code: 'CROSSSLOT',
    provoke: ([here]) => ask(here, ['EVAL', 'return 1', '2', 'a', 'b']),
  },
  'a slot on the move, and none of the keys is here': {
    code: 'ASK',
    async provoke([here], move) {
      await move();
      return run(here, enqueue);
    },
  },
  'a slot on the move, and some of the keys are here': {
    code: 'TRYAGAIN',
    async provoke([here], move) {
      await need(here, ['ZADD', enqueue.keys[1]!, '0', 'JOB0KHTOWnGLuD']);
      await move();
      return run(here, enqueue);
    },
  },
  'a slot on the move, and a key that the script finds is not here': {
    code: 'TRYAGAIN',
    async provoke([here], move) {
      const [active, row] = complete.keys as [Buffer, Buffer];
      await need(here, ['HSET', row, 'state', 'active', 'attempts', '1', 'payload', 'p', 'group', 'PRT0KHTOWnGLu1']);
      await need(here, ['ZADD', active, '99999999999999', complete.args[0]!]);
      await move();
      return run(here, complete);
    },
  },
};

/** Before the slots are given out. */
export const NOBODY = 'a slot that nobody serves';

const run = (client: Redis, call: typeof enqueue): Promise<Answer> =>
  perform({ client, executor: 'script', own: true }, call);

export function clusterRefusalSuite(version: Version): void {
  describe('refusals of a cluster', () => {
    let servers: EmbeddedServer[] = [];
    let pair: Pair;
    let slot: string;
    let names: string[];

    beforeAll(async () => {
      const args = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf'];
      servers = await Promise.all([0, 1].map(() => startServer({ port: 'free', args })));
      const [here, there] = servers.map(({ url }) => new Redis(url)) as [Redis, Redis];
      pair = [here, there];
      slot = String(await need(here, ['CLUSTER', 'KEYSLOT', enqueue.keys[0]!]));
    });
    afterAll(async () => {
      for (const client of pair) client.disconnect();
      await Promise.all(servers.map((server) => server.stop()));
    });

    test(`${NOBODY}: CLUSTERDOWN`, async () => {
      judge(version, NOBODY, 'CLUSTERDOWN', await run(pair[0], enqueue));
    });

    describe('with all slots here', () => {
      beforeAll(async () => {
        const [here, there] = pair;
        await need(here, ['CLUSTER', 'ADDSLOTSRANGE', '0', '16383']);
        await need(here, ['CLUSTER', 'MEET', '127.0.0.1', String(servers[1]?.port)]);
        names = await Promise.all(pair.map(async (node) => String(await need(node, ['CLUSTER', 'MYID']))));
        const settled = async (node: Redis): Promise<boolean> =>
          /cluster_state:ok[^]*cluster_slots_ok:16384[^]*cluster_known_nodes:2/.test(
            String(await need(node, ['CLUSTER', 'INFO'])),
          );
        for (const node of [here, there]) {
          await vi.waitUntil(() => settled(node), { timeout: 20_000, interval: 20 });
          await loadScripts(node);
        }
      });

      for (const [what, { code, provoke }] of Object.entries(CLUSTER_PROVOCATIONS)) {
        test(`${what}: ${code}`, async () => {
          const [here, there] = pair;
          await need(there, ['CLUSTER', 'SETSLOT', slot, 'STABLE']);
          await need(here, ['CLUSTER', 'SETSLOT', slot, 'STABLE']);
          await need(here, ['FLUSHALL']);
          const move = async (): Promise<void> => {
            await need(there, ['CLUSTER', 'SETSLOT', slot, 'IMPORTING', names[0]!]);
            await need(here, ['CLUSTER', 'SETSLOT', slot, 'MIGRATING', names[1]!]);
          };
          judge(version, what, code, await provoke(pair, move));
        });
      }
    });
  });
}
