/**
 * Jobs leave no trace, the quick amount.
 */
import { memorySuite } from './suite.js';

memorySuite({ jobs: 5_000, marginBytes: 100_000, timeoutMs: 60_000 });
