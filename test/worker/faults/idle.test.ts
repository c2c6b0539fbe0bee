/** An idle worker whose server was away, once in each way; idle.ci.test.ts does it at length. */
import { describe } from 'vitest';
import { WIRES } from '../support/nodes.js';
import { idleSuite } from './idle-suite.js';

describe.each(WIRES)('wire %i', (wire) => idleSuite(wire, 1, 1, 300));
