/** A slot to and fro under load, again and again: `npm run test:long`. EMQ_ROUNDS says how often (default 30). */
import { afterAll, beforeAll, it } from 'vitest';
import { moveUnderLoad } from './moving.js';
import { Nodes } from './nodes.js';

const ROUNDS = Number(process.env['EMQ_ROUNDS'] ?? 30);

let nodes: Nodes;
beforeAll(async () => {
  nodes = await Nodes.start();
});
afterAll(() => nodes[Symbol.asyncDispose]());

it.each([4, 6] as const)(
  'wire %i',
  async (wire) => {
    for (let round = 0; round < ROUNDS; round++) {
      await moveUnderLoad(nodes, wire, 10, { step: 1 + (round % 4), pauseMs: (round % 3) * 20 });
    }
  },
  ROUNDS * 60_000,
);
