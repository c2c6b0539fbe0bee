/**
 * The reference model of the audit and of what mends (wire contract, section 6, "The audit").
 *
 * Invariants: a judgement only looks; what it would do is a step that is taken by a mend alone. Does not: know the bounds
 * of a step (jobs in flight, letters, children), which no battery reaches.
 */
import type { Bytes } from '../keyspace-dump.js';
import { auditedJob } from './audit-job.js';
import { integer, Refused, type Ground, type ModelReply } from './ground.js';
import { queueOf } from './kin.js';
import { own } from './limits.js';
import * as p from './procedures.js';
import type { Rule } from './rule.js';
import * as t from './turns.js';

/** Something that is wrong; the last: whether a mend mends it. */
export type Wrong = readonly [kind: Bytes, subject: Bytes, detail: Bytes, mends: 0 | 1];

export interface Verdict {
  readonly wrong: readonly Wrong[];
  readonly mend: () => void;
}

const RIGHT: Verdict = { wrong: [], mend: () => {} };
const bad = (text: Bytes | undefined): text is Bytes => text !== undefined && integer(text) === undefined;
const hashAt = (g: Ground, key: Bytes): ReadonlyMap<Bytes, Bytes> | undefined => {
  const entry = g.keys.get(key);
  return entry?.type === 'hash' ? entry.fields : undefined;
};

/** How many jobs of a group are in flight. */
function inFlight(g: Ground, b: Bytes, group: Bytes): number {
  return g.zrange(`${b}active`).filter(([id]) => hashAt(g, `${b}job:${id}`)?.get('group') === group).length;
}

function count(g: Ground, b: Bytes, group: Bytes): Verdict {
  const gactive = `${b}gactive`;
  const counted = g.hget(gactive, group);
  const active = inFlight(g, b, group);
  if ((counted ?? '0') === p.digits(active) && counted !== '0') return RIGHT;
  const mend = (): void => (active > 0 ? g.hset(gactive, { [group]: p.digits(active) }) : g.hdel(gactive, group));
  return { wrong: [['gactive', group, `${counted ?? ''}, ${active}`, 1]], mend };
}

function lane(g: Ground, b: Bytes, group: Bytes): Verdict {
  const wrong: Wrong[] = [];
  const [ring, limiter] = [`${b}ring`, t.limiterOf(b, group)];
  const counted = g.hget(`${b}gactive`, group) ?? '0';
  for (const name of ['glimit', 'gmax']) if (bad(g.hget(b + name, group))) wrong.push(['setting', group, name, 0]);
  const full = g.get(limiter);
  if (bad(full)) wrong.push(['limiter', group, full, 1]);
  const limit = own(g, `${b}glimit`, group);
  const waiting = g.zrange(t.laneOf(b, group)).length > 0;
  const held = g.isMember(`${b}paused`, group) || g.zscore(`${b}gwait`, group) !== undefined;
  const open = waiting && !held && (limit === undefined || Number(counted) < Number(limit));
  const times = g.items(ring).filter((one) => one === group).length;
  const how = open && times === 0 ? 'missing' : !open && times > 0 ? 'there' : times > 1 ? 'twice' : undefined;
  const off = bad(limit) || bad(counted) ? undefined : how;
  if (off !== undefined) wrong.push(['ring', group, off, 1]);
  const mend = (): void => {
    if (bad(full)) g.del(limiter);
    if (off === 'missing') {
      g.push('tail', ring, group);
      p.wake(g, b);
    } else if (off === 'there') t.offRing(g, b, group);
    else if (off === 'twice') {
      const first = g.items(ring).indexOf(group);
      g.keep(ring, (one, at) => one !== group || at === first);
    }
  };
  return { wrong, mend };
}

function dedup(g: Ground, b: Bytes, name: Bytes): Verdict {
  const key = `${b}de:${name}`;
  const owner = g.get(key);
  if (owner === undefined || g.lapses(key) !== false || hashAt(g, `${b}job:${owner}`)?.get('dedup') === name)
    return RIGHT;
  return { wrong: [['dedup', name, owner, 1]], mend: () => g.del(key) };
}

function repeat(g: Ground, b: Bytes, name: Bytes): Verdict {
  const [places, record] = [`${b}repeat`, g.look(`${b}repeat:${name}`, 'hash')?.fields];
  const score = g.zscore(places, name);
  if (record === undefined) {
    return score === undefined ? RIGHT : { wrong: [['repeat', name, 'record', 1]], mend: () => g.zrem(places, name) };
  }
  const wrong: Wrong[] = ['count', 'end', 'limit'].flatMap((field): Wrong[] =>
    bad(record.get(field)) ? [['repeat', name, field, 0]] : [],
  );
  const next = record.get('next');
  if (bad(next)) return { wrong: [...wrong, ['repeat', name, 'next', 0]], mend: () => {} };
  const place = next === undefined || record.has('paused') ? Infinity : Number(next);
  if (score === place) return { wrong, mend: () => {} };
  const mend = (): void => {
    g.zadd(places, place, name);
    p.wake(g, b);
  };
  return { wrong: [...wrong, ['repeat', name, 'place', 1]], mend };
}

function cancelled(g: Ground, b: Bytes, id: Bytes): Verdict {
  const outbox = `${b}flow:outbox`;
  const letters = g.items(outbox);
  const ordered = letters.some((letter) => letter.startsWith(`\0cancel\0${id}\0`));
  if (ordered || g.fields(`${b}flow:cancel:${id}`).size === 0) return RIGHT;
  const mend = (): void => g.push('tail', outbox, `\0cancel\0${id}\0cancelled`);
  return { wrong: [['cancel', id, '', 1]], mend };
}

function child(g: Ground, b: Bytes, parent: Bytes, id: Bytes): Verdict {
  const here = queueOf(b);
  const where = g.hget(`${b}job:${parent}:children`, id);
  const letters = g.items(`${b}flow:outbox`);
  if (where !== '' && where !== here) return RIGHT;
  const row = hashAt(g, `${b}job:${id}`);
  if (row?.get('parent') === parent && (row.get('parent_queue') ?? here) === here) return RIGHT;
  const address = `${here}\0${parent}\0${id}\0`;
  const tells = (letter: Bytes): boolean =>
    ['', '\0fail\0', '\0gone\0'].some((start) => letter.startsWith(start + address));
  return letters.some(tells) ? RIGHT : { wrong: [['child', parent, id, 0]], mend: () => {} };
}

function queue(g: Ground, b: Bytes): Verdict {
  const wrong: Wrong[] = [];
  const deeds: (() => void)[] = [];
  const note = (one: Wrong, deed: () => void = () => {}): void => {
    wrong.push(one);
    deeds.push(deed);
  };
  const tokens = g.items(`${b}wake`).length;
  if (tokens > 64 || g.items(`${b}wake`).some((one) => one !== '1')) {
    note(['wake', 'wake', String(tokens), 1], () => {
      g.del(`${b}wake`);
      for (let i = 0; i < Math.min(64, tokens); i++) g.push('head', `${b}wake`, '1');
    });
  }
  for (const name of ['metrics:completed', 'metrics:failed']) {
    const text = g.hget(b + name, 'count');
    if (bad(text)) note(['metrics', name, text, 1], () => g.hdel(b + name, 'count'));
  }
  const rolled = ['minute', 'completed', 'failed'].map((field) => g.hget(`${b}metrics:rolled`, field)).find(bad);
  if (rolled !== undefined) note(['metrics', 'metrics:rolled', rolled, 1], () => g.del(`${b}metrics:rolled`));
  const meta = `${b}meta`;
  for (const name of ['concurrency', 'max']) {
    const text = g.hget(meta, name);
    if (bad(text)) note(['setting', name, text, 0]);
  }
  for (const name of ['glimit', 'gmax']) if (bad(g.hget(b + name, '*'))) note(['setting', '*', name, 0]);
  const edition = g.hget(meta, 'letters');
  if (bad(edition)) note(['letters', 'meta', edition, 1], () => g.hset(meta, { letters: '2251799813685248' }));
  const full = g.get(`${b}limiter`);
  if (bad(full)) note(['limiter', '', full, 1], () => g.del(`${b}limiter`));
  return { wrong, mend: () => deeds.forEach((deed) => deed()) };
}

const EACH: Readonly<Record<Bytes, Judge>> = {
  jobs: (g, b, id) => auditedJob(g, b, id),
  lane: (g, b, id, group) => auditedJob(g, b, id, group),
  lanes: lane,
  counts: count,
  dedups: dedup,
  repeats: repeat,
  cancels: cancelled,
  children: (g, b, id, parent) => child(g, b, parent, id),
};

type Judge = (g: Ground, b: Bytes, item: Bytes, of: Bytes) => Verdict;
interface Item {
  readonly item: Bytes;
  readonly of: Bytes;
}

/** What a call is about, and how each of its items is judged. */
function subject([what = '', ...rest]: readonly Bytes[]): { readonly items: readonly Item[]; readonly judge: Judge } {
  if (what === 'queue') {
    if (rest.length > 0) throw new Refused('ERR a queue has no items');
    return { items: [{ item: '', of: '' }], judge: queue };
  }
  const judge = Object.hasOwn(EACH, what) ? EACH[what] : undefined;
  if (judge === undefined) throw new Refused('ERR unknown audit');
  const step = what === 'lane' || what === 'children' ? 2 : 1;
  if (rest.length === 0 || rest.length % step !== 0) throw new Refused('ERR an audit needs items');
  const items = rest.flatMap((of, i): Item[] => (i % step === 0 ? [{ item: rest[i + step - 1] ?? '', of }] : []));
  return { items, judge };
}

const told = (verdicts: readonly Verdict[]): ModelReply =>
  verdicts.flatMap(({ wrong }) => wrong.map((one) => [...one]));

const audit: Rule = (g, [b = ''], args) => {
  const { items, judge } = subject(args);
  const isJobs = args[0] === 'jobs' || args[0] === 'lane';
  return told(
    items.map(({ item, of }): Verdict => {
      const verdict = judge(g, b, item, of);
      const group = isJobs && belongs(verdict) === 'active' ? hashAt(g, `${b}job:${item}`)?.get('group') : undefined;
      const counted = group === undefined || g.hget(`${b}gactive`, group) !== undefined;
      return counted ? verdict : { ...verdict, wrong: [...verdict.wrong, ['count', group, item, 0]] };
    }),
  );
};

const belongs = (verdict: Verdict & { readonly home?: Bytes | undefined }): Bytes | undefined => verdict.home;

const mend: Rule = (g, [b = ''], args) => {
  const { items, judge } = subject(args);
  if (items.length > 1) throw new Refused('ERR a mend takes one item');
  const verdict = judge(g, b, items[0]?.item ?? '', items[0]?.of ?? '');
  verdict.mend();
  return told([verdict]);
};

export const auditRules: Readonly<Record<string, Rule>> = { audit, mend };
