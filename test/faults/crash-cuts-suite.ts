/**
 * The append-only file of a load, cut anywhere in its tail as a power loss may cut it: whatever is left of it loads, and what
 * has loaded is sound. Half a transaction vanishes whole, that of a script as that of a native command.
 *
 * Invariants: the cuts come from the seed. Does not: say how many (the test files do).
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Jobs, Connector } from '../../src/index.js';
import type { Keys } from '../../src/parity/keyspace-dump.js';
import { rng } from '../../src/parity/prng.js';
import type { Wire } from '../worker/support/nodes.js';
import { MAIN } from './crash-load.js';
import { CrashLog } from './crash-log.js';
import { rewrite, unsound } from './crash-suite.js';

/** So many servers load at once. */
const AT_ONCE = 2;
/** The cuts lie in so many bytes at the end. */
const TAIL = 256 * 1024;

/** @param cuts in the tail, @param inLast of the last transaction of some commands: at about so many of its bytes */
export function cutsSuite(wire: Wire, cuts: number, inLast: number, seed: number): void {
  let log: CrashLog;
  beforeAll(async () => {
    log = await CrashLog.record(wire, cuts > 20 ? 1_500 : 500, seed);
  });
  afterAll(() => log[Symbol.asyncDispose]());

  it(
    `${cuts} cuts in the tail of the file: each loads, and what has loaded is sound`,
    async () => {
      const draw = rng(seed);
      const { length } = log.bytes;
      const places = Array.from({ length: cuts }, () => length - draw.below(Math.min(TAIL, length - 1)));
      expect(log.steps.length, 'there was a load').toBeGreaterThan(100);
      let inTransactions = 0;
      await inTurn(places, async (place) => {
        const within = log.steps.find(({ from, to }) => from < place && place < to);
        if ((within?.commands.length ?? 0) > 1) inTransactions++;
        await using copy = await log.start(wire, place);
        expect(unsound(await copy.dump()), `seed ${seed}, cut at ${place} of ${length}`).toEqual([]);
      });
      if (cuts > 20) expect(inTransactions, 'cuts in the middle of transactions').toBeGreaterThan(cuts / 4);
      console.log(
        `wire ${wire}: ${cuts} cuts in ${Math.min(TAIL, length)} of ${length} bytes, ${inTransactions} in transactions`,
      );
    },
    30_000 + cuts * 1_000,
  );

  it(
    'a transaction that is cut at whatever byte vanishes whole',
    async () => {
      const last = log.steps.findLast(({ commands }) => commands.length > 3);
      if (last === undefined) throw new Error('no transaction in the file');
      await using before = await log.start(wire, last.from);
      const expected = lasting(await before.dump());
      await using after = await log.start(wire, last.to);
      expect(lasting(await after.dump()), 'the whole transaction does something').not.toEqual(expected);
      const size = last.to - last.from;
      const places = Array.from(
        { length: Math.min(size, inLast) },
        (_, i) => last.to - 1 - Math.floor((i * size) / inLast),
      );
      await inTurn(places, async (place) => {
        await using copy = await log.start(wire, place);
        expect(lasting(await copy.dump()), `seed ${seed}, cut at byte ${place - last.from} of ${size}`).toEqual(
          expected,
        );
      });
    },
    30_000 + inLast * 1_000,
  );

  it('after such a loss a rewrite takes the rest of the transaction out of the file: the next crash does not bring it back', async () => {
    // a job that is added: its row comes first, then its place
    const added = log.steps.findLast(
      ({ commands: [first, second] }) => first?.name === 'hset' && second?.name === 'zadd',
    );
    const place = (added?.commands[1]?.from ?? NaN) + 8;
    await using copy = await log.start(wire, place);
    await rewrite(copy);
    const connector = await Connector.connect({ url: copy.server.url, wire });
    const { id } = await new Jobs(connector, MAIN.queue).enqueue('after the loss');
    await connector.close();
    await copy.server.kill();
    await copy.server.restart();
    const keys = await copy.dump();
    expect(unsound(keys)).toEqual([]);
    expect(keys.has(MAIN.job(id))).toBe(true);
  });
}

/** What does not lapse by itself: two servers are not looked at in the same moment. */
function lasting(keys: Keys): Keys {
  return new Map([...keys].filter(([, { lapses }]) => lapses === false));
}

async function inTurn(places: readonly number[], look: (place: number) => Promise<void>): Promise<void> {
  const left = places.slice();
  const worker = async (): Promise<void> => {
    for (let place = left.pop(); place !== undefined; place = left.pop()) await look(place);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
