/** The fuzzers, ten minutes each. */
import { fuzz } from './fuzz.js';

for (const fuzzer of ['fuzz_parse', 'fuzz_commands'] as const) fuzz('test/fuzz/fuzz.long.test.ts', fuzzer, 600);
