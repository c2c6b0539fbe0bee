/** Flows whose jobs lie on three nodes: letters between slots, and workers that are cut off at random. */
import { afterAll, beforeAll, it } from 'vitest';
import { printSeed, seed } from '../parity/seed.js';
import { flowsUnderCuts } from './flows.js';
import { Nodes } from './nodes.js';

printSeed('cluster/flows.ci.test.ts');

let nodes: Nodes;
beforeAll(async () => {
  nodes = await Nodes.start({ replicas: false });
});
afterAll(() => nodes[Symbol.asyncDispose]());

it.each([4, 6] as const)(
  'wire %i: every parent hears of each of its children once, whoever is cut off',
  (wire) => flowsUnderCuts(nodes, wire, { parents: 100, cuts: 25, seed }),
  120_000,
);
