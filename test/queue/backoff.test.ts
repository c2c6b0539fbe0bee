/**
 * Backoff: the tables of each policy, what a random policy may say at all, how functions are tamed, and what is taken for
 * a policy by the strict check and by the lenient reading of a row.
 */
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  LONGEST_DELAY_MS,
  checkBackoff,
  delayOf,
  exponential,
  fixed,
  jitter,
  parseBackoff,
  type Backoff,
  type BackoffPolicy,
} from '../../src/queue/backoff.js';
import type { EmqError } from '../../src/wire/errors.js';
import { printSeed, seed } from '../ids/seed.js';

printSeed('queue/backoff');
afterEach(() => void vi.restoreAllMocks());

const ERROR = new Error('why it failed');
/** The delays after the attempts 1, 2, 3 ... */
const table = (backoff: Backoff, attempts: number): number[] =>
  Array.from({ length: attempts }, (_, i) => delayOf(backoff, i + 1, ERROR));

describe('the tables', () => {
  it.each<[string, Backoff, number[]]>([
    ['a number', 250, [250, 250, 250]],
    ['fixed', fixed(1000), [1000, 1000, 1000]],
    ['fixed at 0', fixed(0), [0, 0]],
    ['exponential', exponential(100, 60_000), [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000]],
    ['exponential, capped at an hour unless said otherwise', exponential(1_000_000), [1e6, 2e6, 3.6e6, 3.6e6]],
    ['exponential above its cap from the start', exponential(500, 100), [100, 100]],
    ['exponential of the smallest', exponential(1, 4), [1, 2, 4, 4]],
    ['jitter of nothing', jitter(fixed(0)), [0, 0, 0]],
    ['a function', (attempt) => attempt * 7, [7, 14, 21]],
  ])('%s', (_name, backoff, expected) => {
    expect(table(backoff, expected.length)).toEqual(expected);
  });

  it.each([32, 1024, 1025, 100_000, Number.MAX_SAFE_INTEGER])('exponential is at its cap at attempt %i', (attempt) => {
    expect(delayOf(exponential(3, LONGEST_DELAY_MS), attempt, ERROR)).toBe(LONGEST_DELAY_MS);
  });

  it('counts an attempt below 1 as the first', () => {
    expect(delayOf(exponential(100), 0, ERROR)).toBe(100);
  });
});

describe('jitter', () => {
  it('reaches both ends, and each number between them has its equal part', () => {
    const random = vi.spyOn(Math, 'random');
    const at = (part: number): number => {
      random.mockReturnValueOnce(part);
      return delayOf(jitter(fixed(4)), 1, ERROR);
    };
    expect([0, 0.19, 0.21, 0.39, 0.41, 0.59, 0.61, 0.79, 0.81, 1 - 2 ** -53].map(at)).toEqual([
      0, 0, 1, 1, 2, 2, 3, 3, 4, 4,
    ]);
  });

  it('takes its range from the policy inside, at that attempt', () => {
    vi.spyOn(Math, 'random').mockReturnValue(1 - 2 ** -53);
    expect(table(jitter(exponential(100, 350)), 4)).toEqual([100, 200, 350, 350]);
    expect(delayOf(jitter(jitter(fixed(100))), 1, ERROR)).toBe(100);
  });

  it('differs from call to call', () => {
    expect(new Set(table(jitter(fixed(LONGEST_DELAY_MS)), 50)).size).toBeGreaterThan(40);
  });
});

/** Any policy, with what it may say at most. */
const anyPolicy: fc.Arbitrary<BackoffPolicy> = fc.letrec<{ policy: BackoffPolicy }>((tie) => ({
  policy: fc.oneof(
    { maxDepth: 7 },
    fc.nat(LONGEST_DELAY_MS).map(fixed),
    fc
      .tuple(fc.integer({ min: 1, max: LONGEST_DELAY_MS }), fc.integer({ min: 1, max: LONGEST_DELAY_MS }))
      .map(([delayMs, maxDelayMs]) => exponential(delayMs, maxDelayMs)),
    tie('policy').map(jitter),
  ),
})).policy;

/** What a policy says at most, in bigints. */
function most(policy: BackoffPolicy, attempt: number): bigint {
  if (policy.type === 'fixed') return BigInt(policy.delayMs);
  if (policy.type === 'jitter') return most(policy.of, attempt);
  const grown = BigInt(policy.delayMs) << BigInt(attempt - 1);
  return grown < BigInt(policy.maxDelayMs) ? grown : BigInt(policy.maxDelayMs);
}

describe('any policy', () => {
  it('gives an integer, exactly that of the rule, or up to it with jitter', () => {
    fc.assert(
      fc.property(anyPolicy, fc.integer({ min: 1, max: 5000 }), (policy, attempt) => {
        const delay = delayOf(policy, attempt, ERROR);
        expect(Number.isInteger(delay) && delay >= 0).toBe(true);
        if (policy.type === 'jitter') expect(BigInt(delay) <= most(policy, attempt)).toBe(true);
        else expect(BigInt(delay)).toBe(most(policy, attempt));
      }),
      { seed },
    );
  });

  it('is the same after its way through a row, and passes both checks', () => {
    fc.assert(
      fc.property(anyPolicy, (policy) => {
        expect(parseBackoff(JSON.parse(JSON.stringify(policy)))).toEqual(policy);
        expect(checkBackoff('backoff', policy)).toEqual(policy);
      }),
      { seed },
    );
  });
});

describe('a function', () => {
  it('gets the attempt and the error', () => {
    const backoff = vi.fn(() => 5);
    expect(delayOf(backoff, 3, ERROR)).toBe(5);
    expect(backoff).toHaveBeenCalledExactlyOnceWith(3, ERROR);
  });

  it('may give a fraction, and more than the longest delay', () => {
    expect(delayOf(() => 1.5 * 1.5, 1, ERROR)).toBe(2);
    expect(delayOf(() => 0.2, 1, ERROR)).toBe(0);
    expect(delayOf((attempt) => 1000 * 2 ** attempt, 60, ERROR)).toBe(LONGEST_DELAY_MS);
  });

  it.each<[unknown, string]>([
    [-1, '-1'],
    [NaN, 'NaN'],
    [Infinity, 'Infinity'],
    ['100', '"100"'],
    [undefined, 'undefined'],
    [null, 'null'],
    [5n, '5'],
    [{ delayMs: 5 }, 'object'],
  ])('that gives %s costs 1000 ms and is told', (value, shown) => {
    const problems: EmqError[] = [];
    expect(delayOf((() => value) as () => number, 1, ERROR, (problem) => problems.push(problem))).toBe(1000);
    expect(problems.map(({ code, reason }) => [code, reason])).toEqual([
      ['EMQ_INPUT', `the backoff function must give ms from 0, it gave ${shown}: 1000 ms are used`],
    ]);
  });

  it('that gives a promise does not leave its rejection to nobody', async () => {
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    const later = async (): Promise<number> => {
      throw new Error('nobody waits for this one');
    };
    expect(delayOf(later as unknown as () => number, 1, ERROR)).toBe(1000);
    await new Promise(setImmediate);
    process.off('unhandledRejection', unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it('that throws costs 1000 ms and is told, whatever it threw', () => {
    const unprintable = Object.defineProperty({}, 'message', {
      get() {
        throw new Error('no');
      },
    });
    const problems: EmqError[] = [];
    const throwing = (): number => {
      throw unprintable as Error;
    };
    expect(delayOf(throwing, 1, ERROR, (problem) => problems.push(problem))).toBe(1000);
    expect(problems.map(({ reason, cause }) => [reason, cause])).toEqual([
      ['the backoff function threw (object): 1000 ms are used', unprintable],
    ]);
    expect(delayOf(throwing, 1, ERROR)).toBe(1000);
  });
});

describe('the check', () => {
  it('gives what it was given: numbers and functions themselves, policies as frozen copies', () => {
    const own = (): number => 1;
    expect(checkBackoff('backoff', own)).toBe(own);
    expect(checkBackoff('backoff', 0)).toBe(0);
    const policy = { type: 'jitter', of: { type: 'fixed', delayMs: 5 } } as const;
    const checked = checkBackoff('backoff', policy) as { of: BackoffPolicy };
    expect(checked).toEqual(policy);
    expect(checked).not.toBe(policy);
    expect([checked, checked.of].every(Object.isFrozen)).toBe(true);
  });

  const types = 'must be ms, a function or a policy (fixed, exponential or jitter), got';
  const ms = `must be an integer from 0 to ${LONGEST_DELAY_MS} ms, got`;
  const msFrom1 = `must be an integer from 1 to ${LONGEST_DELAY_MS} ms, got`;
  it.each<[unknown, string]>([
    [-1, `backoff ${ms} -1`],
    [1.5, `backoff ${ms} 1.5`],
    [LONGEST_DELAY_MS + 1, `backoff ${ms} 2147483648`],
    [NaN, `backoff ${ms} NaN`],
    [null, `backoff ${types} null`],
    [undefined, `backoff ${types} undefined`],
    ['fixed', `backoff ${types} "fixed"`],
    [{}, `backoff ${types} the type undefined`],
    [[], `backoff ${types} the type undefined`],
    [{ type: 'linear', delayMs: 1 }, `backoff ${types} the type "linear"`],
    [{ type: 'fixed' }, `backoff.delayMs ${ms} undefined`],
    [{ type: 'fixed', delayMs: '5' }, `backoff.delayMs ${ms} "5"`],
    [{ type: 'fixed', delayMs: 5, delay: 5 }, 'unknown option "delay" of backoff: it takes type, delayMs'],
    [{ type: 'exponential', delayMs: 0, maxDelayMs: 1 }, `backoff.delayMs ${msFrom1} 0`],
    [{ type: 'exponential', delayMs: 1 }, `backoff.maxDelayMs ${msFrom1} undefined`],
    [{ type: 'exponential', delayMs: 1, maxDelayMs: 0 }, `backoff.maxDelayMs ${msFrom1} 0`],
    [{ type: 'jitter' }, `backoff.of ${types} undefined`],
    [{ type: 'jitter', of: 100 }, `backoff.of ${types} 100`],
    [{ type: 'jitter', of: { type: 'fixed', delayMs: -5 } }, `backoff.of.delayMs ${ms} -5`],
    [{ type: 'jitter', of: fixed(1), max: 1 }, 'unknown option "max" of backoff: it takes type, of'],
  ])('refuses %j', (value, reason) => {
    expect(() => checkBackoff('backoff', value as Backoff)).toThrow(
      expect.objectContaining({ code: 'EMQ_INPUT', reason }),
    );
  });

  it('refuses policies without end', () => {
    const endless: { type: 'jitter'; of: BackoffPolicy } = { type: 'jitter', of: fixed(1) };
    endless.of = endless;
    expect(() => checkBackoff('backoff', endless)).toThrow('holds more than 8 policies in each other');
    expect(parseBackoff(endless)).toBeUndefined();
  });

  it('is made by the helpers too', () => {
    expect(() => fixed(-1)).toThrow('fixed.delayMs must be');
    expect(() => exponential(0)).toThrow('exponential.delayMs must be');
    expect(() => jitter(5 as unknown as BackoffPolicy)).toThrow('jitter.of must be');
  });
});

describe('what a row holds', () => {
  it('is read leniently: a number is a fixed one, unknown fields do not matter, an hour is the cap', () => {
    expect(parseBackoff(500)).toEqual(fixed(500));
    expect(parseBackoff({ type: 'fixed', delayMs: 1, since: 'long ago' })).toEqual(fixed(1));
    expect(parseBackoff({ type: 'exponential', delayMs: 1 })).toEqual(exponential(1));
  });

  it.each([
    [undefined],
    [null],
    [-1],
    [1.5],
    ['500'],
    [[]],
    [{ type: 'fixed' }],
    [{ type: 'fixed', delayMs: -1 }],
    [{ type: 'exponential', delayMs: 0 }],
    [{ type: 'exponential', delayMs: 1, maxDelayMs: 'much' }],
    [{ type: 'jitter' }],
    [{ type: 'jitter', of: { type: 'jitter', of: 7 } }],
    [{ type: 'linear', delayMs: 1 }],
  ])('%j is no policy', (value) => {
    expect(parseBackoff(value)).toBeUndefined();
  });

  it('is never a reason to throw', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        const policy = parseBackoff(value);
        if (policy !== undefined) expect(delayOf(policy, 1, ERROR)).toBeGreaterThanOrEqual(0);
      }),
      { seed },
    );
  });
});
