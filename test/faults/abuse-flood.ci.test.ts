/** A flood of 100,000 bad calls, on both executors. */
import { EXECUTORS } from '../conformance/stage.js';
import { flood } from './abuse-flood.js';

flood(EXECUTORS, 100_000);
