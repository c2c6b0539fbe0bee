/** A soak of `EMQ_SOAK_MINUTES` (30 by default), half of it on each wire. Only by `npm run test:long`. */
import { describe } from 'vitest';
import { printSeed, seed } from '../parity/seed.js';
import { WIRES } from '../worker/support/nodes.js';
import { soakSuite } from './soak-suite.js';

const given = process.env['EMQ_SOAK_MINUTES'] ?? '30';
const minutes = Number(given);
if (!(minutes > 0)) throw new Error(`EMQ_SOAK_MINUTES must be a number of minutes, not ${given}`);
printSeed('soak.long');

describe.each(WIRES)('wire %i', (wire) => soakSuite(wire, minutes / 2, 5_000, seed));
