/**
 * For each transition: situations in which it succeeds, with every key that it touches there, every number among its
 * arguments and every counter that it reads; and its own refusals. The refusal and access suites are made of these.
 *
 * Invariants: a transition of the table that has no entry here fails those suites.
 * Does not: send anything.
 */
import { auditCases } from './audit.js';
import { controlCases } from './controls.js';
import { flowCases } from './flows.js';
import { jobCases } from './jobs.js';
import { kinCases } from './kin.js';
import { laneCases } from './lanes.js';
import { limitCases } from './limits.js';
import { operatorCases } from './operator.js';
import { repeatCases } from './repeats.js';
import type { Cases } from './scene.js';
import { workerCases } from './worker.js';

export type { Cases, KeyType, Names, OwnRefusal, Situation } from './scene.js';

/** By the name on the wire. */
export const cases: Readonly<Record<string, Cases>> = {
  ...jobCases,
  ...workerCases,
  ...operatorCases,
  ...kinCases,
  ...flowCases,
  ...limitCases,
  ...laneCases,
  ...repeatCases,
  ...controlCases,
  ...auditCases,
};
