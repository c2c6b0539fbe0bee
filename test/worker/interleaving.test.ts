/**
 * All orders of the steps of one or two processes, the small scenarios: with the real worker, on a real server.
 */
import { interleavingSuite } from './support/interleaving-suite.js';

interleavingSuite([
  ['two processes, two jobs', { processes: [1, 1], enqueues: 2 }, 100],
  ['two processes, one of which may die', { processes: [1, 1], enqueues: 1, deaths: 1 }, 10],
  ['a process whose claim may be refused', { processes: [1], enqueues: 1, refusals: 1 }, 3],
  ['a process whose block may end', { processes: [1], enqueues: 2, timeouts: 1 }, 15],
  ['a process of two slots, one job and a beat', { processes: [2], enqueues: 1, beats: 1 }, 10],
  ['a resume with two waiting jobs: both run, whoever is woken', { processes: [1, 1], enqueues: 0, paused: 2 }, 10],
]);
