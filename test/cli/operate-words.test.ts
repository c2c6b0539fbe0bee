/** The words of the operator's commands: durations, limits and times as given and as shown, tables and sparklines. */
import { describe, expect, test } from 'vitest';
import {
  durationMs,
  jobs,
  numberOrNone,
  pointInTime,
  rateOrNone,
  setting,
  span,
  sparkline,
  table,
  time,
} from '../../src/cli/operate/words.js';

test.each([
  ['500ms', 500],
  ['30s', 30_000],
  ['10m', 600_000],
  ['2h', 7_200_000],
  ['7d', 604_800_000],
  ['0s', 0],
])('a duration: %s', (text, ms) => {
  expect(durationMs(text)).toBe(ms);
});

test.each(['', '10', '-1s', '1.5h', '1w', 's', '1 h', '99999999999999999d'])('no duration: %j', (text) => {
  expect(() => durationMs(text)).toThrow('500ms, 30s, 10m, 2h or 7d');
});

describe('limits', () => {
  test('numbers and rates, or none', () => {
    expect([numberOrNone('5'), numberOrNone('none')]).toEqual([5, 'none']);
    expect(rateOrNone('100/1000')).toEqual({ max: 100, durationMs: 1_000 });
    expect(rateOrNone('5/10m')).toEqual({ max: 5, durationMs: 600_000 });
    expect(rateOrNone('none')).toBe('none');
    expect([setting(5), setting<number>('none'), setting(undefined)]).toEqual([5, null, undefined]);
  });

  test.each(['0', '-1', '1e3', '', 'all'])('no number: %j', (text) => {
    expect(() => numberOrNone(text)).toThrow('or none');
  });

  test.each(['5', '/1s', '0/1s', '5/', '5/1w', '-5/1s', '1.5/1s'])('no rate: %j', (text) => {
    expect(() => rateOrNone(text)).toThrow('100/1000');
  });
});

test('times', () => {
  const noon = Date.UTC(2026, 4, 1, 12);
  for (const text of ['2026-05-01T12:00:00Z', '2026-05-01T14:00+02:00', '2026-05-01T12:00:00.000Z', String(noon)])
    expect(pointInTime(text).getTime(), text).toBe(noon);
  // without a zone it might be anybody's noon; 1777636800 are seconds
  const unclear = ['tomorrow', '5', '', '2026-05-01', '2026-05-01T12:00:00', '2026-13-01T00:00:00Z', '1777636800'];
  for (const text of unclear) {
    expect(() => pointInTime(text), text).toThrow(/2026-05-01T12:00:00Z .*2026-05-01T14:00:00\+02:00.* 1777636800000/);
  }
  expect(time(0)).toBe('1970-01-01T00:00:00.000Z');
  expect(time(Infinity)).toBe('Infinity');
});

test.each([
  [0, '0 ms'],
  [999, '999 ms'],
  [59_999, '59 s'],
  [60_000, '1 min'],
  [90_000, '1 min 30 s'],
  [7_260_000, '2 h 1 min'],
  [90_000_000, '1 d 1 h'],
])('a span of %i ms is %s', (ms, text) => {
  expect(span(ms)).toBe(text);
});

test('one job is no jobs', () => {
  expect([0, 1, 2].map((n) => jobs(n, 'waits', 'wait'))).toEqual([
    '0 jobs that wait',
    '1 job that waits',
    '2 jobs that wait',
  ]);
  expect(jobs(1)).toBe('1 job');
});

test('columns: numbers at the right, no blanks at the end', () => {
  expect(
    table(
      ['queue', 'n', ''],
      [
        ['a', 10, 'paused'],
        ['long', 9, ''],
      ],
    ),
  ).toEqual(['queue   n', 'a      10  paused', 'long    9']);
  expect(table(['queue'], [])).toEqual(['queue']);
});

test('a sparkline: the highest is full, one is more than none, what is not known is blank', () => {
  expect(sparkline([0, 1, 50, 100, null])).toBe('▁▂▅█ ');
  expect(sparkline([0, 0])).toBe('▁▁');
  expect(sparkline([null])).toBe(' ');
});
