/** An idle worker whose server was away, 20 times in each way, with the beat that is taken by default. */
import { describe } from 'vitest';
import { WIRES } from '../support/nodes.js';
import { idleSuite } from './idle-suite.js';

describe.each(WIRES)('wire %i', (wire) => idleSuite(wire, 20, 4, 1_000));
