/** A node in use is moved to wire 6 and back; at length in rolling.ci.test.ts. */
import { it } from 'vitest';
import { moveThereAndBack, moveWithLosses } from './rolling-move.js';

const AMOUNTS = { jobsPerPhase: 20, producers: 1, consumers: 2 };

it('under load, from wire 4 to 6 and back: nothing lost, nothing doubled', () => moveThereAndBack(AMOUNTS));

it('with clients that are cut off meanwhile: nothing lost', () => moveWithLosses(AMOUNTS));
