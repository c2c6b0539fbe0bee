/**
 * What the slots of a repeat are: checked, written as the record's `spec`, read back, and computed.
 *
 * Invariants: the text of a spec is canonical, so that the same schedule is the same text in every process; everything here
 * is a function of its arguments: the time is the server's, given by the caller. A slot is Unix ms.
 * Does not: talk to a server, or fire anything (repeat-fire.ts).
 */
import { Cron } from 'croner';
import { inputError, show } from '../wire/errors.js';
import { known, positive } from './input.js';

/** What becomes of slots that passed while nobody was there to fire them. */
export type Missed = 'skip' | 'catchUp';

/** When a repeat runs: every so many ms, or by a cron pattern. */
export type RepeatSchedule = {
  /** No slot before this time, Unix ms or a Date. With `everyMs` the slots count from it. */
  readonly startAt?: number | Date | undefined;
  /** No slot after this time; one at it is the last. */
  readonly endAt?: number | Date | undefined;
  /** No more slots than that. */
  readonly limit?: number | undefined;
  /** The first slot is now, when the repeat is created or its schedule has changed. Not with `startAt`. */
  readonly immediately?: boolean | undefined;
  /**
   * `skip` (default): one job for all slots that were missed, for the latest of them. `catchUp`: one job for each, in
   * order.
   */
  readonly missed?: Missed | undefined;
} & (
  | {
      /** The distance of two slots in ms, from 1 to 100 years. Without `startAt` they count from the creation. */
      readonly everyMs: number;
      readonly cron?: undefined;
      readonly timeZone?: undefined;
    }
  | {
      /** 5 fields (minute hour day month weekday), 6 with seconds before them, 7 with a year behind, or `@daily` and the like. */
      readonly cron: string;
      /** An IANA name, such as `Europe/Berlin`. Default `UTC`. */
      readonly timeZone?: string | undefined;
      readonly everyMs?: undefined;
    }
);

/** A schedule as it is kept. */
export interface RepeatSpec {
  readonly everyMs?: number;
  readonly cron?: string;
  readonly timeZone?: string;
  readonly startAt?: number;
  readonly endAt?: number;
  readonly limit?: number;
  readonly missed: Missed;
}

const NAMES = ['everyMs', 'cron', 'timeZone', 'startAt', 'endAt', 'limit', 'immediately', 'missed'] as const;
const LONGEST_EVERY_MS = 3_155_760_000_000;
/** The year 10000. */
const LATEST_MS = 253_402_300_800_000;
const MOST_PATTERNS = 1_000;
const LONGEST_CRON = 1_000;

/** @throws EmqError `EMQ_INPUT` with what is wrong and what to give instead. */
export function checkSchedule(schedule: RepeatSchedule): RepeatSpec {
  const { everyMs, cron, timeZone, limit, immediately = false, missed = 'skip' } = known('repeat', schedule, NAMES);
  if ((everyMs === undefined) === (cron === undefined)) {
    throw inputError('a repeat takes everyMs or cron, one of the two: { everyMs: 60_000 } or { cron: "0 3 * * *" }');
  }
  if (timeZone !== undefined && cron === undefined) throw inputError('timeZone goes with cron: everyMs knows no zone');
  if (!['skip', 'catchUp'].includes(missed)) throw inputError(`missed must be skip or catchUp, got ${show(missed)}`);
  if (typeof immediately !== 'boolean') throw inputError(`immediately must be true or false, got ${show(immediately)}`);
  const [startAt, endAt] = [time('startAt', schedule.startAt), time('endAt', schedule.endAt)];
  if (immediately && startAt !== undefined) throw inputError('give immediately or startAt: both say when it begins');
  if (startAt !== undefined && endAt !== undefined && endAt < startAt) {
    throw inputError(`endAt (${endAt}) is before startAt (${startAt}): there would be no slot`);
  }
  if (limit !== undefined) positive('limit', limit);
  return {
    ...(everyMs === undefined ? pattern(cron, timeZone ?? 'UTC') : { everyMs: checkEvery(everyMs) }),
    ...(startAt === undefined ? {} : { startAt }),
    ...(endAt === undefined ? {} : { endAt }),
    ...(limit === undefined ? {} : { limit }),
    missed,
  };
}

/** The text that is kept; fields in this order, none that is absent. */
export function specText({ everyMs, cron, timeZone, startAt, endAt, limit, missed }: RepeatSpec): string {
  return JSON.stringify({ everyMs, cron, timeZone, startAt, endAt, limit, missed });
}

/** Reads what is kept; another client may have written it. @throws EmqError `EMQ_INPUT` when it is no spec of ours. */
export function readSpec(text: string): RepeatSpec {
  let spec: RepeatSchedule;
  try {
    spec = JSON.parse(text) as RepeatSchedule;
  } catch {
    throw inputError(`the spec of the repeat is no JSON: ${show(text)}`);
  }
  return checkSchedule(spec);
}

/** The first slot of a repeat that begins now. Null: the pattern names no time, ever. */
export function firstSlot(spec: RepeatSpec, now: number, immediately: boolean): number | null {
  if (immediately) return now;
  if (spec.everyMs !== undefined && spec.startAt === undefined) return now + spec.everyMs;
  return slotFrom(spec, now + 1, spec.startAt ?? now);
}

/** The slot after that one. */
export function slotAfter(spec: RepeatSpec, slot: number): number | null {
  return spec.everyMs === undefined ? next(spec, slot) : slot + spec.everyMs;
}

/** The latest slot that is not later than `now`; `slot` is one of them. */
export function latestSlot(spec: RepeatSpec, slot: number, now: number): number {
  const { everyMs } = spec;
  const until = Math.min(now, spec.endAt ?? now);
  if (until <= slot) return slot;
  if (everyMs !== undefined) return slot + Math.floor((until - slot) / everyMs) * everyMs;
  // Forwards only, by halves: the pattern's way back over a change of the clock may be another.
  let [before, after] = [slot - 1, until];
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    const found = next(spec, middle);
    if (found !== null && found <= until) before = middle;
    else after = middle;
  }
  // the stored slot need not be of the pattern: one that was to run at once is not
  const found = next(spec, before);
  return found !== null && found <= until ? found : slot;
}

/**
 * The first slot after `now` of a repeat that was stopped.
 * @param anchor a slot that it had, for one that counts from its creation.
 */
export function resumedSlot(spec: RepeatSpec, now: number, anchor: number): number | null {
  return slotFrom(spec, now + 1, anchor);
}

/** The first slot at `from` or after it. */
function slotFrom(spec: RepeatSpec, from: number, anchor: number): number | null {
  const { everyMs, startAt = -Infinity } = spec;
  if (everyMs === undefined) return next(spec, Math.max(from, startAt) - 1);
  const origin = spec.startAt ?? anchor;
  return origin >= from ? origin : origin + Math.ceil((from - origin) / everyMs) * everyMs;
}

/** The pattern's first time after that one. */
function next({ cron = '', timeZone = 'UTC' }: RepeatSpec, after: number): number | null {
  const found = cronOf(cron, timeZone).nextRun(new Date(after));
  return found === null ? null : found.getTime();
}

/** Patterns that were read before: each is needed at every slot. */
const patterns = new Map<string, Cron>();

function cronOf(cron: string, timeZone: string): Cron {
  const key = `${timeZone} ${cron}`;
  let found = patterns.get(key);
  if (found === undefined) {
    if (patterns.size >= MOST_PATTERNS) patterns.clear();
    patterns.set(key, (found = new Cron(cron, { timezone: timeZone, paused: true })));
  }
  return found;
}

function pattern(given: string, timeZone: string): Pick<RepeatSpec, 'cron' | 'timeZone'> {
  if (typeof given !== 'string') throw inputError(`cron must be text such as "0 3 * * *", got ${show(given)}`);
  if (given.length > LONGEST_CRON) {
    throw inputError(`cron may have ${LONGEST_CRON} characters, got ${given.length}: make several repeats of it`);
  }
  const fields = given.trim().split(/\s+/);
  // croner takes a date too, which is no repeat
  if (!(fields.length >= 5 && fields.length <= 7) && !/^@[a-z]+$/.test(given.trim())) {
    throw inputError(`cron must have 5, 6 or 7 fields or be @daily and the like, got ${show(given)}`);
  }
  try {
    new Intl.DateTimeFormat('en', { timeZone });
  } catch {
    throw inputError(`timeZone must be an IANA name such as Europe/Berlin, got ${show(timeZone)}`);
  }
  const cron = fields.join(' ');
  try {
    cronOf(cron, timeZone);
  } catch (error) {
    throw inputError(`cron ${show(given)} cannot be read: ${(error as Error).message.replace(/^CronPattern: /, '')}`);
  }
  return { cron, timeZone };
}

function checkEvery(everyMs: number): number {
  if (Number.isInteger(everyMs) && everyMs >= 1 && everyMs <= LONGEST_EVERY_MS) return everyMs;
  throw inputError(`everyMs must be an integer from 1 to ${LONGEST_EVERY_MS} (100 years), got ${show(everyMs)}`);
}

function time(what: string, value: number | Date | undefined): number | undefined {
  if (value === undefined) return undefined;
  const ms = value instanceof Date ? value.getTime() : value;
  if (Number.isInteger(ms) && ms >= 0 && ms < LATEST_MS) return ms;
  throw inputError(`${what} must be Unix ms or a Date, before the year 10000, got ${show(value)}`);
}
