/**
 * How vitest runs, here by hand (`npx vitest run test/x`, after `npm run setup`) and under scripts/test.mjs, which
 * chooses the files of a suite. Does not: set anything up.
 */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // The budget of the suites is meant for two cores; more servers at once would only wait for each other.
    maxWorkers: 2,
  },
});
