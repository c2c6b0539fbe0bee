/**
 * Repeats on a server: what is kept, what is fired and when, and who may do what; on both executors.
 *
 * Slots that were missed are made by moving the next slot into the past, never by waiting.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { bytesCodec, mint, type ConsumedJob, type Queue } from '../../../src/index.js';
import { Repeats, type RepeatRun } from '../../../src/queue/repeats.js';
import { EXECUTORS } from '../../conformance/stage.js';
import { Diary, PATIENCE } from '../../worker/support/diary.js';
import { NO_BEAT, Shop } from '../../worker/support/shop.js';

const HOUR = 3_600_000;

describe.each(EXECUTORS)('repeats on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  let repeats: Repeats;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  function open(): void {
    queue = shop.queue();
    repeats = new Repeats(shop.stage.connector, queue.queue);
  }

  /** The next slot is that long ago. Gives the slot. */
  async function overdue(name: string, ms: number): Promise<number> {
    const slot = (await shop.stage.now()) - ms;
    await shop.raw.zadd(queue.keys.repeat, slot, name);
    await shop.raw.hset(`${queue.keys.base}repeat:${name}`, 'next', String(slot));
    return slot;
  }

  /** Takes what waits, in order. */
  async function runs(): Promise<RepeatRun[]> {
    const jobs = await queue.take({ leaseMs: HOUR, count: 1_000 });
    return jobs.map((job) => job.opts['repeat'] as RepeatRun);
  }

  describe('putting one', () => {
    it('creates it; the same again keeps its slot; another schedule begins anew', async () => {
      open();
      const before = await shop.stage.now();
      const first = await repeats.upsert('tick', { everyMs: HOUR }, { payload: 1, priority: 4 });
      expect(first.outcome).toBe('created');
      expect(first.next).toBeGreaterThanOrEqual(before + HOUR);
      expect(first.next).toBeLessThanOrEqual((await shop.stage.now()) + HOUR);

      await shop.raw.hset(`${queue.keys.base}repeat:tick`, 'count', '7');
      expect(await repeats.upsert('tick', { everyMs: HOUR }, { payload: 2 })).toEqual({
        outcome: 'kept',
        next: first.next,
      });
      const kept = await repeats.get('tick');
      expect(kept).toMatchObject({ name: 'tick', next: first.next, count: 7, last: null, paused: false, priority: 0 });
      expect(kept?.spec).toEqual({ everyMs: HOUR, missed: 'skip' });
      expect(kept?.payload()).toBe(2);

      const changed = await repeats.upsert('tick', { cron: '0 0 1 1 *', missed: 'catchUp' }, { payload: 3 });
      expect(changed.outcome).toBe('changed');
      expect(new Date(changed.next as number).toISOString()).toMatch(/-01-01T00:00:00.000Z$/);
      expect(await repeats.get('tick')).toMatchObject({ count: 0, next: changed.next });
    });

    it('by five processes at once makes one', async () => {
      open();
      const others = await Promise.all(Array.from({ length: 5 }, () => shop.connect()));
      const put = others.map((connector) =>
        new Repeats(connector, queue.queue).upsert('tick', { everyMs: HOUR, immediately: true }, { payload: 1 }),
      );
      const outcomes = (await Promise.all(put)).map(({ outcome }) => outcome);
      expect(outcomes.sort()).toEqual(['created', 'kept', 'kept', 'kept', 'kept']);
      const fired = await Promise.all(others.map((connector) => new Repeats(connector, queue.queue).fire()));
      expect(fired.reduce((sum, one) => sum + one.fired, 0)).toBe(1);
      expect(await runs()).toHaveLength(1);
    });

    it('judges the payload as the queue does, and gives each job what it was given', async () => {
      open();
      const group = mint('TEN');
      await repeats.upsert(
        'tick',
        { everyMs: HOUR, immediately: true },
        { payload: { n: 1 }, group, priority: 9, name: 'tock', maxAttempts: 2, timeoutMs: 50, opts: { own: true } },
      );
      await repeats.fire();
      const [job] = await queue.take({ leaseMs: HOUR, count: 1 });
      expect(job?.payload).toEqual({ n: 1 });
      expect(job?.group).toBe(group);
      expect(job?.name).toBe('tock');
      expect(job?.own).toMatchObject({ maxAttempts: 2, timeoutMs: 50 });
      expect(job?.opts['own']).toBe(true);
      expect(await queue.get(job?.id ?? '')).toMatchObject({ priority: 9, group });

      const bytes = new Repeats(shop.stage.connector, queue.queue, { codec: bytesCodec, maxPayloadBytes: 3 });
      await bytes.upsert('raw', { everyMs: HOUR }, { payload: Buffer.from([0, 255, 1]) });
      expect((await bytes.get('raw'))?.payload()).toEqual(Buffer.from([0, 255, 1]));
      await expect(bytes.upsert('raw', { everyMs: HOUR }, { payload: Buffer.alloc(4) })).rejects.toThrow(
        /4 bytes, the limit is 3/,
      );
    });

    it.each<[string, () => Promise<unknown>, RegExp]>([
      [
        'a name outside the grammar',
        () => repeats.upsert('a b', { everyMs: 1 }, { payload: 1 }),
        /name of a repeat "a b" must be/,
      ],
      [
        'an unknown option',
        () => repeats.upsert('a', { everyMs: 1 }, { payload: 1, dedup: 1 } as never),
        /unknown option "dedup"/,
      ],
      [
        'no lane',
        () => repeats.upsert('a', { everyMs: 1 }, { payload: 1, group: 'x' }),
        /group "x" must be a branded id/,
      ],
      [
        'the name of the slot',
        () => repeats.upsert('a', { everyMs: 1 }, { payload: 1, opts: { repeat: 1 } }),
        /opts.repeat is where/,
      ],
      ['a pattern without a time', () => repeats.upsert('a', { cron: '0 0 30 2 *' }, { payload: 1 }), /names no time/],
      ['no payload of JSON', () => repeats.upsert('a', { everyMs: 1 }, { payload: undefined }), /no JSON form/],
      ['a name to pause', () => repeats.pause(''), /name of a repeat/],
      ['a name to resume', () => repeats.resume(''), /name of a repeat/],
      ['a name to remove', () => repeats.remove(''), /name of a repeat/],
      ['a name to look at', () => repeats.get(''), /name of a repeat/],
    ])('refuses %s, and writes nothing', async (_what, act, says) => {
      open();
      await expect(act()).rejects.toThrow(says);
      expect(await shop.raw.keys(`${queue.keys.base}*`)).toEqual([]);
    });
  });

  describe('a pass', () => {
    it('fires what is due, at most once a slot, however many processes make one', async () => {
      open();
      await repeats.upsert('tick', { everyMs: HOUR }, { payload: 1 });
      const slot = await overdue('tick', 5);
      const others = await Promise.all(Array.from({ length: 5 }, () => shop.connect()));
      const fired = await Promise.all(others.map((one) => new Repeats(one, queue.queue).fire()));
      expect(fired.map((one) => one.fired).sort()).toEqual([0, 0, 0, 0, 1]);
      expect(await runs()).toEqual([{ name: 'tick', slot, count: 1 }]);
      expect(await repeats.get('tick')).toMatchObject({ next: slot + HOUR, last: slot, count: 1 });
      expect(await repeats.fire()).toEqual({ fired: 0, more: false, errors: [] });
    });

    it('makes one job for all slots that were missed, for the latest of them', async () => {
      open();
      await repeats.upsert('tick', { everyMs: 1_000 }, { payload: 1 });
      const slot = await overdue('tick', 10_500);
      expect(await repeats.fire()).toEqual({ fired: 1, more: false, errors: [] });
      expect(await runs()).toEqual([{ name: 'tick', slot: slot + 10_000, count: 1, missedFrom: slot }]);
      expect((await repeats.get('tick'))?.next).toBe(slot + 11_000);
    });

    it('catches up where that is wanted: each slot in order, in bounded passes that leave the others their turn', async () => {
      open();
      await repeats.upsert('all', { everyMs: 1_000, missed: 'catchUp' }, { payload: 1 });
      await repeats.upsert('one', { everyMs: HOUR }, { payload: 1 });
      const slot = await overdue('all', 249_500);
      await overdue('one', 5);
      const first = await repeats.fire();
      expect(first).toEqual({ fired: 51, more: true, errors: [] });
      let [passes, fired] = [1, first.fired];
      for (let more = true; more; passes++) {
        const pass = await repeats.fire();
        fired += pass.fired;
        ({ more } = pass);
      }
      expect([fired, passes]).toEqual([251, 3]);
      const found = await runs();
      const caught = found.filter(({ name }) => name === 'all');
      expect(caught.map((run) => run.slot)).toEqual(Array.from({ length: 250 }, (_, n) => slot + n * 1_000));
      expect(caught.map((run) => run.count)).toEqual(Array.from({ length: 250 }, (_, n) => n + 1));
      expect(found.findIndex(({ name }) => name === 'one')).toBeLessThan(100);
      expect((await repeats.get('all'))?.next).toBe(slot + 250_000);
    });

    it('ends at the limit, and at the end, which is the last slot', async () => {
      open();
      const now = await shop.stage.now();
      await repeats.upsert('three', { everyMs: 1_000, limit: 3, missed: 'catchUp' }, { payload: 1 });
      await repeats.upsert('until', { everyMs: 1_000, endAt: now - 7_000, missed: 'catchUp' }, { payload: 1 });
      await overdue('three', 10_000);
      await shop.raw.zadd(queue.keys.repeat, now - 9_000, 'until');
      expect(await repeats.fire()).toMatchObject({ fired: 6, more: false });
      const found = await runs();
      expect(found.filter(({ name }) => name === 'until').map(({ slot }) => slot - now)).toEqual([
        -9_000, -8_000, -7_000,
      ]);
      expect(await repeats.get('three')).toMatchObject({ next: null, count: 3, paused: false });
      expect(await repeats.get('until')).toMatchObject({ next: null, count: 3 });
      expect(await repeats.fire()).toEqual({ fired: 0, more: false, errors: [] });
    });

    it('tells what it cannot read, and fires the rest', async () => {
      open();
      for (const name of ['bad', 'good']) await repeats.upsert(name, { everyMs: HOUR }, { payload: 1 });
      await shop.raw.hset(`${queue.keys.base}repeat:bad`, 'spec', '{"moon":"full"}');
      await overdue('bad', 50);
      await overdue('good', 5);
      const { fired, more, errors } = await repeats.fire();
      expect([fired, more]).toEqual([1, false]);
      expect(errors.map(({ message }) => message)).toEqual([
        expect.stringMatching(/unknown option "moon".*\(repeat bad\)/),
      ]);
      expect(await repeats.get('bad')).toMatchObject({ spec: undefined, specText: '{"moon":"full"}', count: 0 });
    });

    it('takes a name without a record off the list', async () => {
      open();
      await shop.raw.zadd(queue.keys.repeat, 5, 'ghost');
      expect(await repeats.fire()).toEqual({ fired: 0, more: false, errors: [] });
      expect(await shop.raw.exists(queue.keys.repeat)).toBe(0);
    });
  });

  describe('the operator', () => {
    it('stops one: nothing fires, and it goes on at the first slot after now, in step', async () => {
      open();
      await repeats.upsert('tick', { everyMs: 1_000, missed: 'catchUp' }, { payload: 1 });
      const slot = await overdue('tick', 10_500);
      expect(await repeats.pause('tick')).toBe('paused');
      expect(await repeats.pause('tick')).toBe('was paused');
      expect(await repeats.fire()).toMatchObject({ fired: 0 });
      expect(await repeats.get('tick')).toMatchObject({ paused: true });
      expect(await repeats.upsert('tick', { everyMs: 1_000, missed: 'catchUp' }, { payload: 2 })).toMatchObject({
        outcome: 'kept',
      });
      expect(await repeats.fire()).toMatchObject({ fired: 0 });

      expect(await repeats.resume('tick')).toBe('resumed');
      expect(await repeats.resume('tick')).toBe('not paused');
      const { next, paused } = (await repeats.get('tick')) ?? {};
      expect(paused).toBe(false);
      expect(((next as number) - slot) % 1_000).toBe(0);
      expect(next).toBeGreaterThanOrEqual(slot + 11_000);
      expect(await shop.raw.zscore(queue.keys.repeat, 'tick')).toBe(String(next));
    });

    it('one that is over does not begin anew by it', async () => {
      open();
      await repeats.upsert('once', { everyMs: 1_000, limit: 1, immediately: true }, { payload: 1 });
      expect(await repeats.fire()).toMatchObject({ fired: 1 });
      await repeats.pause('once');
      expect(await repeats.resume('once')).toBe('resumed');
      expect(await repeats.get('once')).toMatchObject({ next: null, paused: false });
    });

    it('removes one; its jobs stay', async () => {
      open();
      await repeats.upsert('tick', { everyMs: 1_000, immediately: true }, { payload: 1 });
      await repeats.fire();
      expect(await repeats.remove('tick')).toBe('removed');
      expect(await repeats.remove('tick')).toBe('gone');
      for (const gone of [repeats.pause('tick'), repeats.resume('tick')]) expect(await gone).toBe('gone');
      expect(await repeats.get('tick')).toBeNull();
      expect(await runs()).toHaveLength(1);
    });

    it('lists all, the next to fire first, in as many steps as it takes', async () => {
      open();
      const names = Array.from({ length: 230 }, (_, n) => `r${String(n).padStart(3, '0')}`);
      await Promise.all(names.map((name, n) => repeats.upsert(name, { everyMs: HOUR + n * 60_000 }, { payload: n })));
      await repeats.pause('r000');
      const listed: string[] = [];
      for await (const repeat of repeats.list()) {
        expect(repeat.payload()).toBe(Number(repeat.name.slice(1)));
        listed.push(repeat.name);
      }
      expect(listed).toEqual([...names.slice(1), 'r000']);
    });
  });

  describe('with a consumer', () => {
    it('fires at the slot, not at a beat: every run follows its slot at once, and none is left out', async () => {
      open();
      const seen: { run: RepeatRun; lateMs: number }[] = [];
      // the clocks are one machine's
      const consumer = shop.consume(queue, (job: ConsumedJob) => {
        const run = job.opts['repeat'] as RepeatRun;
        seen.push({ run, lateMs: Date.now() - run.slot });
      });
      const diary = new Diary(consumer, { warnings: true });
      await repeats.upsert('tick', { everyMs: 60 }, { payload: 1 });
      await diary.until('completed', 12);
      await repeats.remove('tick');
      expect(seen.map(({ run }) => run.count)).toEqual(seen.map((_, n) => n + 1));
      const late = seen.map(({ lateMs }) => lateMs).sort((a, b) => a - b);
      expect(late[0]).toBeGreaterThanOrEqual(0);
      // half of them within a few ms: the machine may be busy for a while, but not all the time
      expect(late[Math.floor(late.length / 2)]).toBeLessThan(25);
      expect(diary.of('warning')).toEqual([]);
    });

    it('one that starts later, and that nobody wakes, fires at the slot', async () => {
      open();
      await repeats.upsert('tick', { everyMs: 400, limit: 1 }, { payload: 1 });
      await shop.raw.del(queue.keys.wake);
      await new Diary(shop.consume(queue, () => 1)).until('completed');
    });

    it('an earlier slot that is put while it waits is heard of', async () => {
      open();
      const diary = new Diary(shop.consume(queue, () => 1));
      await repeats.upsert('later', { everyMs: HOUR }, { payload: 1 });
      await repeats.upsert('now', { everyMs: HOUR, immediately: true }, { payload: 1 });
      await diary.until('completed');
      expect(await repeats.get('later')).toMatchObject({ count: 0 });
    });

    it('catches up from one beat to the next without a pause', async () => {
      open();
      await repeats.upsert('all', { everyMs: 1_000, missed: 'catchUp' }, { payload: 1 });
      await overdue('all', 349_500);
      const diary = new Diary(shop.consume(queue, () => 1, { concurrency: 50 }));
      await diary.until('completed', 350);
    });

    it('says once that one cannot be read, does not spin on it, and fires the others', async () => {
      open();
      for (const name of ['bad', 'good']) await repeats.upsert(name, { everyMs: HOUR }, { payload: 1 });
      await shop.raw.hset(`${queue.keys.base}repeat:bad`, 'spec', 'full moon');
      await overdue('bad', 50);
      await overdue('good', 5);
      const consumer = shop.consume(queue, () => 1, { ...NO_BEAT, beatMs: 40 });
      const diary = new Diary(consumer, { warnings: true });
      await diary.until('completed');
      const [since, before] = [performance.now(), await scripts()];
      await vi.waitUntil(() => performance.now() - since > 400, PATIENCE);
      // ten beats of at most seven
      expect((await scripts()) - before).toBeLessThan(120);
      expect(diary.of('warning')).toHaveLength(1);
      expect((diary.of('warning')[0]?.args[0] as Error).message).toMatch(
        /spec of the repeat is no JSON.*\(repeat bad\)/,
      );
    });

    /** How many scripts the server has run. */
    async function scripts(): Promise<number> {
      const stats = await shop.raw.info('commandstats');
      return [...stats.matchAll(/cmdstat_evalsha(?:_ro)?:calls=(\d+)/g)].reduce((sum, [, n]) => sum + Number(n), 0);
    }
  });
});
