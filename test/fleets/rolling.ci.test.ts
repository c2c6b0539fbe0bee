/** A node in use is moved to wire 6 and back, again and again, with more clients and more jobs. */
import { it } from 'vitest';
import { moveThereAndBack, moveWithLosses } from './rolling-move.js';

const AMOUNTS = { jobsPerPhase: 300, producers: 3, consumers: 4 };
const ROUNDS = [1, 2];

it.each(ROUNDS)('under load, from wire 4 to 6 and back, round %i', () => moveThereAndBack(AMOUNTS), 120_000);

it.each(ROUNDS)('with clients that are cut off meanwhile, round %i', () => moveWithLosses(AMOUNTS), 120_000);
