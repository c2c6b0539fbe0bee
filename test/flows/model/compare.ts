/**
 * Holds what is on a node against the model, and an answer against the model's.
 *
 * Invariants: every key of the node but `wake` is expected with exactly this content. Of rows `lease_epoch` is left out, of sets other than `pending` the scores, which are times.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Reply } from '../../../src/wire/call.js';
import { latin1 } from '../../../src/parity/keyspace-dump.js';
import type { Answer as Given } from '../../../src/parity/node.js';
import type { Dump, Value } from './dump.js';
import type { Job, Model, Queue } from './model.js';
import type { Answer } from './steps.js';

type Text = string;

/** What differs, a line each. */
export function differences(model: Model, keys: Dump): string[] {
  const expected = new Map<string, Text>();
  for (const queue of model.queues.values()) expect(queue, expected);
  const wrong: string[] = [];
  for (const [key, value] of keys) {
    if (/^emq:\{[^}]+\}:wake$/.test(key)) continue;
    const text = shown(key, value);
    const should = expected.get(key);
    expected.delete(key);
    if (text !== should) wrong.push(`${key} is ${text}, the model says ${should ?? 'there is no such key'}`);
  }
  for (const [key, should] of expected) wrong.push(`${key} is not there, the model says ${should}`);
  return wrong;
}

const isTimed = (key: string): boolean => /:(active|schedule|dead|flow:held|flow:landed)$/.test(key);

function shown(key: string, value: Value): Text {
  switch (value.type) {
    case 'string':
      return value.text;
    case 'zset':
      return pairs(isTimed(key) ? [...value.fields.keys()].map((id) => [id, '']) : [...value.fields]);
    case 'hash':
      return pairs([...value.fields].filter(([name]) => name !== 'lease_epoch'));
    case 'set':
      return list([...value.items].sort());
    case 'list':
      return list(value.items);
  }
}

const list = (items: readonly string[]): Text => JSON.stringify(items);
const pairs = (fields: Iterable<readonly [string, string]>): Text =>
  JSON.stringify([...fields].sort(([a], [b]) => (a < b ? -1 : 1)));

function expect(queue: Queue, into: Map<string, Text>): void {
  const base = `emq:{${queue.name}}:`;
  const put = (name: string, size: number, text: Text): void => void (size > 0 && into.set(base + name, text));
  const sets = { active: 'active', schedule: 'scheduled', dead: 'dead', 'flow:held': 'awaiting_children' } as const;
  for (const [name, state] of Object.entries(sets)) {
    const jobs = queue.in(state);
    put(name, jobs.length, pairs(jobs.map(({ id }) => [id, ''])));
  }
  const pending = queue.in('pending');
  put('pending', pending.length, pairs(pending.map(({ id, priority }) => [id, priority || '0'])));
  put('flow:outbox', queue.outbox.length, list(queue.outbox));
  put('flow:poison', queue.poison.length, list(queue.poison));
  put('flow:landed', queue.landed.size, pairs([...queue.landed].map((id) => [id, ''])));
  for (const [parent, children] of queue.orders) put(`flow:cancel:${parent}`, children.size, pairs(children));
  put('meta', queue.edition, pairs([['letters', String(queue.edition)]]));
  put('metrics:completed', queue.completed, pairs([['count', String(queue.completed)]]));
  put('metrics:failed', queue.failed, pairs([['count', String(queue.failed)]]));
  for (const job of queue.jobs.values()) {
    const row = `job:${job.id}`;
    put(row, 1, pairs(fieldsOf(job)));
    if (job.open !== undefined) put(`${row}:dependencies`, 1, String(job.open));
    put(`${row}:children`, job.children.size, pairs(job.children));
    put(`${row}:processed`, job.processed.size, pairs(job.processed));
    put(`${row}:unsuccessful`, job.unsuccessful.size, pairs(job.unsuccessful));
    put(`${row}:failed`, job.failed.size, pairs(job.failed));
  }
}

function fieldsOf(job: Job): [string, string][] {
  const all = {
    state: job.state,
    attempts: job.attempts,
    payload: job.payload,
    priority: job.priority || undefined,
    credit: job.credit,
    stalled: job.stalled,
    last_error: job.lastError,
    landing: job.landing,
    parent: job.link?.parent,
    parent_queue: job.link?.queue || undefined,
    parent_policy: job.link?.policy,
  };
  return Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
}

/** Undefined when the node answered what the model says. */
export function answerDiffers(name: string, given: Given, should: Answer): string | undefined {
  const is: Answer = given.ok ? plain(given.reply) : { error: scripted(given.text) };
  const same = name === 'flow_children' ? isDeepStrictEqual(sorted(is), sorted(should)) : isDeepStrictEqual(is, should);
  return same ? undefined : `answered ${JSON.stringify(is)}, the model says ${JSON.stringify(should)}`;
}

/** The native commands refuse flow children in words of their own (section 7). */
const scripted = (text: string): string =>
  text.replace('complete flow not native', 'complete flow keys').replace('fail flow not native', 'retry flow keys');

function plain(reply: Reply): Answer {
  if (Array.isArray(reply)) return reply.map(plain);
  return Buffer.isBuffer(reply) ? latin1(reply) : reply;
}

/** A page of a hash: the fields by name. */
function sorted(page: Answer): unknown {
  const [next, flat] = page as [string, string[]];
  const found: [string, string][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) found.push([flat[i] ?? '', flat[i + 1] ?? '']);
  return [next, pairs(found)];
}
