/**
 * What the doctor finds of a queue's limits, lanes, repeats and dead: what holds jobs up, what is broken, and what nobody
 * sees to.
 *
 * Invariants: calls that write nothing, a bounded number of them: of lanes it looks at the first thousands, and says so.
 * Does not: tell a consumer that is slow from one that is not there: what it cannot know it says with "perhaps".
 */
import { isBranded, parseId } from '../../ids/brand.js';
import type { Reply } from '../../wire/call.js';
import type { Keyspace } from '../../wire/keyspace.js';
import type { PlainNode } from '../node.js';
import { quoted, word } from '../terminal.js';
import { duration } from './checks.js';
import { bad, ok, warn, type Finding } from './findings.js';

export interface Controls {
  /** Keys of another type, which are told of elsewhere. */
  readonly wrong: ReadonlyMap<string, string>;
  /** The server's clock, Unix ms. */
  readonly now: number;
  readonly pending: number;
  readonly active: number;
  readonly dead: number;
  /** Lanes that can be served. */
  readonly lanes: number;
}

/** Numbers of a lane, and the hash that has them. */
const LANE_HASHES = ['gactive', 'glimit', 'gmax'] as const;
/** As many of the dead as consumers leave unless they are told otherwise. */
const MOST_DEAD = 10_000;
/** So long a job may wait before somebody is missed, ms. */
const WAITING_MS = 600_000;
/** So long a rate may be without a token, ms. */
const DRY_MS = 60_000;
/** So long a repeat may be late, ms: consumers fire within a beat. */
const LATE_MS = 10_000;
const PAGE = 1_000;
const PAGES = 12;
const SHOWN = 5;
const LARGEST = 2 ** 52;
const LONGEST_WINDOW = 2 ** 31 - 1;

/** The rights that its calls need. */
export const CONTROL_RIGHTS = '+hmget +get +scard +sscan +hscan';

/** @throws EmqError when the connection is lost, or a call is refused. */
export async function checkControls(node: PlainNode, keys: Keyspace, look: Controls): Promise<Finding[]> {
  const of = async (names: readonly string[], find: () => Promise<Finding[]>): Promise<Finding[]> =>
    names.some((name) => look.wrong.has(name)) ? [] : find();
  const findings = await Promise.all([
    of(['meta', 'limiter'], () => limits(node, keys, look)),
    of(['pending', 'ring', 'meta'], () => unclaimed(node, keys, look)),
    of(['paused'], () => pausedLanes(node, keys)),
    Promise.all(LANE_HASHES.map((name) => of([name], () => brokenLanes(node, keys, name)))).then((all) => all.flat()),
    of(['repeat'], () => repeats(node, keys, look)),
    of(['repeat'], () => pausedRepeats(node, keys)),
  ]);
  return [...findings.flat(), ...theDead(keys, look)];
}

async function limits(node: PlainNode, keys: Keyspace, look: Controls): Promise<Finding[]> {
  const [meta, limiter] = await Promise.all([
    node.ask('HMGET', keys.meta, 'concurrency', 'max', 'duration', 'paused'),
    node.ask('GET', keys.limiter),
  ]);
  const [concurrency, max, window, paused] = (Array.isArray(meta) ? meta : []).map(textOf);
  const stored = { concurrency, max, limiter: textOf(limiter) };
  const broken: Finding[] = [];
  for (const [name, text] of Object.entries(stored)) {
    if (text === null || text === undefined || integer(text) !== undefined) continue;
    const where = name === 'limiter' ? keys.limiter : `the field ${name} of ${keys.meta}`;
    const mend =
      name === 'limiter' ? `DEL ${keys.limiter}` : `HDEL ${keys.meta} ${name}; emq limits ${keys.queue} sets it anew`;
    broken.push(bad('limits', `${where} is ${quoted(text, 40)} and no whole number: every claim is refused`, mend));
  }
  const waits = look.pending + look.lanes > 0;
  if (broken.length > 0 || (paused ?? null) !== null || !waits) return broken;
  const findings: Finding[] = [];
  const most = integer(concurrency) ?? 0;
  if (most >= 1 && look.active >= most) {
    const text = `${many(look.active, 'job')} in flight of at most ${most}: those that wait are not claimed until one ends`;
    findings.push(warn('ceiling', text, `emq limits ${keys.queue} --concurrency sets another, none takes it away`));
  }
  const late = nextToken(integer(max) ?? 0, integer(window), integer(textOf(limiter)) ?? 0, look.now) - look.now;
  if (late > DRY_MS) {
    const why = (integer(max) ?? 0) >= 1 ? 'the rate has no token' : 'a handler told the queue to back off';
    const text = `${why}: the next job is claimed in ${duration(Math.floor(late / 1000))}`;
    const mend = `wait, or DEL ${keys.limiter} to begin with a full rate; emq limits ${keys.queue} shows and sets it`;
    findings.push(warn('rate', text, mend));
  }
  return findings;
}

/** When the next job may be claimed, Unix ms, as far as the rate goes (wire contract, section 4, BUCKET). */
function nextToken(max: number, window: number | undefined, limiter: number, now: number): number {
  if (max < 1) return Math.ceil(limiter / 1000);
  const ms = window !== undefined && window >= 1 && window <= LONGEST_WINDOW ? window : 1_000;
  const step = Math.max(1, Math.floor((1_000 * ms) / max));
  const full = Math.max(limiter, 1_000 * now);
  return 1_000 * now + step * max - full >= step ? now : Math.ceil((full - step * max + step) / 1_000);
}

/** Jobs wait, none is in flight, and the first of them is old. */
async function unclaimed(node: PlainNode, keys: Keyspace, look: Controls): Promise<Finding[]> {
  if (look.pending + look.lanes === 0 || look.active > 0) return [];
  const [paused, flat, head] = await Promise.all([
    node.ask('HEXISTS', keys.meta, 'paused'),
    node.ask('ZRANGE', keys.pending, '0', '0'),
    node.ask('LINDEX', keys.ring, '0'),
  ]);
  if (paused === 1) return [];
  const lane = head === null ? [] : await node.ask('ZRANGE', keys.lane(textOf(head) ?? ''), '0', '0').catch(() => []);
  const ids = [flat, lane].flatMap((reply) => (Array.isArray(reply) ? reply.map(textOf) : []));
  const born = ids.flatMap((id) => (id !== null && isBranded(id) ? [parseId(id).unixMs] : []));
  const age = look.now - Math.min(...born);
  if (!(age > WAITING_MS)) return [];
  const text = `jobs wait, the next one was made ${duration(Math.floor(age / 1000))} ago, and none is in flight: perhaps no consumer runs`;
  const mend = `start a consumer of queue ${keys.queue}, or look into the logs of those that run`;
  return [warn('consumers', text, mend)];
}

async function pausedLanes(node: PlainNode, keys: Keyspace): Promise<Finding[]> {
  if ((await node.ask('SCARD', keys.paused)) === 0) return [];
  const groups: string[] = [];
  for await (const page of pages(node, 'SSCAN', keys.paused)) groups.push(...page);
  const waiting = await Promise.all(
    groups.map(async (group) => Number(await node.ask('ZCARD', keys.lane(group)).catch(() => 0))),
  );
  const held = groups.filter((_, i) => (waiting[i] ?? 0) > 0).sort();
  if (held.length === 0) return [];
  const total = waiting.reduce((a, b) => a + b, 0);
  const [first = ''] = held;
  const text = `${many(held.length, 'lane')} with jobs ${held.length === 1 ? 'is' : 'are'} paused, ${total} waiting: ${some(held)}`;
  return [warn('paused lanes', text, `emq resume ${keys.queue} --lane ${word(first)} when it is time`)];
}

async function brokenLanes(node: PlainNode, keys: Keyspace, name: (typeof LANE_HASHES)[number]): Promise<Finding[]> {
  const key = `${keys.base}${name}`;
  const broken: string[] = [];
  for await (const page of pages(node, 'HSCAN', key)) {
    for (let i = 0; i + 1 < page.length; i += 2) {
      if (integer(page[i + 1]) === undefined) broken.push(page[i] ?? '');
    }
  }
  if (broken.length === 0) return [];
  const text = `${key} has no whole number for ${many(broken.length, 'lane')}: no job of ${broken.length === 1 ? 'it' : 'these'} can be claimed or settled: ${some(broken.sort())}`;
  const [first = ''] = broken;
  const after =
    name === 'gactive'
      ? 'HSET it to how many jobs of the lane are in flight, or HDEL it when none is'
      : `HDEL it, then emq limits ${keys.queue} --lane sets it anew`;
  return [bad('lanes', text, `${after} (HGET ${key} ${word(first)})`)];
}

async function repeats(node: PlainNode, keys: Keyspace, { now }: Controls): Promise<Finding[]> {
  const [count, head] = await Promise.all([
    node.ask('ZCOUNT', keys.repeat, '-inf', String(now - LATE_MS)),
    node.ask('ZRANGE', keys.repeat, '0', '0', 'WITHSCORES'),
  ]);
  if (Number(count) === 0) return [];
  const [name, score] = (Array.isArray(head) ? head : []).map(textOf);
  const late = now - Number(score);
  const ago = Number.isFinite(late) ? `, ${word(name ?? '', 60)} since ${duration(Math.floor(late / 1000))}` : '';
  const text = `${many(Number(count), 'repeat')} should have fired${ago}: no consumer of this queue runs, or it cannot read what the repeat is`;
  const mend = `start a consumer of queue ${keys.queue}; emq repeats ${keys.queue} shows them. Consumers warn of one that they cannot read`;
  return [warn('repeats', text, mend)];
}

/** A paused repeat stands at infinity, as does one that has come to its end. */
async function pausedRepeats(node: PlainNode, keys: Keyspace): Promise<Finding[]> {
  const reply = await node.ask('ZRANGE', keys.repeat, 'inf', 'inf', 'BYSCORE', 'LIMIT', '0', String(PAGE));
  const names = (Array.isArray(reply) ? reply : []).map((name) => textOf(name) ?? '');
  const marks = await Promise.all(
    names.map(async (name) => node.ask('HEXISTS', `${keys.repeat}:${name}`, 'paused').catch(() => 0)),
  );
  const paused = names.filter((_, i) => marks[i] === 1);
  const [first] = paused;
  if (first === undefined) return [];
  const text = `${many(paused.length, 'repeat')} ${paused.length === 1 ? 'is' : 'are'} paused: ${some(paused)}`;
  return [warn('paused repeats', text, `emq resume ${keys.queue} --repeat ${word(first)} when it is time`)];
}

function theDead({ queue }: Keyspace, { dead }: Controls): Finding[] {
  if (dead === 0) return [];
  if (dead <= MOST_DEAD) {
    const [are, them, which] = dead === 1 ? ['is', 'it', 'ID'] : ['are', 'them', '--all'];
    const text = `${many(dead, 'job')} ${are} dead: emq jobs ${queue} --state dead shows ${them}, emq reprocess ${queue} ${which} lets ${them} run again`;
    return [ok('dead', text)];
  }
  const text = `${dead} dead jobs are kept: consumers keep ${MOST_DEAD} unless they are told otherwise, so none runs, or deadLetter says more`;
  const mend = `emq jobs ${queue} --state dead shows them, emq reprocess ${queue} --all lets them run again, emq trim ${queue} --keep ${MOST_DEAD} takes out the oldest`;
  return [warn('dead', text, mend)];
}

/** The first pages of a set or hash, as flat lists. */
async function* pages(node: PlainNode, command: 'SSCAN' | 'HSCAN', key: string): AsyncGenerator<string[]> {
  let cursor = '0';
  for (let page = 0; page < PAGES; page++) {
    const reply: Reply = await node.ask(command, key, cursor, 'COUNT', String(PAGE));
    const [next, found] = Array.isArray(reply) ? reply : [];
    yield (Array.isArray(found) ? found : []).map((one) => textOf(one) ?? '');
    cursor = textOf(next) ?? '0';
    if (cursor === '0') return;
  }
}

/** A number as the scripts take one (wire contract, section 6, Numbers); undefined for anything else. */
function integer(text: string | null | undefined): number | undefined {
  if (text === null || text === undefined || !/^(0|-?[1-9]\d{0,15})$/.test(text)) return undefined;
  const value = Number(text);
  return Math.abs(value) <= LARGEST ? value : undefined;
}

function textOf(reply: Reply | undefined): string | null {
  return Buffer.isBuffer(reply) ? reply.toString('latin1') : null;
}

function many(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? '' : 's'}`;
}

function some(groups: readonly string[]): string {
  const shown = groups.slice(0, SHOWN).map((group) => word(group, 60));
  return groups.length > SHOWN ? `${shown.join(', ')} and ${groups.length - SHOWN} more` : shown.join(', ');
}
