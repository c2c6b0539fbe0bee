/** The server restarts while jobs are held; the other ways are in outage.ci.test.ts. */
import { afterAll, beforeAll, describe } from 'vitest';
import { WIRES } from '../support/nodes.js';
import { WorkerProgram } from '../support/processes.js';
import { outageSuite } from './outage-suite.js';
import { RESTART_AOF } from './outages.js';

let program: WorkerProgram;
beforeAll(async () => {
  program = await WorkerProgram.build();
});
afterAll(() => program[Symbol.asyncDispose]());

describe.each(WIRES)('wire %i', (wire) => {
  for (const outage of [RESTART_AOF]) outageSuite(wire, () => program, outage);
});
