/** kill -9 of a worker process, ten times on each executor. */
import { afterAll, beforeAll, describe } from 'vitest';
import { printSeed } from '../../parity/seed.js';
import { WIRES } from '../support/nodes.js';
import { WorkerProgram } from '../support/processes.js';
import { killSuite } from './kill-suite.js';

let program: WorkerProgram;
beforeAll(async () => {
  program = await WorkerProgram.build();
});
afterAll(() => program[Symbol.asyncDispose]());

printSeed('worker/faults/kill.ci');
describe.each(WIRES)('wire %i', (wire) => killSuite(wire, () => program, 10));
