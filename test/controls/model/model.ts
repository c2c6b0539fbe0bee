/**
 * A queue with lanes and limits as docs/wire.md has it (sections 2 and 4), in plain data: the reference that a node is held
 * against.
 *
 * Time stands still here and is counted in hours from the beginning of the play: every window, lease and wait is of hours, and
 * a play takes seconds, so what the server's clock adds in the meantime never makes up a token. What is due has been
 * given a score of the distant past.
 * Invariants: nothing in here was taken from the scripts. Does not: know transitions (steps.ts).
 */
import type { Source } from '../../../src/index.js';

export type Place = 'flat' | 'lane' | 'active' | 'scheduled' | 'dead';

export interface Job {
  readonly id: string;
  place: Place;
  group: string | undefined;
  readonly priority: number;
  attempts: number;
  credit: number;
  stalled: number;
  lastError: string | undefined;
  /** In `active` and `schedule`: a score of the past, which says in what order these are due; absent: not due. */
  due: number | undefined;
}

/** Until when a lane waits: a score of the past, or hours from the beginning. */
export type Wait = { readonly due: number } | { readonly hours: number };

/** The step of a bucket in hours, and its size. */
export interface Rate {
  readonly max: number;
  readonly step: number;
}

export const SETTINGS = { limit: 'glimit', weight: 'gweight', max: 'gmax', duration: 'gduration' } as const;
export type Setting = keyof typeof SETTINGS;

export class Model {
  readonly jobs = new Map<string, Job>();
  /** The head is served next. */
  readonly ring: string[] = [];
  readonly pausedLanes = new Set<string>();
  readonly waits = new Map<string, Wait>();
  /** Group, or `*`, -> value, of each hash of settings. Durations are in hours. */
  readonly settings: Readonly<Record<Setting, Map<string, number>>> = {
    ...{ limit: new Map(), weight: new Map(), max: new Map(), duration: new Map() },
  };
  /** How long until a lane's bucket is full again, in hours; under `` that of the queue. */
  readonly missing = new Map<string, number>();
  turn: { group: string; given: number } | undefined;
  paused = false;
  concurrency = 0;
  max = 0;
  hours = 0;
  completed = 0;
  failed = 0;

  /** The settings of a lane, its own or those of all. */
  own(name: Setting, group: string): number | undefined {
    return this.settings[name].get(group) ?? this.settings[name].get('*');
  }

  in(place: Place): Job[] {
    return [...this.jobs.values()].filter((job) => job.place === place);
  }

  /** Those of a lane that wait, the first to be served first; without a group the flat ones. */
  waiting(group?: string): Job[] {
    const place = group === undefined ? 'flat' : 'lane';
    return this.in(place)
      .filter((job) => group === undefined || job.group === group)
      .sort(before);
  }

  active(group: string): number {
    return this.in('active').filter((job) => job.group === group).length;
  }

  /** In `set`, and due; the earliest first. */
  due(place: 'active' | 'scheduled'): Job[] {
    return this.in(place)
      .filter(({ due }) => due !== undefined)
      .sort((a, b) => (a.due ?? 0) - (b.due ?? 0) || byId(a, b));
  }

  servable(group: string): boolean {
    const limit = this.own('limit', group);
    return (
      !this.pausedLanes.has(group) &&
      !this.waits.has(group) &&
      this.waiting(group).length > 0 &&
      !(limit !== undefined && this.active(group) >= limit)
    );
  }

  /** RING. */
  putOnRing(group: string): void {
    if (this.servable(group) && !this.ring.includes(group)) this.ring.push(group);
  }

  offRing(group: string): void {
    const at = this.ring.indexOf(group);
    if (at >= 0) this.ring.splice(at, 1);
  }

  /** Off the ring when nothing waits in it any more. */
  leaveIfEmpty(group: string): void {
    if (this.waiting(group).length === 0) this.offRing(group);
  }

  rateOf(group: string): Rate | undefined {
    const max = group === '' ? this.max : (this.own('max', group) ?? 0);
    const hours = group === '' ? this.hours : (this.own('duration', group) ?? 0);
    return max >= 1 ? { max, step: hours / max } : undefined;
  }

  /** The tokens of a lane, or under `` of the queue; infinitely many without a rate. */
  tokens(group: string): number {
    const rate = this.rateOf(group);
    if (rate === undefined) return Infinity;
    const left = Math.floor((rate.step * rate.max - this.missingOf(group)) / rate.step);
    return Math.max(0, Math.min(rate.max, left));
  }

  missingOf(group: string): number {
    return this.missing.get(group) ?? 0;
  }

  setMissing(group: string, hours: number): void {
    if (hours > 0) this.missing.set(group, hours);
    else this.missing.delete(group);
  }

  spend(group: string, count: number): void {
    const rate = this.rateOf(group);
    if (rate !== undefined && count > 0) this.setMissing(group, this.missingOf(group) + count * rate.step);
  }

  /** When the next token comes. */
  nextToken(group: string): number {
    const { max, step } = this.rateOf(group) ?? { max: 0, step: 0 };
    return this.missingOf(group) - step * max + step;
  }

  /** ALLOWANCE. */
  allowance(): number {
    if (this.paused) return 0;
    let left = Infinity;
    if (this.concurrency >= 1) left = Math.max(0, this.concurrency - this.in('active').length);
    if (this.max >= 1) return Math.min(left, this.tokens(''));
    return this.missingOf('') > 0 ? 0 : left;
  }

  /** Whether a consumer that asks now would get a job. */
  claimable(source: Source = 'both'): boolean {
    if (this.allowance() < 1) return false;
    if (source !== 'lanes' && this.waiting().length > 0) return true;
    return source !== 'flat' && this.ring.some((group) => this.servable(group) && this.tokens(group) >= 1);
  }

  /** Until when nothing is claimed though no rate holds it; undefined: nobody backs off. */
  backsOff(missing: number, rate: Rate | undefined): number | undefined {
    const first = rate === undefined ? missing : missing - rate.step * (rate.max - 1);
    return first > (rate?.step ?? 0) ? first : undefined;
  }

  /** What a change of a rate leaves missing: what was spent stays spent, and a back-off goes on. */
  refilled(missing: number, was: Rate | undefined, is: Rate | undefined): number {
    const first = this.backsOff(missing, was);
    if (first !== undefined) return first + (is === undefined ? 0 : is.step * (is.max - 1));
    if (was === undefined || is === undefined) return 0;
    return Math.min(is.max, Math.ceil(missing / was.step)) * is.step;
  }
}

export const byId = (a: Job, b: Job): number => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
export const before = (a: Job, b: Job): number => a.priority - b.priority || byId(a, b);
