/**
 * The parts of a batch consumer that need no server: verdicts, partitions, the window.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { partition, readVerdicts, type Said } from '../../../src/worker/batch-verdicts.js';
import { BatchWindow } from '../../../src/worker/batch-window.js';
import { RingRound } from '../../../src/worker/ring-round.js';

/** What was said of `a`, as text. */
function say(returned: unknown): string {
  const said = readVerdicts(['a'], returned).said.get('a') as Said;
  return 'thrown' in said
    ? `thrown ${String((said.thrown as Error).message)}`
    : `result ${JSON.stringify(said.result)}`;
}

describe('verdicts', () => {
  it.each<[string, unknown, string]>([
    ['complete', { a: 'complete' }, 'result undefined'],
    ['a result', { a: { complete: { n: 1 } } }, 'result {"n":1}'],
    ['an undefined result', { a: { complete: undefined } }, 'result undefined'],
    ['in a Map', new Map([['a', 'complete']]), 'result undefined'],
    [
      'in an object without a prototype',
      Object.assign(Object.create(null) as object, { a: 'complete' }),
      'result undefined',
    ],
    ['an error', { a: { fail: new Error('broken') } }, 'thrown broken'],
    ['an error as text', { a: { fail: 'broken' } }, 'thrown broken'],
    ['a delay', { a: { delay: 5 } }, 'thrown delayed by 5 ms'],
    ['a time', { a: { delay: { at: 7 } } }, 'thrown delayed until 7 (Unix ms)'],
    ['nothing of it', {}, 'thrown missing verdict'],
    ['nothing of it in a Map', new Map([['b', 'complete']]), 'thrown missing verdict'],
  ])('%s', (_what, returned, means) => {
    expect(say(returned)).toBe(means);
  });

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'undefined'],
    ['null', null, 'null'],
    ['a word', 'complete', '"complete"'],
    ['a list', ['complete'], 'a list'],
    ['an Error', new Error('x'), 'an object with nothing'],
    ['a number', 5, '5'],
    ['a symbol', Symbol('x'), 'Symbol(x)'],
    ['a Set', new Set(['a']), 'an object with nothing'],
  ])('no map but %s fails every job', (_what, returned, shown) => {
    const { said, strangers } = readVerdicts(['a', 'b'], returned);
    const text = `bad verdict: a batch handler must return a Map or an object of job id -> verdict, it returned ${shown}`;
    expect([...said.values()].map((one) => (one as { thrown: Error }).thrown.message)).toEqual([text, text]);
    expect(strangers).toEqual([]);
  });

  it.each<[string, unknown, RegExp]>([
    ['another word', 'done', /it was "done"/],
    ['true', true, /it was true/],
    ['undefined', undefined, /it was undefined/],
    ['a function', () => 1, /it was a function/],
    ['two words', { complete: 1, fail: 'x' }, /it was an object with complete, fail/],
    ['another object', { done: 1 }, /it was an object with done/],
    ['an Error itself', new Error('x'), /it was an object with nothing/],
    [
      'one that throws',
      Object.defineProperty({}, 'fail', {
        enumerable: true,
        get() {
          throw new Error('gotcha');
        },
      }),
      /^thrown gotcha/,
    ],
  ])('%s fails its job, and no other', (_what, verdict, says) => {
    expect(say({ a: verdict })).toMatch(says);
    const said = readVerdicts(
      ['a', 'b'],
      new Map([
        ['a', verdict],
        ['b', 'complete'],
      ]),
    ).said.get('b');
    expect(said).toEqual({ result: undefined });
  });

  it('of ids that are not in the batch are told', () => {
    expect(readVerdicts(['a'], { a: 'complete', x: 'complete', y: 5 }).strangers).toEqual(['x', 'y']);
    expect(readVerdicts(['a'], new Map<unknown, unknown>([[5, 'complete']])).strangers).toEqual(['5']);
  });

  it('are read of anything, without a throw, one for each job', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.string()),
        fc.anything(),
        fc.dictionary(fc.string(), fc.anything()),
        (ids, any, some) => {
          expect([...readVerdicts(ids, any).said.keys()]).toEqual(ids);
          expect([...readVerdicts(ids, some).said.keys()]).toEqual(ids);
        },
      ),
    );
  });
});

describe('a partition', () => {
  it('has each job in one part, in order', () => {
    const answers = new Map([
      ['a', 'completed'],
      ['b', 'scheduled'],
      ['c', 'dead'],
      ['d', 'backed off'],
      ['e', 'delayed'],
      ['f', 'stale'],
      ['g', 'unsettled'],
      ['h', 'released'],
      ['i', 'completed'],
      ['x', 'completed'],
    ] as const);
    expect(partition([...'iabcdefghz'], answers)).toEqual({
      completed: ['i', 'a'],
      retried: ['b'],
      dead: ['c'],
      delayed: ['d', 'e'],
      released: ['h'],
      stale: ['f', 'g', 'z'],
    });
  });
});

describe('the window', () => {
  it('opens when a job is first seen, and closes when none waits', () => {
    const window = new BatchWindow(10, 1_000, false);
    expect([window.open, window.least(0), window.restMs(0)]).toEqual([false, 10, undefined]);
    window.claimed(100, 10, false, 0);
    expect(window.open).toBe(false);
    window.claimed(200, 10, false, 3);
    window.claimed(700, 10, false, 5);
    expect([window.open, window.least(1_199), window.restMs(1_199)]).toEqual([true, 10, 1]);
    expect([window.least(1_200), window.restMs(1_200)]).toEqual([1, 0]);
    window.claimed(1_200, 1, false, 0);
    expect([window.open, window.least(9_000)]).toEqual([false, 10]);
  });

  it('stays over while nothing can be claimed: a queue that was paused is served at once', () => {
    const window = new BatchWindow(10, 1_000, false);
    window.claimed(0, 10, false, 3);
    window.claimed(1_000, 1, false, 3);
    expect([window.least(5_000), window.restMs(5_000)]).toEqual([1, undefined]);
  });

  it('is heard of when its time was up while a claim was on its way', () => {
    const window = new BatchWindow(10, 1_000, false);
    window.claimed(0, 10, false, 3);
    window.claimed(1_001, 10, false, 3);
    expect([window.restMs(1_001), window.least(1_001)]).toEqual([0, 1]);
  });

  it('begins anew for what a batch left', () => {
    const window = new BatchWindow(10, 1_000, false);
    window.claimed(0, 10, false, 3);
    window.claimed(500, 10, true, 2);
    expect(window.restMs(500)).toBe(1_000);
    window.claimed(1_500, 1, true, 4);
    expect([window.least(1_500), window.restMs(1_500)]).toEqual([10, 1_000]);
  });

  it('of lanes: once the time is up, each lane that waited is served, and then it begins anew', () => {
    const window = new BatchWindow(10, 1_000, true);
    window.claimed(0, 10, false, 3);
    window.claimed(1_000, 1, true, 2);
    expect(window.least(1_000)).toBe(1);
    window.claimed(1_001, 1, true, 1);
    expect(window.least(1_001)).toBe(1);
    // one more has come meanwhile: it has its own time
    window.claimed(1_002, 1, true, 1);
    expect([window.least(1_002), window.restMs(1_002)]).toEqual([10, 1_000]);
  });

  it('of lanes: full batches of others do not put it off', () => {
    const window = new BatchWindow(10, 1_000, true);
    window.claimed(0, 10, true, 1);
    for (let now = 100; now < 1_000; now += 100) window.claimed(now, 10, true, 2);
    expect([window.least(999), window.restMs(999)]).toEqual([10, 1]);
    expect(window.least(1_000)).toBe(1);
    // the busy lane is first in turn, the other one is still owed its batch
    window.claimed(1_000, 1, true, 2);
    window.claimed(1_001, 1, true, 2);
    expect(window.least(1_001)).toBe(1);
    window.claimed(1_002, 1, true, 2);
    expect([window.least(1_002), window.restMs(1_002)]).toEqual([10, 1_000]);
  });
});

describe('a round of the ring', () => {
  /** How many claims follow the first. */
  function claims(round: RingRound): number {
    let count = 0;
    while (round.goesOn()) count++;
    return count;
  }

  it.each([
    [0, 0],
    [64, 0],
    [65, 1],
    [128, 1],
    [129, 2],
    [10_000, 156],
  ])('of %i lanes is the first claim and %i more', (lanes, more) => {
    const round = new RingRound();
    expect(round.begins(0, lanes)).toBe(more > 0);
    expect(round.underWay).toBe(more > 0);
    expect(claims(round)).toBe(more);
    round.ends(1, false);
    expect(round.underWay).toBe(false);
  });

  it('that found nothing is followed by a rest, and by another round only when somebody asked', () => {
    const round = new RingRound();
    round.begins(100, 100);
    round.ends(110, false);
    expect(round.restMs(110)).toBeUndefined();
    expect(round.begins(120, 100)).toBe(false);
    expect(round.restMs(120)).toBe(20);
    expect(round.begins(140, 100)).toBe(true);
    // who asks during a round
    round.asked();
    expect(round.restMs(145)).toBeUndefined();
    round.ends(150, false);
    expect(round.restMs(150)).toBe(30);
    expect(round.begins(180, 100)).toBe(true);
    expect(round.restMs(180)).toBeUndefined();
  });

  it('that found a batch owes nothing', () => {
    const round = new RingRound();
    round.begins(100, 100);
    round.asked();
    round.ends(110, true);
    expect(round.restMs(110)).toBeUndefined();
    expect(round.begins(111, 100)).toBe(true);
  });
});
