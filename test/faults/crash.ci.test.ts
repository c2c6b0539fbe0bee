/** The server is killed under load, 32 times and more: the bounded form. crash.long.test.ts goes on for longer. */
import { describe } from 'vitest';
import { printSeed, runs, seed } from '../parity/seed.js';
import { WIRES } from '../worker/support/nodes.js';
import { ALWAYS, crashSuite, EVERYSEC, POWER_CUT, REWRITING, SNAPSHOT } from './crash-suite.js';

printSeed('crash.ci');

describe.each(WIRES)('wire %i', (wire) => {
  for (const [keeping, rounds] of [
    [ALWAYS, 8],
    [EVERYSEC, 4],
    [POWER_CUT, 4],
    [REWRITING, 3],
    [SNAPSHOT, 3],
  ] as const) {
    crashSuite(wire, keeping, runs(rounds), seed);
  }
});
