/**
 * The words of an operator's commands: durations, limits and times as they are given, and as they are shown.
 *
 * Invariants: what cannot be read is refused with the forms that can; the same value gives the same text.
 * Does not: read a clock.
 */
import { InvalidArgumentError } from 'commander';

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const LONGEST_MS = 2 ** 52;
const ZONED = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/i;

/** `500ms`, `30s`, `10m`, `2h` or `7d` in ms. @throws InvalidArgumentError */
export function durationMs(text: string): number {
  const [, digits = '', unit = ''] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? [];
  const ms = Number(digits) * (UNITS[unit as keyof typeof UNITS] ?? NaN);
  if (digits !== '' && ms <= LONGEST_MS) return ms;
  throw new InvalidArgumentError('A duration is a whole number with a unit: 500ms, 30s, 10m, 2h or 7d.');
}

/** What takes a setting away. It is kept as the word: commander makes an empty text of null. */
export type None = 'none';

/** Null for `none`, and nothing where nothing was given. */
export function setting<T>(given: T | None | undefined): T | null | undefined {
  return given === 'none' ? null : given;
}

/** A whole number of at least 1, or `none`. */
export function numberOrNone(text: string): number | None {
  if (text === 'none') return text;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= LONGEST_MS) return value;
  throw new InvalidArgumentError('It is a whole number of at least 1, or none.');
}

export interface RateWords {
  readonly max: number;
  readonly durationMs: number;
}

/** `100/1000` (so many in so many ms), `100/1s`, or `none`. */
export function rateOrNone(text: string): RateWords | None {
  if (text === 'none') return text;
  const [, max = '', window = ''] = /^(\d+)\/(\d+(?:ms|s|m|h|d)?)$/.exec(text) ?? [];
  if (Number(max) < 1 || window === '') {
    throw new InvalidArgumentError('A rate is so many jobs in so many ms: 100/1000, also 100/1s or 5/10m; or none.');
  }
  return { max: Number(max), durationMs: /^\d+$/.test(window) ? Number(window) : durationMs(window) };
}

/** A time that is the same everywhere: ISO with a zone, or Unix ms. @throws InvalidArgumentError */
export function pointInTime(text: string): Date {
  // so many digits that seconds are not taken for ms
  const time = new Date(/^\d{12,15}$/.test(text) ? Number(text) : ZONED.test(text) ? text : NaN);
  if (!Number.isNaN(time.getTime())) return time;
  throw new InvalidArgumentError(
    'A time is written as 2026-05-01T12:00:00Z (or with another zone: 2026-05-01T14:00:00+02:00), or in Unix ms: 1777636800000.',
  );
}

/** About how long, in the two largest units that matter; not for less than nothing. */
export function span(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const [first, second] =
    seconds < 3_600 ? ([60, 1] as const) : seconds < 86_400 ? ([3_600, 60] as const) : ([86_400, 3_600] as const);
  const names = { 86_400: 'd', 3_600: 'h', 60: 'min', 1: 's' } as const;
  const rest = Math.floor((seconds % first) / second);
  const whole = `${Math.floor(seconds / first)} ${names[first]}`;
  return rest === 0 ? whole : `${whole} ${rest} ${names[second]}`;
}

/** A time, Unix ms, as ISO; what is no time as it is. */
export function time(ms: number): string {
  return Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : String(ms);
}

/** `1 job`, `2 jobs`; with the verb in its two forms `1 job that waits`, `2 jobs that wait`. */
export function jobs(n: number, one?: string, many?: string): string {
  const verb = n === 1 ? one : many;
  return `${n} job${n === 1 ? '' : 's'}${verb === undefined ? '' : ` that ${verb}`}`;
}

export function rateText(rate: RateWords | null): string {
  return rate === null ? 'none' : `${rate.max} in ${span(rate.durationMs)}`;
}

/** Rows of words below their heads, in columns as wide as they need; numbers stand at the right. */
export function table(heads: readonly string[], rows: readonly (readonly (string | number)[])[]): string[] {
  const right = heads.map((_, i) => rows.length > 0 && rows.every((row) => typeof row[i] === 'number'));
  const all = [heads, ...rows].map((row) => heads.map((_, i) => String(row[i] ?? '')));
  const widths = heads.map((_, i) => Math.max(...all.map((row) => (row[i] ?? '').length)));
  return all.map((row) =>
    row
      .map((cell, i) => (right[i] ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}

const BARS = '▁▂▃▄▅▆▇█';

/** One character for each number, the highest as high as can be; a blank for what is not known. */
export function sparkline(numbers: readonly (number | null)[]): string {
  const most = Math.max(1, ...numbers.map((n) => n ?? 0));
  return numbers.map((n) => (n === null ? ' ' : n === 0 ? '▁' : BARS[Math.max(1, Math.ceil((n / most) * 7))])).join('');
}
