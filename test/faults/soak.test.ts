/** A soak of some seconds: that it works. The real ones are soak.ci.test.ts and soak.long.test.ts. */
import { describe } from 'vitest';
import { printSeed, seed } from '../parity/seed.js';
import { soakSuite } from './soak-suite.js';

printSeed('soak');

describe('wire 6', () => soakSuite(6, 0.05, 200, seed, 2));
