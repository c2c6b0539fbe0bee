/**
 * Where the tests are. scripts/test.mjs picks the suite; this is enough for a single file.
 */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { include: ['test/**/*.test.ts'], testTimeout: 30_000, hookTimeout: 60_000, fileParallelism: true, maxWorkers: 2 },
});
