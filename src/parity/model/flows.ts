/**
 * The reference model of the flow transitions (wire contract, section 6, "Flows"): how a flow lands, how letters are
 * delivered, and the reads. The settles of a flow child are with the other settles (transitions.ts).
 *
 * Does not: page. A small hash comes whole.
 */
import type { Bytes } from '../keyspace-dump.js';
import type { Ground } from './ground.js';
import { integer, Refused } from './ground.js';
import { bury, dependencies, join, land, lose, unlisted } from './kin.js';
import * as p from './procedures.js';
import { at, declared, flat, type Rule } from './rule.js';
import { admit } from './transitions.js';

const POLICIES = ['fp', 'id', 'rd', 'cp'];

function chosenPolicy(policy: Bytes): Bytes {
  if (!POLICIES.includes(policy)) throw new Refused('ERR policy must be fp, id, rd or cp');
  return policy;
}

/** The arguments in groups of `size`, or the refusal. */
function grouped(args: readonly Bytes[], size: number, least: number, refusal: Bytes): Bytes[][] {
  if (args.length % size !== 0 || args.length < size * least) throw new Refused(refusal);
  return Array.from({ length: args.length / size }, (_, i) => args.slice(i * size, (i + 1) * size));
}

/** KIND of each id, one in `size` arguments. */
function kinds(args: readonly Bytes[], size: number): void {
  for (const [i, arg] of args.entries()) if (i % size === 0) p.kind(arg);
}

/** The row of a job that is the parent of `count` children, and its place. */
function hold(g: Ground, b: Bytes, id: Bytes, own: readonly Bytes[], count: number): void {
  const [payload = '', priority = '', opts = ''] = own;
  const row = `${b}job:${id}`;
  admit(g, row, 'awaiting_children', payload, priority, opts);
  g.set(`${row}:dependencies`, p.digits(count));
  g.zadd(`${b}flow:held`, g.now, id);
}

const enqueueFlow: Rule = (g, [pending = '', wake = '', ...rows], [b = '', ...args]) => {
  const refusal = 'ERR a flow is six arguments for each of two or more rows';
  kinds(args, 6);
  const jobs = grouped(args, 6, 2, refusal);
  if (jobs.length !== rows.length) throw new Refused(refusal);
  const ids = jobs.map((job) => at(job, 0));
  if (new Set(ids).size < ids.length) throw new Refused('ERR a flow names each job once');
  const parents = jobs.map((job, i) => {
    if (i === 0) return 0;
    const place = integer(at(job, 4)) ?? 0;
    if (place < 1 || place > i) throw new Refused('ERR parent must be the place of an earlier job');
    chosenPolicy(at(job, 5));
    return place;
  });
  declared(g, [pending], rows, [wake]);
  const [root = ''] = rows;
  if (g.exists(root)) return g.hget(root, 'landing') === undefined ? 0 : 2;
  if (rows.some((row) => g.exists(row))) throw new Refused('EMQSTATE flow child exists');
  for (const [i, [id = '', payload = '', priority = '', opts = '', , policy = '']] of jobs.entries()) {
    const row = at(rows, i);
    const children = ids.filter((_id, j) => parents[j] === i + 1);
    if (children.length > 0) {
      hold(g, b, id, [payload, priority, opts], children.length);
      for (const child of children) g.hset(`${row}:children`, { [child]: '' });
    } else {
      admit(g, row, 'pending', payload, priority, opts);
      g.zadd(pending, p.rank(priority), id);
      p.wake(g, b);
    }
    if (i > 0) g.hset(row, { parent: at(ids, (parents[i] ?? 1) - 1), parent_policy: policy });
  }
  return 1;
};

/** The fields by which a child names its parent. */
const link = (parent: Bytes, queue: Bytes, policy: Bytes): Record<Bytes, Bytes> => ({
  parent,
  ...(queue === '' ? {} : { parent_queue: queue }),
  parent_policy: policy,
});

/** Whether a row that exists is the child of that parent. */
const isChildOf = (g: Ground, row: Bytes, parent: Bytes, queue: Bytes): boolean =>
  g.hget(row, 'parent') === parent && (g.hget(row, 'parent_queue') ?? '') === queue;

const DAY = 86_400_000;

const isMarked = (g: Ground, b: Bytes, id: Bytes): boolean => g.zscore(`${b}flow:landed`, id) !== undefined;

/** MARK(c) for each. */
function mark(g: Ground, b: Bytes, ids: readonly Bytes[]): void {
  const key = `${b}flow:landed`;
  for (const id of ids) g.zadd(key, g.now, id);
  for (const [id, since] of g.zrange(key)) if (since <= g.now - DAY) g.zrem(key, id);
}

/** Children with a `+` and their queues into `:children`, those that are there already left as they are. */
function list(g: Ground, row: Bytes, children: readonly Bytes[][]): void {
  for (const [child = '', queue = ''] of children) g.hset(`${row}:children`, { [child]: `+${queue}` });
}

const flowHold: Rule = (g, [row = ''], [b = '', id = '', payload = '', priority = '', opts = '', ...more]) => {
  const [parent = '', queue = '', policy = '', number = '', ...words] = more;
  p.kind(id);
  const count = p.positive('children', number);
  const refusal = 'ERR children must be ids and queues, no more than their number';
  const children = grouped(words, 2, 0, refusal);
  if (children.length > count) throw new Refused(refusal);
  if (parent !== '') chosenPolicy(policy);
  declared(g, [], [row]);
  if (parent !== '' && queue === '') {
    const where = g.hget(`${b}job:${parent}:children`, id);
    if (where === '') return ['landed', 0, 0];
    if (where !== '+') return ['unwanted', 0, 0];
  }
  if (g.exists(row)) {
    const old = g.hget(row, 'state') === 'dead' && !isMarked(g, b, id);
    if (parent !== '' && (old || !isChildOf(g, row, parent, queue))) throw new Refused('EMQSTATE flow child exists');
    return ['exists', unlisted(g, row), p.counter(g.hget(row, 'landing'))];
  }
  if (parent !== '' && isMarked(g, b, id)) return ['landed', 0, 0];
  hold(g, b, id, [payload, priority, opts], count);
  g.hset(row, { landing: p.digits(count), ...(parent === '' ? {} : link(parent, queue, policy)) });
  list(g, row, children);
  if (parent !== '') mark(g, b, [id]);
  return ['held', count - new Set(children.map((pair) => at(pair, 0))).size, count];
};

const flowList: Rule = (g, [row = ''], args) => {
  const children = grouped(args, 2, 0, 'ERR children must be ids and queues');
  declared(g, [], [row]);
  if (!g.exists(row)) return -1;
  const left = unlisted(g, row);
  if (left === 0) return 0;
  const fresh = new Map<Bytes, Bytes[]>(children.map((pair) => [at(pair, 0), pair]));
  for (const child of fresh.keys()) if (g.hget(`${row}:children`, child) !== undefined) fresh.delete(child);
  if (fresh.size > left) throw new Refused('EMQSTATE flow children differ');
  list(g, row, [...fresh.values()]);
  return unlisted(g, row);
};

const flowLand: Rule = (g, [pending = '', wake = '', b = ''], [parent = '', queue = '', ...args]) => {
  kinds(args, 5);
  const jobs = grouped(args, 5, 1, 'ERR children must be five arguments each');
  for (const job of jobs) chosenPolicy(at(job, 4));
  declared(g, [pending], [], [wake]);
  const parentRow = `${b}job:${parent}`;
  const here = queue === '';
  if (here) {
    p.counter(g.hget(parentRow, 'landing'));
    if (g.look(parentRow, 'hash') === undefined) return -1;
    g.look(`${parentRow}:children`, 'hash');
    if (unlisted(g, parentRow) > 0) throw new Refused('EMQSTATE flow children not listed');
  }
  const rowOf = (id: Bytes): Bytes => `${b}job:${id}`;
  const wanted = jobs.filter(([id = '']) => (here ? g.hget(`${parentRow}:children`, id) === '+' : !isMarked(g, b, id)));
  for (const [id = ''] of wanted) {
    const stranger = !isChildOf(g, rowOf(id), parent, queue) || g.hget(rowOf(id), 'state') === 'dead';
    if (g.look(rowOf(id), 'hash') !== undefined && stranger) throw new Refused('EMQSTATE flow child exists');
  }
  let made = 0;
  for (const [id = '', payload = '', priority = '', opts = '', policy = ''] of wanted) {
    if (g.exists(rowOf(id))) continue;
    admit(g, rowOf(id), 'pending', payload, priority, opts);
    g.hset(rowOf(id), link(parent, queue, policy));
    g.zadd(pending, p.rank(priority), id);
    p.wake(g, b);
    made += 1;
  }
  const ids = wanted.map((job) => at(job, 0));
  if (here) land(g, parentRow, ids);
  else mark(g, b, ids);
  return made;
};

const flowLanded: Rule = (g, [row = ''], children) => {
  declared(g, [], [row]);
  if (!g.exists(row)) return -1;
  land(g, row, children);
  return p.counter(g.hget(row, 'landing'));
};

const flowClear: Rule = (g, [landed = ''], children) => {
  const before = g.zrange(landed).length;
  for (const child of children) g.zrem(landed, child);
  return before - g.zrange(landed).length;
};

const flowDeliver: Rule = (g, [row = '', b = ''], args) => {
  const [parent = '', child = '', kind = '', policy = '', text = ''] = args;
  if (!['done', 'fail', 'gone'].includes(kind)) throw new Refused('ERR kind must be done, fail or gone');
  if (args.length !== 5) throw new Refused('ERR a delivery is five arguments');
  declared(g, [], [row]);
  if (kind === 'done') return join(g, b, child, parent, text);
  return (kind === 'fail' ? bury : lose)(g, b, { child, parent, policy, error: text });
};

/** The edition of the outbox: how often letters of deaths have left it. */
const editionOf = (g: Ground, b: Bytes): number => p.counter(g.hget(`${b}meta`, 'letters'));

const flowAck: Rule = (g, [outbox = '', b = ''], [given = '', ...args]) => {
  const edition = p.anyInteger('edition', given);
  const letters = grouped(args, 2, 1, 'ERR letters must be a verdict and a letter each');
  for (const [verdict = ''] of letters)
    if (verdict !== 'done' && verdict !== 'poison') throw new Refused('ERR verdict must be done or poison');
  declared(g, [], [], [outbox]);
  const found = editionOf(g, b);
  let left = 0;
  let ofDeaths = false;
  for (const [verdict, letter = ''] of letters) {
    const place = g.items(outbox).indexOf(letter);
    const comesAgain = letter.startsWith('\0');
    if (place < 0 || (comesAgain && edition !== found)) continue;
    left += 1;
    ofDeaths ||= comesAgain;
    g.keep(outbox, (_letter, i) => i !== place);
    if (verdict !== 'poison') continue;
    g.push('head', `${b}flow:poison`, letter);
    g.keep(`${b}flow:poison`, (_letter, i) => i < 1000);
  }
  if (ofDeaths) g.hset(`${b}meta`, { letters: p.digits(found + 1) });
  return left;
};

const flowCancelled: Rule = (g, [key = ''], children) => {
  g.hdel(key, ...children);
  return g.fields(key).size;
};

const flowLetters: Rule = (g, [outbox = '', b = ''], [offset = '', limit = '']) => {
  const from = p.notNegative('offset', offset);
  const most = p.positive('limit', limit);
  return [editionOf(g, b), g.items(outbox).slice(from, from + most)];
};

const flowUnlanded: Rule = (g, [row = ''], children) => {
  declared(g, [], [row]);
  return children.filter((child) => g.hget(`${row}:children`, child)?.startsWith('+'));
};

const flowLink: Rule = (g, [row = '']) => {
  if (g.look(row, 'hash') === undefined) return [];
  return ['parent', 'parent_queue', 'parent_policy'].map((name) => g.hget(row, name) ?? null);
};

const flowChildren: Rule = (g, [key = ''], [, count = '']) => {
  p.positive('count', count);
  return ['0', flat(g.fields(key))];
};

const flow: Rule = (g, [row = '']) => {
  declared(g, [], [row]);
  const sizes = [':children', ':processed', ':unsuccessful', ':failed'].map((end) => g.fields(row + end).size);
  return [dependencies(g, row), ...sizes, p.counter(g.hget(row, 'landing'))];
};

export const flowRules: Readonly<Record<string, Rule>> = {
  enqueue_flow: enqueueFlow,
  flow_hold: flowHold,
  flow_list: flowList,
  flow_land: flowLand,
  flow_landed: flowLanded,
  flow_clear: flowClear,
  flow_deliver: flowDeliver,
  flow_ack: flowAck,
  flow_cancelled: flowCancelled,
  flow_letters: flowLetters,
  flow_unlanded: flowUnlanded,
  flow_link: flowLink,
  flow_children: flowChildren,
  flow,
};
