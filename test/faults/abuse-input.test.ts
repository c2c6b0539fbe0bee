/** Hostile input to every public verb: one in twelve of the values at every place. More: abuse-input.ci.test.ts. */
import { EXECUTORS } from '../conformance/stage.js';
import { printSeed } from '../parity/seed.js';
import { abuseInput } from './abuse-input.js';

printSeed('abuse-input.test.ts');
abuseInput(EXECUTORS.slice(0, 1), 12, 150);
