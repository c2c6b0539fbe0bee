/** The server is killed under load, 300 times and more: only by `npm run test:long`. */
import { describe } from 'vitest';
import { printSeed, runs, seed } from '../parity/seed.js';
import { WIRES } from '../worker/support/nodes.js';
import { ALWAYS, crashSuite, EVERYSEC, POWER_CUT, REWRITING, SNAPSHOT } from './crash-suite.js';

printSeed('crash.long');

describe.each(WIRES)('wire %i', (wire) => {
  for (const [keeping, rounds] of [
    [ALWAYS, 80],
    [EVERYSEC, 40],
    [POWER_CUT, 40],
    [REWRITING, 25],
    [SNAPSHOT, 25],
  ] as const) {
    crashSuite(wire, keeping, runs(rounds), seed);
  }
});
