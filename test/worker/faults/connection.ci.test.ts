/** Connections that fail under a worker, 20 times each on each executor. */
import { describe } from 'vitest';
import { printSeed } from '../../parity/seed.js';
import { WIRES } from '../support/nodes.js';
import { FAULTS, connectionSuite } from './connection-suite.js';

printSeed('worker/faults/connection.ci');
describe.each(WIRES)('wire %i', (wire) => {
  for (const fault of FAULTS) connectionSuite(wire, fault, 20, 4);
});
