/**
 * Random repairs at length, on both executors; and in a cluster: the queues of all primaries.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Admin, Connector, Jobs } from '../../src/index.js';
import { emq } from '../fleets/command.js';
import { startNode, type TestNode } from '../parity/nodes.js';
import { printSeed, runs, seed } from '../parity/seed.js';
import { TestCluster } from '../wire/nodes.js';
import { randomRepairs } from './suite.js';

printSeed('audit repair at length');

describe.each([4, 6] as const)('on wire %i', (wire) => {
  let node: TestNode;
  let connector: Connector;
  beforeAll(async () => {
    node = await startNode(wire === 6 ? 'native' : 'script');
    connector = await Connector.connect({ url: `unix://${node.server.socketPath}`, wire });
  });
  afterAll(async () => {
    await connector.close();
    await node[Symbol.asyncDispose]();
  });

  test('a few breaks', { timeout: 120_000 }, async () => {
    await randomRepairs(node, connector, { seed, runs: runs(60), most: 4 });
  });

  test('many breaks', { timeout: 120_000 }, async () => {
    await randomRepairs(node, connector, { seed: seed + 1_000_000, runs: runs(40), most: 40 });
  });
});

test(
  'in a cluster each queue is looked at where it is, and all of them by the doctor',
  { timeout: 60_000 },
  async () => {
    await using cluster = await TestCluster.start();
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start } });
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    for (const name of names) {
      const jobs = new Jobs(connector, name);
      const { id } = await jobs.enqueue({ name });
      for (const { admin } of cluster.nodes) await admin.zrem(jobs.keys.pending, id).catch(() => 0);
    }
    const [first] = names;
    expect(await new Admin(connector, first ?? '').check()).toMatchObject({
      found: 1,
      findings: [{ kind: 'orphan' }],
    });
    const url = cluster.node(0).url;
    const check = async () => (await emq(['doctor', '--check', '--url', url, '--json'])).json[0];
    const queues = ({ findings }: { findings: { queue: string }[] }) => findings.map(({ queue }) => queue).sort();
    expect(queues(await check())).toEqual(names);

    expect(await new Admin(connector, first ?? '').repair()).toMatchObject({ mended: 1, found: 0 });
    expect(await emq(['doctor', '--repair', '--yes', '--url', url])).toMatchObject({ code: 0 });

    expect(await check()).toMatchObject({ ok: true, found: 0, looked: { jobs: names.length } });
    for (const name of names) expect(await new Jobs(connector, name).counts()).toMatchObject({ pending: 1 });
    const one = await emq(['doctor', '--check', '--queue', 'c', '--url', url, '--json']);
    expect(one.json[0]).toMatchObject({ ok: true, looked: { jobs: 1 } });
  },
);
