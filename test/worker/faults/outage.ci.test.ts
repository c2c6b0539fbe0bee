/** The server crashes, or fails over to its replica, while jobs are held. */
import { afterAll, beforeAll, describe } from 'vitest';
import { WIRES } from '../support/nodes.js';
import { WorkerProgram } from '../support/processes.js';
import { handoverSuite, outageSuite } from './outage-suite.js';
import { CRASH_AOF, CRASH_PROMOTE, FAILOVER, RESTART_SAVE } from './outages.js';

let program: WorkerProgram;
beforeAll(async () => {
  program = await WorkerProgram.build();
});
afterAll(() => program[Symbol.asyncDispose]());

describe.each(WIRES)('wire %i', (wire) => {
  for (const outage of [CRASH_AOF, CRASH_PROMOTE, FAILOVER, RESTART_SAVE]) outageSuite(wire, () => program, outage);
  handoverSuite(wire, () => program);
});
