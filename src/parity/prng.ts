/**
 * A small seeded generator of numbers, so that a battery that failed can be run again from its seed.
 *
 * Invariants: the same seed gives the same numbers on every platform. Does not: serve any purpose of security.
 */

/** Draws numbers, each from the ones before. */
export interface Rng {
  /** An integer from 0 to below `n`; `n` at least 1. */
  below(n: number): number;
  /** True in `percent` of 100 draws. */
  chance(percent: number): boolean;
  /** One of the items, of which there is at least one. */
  pick<T>(items: readonly T[]): T;
}

/** A generator for a seed, an integer of 32 bits (mulberry32). */
export function rng(seed: number): Rng {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n: number): number => Math.floor(next() * n);
  return {
    below,
    chance: (percent) => below(100) < percent,
    pick: (items) => {
      const item = items[below(items.length)];
      if (item === undefined) throw new RangeError('nothing to pick from');
      return item;
    },
  };
}
