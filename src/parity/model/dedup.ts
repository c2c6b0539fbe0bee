/**
 * The reference model of the admission that knows lanes and dedup ids, and of the dedup keys (wire contract, section 6,
 * "Lanes, limits and dedup").
 *
 * Does not: free a key with its job (procedures.ts, UNPARK).
 */
import type { Bytes } from '../keyspace-dump.js';
import { Refused, type Ground, type ModelReply } from './ground.js';
import * as p from './procedures.js';
import { declared, runAt, type Rule } from './rule.js';
import { admit } from './transitions.js';
import * as t from './turns.js';

interface Claim {
  readonly id: Bytes;
  readonly mode: Bytes;
  readonly ttl: number;
  readonly keep: boolean;
}

function claimOf([id = '', mode = '', ttl = '', keep = '']: readonly Bytes[]): Claim | undefined {
  if (id === '') return undefined;
  if (!['drop', 'throttle', 'replace'].includes(mode)) {
    throw new Refused('ERR dedup must be drop, throttle or replace');
  }
  const ms = p.notNegative('ttl', ttl);
  if (keep !== '0' && keep !== '1') throw new Refused('ERR keep must be 0 or 1');
  if (mode === 'throttle' || keep === '1') p.positive('ttl', ttl);
  return { id, mode, ttl: ms, keep: keep === '1' };
}

/** When the job is to run; undefined: now. */
function timeOf(g: Ground, mode: Bytes, ms: Bytes): number | undefined {
  if (!['now', 'in', 'at'].includes(mode)) throw new Refused('ERR mode must be now, in or at');
  return mode === 'now' ? undefined : runAt(g, mode, ms);
}

interface Newcomer {
  readonly payload: Bytes;
  readonly opts: Bytes;
  readonly time: number | undefined;
}

/** What a dedup id that has an owner comes to; undefined: the admission goes on. */
function ownedBy(g: Ground, b: Bytes, claim: Claim, { payload, opts, time }: Newcomer): ModelReply | undefined {
  const key = `${b}de:${claim.id}`;
  const owner = g.get(key);
  if (owner === undefined) return undefined;
  const row = `${b}job:${owner}`;
  const there = g.look(row, 'hash') !== undefined;
  if (!there && g.lapses(key) === false) return undefined;
  const stands: ModelReply = ['deduplicated', owner];
  if (!there || claim.mode !== 'replace') return stands;
  const group = g.hget(row, 'group');
  const inSet = (name: Bytes): boolean => g.zscore(b + name, owner) !== undefined;
  const later = inSet('schedule');
  const waits = inSet('pending') || later || (group !== undefined && g.zscore(t.laneOf(b, group), owner) !== undefined);
  if (waits) {
    g.hset(row, { payload, ...(opts === '' ? {} : { opts }) });
    if (claim.ttl > 0) g.expireAt(key, g.now + claim.ttl);
    if (later && time !== undefined) p.put(g, b, owner, time);
    return ['replaced', owner];
  }
  return undefined;
}

const admission: Rule = (g, [row = '', b = ''], args) => {
  const [id = '', payload = '', priority = '', opts = '', mode = '', ms = '', group = '', ...dedup] = args;
  p.kind(id);
  if (args.length !== 11) throw new Refused('ERR an admission is eleven arguments');
  const time = timeOf(g, mode, ms);
  const claim = claimOf(dedup);
  declared(g, [], [row]);
  if (g.exists(row)) return ['duplicate', id];
  const ended = claim === undefined ? undefined : ownedBy(g, b, claim, { payload, opts, time });
  if (ended !== undefined) return ended;
  admit(g, row, time === undefined ? 'pending' : 'scheduled', payload, priority, opts);
  if (group !== '') g.hset(row, { group });
  if (claim !== undefined) {
    const ttl = claim.ttl > 0 ? { dedup_ttl: p.digits(claim.ttl) } : {};
    g.hset(row, { dedup: claim.id, ...ttl, ...(claim.keep ? { dedup_keep: '1' } : {}) });
    g.set(`${b}de:${claim.id}`, id, claim.ttl > 0 && g.now + claim.ttl);
  }
  if (time === undefined) {
    t.ready(g, b, id);
    return ['enqueued', id];
  }
  p.put(g, b, id, time);
  return ['scheduled', id];
};

const dedup: Rule = (g, [key = '']) => {
  const owner = g.get(key);
  const lapses = g.lapses(key);
  if (owner === undefined) return [null, -2];
  return [owner, lapses === false ? -1 : lapses - g.now];
};

const dedupFree: Rule = (g, [key = '']) => {
  const owner = g.get(key);
  g.del(key);
  return owner === undefined ? 0 : 1;
};

export const dedupRules: Readonly<Record<string, Rule>> = { admit: admission, dedup, dedup_free: dedupFree };
