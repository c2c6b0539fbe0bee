/**
 * `echomq/testing`: a private node in one line, jobs run on demand, time that passes at a word, and assertions on what is
 * enqueued. For any test runner.
 * Does not: belong in production.
 */
export { testNode, type TestNode, type TestNodeOptions } from './node.js';
export { drain, type DrainedJob, type DrainOptions } from './drain.js';
export { advanceTime, type Advanced } from './time.js';
export {
  assertEnqueued,
  assertNotEnqueued,
  enqueued,
  type EnqueuedJob,
  type Expectation,
  type Part,
} from './enqueued.js';
