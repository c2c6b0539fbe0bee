/** Flows over three nodes with workers cut off, again and again: `npm run test:long`. EMQ_ROUNDS says how often (default 30). */
import { afterAll, beforeAll, it } from 'vitest';
import { printSeed, seed } from '../parity/seed.js';
import { flowsUnderCuts } from './flows.js';
import { Nodes } from './nodes.js';

printSeed('cluster/flows.long.test.ts');
const ROUNDS = Number(process.env['EMQ_ROUNDS'] ?? 30);

let nodes: Nodes;
beforeAll(async () => {
  nodes = await Nodes.start({ replicas: false });
});
afterAll(() => nodes[Symbol.asyncDispose]());

it.each([4, 6] as const)(
  'wire %i',
  async (wire) => {
    for (let round = 0; round < ROUNDS; round++) {
      await flowsUnderCuts(nodes, wire, { parents: 200, cuts: 60, seed: seed + round });
    }
  },
  ROUNDS * 120_000,
);
