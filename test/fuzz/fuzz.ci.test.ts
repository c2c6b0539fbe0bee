/** The fuzzers, half a minute each. */
import { fuzz } from './fuzz.js';

for (const fuzzer of ['fuzz_parse', 'fuzz_commands'] as const) fuzz('test/fuzz/fuzz.ci.test.ts', fuzzer, 30);
