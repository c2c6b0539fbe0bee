/**
 * Audits and mends in a random battery of their own: both executors in lockstep, against the reference model. In a clean one
 * nothing that a mend would mend is ever wrong.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startNode, type TestNode } from '../parity/nodes.js';
import { play } from '../parity/model-suite.js';
import { printSeed, runs } from '../parity/seed.js';

printSeed('audit parity');

let nodes: TestNode[];
beforeAll(async () => {
  nodes = await Promise.all([startNode('script'), startNode('native')]);
});
afterAll(() => Promise.all(nodes.map((node) => node[Symbol.asyncDispose]())));

for (const mode of ['clean', 'dirty'] as const) {
  test(`random audits and mends over two queues, ${mode}`, { timeout: 60_000 }, async () => {
    const amount = { runs: runs(6), steps: 100, timeoutMs: 60_000 };

    const taken = await play(nodes, { mode, about: 'audits' }, amount);

    expect(taken).toBeGreaterThan(amount.runs);
  });
}
