/** A flood of bad calls: a small one, on one executor. */
import { EXECUTORS } from '../conformance/stage.js';
import { flood } from './abuse-flood.js';

flood(EXECUTORS.slice(1), 3_000);
