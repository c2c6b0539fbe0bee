/** The primary is lost under load, ten times in every way: the bounded form. failover.long.test.ts goes on for longer. */
import { describe } from 'vitest';
import { printSeed, runs, seed } from '../parity/seed.js';
import { WIRES } from '../worker/support/nodes.js';
import { PLACES } from './failover-places.js';
import { failoverSuite } from './failover-suite.js';

printSeed('failover.ci');

describe.each(WIRES)('wire %i', (wire) => {
  for (const { name, open, durability } of PLACES) {
    failoverSuite(name, open, { wire, rounds: runs(5), durability, seed });
  }
});
