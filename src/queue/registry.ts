/**
 * Which queues there are: the registry `{emq}:queues`, in which consumers name their queue, and a look at the keys.
 *
 * The registry is a courtesy: it costs one command when a consumer starts, and tells of a queue that is empty; the keys tell
 * of all that hold something, and of nothing else.
 * Invariants: naming and forgetting a queue never fail: a user without the right or a server that is away is no reason to
 * stop. No step of the search looks at more than about 1000 keys.
 * Does not: brand, or create a queue.
 */
import { Connector } from '../wire/connector.js';
import type { Reply } from '../wire/call.js';
import { inputError, show, type EmqError } from '../wire/errors.js';
import { list, string } from '../wire/fields.js';
import type { Ask } from '../wire/fence.js';
import { Keyspace, REGISTRY_KEY } from '../wire/keyspace.js';
import { transitions } from '../wire/transitions.js';
import { known } from './input.js';
import { callOf, type Wire } from './job-controls.js';

/** A row of a job is no news: whatever else a queue has will tell of it. */
const ANY_KEY = 'emq:{*}:[^j]*';
const KEY = /^emq:\{([A-Za-z0-9._-]{1,128})\}:/;
const STEP = '1000';

/** Names a queue in the registry, if that may be done. Never rejects. @internal */
export async function announce(wire: Wire, queue: string): Promise<void> {
  await register(wire, queue, 'add');
}

/** Takes a queue's name out of the registry, if that may be done. Never rejects. @internal */
export async function unregister(wire: Wire, queue: string): Promise<void> {
  await register(wire, queue, 'remove');
}

async function register(wire: Wire, queue: string, mode: 'add' | 'remove'): Promise<void> {
  await wire.run(callOf(new Keyspace(queue), transitions.register, { mode })).catch(() => {});
}

/**
 * The names of all queues on the server or cluster, sorted: those in the registry, and those that have keys, jobs' rows
 * aside. Looking for keys goes over the whole database in steps; with `scan: false` only the registry is read.
 * @throws EmqError `EMQ_CONNECTION` when a primary is away (without `scan`: the one that has the registry), `NOPERM` without
 *   `+scan`, or without `scan` the right to read `{emq}:queues`.
 */
export async function listQueues(connector: Connector, options: { scan?: boolean } = {}): Promise<string[]> {
  if (!(connector instanceof Connector)) {
    throw inputError(`listQueues takes a Connector (await Connector.connect(...)), got ${show(connector)}`);
  }
  const { scan = true } = known('listQueues', options, ['scan']);
  if (typeof scan !== 'boolean') throw inputError(`scan must be true or false, got ${show(scan)}`);
  const names = new Set<string>();
  const search = async (ask: Ask): Promise<void> => {
    for await (const name of keyed(ask)) names.add(name);
  };
  const searches = scan ? connector.primaries().map(search) : [];
  const [named] = await Promise.all([registered(connector.commons, scan), ...searches]);
  for (const name of named) names.add(name);
  return [...names].filter(isQueue).sort();
}

/** The names in the registry, asked of who has it. @internal */
export async function registered(ask: Ask, optional: boolean): Promise<string[]> {
  try {
    return list('ZRANGE', await ask('ZRANGE', [REGISTRY_KEY, '0', '-1'])).map((name) => string('ZRANGE', name));
  } catch (error) {
    // One node of a cluster, met by itself, has it or has it not.
    const { code } = error as EmqError;
    if (code === 'MOVED' || (optional && code === 'NOPERM')) return [];
    throw error;
  }
}

/** The names of queues that have keys on one primary, again and again. @internal */
export async function* keyed(ask: Ask): AsyncGenerator<string, void, undefined> {
  let cursor = '0';
  do {
    const reply: Reply = await ask('SCAN', [cursor, 'MATCH', ANY_KEY, 'COUNT', STEP]);
    const [next, keys] = list('SCAN', reply);
    for (const key of list('SCAN', keys ?? null)) {
      const name = KEY.exec(string('SCAN', key))?.[1];
      if (name !== undefined) yield name;
    }
    cursor = string('SCAN', next ?? null);
  } while (cursor !== '0');
}

/** @internal */
export function isQueue(name: string): boolean {
  try {
    new Keyspace(name);
    return true;
  } catch {
    return false;
  }
}
