/**
 * The model-based suite of lanes and limits at length.
 */
import { printSeed, runs } from '../../parity/seed.js';
import { laneSuite } from './suite.js';

printSeed('lanes, model, at length');
laneSuite({ plays: runs(120), steps: 600, timeoutMs: 600_000 });
