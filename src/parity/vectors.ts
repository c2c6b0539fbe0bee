/**
 * The runner of the scenario vectors: every scenario on one node, by that node's executor.
 *
 * Invariants: the server is flushed, reconfigured and given users only if it is the battery's own; on any other node each
 * scenario has a queue of a fresh random name, and exactly the keys of that queue are removed after it. What a given
 * node does not allow is reported as not run, by name, and never as passed.
 * Does not: judge a node that others use at the same time.
 */
import { randomBytes } from 'node:crypto';

import type { Redis } from 'ioredis';

import { NODE_VERSION_KEY } from '../wire/keyspace.js';
import { changedKeys, keysOf, removeKeys, snapshot } from './keyspace-dump.js';
import {
  ask,
  brandNode,
  brandOf,
  clockOf,
  loadScripts,
  need,
  perform,
  runIdOf,
  type Answer,
  type ParityNode,
  type RawCommand,
} from './node.js';
import type { ExpectedError, Scenario, Setup, Value, VectorCall, Vectors } from './vector-format.js';
import { fill, mismatch, resolve, show, type Scope } from './vector-values.js';

export type VectorOutcome = 'passed' | 'failed' | 'not run';

export interface VectorResult {
  readonly name: string;
  readonly outcome: VectorOutcome;
  /** Why it failed, or why it was not run. */
  readonly detail?: string;
}

/** The errors that the server words itself, and puts the place in the script behind. */
const SERVERS_OWN = new Set(['WRONGTYPE', 'NOPERM', 'OOM', 'READONLY', 'NOSCRIPT']);

/**
 * Runs the scenarios that apply to the node's executor, one after the other, and reports each. A node of the battery's
 * own is left empty but for its brand.
 * Resolves with all results. Rejects when the connection fails, or for a node of a foreign brand.
 */
export async function runVectors(
  node: ParityNode,
  vectors: Vectors,
  onResult: (result: VectorResult) => void = () => {},
): Promise<VectorResult[]> {
  await loadScripts(node.client);
  const runId = await runIdOf(node.client);
  const unbrand = node.own ? async () => {} : await brandNode(node);
  const results: VectorResult[] = [];
  try {
    for (const scenario of vectors.scenarios) {
      if (!scenario.executors.includes(node.executor)) continue;
      const result = await runScenario(node, scenario, vectors, runId);
      results.push(result);
      onResult(result);
    }
  } finally {
    if (node.own) await empty(node);
    await unbrand();
  }
  return results;
}

async function runScenario(
  node: ParityNode,
  scenario: Scenario,
  vectors: Vectors,
  runId: string,
): Promise<VectorResult> {
  const { name } = scenario;
  const reason = node.own ? undefined : needsOwnNode(scenario);
  if (reason !== undefined) return { name, outcome: 'not run', detail: reason };
  const queue = `parity-${randomBytes(8).toString('hex')}`;
  const base = `emq:{${queue}}:`;
  try {
    if (node.own) await empty(node);
    const now = await clockOf(node.client);
    const scope: Scope = { queue, base, runId, now, toleranceMs: vectors.toleranceMs, names: vectors.names };
    const detail = await play(node, scenario, scope);
    return detail === undefined ? { name, outcome: 'passed' } : { name, outcome: 'failed', detail };
  } finally {
    if (!node.own) await removeKeys(node.client, await keysOf(node.client, `${base}*`));
  }
}

/** An empty keyspace but for the brand, on a node of our own. */
async function empty(node: ParityNode): Promise<void> {
  await need(node.client, ['FLUSHALL', 'SYNC']);
  await need(node.client, ['SET', NODE_VERSION_KEY, brandOf(node.executor)]);
}

/** Why a scenario is not for a node that somebody gave us. */
function needsOwnNode(scenario: Scenario): string | undefined {
  if (scenario.acl !== undefined) return 'it makes a user';
  if (scenario.config !== undefined) return 'it changes settings of the server';
  const setup = JSON.stringify(scenario.setup);
  return setup.includes(NODE_VERSION_KEY) ? 'it changes the brand of the node' : undefined;
}

/** Plays a scenario; resolves with what went wrong. */
async function play(node: ParityNode, scenario: Scenario, scope: Scope): Promise<string | undefined> {
  for (const step of scenario.setup) {
    const answer = await prepare(node, step, scope);
    if (!answer.ok) return `setup ${JSON.stringify(step)}: ${answer.text}`;
  }
  const before = scenario.unchanged === true ? await snapshot(node.client) : undefined;
  const answer = await withSettings(node, scenario, scope, (client) => make(node, client, scenario.call, scope));
  const wrong = judge(node, scenario, answer, scope);
  if (wrong !== undefined) return wrong;
  if (before !== undefined) {
    const changed = changedKeys(before, await snapshot(node.client));
    if (changed.length > 0) return `changed ${changed.join(', ')}`;
  }
  for (const [command, expected, executor] of scenario.after) {
    if (executor !== undefined && executor !== node.executor) continue;
    const read = await ask(node.client, raw(command, scope));
    if (!read.ok) return `after ${JSON.stringify(command)}: ${read.text}`;
    const difference = mismatch(expected, read.reply, scope);
    if (difference !== undefined) return `after ${JSON.stringify(command)}: ${difference}`;
  }
  return undefined;
}

function judge(node: ParityNode, scenario: Scenario, answer: Answer, scope: Scope): string | undefined {
  if (scenario.error !== undefined) return wrongError(node, scenario.error, answer, scope);
  if (!answer.ok) return `refused: ${answer.text}`;
  return mismatch(scenario.reply ?? null, answer.reply, scope);
}

function wrongError(node: ParityNode, error: ExpectedError, answer: Answer, scope: Scope): string | undefined {
  const expected = typeof error.text === 'object' ? error.text[node.executor] : error.text;
  const wanted = expected === undefined ? error.class : fill(expected, scope);
  if (answer.ok) return `expected ${wanted}, got the reply ${show(answer.reply)}`;
  const found = expected === undefined ? answer.text.split(' ', 1)[0] : answer.text;
  // an ERR of ours is fixed in its class only; but the server's own ERR, with the place in a script, is never meant
  if (expected === undefined && !SERVERS_OWN.has(error.class) && /, on @?user_script/.test(answer.text)) {
    return `expected ${wanted}, got an error raised by the server: ${answer.text}`;
  }
  return found === wanted ? undefined : `expected ${wanted}, got ${answer.text}`;
}

function prepare(node: ParityNode, step: Setup, scope: Scope): Promise<Answer> {
  return 'transition' in step ? make(node, node.client, step, scope) : ask(node.client, raw(step, scope));
}

function make(node: ParityNode, client: Redis, call: Scenario['call'], scope: Scope): Promise<Answer> {
  if ('raw' in call) return ask(client, raw(call.raw, scope));
  const { transition, keys, args }: VectorCall = call;
  const all = (values: readonly Value[]): Buffer[] => values.map((value) => resolve(value, scope));
  return perform(node, { transition, keys: all(keys), args: all(args) }, client);
}

function raw(command: readonly Value[], scope: Scope): RawCommand {
  const [name, ...args] = command.map((value) => resolve(value, scope));
  return [String(name), ...args];
}

/** Makes the call under the scenario's settings and as its user, on a connection of that user's own. */
async function withSettings(
  node: ParityNode,
  scenario: Scenario,
  scope: Scope,
  call: (client: Redis) => Promise<Answer>,
): Promise<Answer> {
  const settings = Object.entries(scenario.config ?? {});
  const user = scope.queue;
  let client: Redis | undefined;
  try {
    if (scenario.acl !== undefined) {
      const rules = scenario.acl.map((rule) => fill(rule, scope));
      await need(node.client, ['ACL', 'SETUSER', user, 'reset', 'on', 'nopass', ...rules]);
      client = node.client.duplicate({ lazyConnect: true, enableReadyCheck: false });
      await client.connect();
      await need(client, ['AUTH', user, 'any']);
    }
    for (const [name, value] of settings) await need(node.client, ['CONFIG', 'SET', name, value]);
    return await call(client ?? node.client);
  } finally {
    for (const [name] of settings) await need(node.client, ['CONFIG', 'SET', name, '0']);
    client?.disconnect();
    if (scenario.acl !== undefined) await need(node.client, ['ACL', 'DELUSER', user]);
  }
}
