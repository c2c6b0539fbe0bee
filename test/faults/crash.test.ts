/** The server is killed under load, a round of each way of keeping data; many rounds are in crash.ci.test.ts. */
import { describe } from 'vitest';
import { printSeed, seed } from '../parity/seed.js';
import { WIRES } from '../worker/support/nodes.js';
import { ALWAYS, crashSuite, POWER_CUT } from './crash-suite.js';

printSeed('crash');

describe.each(WIRES)('wire %i', (wire) => {
  crashSuite(wire, ALWAYS, 1, seed);
  if (wire === 6) crashSuite(wire, POWER_CUT, 1, seed);
});
