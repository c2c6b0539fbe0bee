/**
 * The parity battery: scenario vectors on one node, random steps on two. Used by the command line and the test suites.
 */
export { loadVectors, parseVectors, type Scenario, type Vectors } from './vector-format.js';
export { runVectors, type VectorOutcome, type VectorResult } from './vectors.js';
export { runRandom, type RandomOptions, type RandomResult } from './random.js';
export type { ExecutorName, ParityNode } from './node.js';
