/** Connections that fail under a worker, a few times each; connection.ci.test.ts does it at length. */
import { describe } from 'vitest';
import { printSeed } from '../../parity/seed.js';
import { WIRES } from '../support/nodes.js';
import { FAULTS, connectionSuite } from './connection-suite.js';

printSeed('worker/faults/connection');
describe.each(WIRES)('wire %i', (wire) => {
  for (const fault of FAULTS) connectionSuite(wire, fault, 2, 2);
});
