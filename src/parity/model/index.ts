/**
 * The reference model: what a call must answer, and what keyspace it must leave.
 *
 * Invariants: a refused call leaves the keyspace it was given; every transition of the table has a rule here, or
 * `predict` fails loudly. Does not: talk to a server.
 */
import type { Bytes, Keys } from '../keyspace-dump.js';
import { auditRules } from './audit.js';
import { controlRules } from './controls.js';
import { dedupRules } from './dedup.js';
import { flowRules } from './flows.js';
import { Ground, Refused, type ModelReply } from './ground.js';
import { laneRules } from './lanes.js';
import { limitRules } from './limits.js';
import { operatorRules } from './operator.js';
import { repeatRules } from './repeats.js';
import type { Rule } from './rule.js';
import { jobRules } from './transitions.js';
import { workerRules } from './worker.js';
import type { ExecutorName } from '../node.js';

export type { ModelReply } from './ground.js';

/** A call with its keys and arguments as latin1 text. */
export interface ModelCall {
  readonly transition: string;
  readonly keys: readonly Bytes[];
  readonly args: readonly Bytes[];
}

/** As whom and when the call is made. */
export interface Circumstance {
  /** The server's clock, Unix ms. */
  readonly now: number;
  readonly executor: ExecutorName;
  readonly runId: string;
}

/** The outcome: a reply, or a refusal (its class, or its whole text where the contract fixes it); and the keyspace then. */
export type Prediction =
  | { readonly ok: true; readonly reply: ModelReply; readonly keys: Keys }
  | { readonly ok: false; readonly refusal: string; readonly keys: Keys };

const rules: Readonly<Record<string, Rule>> = {
  ...jobRules,
  ...workerRules,
  ...operatorRules,
  ...flowRules,
  ...limitRules,
  ...laneRules,
  ...dedupRules,
  ...repeatRules,
  ...controlRules,
  ...auditRules,
};

/** The transitions that the model knows, by their names on the wire. */
export const modelled: readonly string[] = Object.keys(rules);

/** @throws RangeError for a transition without a rule. */
export function predict(keys: Keys, call: ModelCall, { now, executor, runId }: Circumstance): Prediction {
  const rule = Object.hasOwn(rules, call.transition) ? rules[call.transition] : undefined;
  if (rule === undefined) throw new RangeError(`the model has no rule for ${call.transition}: write one`);
  const ground = new Ground(keys, now, executor, runId);
  try {
    return { ok: true, reply: rule(ground, call.keys, call.args), keys: ground.keys };
  } catch (error) {
    if (error instanceof Refused) return { ok: false, refusal: error.message, keys };
    throw error;
  }
}

/** True when the text of an error reply is the predicted refusal. */
export function isRefusal(refusal: string, text: string): boolean {
  return refusal === (refusal.includes(' ') ? text : text.split(' ', 1)[0]);
}
