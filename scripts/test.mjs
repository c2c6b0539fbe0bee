/**
 * Sets the checkout up and runs one suite: `node scripts/test.mjs quick|worker|flows|controls|parity|trust|ci|long [vitest's own arguments]`.
 *
 * Invariants: the last line is `N passed, N failed`, counted in test cases; the exit code is 0 only when a test ran and
 * none failed. With `EMQ_COUNT_FILE` set, the counts are appended to that file as one line of JSON.
 * Does not: decide what a test needs: each starts and stops what it uses.
 */
import { appendFileSync } from 'node:fs';
import { CountReporter } from './count-reporter.mjs';
import { report, setup } from './setup.mjs';

const CI_TESTS = 'test/**/*.ci.test.ts';
/** Rounds without an end in sight: in no other suite. */
const LONG_TESTS = 'test/**/*.long.test.ts';
const all = (...folders) => ({
  include: folders.map((folder) => `test/${folder}/**/*.test.ts`),
  exclude: [LONG_TESTS],
});
const SUITES = {
  quick: { include: ['test/**/*.test.ts'], exclude: [CI_TESTS, LONG_TESTS] },
  worker: all('worker', 'queue', 'bus', 'telemetry', 'metrics', 'testing', 'examples'),
  flows: all('flows'),
  controls: all('controls'),
  parity: all('parity', 'conformance', 'access'),
  trust: all('faults', 'cluster', 'fuzz', 'module', 'versions', 'fleets', 'access', 'audit'),
  ci: { include: [CI_TESTS], exclude: [] },
  long: { include: [LONG_TESTS], exclude: [] },
};

const [suite, ...rest] = process.argv.slice(2);
const files = SUITES[suite];
if (files === undefined) {
  console.error(`usage: node scripts/test.mjs ${Object.keys(SUITES).join('|')} [arguments of vitest]`);
  process.exit(2);
}

const counts = new CountReporter();
try {
  await setup();
  // Not before: the set-up installs it.
  const { parseCLI, startVitest } = await import('vitest/node');
  const { filter, options } = parseCLI(['vitest', 'run', ...rest]);
  const reporters = ['default', counts];
  await startVitest('test', filter, { ...options, ...files, run: true, watch: false, reporters });
} catch (error) {
  report(error);
  counts.failed += 1;
}

const { passed, failed, notRun } = counts;
if (failed > 0 || passed === 0) process.exitCode = 1;
if (process.env.EMQ_COUNT_FILE) {
  appendFileSync(process.env.EMQ_COUNT_FILE, `${JSON.stringify({ suite, passed, failed, notRun })}\n`);
}
if (notRun > 0) console.log(`${notRun} not run`);
console.log(`${passed} passed, ${failed} failed`);
