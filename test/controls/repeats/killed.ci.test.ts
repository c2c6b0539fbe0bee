/**
 * Repeats, while the processes that fire them are killed at random: the long version, on both executors.
 */
import { afterAll, beforeAll, describe, it } from 'vitest';
import { WIRES, WorkerNode } from '../../worker/support/nodes.js';
import { WorkerProgram } from '../../worker/support/processes.js';
import { ordeal } from './ordeal.js';

describe.each(WIRES)('on wire %s', (wire) => {
  let program: WorkerProgram;
  let node: WorkerNode;
  beforeAll(async () => {
    program = await WorkerProgram.build();
    node = await WorkerNode.start(wire);
  });
  afterAll(async () => {
    await program[Symbol.asyncDispose]();
    await node[Symbol.asyncDispose]();
  });

  it('five processes, killed at random: each slot makes one job, and it still ticks', async () => {
    await ordeal(node, program, 45_000, 77_000 + wire);
  }, 180_000);
});
