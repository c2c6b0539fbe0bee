/**
 * Minting: order under any clock, the random start of a ms, the borrowing from the next one, node ids, and equality with a
 * bigint model. Clocks are injected; nothing here waits.
 */
import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EPOCH_MS, encodeId, isBranded, parseId } from '../../src/ids/brand.js';
import { Minter, defaultMinter, mint } from '../../src/ids/mint.js';
import { EmqError } from '../../src/wire/errors.js';
import { printSeed, seed } from './seed.js';

printSeed('ids/mint');

const LAST_MS = 2 ** 41 - 1;
const START = Date.parse('2026-01-27T15:11:37.641Z');

function fixed(now: number, node = 7): Minter {
  return new Minter({ node, clock: () => now });
}

/** The cell of an id: ms << 12 | sequence. */
function cellOf(id: string): bigint {
  const { unixMs, sequence } = parseId(id);
  return (BigInt(unixMs - EPOCH_MS) << 12n) | BigInt(sequence);
}

describe('a mint', () => {
  it('holds the namespace, the clock, the node and a sequence below 1024', () => {
    const parts = parseId(fixed(START, 1023).mint('EVT'));
    expect(parts).toMatchObject({ namespace: 'EVT', unixMs: START, node: 1023 });
    expect(parts.sequence).toBeLessThan(1024);
  });

  it('is a job by default', () => {
    expect(fixed(START).mint()).toMatch(/^JOB/);
  });

  it('drops the fraction of a clock that has one', () => {
    expect(parseId(fixed(START + 0.75).mint()).unixMs).toBe(START);
  });

  it('starts each fresh ms at a random sequence below 1024', () => {
    let now = START;
    const minter = new Minter({ clock: () => now });
    const starts = Array.from({ length: 4_096 }, () => {
      now += 1;
      return parseId(minter.mint()).sequence;
    });
    expect(Math.max(...starts)).toBeLessThan(1024);
    // 4096 fair draws of 1024 give about 1005 different ones; 900 lies dozens of standard deviations below.
    expect(new Set(starts).size).toBeGreaterThan(900);
  });

  it('counts inside a ms one by one, and over 4096 borrows from the next', () => {
    const minter = fixed(START);
    const cells = Array.from({ length: 10_000 }, () => cellOf(minter.mint()));
    const first = cells[0] ?? 0n;
    expect(cells).toEqual(cells.map((_, at) => first + BigInt(at)));
    expect(cells.at(-1)).toBeGreaterThan(BigInt(START + 2 - EPOCH_MS) << 12n);
  });

  it('keeps counting where the borrowed ms comes, and starts afresh once the clock is past it', () => {
    let now = START;
    const minter = new Minter({ clock: () => now });
    let last = '';
    for (let n = 0; n < 5_000; n += 1) last = minter.mint();
    const borrowed = parseId(last);
    expect(borrowed.unixMs).toBe(START + 1);
    now = START + 1;
    expect(cellOf(minter.mint())).toBe(cellOf(last) + 1n);
    now = START + 2;
    const fresh = parseId(minter.mint());
    expect(fresh.unixMs).toBe(START + 2);
    expect(fresh.sequence).toBeLessThan(1024);
  });

  it('counts on when the clock steps back, even to before 2024', () => {
    let now = START;
    const minter = new Minter({ clock: () => now });
    const first = minter.mint();
    for (const [at, back] of [START - 1, START - 86_400_000, EPOCH_MS - 1, 0].entries()) {
      now = back;
      expect(cellOf(minter.mint())).toBe(cellOf(first) + BigInt(at + 1));
    }
  });

  it('one order for all namespaces: the numbers increase across them', () => {
    const minter = fixed(START);
    const numbers = ['JOB', 'EVT', 'JOB', 'AAA', 'ZZZ'].map((name) => parseId(minter.mint(name)).snowflake);
    expect(numbers).toEqual([...numbers].sort((a, b) => (a < b ? -1 : 1)));
    expect(new Set(numbers).size).toBe(5);
  });
});

describe('laws', () => {
  it('strictly increasing, ahead of no clock without need, and equal to the bigint model, on a random walk of the clock', () => {
    const step = fc.record({
      move: fc.oneof(fc.integer({ min: -5, max: 5 }), fc.integer({ min: -100_000, max: 100_000 }), fc.constant(0)),
      mints: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 9_000 })),
    });
    const start = fc.integer({ min: 200_000, max: LAST_MS - 200_000_000 });
    fc.assert(
      fc.property(start, fc.nat({ max: 1023 }), fc.array(step, { minLength: 1, maxLength: 25 }), (ms, node, walk) => {
        let now = EPOCH_MS + ms;
        const minter = new Minter({ node, clock: () => now });
        let lastCell = -1n;
        let lastId = '';
        for (const { move, mints } of walk) {
          now = Math.max(EPOCH_MS, now + move);
          for (let n = 0; n < mints; n += 1) {
            const id = minter.mint();
            const parts = parseId(id);
            const cell = cellOf(id);
            const clockMs = BigInt(now - EPOCH_MS);
            if (clockMs > lastCell >> 12n) {
              if (cell >> 12n !== clockMs || parts.sequence >= 1024)
                throw new Error(`${id} is no fresh start at ${clockMs}`);
            } else if (cell !== lastCell + 1n) {
              throw new Error(`${id} does not follow ${lastId}`);
            }
            const model = ((cell >> 12n) << 22n) | (BigInt(node) << 12n) | (cell & 0xfffn);
            if (parts.snowflake !== model || id !== encodeId('JOB', model)) throw new Error(`${id} is not ${model}`);
            if (!(id > lastId)) throw new Error(`${id} is not above ${lastId}`);
            lastCell = cell;
            lastId = id;
          }
        }
      }),
      { seed, numRuns: 60 },
    );
  });

  it('exact over the whole range of time', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: LAST_MS }), fc.nat({ max: 1023 }), (ms, node) => {
        const parts = parseId(fixed(EPOCH_MS + ms, node).mint());
        expect(parts.unixMs).toBe(EPOCH_MS + ms);
        expect(parts.node).toBe(node);
        expect(parts.sequence).toBeLessThan(1024);
      }),
      { seed, numRuns: 5_000 },
    );
  });
});

describe('minters of one process', () => {
  it('never give the same id, even with one node id', () => {
    const [a, b] = [new Minter({ node: 5 }), new Minter({ node: 5 })];
    const ids = Array.from({ length: 20_000 }, (_, n) => (n % 2 === 0 ? a : b).mint());
    expect(ids.every((id, n) => n === 0 || id > (ids[n - 1] ?? ''))).toBe(true);
  });

  it('have a default that runs on the real clock', () => {
    const before = Date.now();
    const id = mint();
    expect(isBranded(id)).toBe(true);
    expect(defaultMinter.mint() > id).toBe(true);
    expect(mint('EVT')).toMatch(/^EVT/);
    // Other tests of this file have counted ahead of the clock by 20,000 / 4,096 ms at most.
    expect(parseId(id).unixMs).toBeGreaterThanOrEqual(before);
    expect(parseId(id).unixMs).toBeLessThan(Date.now() + 50);
    expect(parseId(id).node).toBe(defaultMinter.node);
  });
});

describe('the node id', () => {
  it('is the option, and says so', () => {
    expect(new Minter({ node: 0 })).toMatchObject({ node: 0, nodeSource: 'option' });
    expect(new Minter({ node: 1023 })).toMatchObject({ node: 1023, nodeSource: 'option' });
  });

  it('else is derived, the same throughout the process, and says so', () => {
    const minter = new Minter();
    expect(minter.nodeSource).toBe('derived');
    expect(minter.node).toBeGreaterThanOrEqual(0);
    expect(minter.node).toBeLessThanOrEqual(1023);
    expect(new Minter().node).toBe(minter.node);
    expect(new Minter({ node: undefined }).nodeSource).toBe('derived');
  });

  it('differs between processes', () => {
    // What derivedNode hashes, by way of the same module in processes of their own.
    const file = new URL('../../src/ids/mint.ts', import.meta.url).pathname;
    const program = `import { build } from 'esbuild';
      const { outputFiles } = await build({ entryPoints: [${JSON.stringify(file)}], bundle: true, write: false,
        platform: 'node', format: 'esm' });
      const { defaultMinter } = await import('data:text/javascript,' + encodeURIComponent(outputFiles[0].text));
      console.log(defaultMinter.node);`;
    const nodes = Array.from({ length: 4 }, () => {
      const run = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
      expect(run.stderr).toBe('');
      return Number(run.stdout);
    });
    // Four processes all on one node id by chance: once in 2^30 runs.
    expect(new Set(nodes).size).toBeGreaterThan(1);
  });

  it.each([-1, 1024, 1.5, Number.NaN, Infinity, '5', null])('is refused: %s', (node) => {
    expect(() => new Minter({ node: node as number })).toThrow(EmqError);
    expect(() => new Minter({ node: node as number })).toThrow(/0 to 1023/);
  });
});

describe('refusals', () => {
  it.each(['', 'JOBS', 'job', 'J0B'])('of a namespace %j, and no number is used up', (name) => {
    const minter = fixed(START);
    const before = minter.mint();
    expect(() => minter.mint(name)).toThrow(/namespace/);
    expect(cellOf(minter.mint())).toBe(cellOf(before) + 1n);
  });

  it.each([EPOCH_MS - 1, 0, -Infinity, Number.NaN, EPOCH_MS + LAST_MS + 1, Infinity])(
    'of a first mint with the clock at %s',
    (now) => {
      expect(() => fixed(now).mint()).toThrow(/EMQ_INPUT the clock/);
    },
  );

  it('of an id behind the last one of the range', () => {
    const minter = fixed(EPOCH_MS + LAST_MS);
    let last = minter.mint();
    expect(() => {
      for (let n = 0; n < 4_096; n += 1) last = minter.mint();
    }).toThrow(/EMQ_INPUT the clock/);
    expect(parseId(last)).toMatchObject({ unixMs: EPOCH_MS + LAST_MS, sequence: 4095 });
  });

  it('of a clock that jumped out of the range, without harm to later mints', () => {
    let now = START;
    const minter = new Minter({ clock: () => now });
    const first = minter.mint();
    now = EPOCH_MS + LAST_MS + 1;
    expect(() => minter.mint()).toThrow(/EMQ_INPUT the clock/);
    now = START;
    expect(cellOf(minter.mint())).toBe(cellOf(first) + 1n);
  });
});
