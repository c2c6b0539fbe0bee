/** The primary is lost under load, a hundred times in every way: only by `npm run test:long`. */
import { describe } from 'vitest';
import { printSeed, runs, seed } from '../parity/seed.js';
import { WIRES } from '../worker/support/nodes.js';
import { PLACES } from './failover-places.js';
import { failoverSuite } from './failover-suite.js';

printSeed('failover.long');

describe.each(WIRES)('wire %i', (wire) => {
  for (const { name, open, durability } of PLACES) {
    failoverSuite(name, open, { wire, rounds: runs(50), durability, seed });
  }
});
