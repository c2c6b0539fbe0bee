/** A soak of a minute on each wire, with a fault every second or two; soak.long.test.ts takes half an hour. */
import { describe } from 'vitest';
import { printSeed, seed } from '../parity/seed.js';
import { WIRES } from '../worker/support/nodes.js';
import { soakSuite } from './soak-suite.js';

printSeed('soak.ci');

describe.each(WIRES)('wire %i', (wire) => soakSuite(wire, 1, 1_500, seed));
