/**
 * The model-based suite at length.
 */
import { modelSuite } from './model-suite.js';
import { printSeed, runs } from './seed.js';

printSeed('model, at length');
modelSuite({ runs: runs(60), steps: 150, timeoutMs: 600_000 });
