/** The line before a reader: order, bound, gap, end. */
import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import { Feed, type EventGap } from '../../src/bus/feed.js';

interface Item {
  readonly n: number;
}
const GAP: EventGap = { event: 'gap', missed: null };

function feed(limit: number): Feed<Item> {
  return new Feed<Item>(limit, () => {});
}

/** What is there to be read, without waiting for more. */
async function rest(from: Feed<Item>): Promise<(Item | EventGap)[]> {
  from.end();
  const items = [];
  for await (const item of from) items.push(item);
  return items;
}

it('gives items in their order, to whoever waits and from the line', async () => {
  const line = feed(10);
  const first = line.next();
  const second = line.next();
  for (let n = 1; n <= 4; n++) line.push({ n });
  expect([await first, await second]).toEqual([
    { done: false, value: { n: 1 } },
    { done: false, value: { n: 2 } },
  ]);
  expect(await rest(line)).toEqual([{ n: 3 }, { n: 4 }]);
});

it('drops the oldest when it is full, and says how many in their place, once', async () => {
  const line = feed(3);
  const dropped = [1, 2, 3, 4, 5].map((n) => line.push({ n }));
  expect(dropped).toEqual([0, 0, 0, 1, 1]);
  expect(await line.next()).toEqual({ done: false, value: { event: 'gap', missed: 2 } });
  expect(await line.next()).toEqual({ done: false, value: { n: 3 } });
  line.push({ n: 6 });
  line.push({ n: 7 });
  expect(await rest(line)).toEqual([{ event: 'gap', missed: 1 }, { n: 5 }, { n: 6 }, { n: 7 }]);
});

it('a gap keeps its place; dropped, it makes the number unknown', async () => {
  const line = feed(3);
  line.push({ n: 1 });
  line.push(GAP);
  line.push({ n: 2 });
  expect(await line.next()).toEqual({ done: false, value: { n: 1 } });
  expect(await line.next()).toEqual({ done: false, value: GAP });
  line.push(GAP);
  expect([3, 4].map((n) => line.push({ n }))).toEqual([0, 1]);
  expect(line.push({ n: 5 })).toBe(0);
  expect(await rest(line)).toEqual([GAP, { n: 3 }, { n: 4 }, { n: 5 }]);
});

it('ends those who wait, gives out what is left, and takes no more', async () => {
  const line = feed(3);
  const waiting = [line.next(), line.next()];
  line.end();
  expect(await Promise.all(waiting)).toEqual([
    { done: true, value: undefined },
    { done: true, value: undefined },
  ]);
  expect(line.push({ n: 1 })).toBe(0);
  expect(await line.next()).toEqual({ done: true, value: undefined });
});

it('a reader who leaves is told of, and leaves nothing', async () => {
  const onDone = vi.fn();
  const line = new Feed<Item>(3, onDone);
  for (let n = 1; n <= 5; n++) line.push({ n });
  for await (const item of line) {
    expect(item).toEqual({ event: 'gap', missed: 2 });
    break;
  }
  expect(onDone).toHaveBeenCalledTimes(1);
  expect(await line.next()).toEqual({ done: true, value: undefined });
});

it('whatever the order of adding and reading: nothing twice, nothing out of order, every loss told', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 8 }),
      fc.array(fc.boolean(), { maxLength: 200 }),
      async (limit, steps) => {
        const line = feed(limit);
        let added = 0;
        let expected = 1;
        const check = (item: Item | EventGap): void => {
          if ('event' in item) expected += item.missed ?? NaN;
          else expect(item.n).toBe(expected++);
        };
        let dropped = 0;
        for (const add of steps) {
          if (add) dropped += line.push({ n: ++added });
          else if (expected <= added) {
            const { value } = await line.next();
            if (value !== undefined) check(value);
          }
        }
        const left = await rest(line);
        expect(left.filter((item) => !('event' in item)).length).toBeLessThanOrEqual(limit);
        left.forEach(check);
        expect(expected).toBe(added + 1);
        expect(dropped).toBeLessThanOrEqual(Math.max(0, added - limit));
      },
    ),
  );
});
