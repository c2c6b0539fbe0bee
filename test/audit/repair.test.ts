/**
 * Every way to break a queue, one by one and several at a time: the audit calls it by its name, the repair mends it or says
 * who has to decide, no job is lost, and consumers run the rest to its end. On both executors.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Connector } from '../../src/index.js';
import { rng } from '../../src/parity/prng.js';
import { startNode, type TestNode } from '../parity/nodes.js';
import { printSeed, runs, seed } from '../parity/seed.js';
import { drained, oracle, randomRepairs, repaired } from './suite.js';
import { BREAKS, makeWorld } from './world.js';

printSeed('audit repair');

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

  test('a queue with something of everything is in order, and runs to its end', async () => {
    await node.reset();
    const world = await makeWorld(connector, node.client, 'whole', rng(seed));

    const { findings, looked, skipped } = await world.admin.check();

    expect(findings).toEqual([]);
    expect(skipped).toEqual([]);
    expect(looked).toMatchObject({ jobs: 27, lanes: 2 });
    expect(await oracle(world)).toEqual([]);
    await drained(world, connector);
  });

  // audits and mends are scripts on both
  test.each(wire === 6 ? BREAKS : [])('$name', async (broken) => {
    await node.reset();
    const world = await makeWorld(connector, node.client, 'one', rng(seed));
    await broken.act(world);

    const { findings } = await world.admin.check();

    expect(findings.map(({ kind }) => kind)).toContain(broken.kind);
    const plan = await world.admin.repair({ dryRun: true });
    expect(plan.findings).toEqual(findings);
    if (broken.left !== true) expect(plan.done).not.toEqual([]);
    await repaired(world);
  });

  test('several at a time', { timeout: 60_000 }, async () => {
    await randomRepairs(node, connector, { seed, runs: runs(5), most: 10 });
  });
});
