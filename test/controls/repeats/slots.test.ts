/**
 * The slots of a repeat, as arithmetic: no server, no clock.
 */
import { describe, expect, it } from 'vitest';
import type { RepeatSchedule } from '../../../src/queue/repeats.js';
import {
  checkSchedule,
  firstSlot,
  latestSlot,
  readSpec,
  resumedSlot,
  slotAfter,
  specText,
  type RepeatSpec,
} from '../../../src/queue/repeat-spec.js';

const at = (text: string): number => Date.parse(text);
const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());
const cron = (pattern: string, timeZone?: string): RepeatSpec =>
  checkSchedule(timeZone === undefined ? { cron: pattern } : { cron: pattern, timeZone });

/** The next slots after that time. */
function slots(spec: RepeatSpec, after: string, count: number): (string | null)[] {
  const found: (string | null)[] = [];
  for (let slot: number | null = at(after); found.length < count && slot !== null;) {
    slot = slotAfter(spec, slot);
    found.push(iso(slot));
  }
  return found;
}

describe('every so many ms', () => {
  const spec = checkSchedule({ everyMs: 1_000 });

  it('the first slot is one distance after the creation, or at once', () => {
    expect(firstSlot(spec, 5_300, false)).toBe(6_300);
    expect(firstSlot(spec, 5_300, true)).toBe(5_300);
  });

  it('counts from startAt, which is the first when it is still to come', () => {
    const from = checkSchedule({ everyMs: 1_000, startAt: 10_250 });
    expect(firstSlot(from, 5_000, false)).toBe(10_250);
    expect(firstSlot(from, 10_250, false)).toBe(11_250);
    expect(firstSlot(from, 12_000, false)).toBe(12_250);
  });

  it('does not drift: a slot is the one before it and the distance, however late it was fired', () => {
    let slot: number | null = 7;
    for (let n = 1; n <= 1_000; n++) slot = slotAfter(spec, slot as number);
    expect(slot).toBe(1_000_007);
  });

  it('the latest slot that has come', () => {
    expect(latestSlot(spec, 7, 7)).toBe(7);
    expect(latestSlot(spec, 7, 1_006)).toBe(7);
    expect(latestSlot(spec, 7, 1_007)).toBe(1_007);
    expect(latestSlot(spec, 7, 98_765)).toBe(98_007);
    expect(latestSlot(checkSchedule({ everyMs: 1_000, endAt: 5_500 }), 7, 98_765)).toBe(5_007);
  });

  it('goes on in step after it was stopped', () => {
    expect(resumedSlot(spec, 98_765, 7)).toBe(99_007);
    expect(resumedSlot(spec, 5, 1_007)).toBe(1_007);
    expect(resumedSlot(checkSchedule({ everyMs: 1_000, startAt: 250 }), 98_765, 7)).toBe(99_250);
  });
});

describe('a pattern', () => {
  it('names times of its zone, UTC where none is given', () => {
    expect(slots(cron('0 3 * * *'), '2026-07-01T12:00:00Z', 2)).toEqual([
      '2026-07-02T03:00:00.000Z',
      '2026-07-03T03:00:00.000Z',
    ]);
    expect(slots(cron('0 3 * * *', 'Asia/Tokyo'), '2026-07-01T12:00:00Z', 1)).toEqual(['2026-07-01T18:00:00.000Z']);
  });

  it('daily at 02:30 in Berlin: once on the day that has no 02:30, and once on the day that has two', () => {
    const daily = cron('30 2 * * *', 'Europe/Berlin');
    expect(slots(daily, '2026-03-28T00:00:00Z', 3)).toEqual([
      '2026-03-28T01:30:00.000Z',
      '2026-03-29T01:00:00.000Z', // 03:00, the first moment after the gap
      '2026-03-30T00:30:00.000Z',
    ]);
    expect(slots(daily, '2026-10-24T00:00:00Z', 3)).toEqual([
      '2026-10-24T00:30:00.000Z',
      '2026-10-25T00:30:00.000Z', // the first of the two
      '2026-10-26T01:30:00.000Z',
    ]);
  });

  it('every quarter of an hour, over both changes: always a quarter apart', () => {
    const quarters = cron('*/15 * * * *', 'Europe/Berlin');
    for (const start of ['2026-03-28T23:50:00Z', '2026-10-24T23:50:00Z']) {
      const found = slots(quarters, start, 20).map((slot) => at(slot as string));
      const gaps = found.slice(1).map((slot, i) => slot - (found[i] as number));
      expect(new Set(gaps)).toEqual(new Set([900_000]));
    }
  });

  it('the latest slot that has come is found without walking all of them, over changes of the clock too', () => {
    const seconds = cron('* * * * * *', 'Europe/Berlin');
    const now = at('2026-10-25T05:00:00.700Z');
    expect(iso(latestSlot(seconds, at('2020-01-01T00:00:00Z'), now))).toBe('2026-10-25T05:00:00.000Z');
    const daily = cron('30 2 * * *', 'Europe/Berlin');
    const first = at('2026-03-20T01:30:00Z');
    for (const [late, latest] of [
      ['2026-03-29T00:59:59Z', '2026-03-28T01:30:00.000Z'],
      ['2026-03-29T01:00:00Z', '2026-03-29T01:00:00.000Z'],
      ['2026-10-25T01:30:00Z', '2026-10-25T00:30:00.000Z'],
      ['2026-10-26T01:29:59Z', '2026-10-25T00:30:00.000Z'],
    ] as const) {
      expect(iso(latestSlot(daily, first, at(late)))).toBe(latest);
    }
    expect(latestSlot(daily, first, first)).toBe(first);
    expect(latestSlot(daily, first, first + 1)).toBe(first);
  });

  it('begins after now, and not before startAt', () => {
    const now = at('2026-07-01T03:00:00Z');
    expect(iso(firstSlot(cron('0 3 * * *'), now, false))).toBe('2026-07-02T03:00:00.000Z');
    const from = (startAt: string): string | null =>
      iso(firstSlot(checkSchedule({ cron: '0 3 * * *', startAt: new Date(startAt) }), now, false));
    expect(from('2026-07-05T03:00:00Z')).toBe('2026-07-05T03:00:00.000Z');
    expect(from('2026-07-05T03:00:01Z')).toBe('2026-07-06T03:00:00.000Z');
    expect(from('2020-07-05T03:00:01Z')).toBe('2026-07-02T03:00:00.000Z');
  });

  it('that names no time ever has no slot', () => {
    expect(firstSlot(cron('0 0 30 2 *'), at('2026-07-01T03:00:00Z'), false)).toBeNull();
    expect(slotAfter(cron('0 0 0 1 1 * 2027'), at('2027-01-01T00:00:00Z'))).toBeNull();
  });
});

describe('the text that is kept', () => {
  it('is the same for the same schedule, however it was written', () => {
    const one = specText(checkSchedule({ limit: 3, cron: ' 0  3 * * * ', endAt: new Date(9_000), startAt: 5_000 }));
    expect(one).toBe('{"cron":"0 3 * * *","timeZone":"UTC","startAt":5000,"endAt":9000,"limit":3,"missed":"skip"}');
    expect(
      specText(
        checkSchedule({
          startAt: new Date(5_000),
          missed: 'skip',
          endAt: 9_000,
          timeZone: 'UTC',
          cron: '0 3 * * *',
          limit: 3,
        }),
      ),
    ).toBe(one);
    expect(specText(checkSchedule({ everyMs: 5, immediately: true }))).toBe('{"everyMs":5,"missed":"skip"}');
  });

  it('is read back as it was', () => {
    for (const spec of [checkSchedule({ everyMs: 5, missed: 'catchUp' }), cron('@daily', 'Europe/Berlin')]) {
      expect(readSpec(specText(spec))).toEqual(spec);
    }
  });

  it.each(['', 'null', '[]', '{}', '{"everyMs":5,"moon":"full"}', '{"cron":"never"}'])('is refused: %s', (text) => {
    expect(() => readSpec(text)).toThrow(/^EMQ_INPUT/);
  });
});

describe('a wrong schedule is refused, and told what to give', () => {
  it.each<[string, unknown, RegExp]>([
    ['nothing', {}, /takes everyMs or cron, one of the two/],
    ['both', { everyMs: 1, cron: '* * * * *' }, /one of the two/],
    ['no object', null, /must be an object/],
    ['an unknown option', { everyMs: 1, every: 2 }, /unknown option "every"/],
    ['no ms', { everyMs: 0 }, /everyMs must be an integer from 1/],
    ['a fraction', { everyMs: 1.5 }, /everyMs must be an integer/],
    ['too long', { everyMs: 2 ** 52 }, /100 years/],
    ['a zone for everyMs', { everyMs: 1, timeZone: 'UTC' }, /timeZone goes with cron/],
    ['four fields', { cron: '* * * *' }, /5, 6 or 7 fields/],
    ['a date', { cron: '2030-01-01T00:00:00' }, /5, 6 or 7 fields/],
    ['a minute 99', { cron: '99 * * * *' }, /cannot be read: Invalid value for minute: 99/],
    ['an unknown nickname', { cron: '@never' }, /cannot be read/],
    ['no text', { cron: 5 }, /cron must be text/],
    ['another world', { cron: '* * * * *', timeZone: 'Mars/Crater' }, /IANA name such as Europe\/Berlin, got "Mars/],
    ['no time', { everyMs: 1, startAt: NaN }, /startAt must be Unix ms or a Date/],
    ['a bad Date', { everyMs: 1, endAt: new Date(NaN) }, /endAt must be/],
    ['an end before the start', { everyMs: 1, startAt: 9, endAt: 8 }, /is before startAt/],
    ['immediately and startAt', { everyMs: 1, startAt: 9, immediately: true }, /give immediately or startAt/],
    ['immediately as text', { everyMs: 1, immediately: 'yes' }, /immediately must be true or false/],
    ['no limit', { everyMs: 1, limit: 0 }, /limit must be an integer from 1/],
    ['another word', { everyMs: 1, missed: 'later' }, /missed must be skip or catchUp/],
  ])('%s', (_what, schedule, says) => {
    expect(() => checkSchedule(schedule as RepeatSchedule)).toThrow(says);
  });
});
