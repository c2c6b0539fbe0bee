/**
 * The model-based suite, the quick amount: a few hundred steps for each property.
 */
import { modelSuite } from './model-suite.js';
import { printSeed, runs } from './seed.js';

printSeed('model');
modelSuite({ runs: runs(12), steps: 100, timeoutMs: 120_000 });
