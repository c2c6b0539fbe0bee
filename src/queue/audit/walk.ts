/**
 * Going over all that a queue holds, in bounded steps, and telling what is wrong.
 *
 * Each step is one read-only transition (`audit`) over a page, so what it answers was so at one instant; and each finding is
 * looked at once more before it is told, since an operator's verb for all lanes takes more than one step.
 * Invariants: writes nothing; no step looks at more than some hundreds of keys; a queue at work gives no false alarm. What
 * comes or goes meanwhile may be told or not.
 * Does not: mend (repair.ts does), or look beyond the queue's own keys.
 */
import { setTimeout as pause } from 'node:timers/promises';

import type { Arg, Reply } from '../../wire/call.js';
import type { AuditInput, AuditSubject, Wrong } from '../../wire/audit-transitions.js';
import { EmqError } from '../../wire/errors.js';
import { list } from '../../wire/fields.js';
import type { Ask } from '../../wire/fence.js';
import type { Keyspace } from '../../wire/keyspace.js';
import { transitions } from '../../wire/transitions.js';
import type { Runs } from '../child.js';
import { readLetter } from '../flow-delivery.js';
import { FIXED, roleOf } from './keys.js';

/** Where queues are looked at. */
export interface AuditSource {
  /** Runs the transitions of a queue. */
  readonly runs: (queue: string) => Runs;
  /** The node that has them, for SCAN, ZSCAN, HSCAN, LRANGE, LLEN, ZCARD, EXISTS and TYPE. */
  readonly ask: Ask;
}

/** How much was looked at. */
export interface Looked {
  keys: number;
  jobs: number;
  lanes: number;
}

/** One finding, and the call that mends it, if one does. */
export interface Found {
  readonly queue: string;
  readonly wrong: Wrong;
  readonly mend?: AuditInput;
  /** The letter, for one that cannot be read. */
  readonly letter?: Buffer;
}

/** So many keys a step of a scan, ids a step of an audit, lanes a step. */
const SCANNED = 500;
const JOBS = 100;
const LANES = 50;
/** So many lanes are gone over at a time. */
const AT_ONCE = 50;
/** So many items of the ring are gone over in a step. */
const RING_ITEMS = 200_000;
/** With more jobs in flight the scripts do not count them (lua/lib/judge_lane.lua). */
const MOST_ACTIVE = 2_000;
/** Behind so many letters the scripts do not look for one (lua/lib/judge_rest.lua). */
const MOST_LETTERS = 1_000;
/** So many findings wait for their second look. */
const HELD_BACK = 500;
/** What an operator does to all lanes at once takes some steps, ms. */
const SECOND_LOOK_MS = 200;

const SETS = ['active', 'pending', 'schedule', 'dead', 'flow:held'];
/** Fixed keys without which a part of the audit would only be refused. */
const NEEDED: Readonly<Record<'queue' | 'jobs' | 'lanes' | 'letters' | 'repeats', readonly string[]>> = {
  queue: ['wake', 'metrics:completed', 'metrics:failed', 'metrics:rolled', 'meta', 'glimit', 'gmax', 'limiter'],
  jobs: [...SETS, 'gactive'],
  lanes: ['ring', 'gactive', 'glimit', 'gmax', 'gwait', 'paused', 'active'],
  letters: ['flow:outbox', 'meta'],
  repeats: ['repeat'],
};
const PARTS: Readonly<Record<keyof typeof NEEDED, string>> = {
  queue: 'wake, counts and limits',
  jobs: 'the jobs',
  lanes: 'the lanes',
  letters: 'letters and children',
  repeats: 'the repeats',
};

/** What a part of the walk has found, before its second look. */
type Seen = Omit<Found, 'queue'>;
type Findings = AsyncGenerator<Found, void, undefined>;
type Sights = AsyncGenerator<Seen, void, undefined>;

/** A walk over one queue: `begin`, then `keys` with all its keys, page by page, then `end`. */
export class Walk {
  readonly #looked: Looked;
  /** What was not looked at, and why, a line each. */
  readonly skipped: string[] = [];
  readonly #runs: Runs;
  readonly #ask: Ask;
  readonly #keys: Keyspace;
  readonly #signal: AbortSignal | undefined;
  readonly #told = new Set<string>();
  readonly #groups = new Set<string>();
  /** Lanes that are looked at whatever is known of them. */
  readonly #odd = new Set<string>();
  /** Lanes whose counts are looked at. */
  readonly #miscounted = new Set<string>();
  #parts: Readonly<Record<keyof typeof NEEDED, boolean>> | undefined;
  /** So many lanes a step: a search of the ring costs its length. */
  #ringStep = 1;
  #back: Seen[] = [];

  constructor({ runs, ask }: AuditSource, keys: Keyspace, looked: Looked, signal?: AbortSignal) {
    this.#runs = runs(keys.queue);
    this.#ask = ask;
    this.#keys = keys;
    this.#looked = looked;
    this.#signal = signal;
  }

  /** What a queue has one of. @throws EmqError when a call is refused for another reason than what a key holds. */
  begin(): Findings {
    return this.#confirmed(this.#begin());
  }

  /** @param names keys without the base. */
  keys(names: readonly string[]): Findings {
    return this.#confirmed(this.#page(names));
  }

  /** What no key tells by its name: sets, lanes. And what is left to tell. */
  async *end(): Findings {
    yield* this.#confirmed(this.#end());
    yield* this.#secondLook();
  }

  /** Tells what is still so when there is enough to look at again. */
  async *#confirmed(sights: Sights): Findings {
    for await (const seen of sights) {
      this.#back.push(seen);
      if (this.#back.length >= HELD_BACK) yield* this.#secondLook();
    }
  }

  async *#begin(): Sights {
    const wrong = new Set<string>();
    for await (const seen of this.#types(Object.keys(FIXED))) {
      wrong.add(seen.wrong.subject);
      yield seen;
    }
    const may = (part: keyof typeof NEEDED): boolean => {
      const bad = NEEDED[part].find((name) => wrong.has(name));
      if (bad !== undefined)
        this.skipped.push(`${PARTS[part]} of queue ${this.#keys.queue}: ${bad} is of another type`);
      return bad === undefined;
    };
    const parts = { queue: may('queue'), jobs: may('jobs'), lanes: may('lanes') };
    this.#parts = { ...parts, letters: may('letters'), repeats: may('repeats') };
    if (this.#parts.queue) yield* this.#audit('queue', []);
    if (this.#parts.letters) yield* this.#letters();
  }

  async *#end(): Sights {
    if (this.#parts?.jobs === true) for (const set of SETS) yield* this.#members(set);
    if (this.#parts?.repeats === true) yield* this.#repeats();
    if (this.#parts?.lanes === true) yield* this.#lanes();
  }

  /** Fixed keys and others by their type, and names that no queue has. */
  async *#types(names: readonly string[]): Sights {
    const typed = names.flatMap((name) => {
      const role = roleOf(name);
      return 'type' in role ? [{ name, type: role.type }] : [];
    });
    const types = await Promise.all(typed.map(async ({ name }) => text(await this.#call('TYPE', this.#key(name)))));
    for (const [i, { name, type }] of typed.entries()) {
      const is = types[i] ?? 'none';
      if (is === type || is === 'none' || this.#told.has(`type\0${name}`)) continue;
      this.#told.add(`type\0${name}`);
      const detail = `${is} and must be a ${type}`;
      yield { wrong: { kind: 'type', subject: name, detail, mends: false } };
    }
  }

  /** Keys by their names, and what each says of others. */
  async *#page(names: readonly string[]): Sights {
    const parts = this.#parts;
    this.#looked.keys += names.length;
    const roles = names.map(roleOf);
    yield* this.#types(names);
    for (const [i, { role }] of roles.entries()) {
      const subject = names[i] ?? '';
      if (role !== 'stray' || this.#told.has(`stray\0${subject}`)) continue;
      this.#told.add(`stray\0${subject}`);
      yield { wrong: { kind: 'stray', subject, detail: '', mends: false } };
    }
    const of = (role: 'dedup' | 'repeat' | 'cancel'): string[] =>
      roles.flatMap((one) => (one.role === role ? [one.name] : []));
    const ids = new Set(roles.flatMap((one) => (one.role === 'row' || one.role === 'subkey' ? [one.id] : [])));
    this.#looked.jobs += roles.filter(({ role }) => role === 'row').length;
    if (parts?.jobs === true) yield* this.#audit('jobs', singles([...ids]));
    yield* this.#audit('dedups', singles(of('dedup')));
    if (parts?.repeats === true) yield* this.#audit('repeats', singles(of('repeat')));
    if (parts?.letters === true) yield* this.#audit('cancels', singles(of('cancel')));
    for (const one of roles) {
      if (one.role === 'lane') this.#groups.add(one.group);
      // whether it can be read costs a call of its own: they are few
      if (one.role === 'limiter') this.#odd.add(one.group);
      if (one.role === 'subkey' && one.name === 'children' && parts?.letters === true) yield* this.#children(one.id);
    }
  }

  /** Ids in a set; those that have a row were looked at with it. */
  async *#members(set: string): Sights {
    for await (const page of this.#scan('ZSCAN', this.#key(set))) {
      const ids = everySecond(page);
      for (const some of steps(ids, JOBS)) {
        const there = await this.#call('EXISTS', ...some.map((id) => this.#key(`job:${id}`)));
        if (there !== some.length) yield* this.#audit('jobs', singles(some));
      }
    }
  }

  async *#repeats(): Sights {
    for await (const page of this.#scan('ZSCAN', this.#key('repeat')))
      yield* this.#audit('repeats', singles(everySecond(page)));
  }

  /**
   * What is known of lanes from page to page was not so at one instant: those of which it does not fit are looked at each in
   * one. On a queue at work these are a few, on one at rest those that are wrong.
   */
  async *#lanes(): Sights {
    await this.#findMiscounted();
    const active = Number(await this.#call('ZCARD', this.#key('active')));
    if (this.#miscounted.size > 0 && active > MOST_ACTIVE) {
      const text = `the counts of lanes of queue ${this.#keys.queue}: more than ${MOST_ACTIVE} jobs are in flight (${active})`;
      this.skipped.push(text);
    } else yield* this.#audit('counts', singles([...this.#miscounted]));
    const ring = await this.#findMisplaced();
    this.#ringStep = Math.max(1, Math.min(LANES, Math.floor(RING_ITEMS / (ring + 1))));
    yield* this.#audit('lanes', singles([...this.#odd]), this.#ringStep);
    this.#looked.lanes += this.#groups.size;
    for (const some of steps([...this.#groups], AT_ONCE)) {
      const firsts = await Promise.all(some.map((group) => this.#firstPage(group)));
      yield* this.#audit(
        'lane',
        firsts.flatMap(({ group, ids }) => ids.map((id) => [group, id])),
      );
      for (const { group, next } of firsts) {
        for await (const page of this.#scan('ZSCAN', this.#key(`g:${group}:pending`), next))
          yield* this.#audit(
            'lane',
            everySecond(page).map((id) => [group, id]),
          );
      }
    }
  }

  /** Lanes whose count is not that of the jobs in flight. */
  async #findMiscounted(): Promise<void> {
    const inFlight = new Map<string, number>();
    for await (const page of this.#scan('ZSCAN', this.#key('active'))) {
      const rows = everySecond(page).map((id) => this.#key(`job:${id}`));
      const groups = await Promise.all(rows.map((row) => this.#call('HGET', row, 'group').catch(passWrongType)));
      for (const group of groups) if (group !== null) inFlight.set(text(group), (inFlight.get(text(group)) ?? 0) + 1);
    }
    for await (const page of this.#scan('HSCAN', this.#key('gactive'))) {
      for (const [group, counted] of twos(page)) {
        if (counted !== String(inFlight.get(group) ?? 0) || counted === '0') this.#miscounted.add(group);
        inFlight.delete(group);
        this.#groups.add(group);
      }
    }
    for (const group of inFlight.keys()) this.#miscounted.add(group);
  }

  /** Lanes that are on the ring and should not be, or the other way round. Gives the length of the ring. */
  async #findMisplaced(): Promise<number> {
    const [groups, odd] = [this.#groups, this.#odd];
    for (const hash of ['glimit', 'gmax']) {
      for await (const page of this.#scan('HSCAN', this.#key(hash)))
        for (const [group, value] of twos(page)) if (!/^(0|[1-9]\d{0,14})$/.test(value)) odd.add(group);
    }
    const ring = Number(await this.#call('LLEN', this.#key('ring')));
    const times = new Map<string, number>();
    for (let at = 0; at < ring; at += SCANNED) {
      const page = await this.#call('LRANGE', this.#key('ring'), String(at), String(at + SCANNED - 1));
      for (const group of list('LRANGE', page)) times.set(text(group), (times.get(text(group)) ?? 0) + 1);
    }
    for (const group of times.keys()) groups.add(group);
    groups.delete('*');
    odd.delete('*');
    // of a name that is no text the verb for lanes does not know
    for (const group of groups) if (!/^[ -~]*$/.test(group)) odd.add(group);
    for (const some of steps(
      [...groups].filter((group) => !odd.has(group)),
      JOBS,
    )) {
      const infos = await this.#runs.run(transitions.laneInfo, { groups: some });
      for (const [i, { waiting, active, limit, paused, waitsUntil }] of infos.entries()) {
        const open = waiting > 0 && !paused && waitsUntil === 0 && (limit === 0 || active < limit);
        if ((times.get(some[i] ?? '') ?? 0) !== (open ? 1 : 0)) odd.add(some[i] ?? '');
      }
    }
    return ring;
  }

  /** Most lanes have no second page: the first of many travel together. `next` is null then. */
  async #firstPage(group: string): Promise<{ group: string; ids: string[]; next: string | null }> {
    try {
      const reply = await this.#call('ZSCAN', this.#key(`g:${group}:pending`), '0', 'COUNT', String(SCANNED));
      const [next, found] = list('ZSCAN', reply);
      const cursor = text(next ?? null);
      return { group, ids: everySecond(list('ZSCAN', found ?? null).map(text)), next: cursor === '0' ? null : cursor };
    } catch (error) {
      passWrongType(error);
      return { group, ids: [], next: null };
    }
  }

  async *#children(parent: string): Sights {
    for await (const page of this.#scan('HSCAN', this.#key(`job:${parent}:children`))) {
      const here = everySecond(page).filter((_, i) => ['', this.#keys.queue].includes(page[2 * i + 1] ?? ''));
      yield* this.#audit(
        'children',
        here.map((child) => [parent, child]),
      );
    }
  }

  async *#letters(): Sights {
    const count = Number(await this.#call('LLEN', this.#key('flow:outbox')));
    if (count > MOST_LETTERS)
      this.skipped.push(
        `whether children of queue ${this.#keys.queue} tell their parents: more than ${MOST_LETTERS} letters wait (${count})`,
      );
    for (let at = 0; at < count; at += JOBS) {
      const letters = list('LRANGE', await this.#call('LRANGE', this.#key('flow:outbox'), `${at}`, `${at + JOBS - 1}`));
      for (const letter of letters) {
        const read = Buffer.isBuffer(letter) ? readLetter(letter) : { why: '' };
        if (!('why' in read) || !Buffer.isBuffer(letter)) continue;
        yield { wrong: { kind: 'letter', subject: 'flow:outbox', detail: read.why, mends: true }, letter };
      }
    }
  }

  /** A page, in steps; what refuses a step is looked for, and told of. */
  async *#audit(what: AuditSubject, items: readonly Item[], step = JOBS): Sights {
    const parts = what === 'queue' ? [[]] : [...steps(items, step)];
    for (const part of parts) {
      for (const wrong of await this.#judge(what, part)) {
        if (wrong.kind === 'count') {
          this.#miscounted.add(wrong.subject);
          continue;
        }
        // one id may be met in several places
        const name = `${wrong.kind}\0${wrong.subject}\0${wrong.detail}`;
        if (this.#told.has(name)) continue;
        this.#told.add(name);
        const item = await this.#itemOf(what, part, wrong);
        yield { wrong, mend: { what, items: item === undefined ? [] : [item] } };
      }
    }
  }

  /** The item of a page that a finding is about; undefined for what a queue has one of. */
  async #itemOf(
    what: AuditSubject,
    part: readonly Item[],
    { kind, subject, detail }: Wrong,
  ): Promise<Item | undefined> {
    if (what === 'children') return [subject, detail];
    const items = part.filter((one) => one.at(-1) === subject);
    // an id that waits in two lanes is two items, and not with each is something wrong
    for (const item of items.slice(1)) {
      const wrong = await this.#judge(what, [item]);
      if (wrong.some((one) => one.kind === kind && one.detail === detail)) return item;
    }
    return items[0];
  }

  async #judge(what: AuditSubject, items: readonly Item[]): Promise<Wrong[]> {
    this.#signal?.throwIfAborted();
    try {
      return await this.#runs.run(transitions.audit, { what, items });
    } catch (error) {
      if (!(error instanceof EmqError) || (error.code !== 'WRONGTYPE' && error.code !== 'ERR')) throw error;
      if (items.length < 2) {
        const name = items[0]?.at(-1) ?? what;
        return [{ kind: 'refused', subject: name, detail: error.reason, mends: false }];
      }
      const half = Math.ceil(items.length / 2);
      const parts = [items.slice(0, half), items.slice(half)];
      return (await Promise.all(parts.map((part) => this.#judge(what, part)))).flat();
    }
  }

  /** What is still so, looked at again page by page. */
  async *#secondLook(): Findings {
    const back = this.#back;
    this.#back = [];
    if (back.some(({ wrong }) => wrong.kind === 'ring'))
      await pause(SECOND_LOOK_MS, undefined, { signal: this.#signal });
    const { queue } = this.#keys;
    for (const what of new Set(back.map(({ mend }) => mend?.what))) {
      const some = back.filter(({ mend }) => mend?.what === what);
      for (const part of steps(some, what === 'lanes' ? this.#ringStep : JOBS)) {
        const again =
          what === undefined
            ? []
            : await this.#judge(
                what,
                part.flatMap(({ mend }) => mend?.items ?? []),
              );
        const still = new Map(again.map((wrong) => [nameOf(wrong), wrong]));
        for (const seen of part) {
          const wrong = what === undefined ? seen.wrong : still.get(nameOf(seen.wrong));
          if (wrong !== undefined) yield { ...seen, queue, wrong };
        }
      }
    }
  }

  /** The pages of a sorted set or a hash; none of one of another type, which is told of as what it is. */
  async *#scan(command: 'ZSCAN' | 'HSCAN', key: Buffer, from: string | null = '0'): AsyncGenerator<string[]> {
    if (from === null) return;
    try {
      for await (const page of pages((...words) => this.#call(...words), command, { before: [key], from })) yield page;
    } catch (error) {
      passWrongType(error);
    }
  }

  async #call(command: string, ...args: Arg[]): Promise<Reply> {
    this.#signal?.throwIfAborted();
    return this.#ask(command, args);
  }

  #key(name: string): Buffer {
    return Buffer.from(this.#keys.base + name, 'latin1');
  }
}

/** By what a finding is known again: a child is told of under its parent. */
const nameOf = ({ kind, subject, detail }: Wrong): string => `${kind}\0${subject}\0${kind === 'child' ? detail : ''}`;

interface Scan {
  /** What stands before the cursor, and behind it. */
  readonly before?: readonly Arg[];
  readonly behind?: readonly Arg[];
  /** The cursor to begin with; default `0`. */
  readonly from?: string;
}

/** The pages of a scan, as latin1. */
export async function* pages(
  ask: (command: string, ...args: Arg[]) => Promise<Reply>,
  command: 'SCAN' | 'ZSCAN' | 'HSCAN',
  { before = [], behind = [], from = '0' }: Scan,
): AsyncGenerator<string[], void, undefined> {
  let cursor = from;
  do {
    const [next, found] = list(command, await ask(command, ...before, cursor, ...behind, 'COUNT', String(SCANNED)));
    yield list(command, found ?? null).map(text);
    cursor = text(next ?? null);
  } while (cursor !== '0');
}

/** A key of another type is told of as what it is: here it holds nothing. */
const passWrongType = (error: unknown): null => {
  if (error instanceof EmqError && error.code === 'WRONGTYPE') return null;
  throw error;
};

type Item = readonly string[];
const singles = (names: readonly string[]): Item[] => names.map((name) => [name]);

/** Fields and values of a flat list. */
const twos = (flat: readonly string[]): [string, string][] =>
  everySecond(flat).map((field, i) => [field, flat[2 * i + 1] ?? '']);

/** The members of a flat list of members and scores or values. */
const everySecond = (flat: readonly string[]): string[] => flat.filter((_, i) => i % 2 === 0);

/** Bytes as latin1. */
const text = (reply: Reply): string => (Buffer.isBuffer(reply) ? reply.toString('latin1') : '');

function* steps<T>(items: readonly T[], step: number): Generator<T[], void, undefined> {
  for (let i = 0; i < items.length; i += step) yield items.slice(i, i + step);
}
