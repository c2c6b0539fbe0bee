/**
 * The model-based suite of flows at length.
 */
import { printSeed, runs } from '../../parity/seed.js';
import { flowSuite } from './suite.js';

printSeed('flows, model, at length');
flowSuite({ plays: runs(130), steps: 600, timeoutMs: 600_000 });
