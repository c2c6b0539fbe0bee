/** Hostile input to every public verb: a third of the values at every place, on both executors; another third with another seed. */
import { EXECUTORS } from '../conformance/stage.js';
import { printSeed } from '../parity/seed.js';
import { abuseInput } from './abuse-input.js';

printSeed('abuse-input.ci.test.ts');
abuseInput(EXECUTORS, 3, 3_000);
