/**
 * All orders of the steps of two processes, the larger scenarios: with the real worker, on a real server.
 */
import { interleavingSuite } from './support/interleaving-suite.js';

interleavingSuite([
  ['processes of two slots and one, two jobs', { processes: [2, 1], enqueues: 2 }, 350],
  ['processes of two slots, two jobs', { processes: [2, 2], enqueues: 2 }, 290],
  ['two jobs, and one process may die', { processes: [1, 1], enqueues: 2, deaths: 1 }, 1_300],
  ['two jobs, and a block may end', { processes: [1, 1], enqueues: 2, timeouts: 1 }, 1_800],
  ['two jobs wait, a third comes, the queue is resumed', { processes: [1, 1], enqueues: 1, paused: 2 }, 1_100],
  ['one process, a claim may be refused', { processes: [1], enqueues: 2, refusals: 1 }, 190],
]);
interleavingSuite(
  [
    ['one process of two slots, three jobs', { processes: [2], enqueues: 3 }, 9_800],
    ['one process of two slots, two jobs and a beat', { processes: [2], enqueues: 2, beats: 1 }, 8_300],
  ],
  [6],
);
