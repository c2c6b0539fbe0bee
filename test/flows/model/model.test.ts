/**
 * The model-based suite of flows, the quick amount.
 */
import { printSeed, runs } from '../../parity/seed.js';
import { flowSuite } from './suite.js';

printSeed('flows, model');
flowSuite({ plays: runs(20), steps: 600, timeoutMs: 120_000 });
