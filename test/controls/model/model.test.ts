/**
 * The model-based suite of lanes and limits, the quick amount.
 */
import { printSeed, runs } from '../../parity/seed.js';
import { laneSuite } from './suite.js';

printSeed('lanes, model');
laneSuite({ plays: runs(20), steps: 400, timeoutMs: 120_000 });
