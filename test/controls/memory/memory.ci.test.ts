/**
 * Jobs leave no trace, at length.
 */
import { memorySuite } from './suite.js';

memorySuite({ jobs: 100_000, marginBytes: 100_000, timeoutMs: 600_000 });
