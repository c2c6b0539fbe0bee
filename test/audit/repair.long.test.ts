/**
 * Random repairs without an end in sight: `npm run test:long`.
 */
import { expect, test } from 'vitest';
import { Connector } from '../../src/index.js';
import { startNode } from '../parity/nodes.js';
import { printSeed, runs, seed } from '../parity/seed.js';
import { randomRepairs } from './suite.js';

printSeed('audit repair for long');

test.each([4, 6] as const)('on wire %i', { timeout: 3_600_000 }, async (wire) => {
  await using node = await startNode(wire === 6 ? 'native' : 'script');
  await using connector = await Connector.connect({ url: `unix://${node.server.socketPath}`, wire });
  const amount = { seed, runs: runs(2_000), most: 60 };

  await expect(randomRepairs(node, connector, amount)).resolves.toBeUndefined();
});
