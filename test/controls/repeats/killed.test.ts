/**
 * Repeats, while the processes that fire them are killed at random: the quick version, on the native executor.
 */
import { afterAll, beforeAll, it } from 'vitest';
import { WorkerNode } from '../../worker/support/nodes.js';
import { WorkerProgram } from '../../worker/support/processes.js';
import { ordeal } from './ordeal.js';

let program: WorkerProgram;
let node: WorkerNode;
beforeAll(async () => {
  program = await WorkerProgram.build();
  node = await WorkerNode.start(6);
});
afterAll(async () => {
  await program[Symbol.asyncDispose]();
  await node[Symbol.asyncDispose]();
});

it('five processes, killed at random: each slot makes one job, and it still ticks', async () => {
  await ordeal(node, program, 15_000, 20_261);
}, 90_000);
