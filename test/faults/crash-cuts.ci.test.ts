/** The append-only file is cut at 100 places of its tail on each wire, and all through its last transaction. */
import { describe } from 'vitest';
import { printSeed, runs, seed } from '../parity/seed.js';
import { WIRES } from '../worker/support/nodes.js';
import { cutsSuite } from './crash-cuts-suite.js';

printSeed('crash-cuts.ci');

describe.each(WIRES)('wire %i', (wire) => cutsSuite(wire, runs(100), runs(40), seed));
