/**
 * Woken, not polled, on both executors: jobs start without a beat, scheduled ones when they are due, and a token that
 * nobody here can use goes on to the next process. What it costs to wait.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { mint, type Queue } from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { CallLog } from './support/calls.js';
import { Diary, PATIENCE } from './support/diary.js';
import { Shop } from './support/shop.js';

describe.each(EXECUTORS)('the wake on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  /** Resolves when so many connections are blocked on the queue's wake. */
  async function parked(count = 1): Promise<void> {
    await vi.waitUntil(async () => {
      const list = String(await shop.raw.client('LIST')).split('\n');
      return list.filter((line) => / flags=\w*b/.test(line)).length === count;
    }, PATIENCE);
  }

  it('starts a job that is enqueued while all are parked, time and again, with no beat at all', async () => {
    queue = shop.queue();
    const consumer = shop.consume(queue, () => 'done');
    const diary = new Diary(consumer);
    for (let n = 1; n <= 20; n++) {
      await parked();
      await queue.enqueue(n);
      await diary.until('completed', n);
    }
  });

  it.each([
    ['flat', 'lanes'],
    ['lanes', 'flat'],
  ] as const)('that reached a process of %s jobs goes on to one of %s, with no beat', async (first, second) => {
    queue = shop.queue();
    const idle = shop.consume(queue, () => 'done', { source: first });
    // who was parked first is woken first
    await parked(1);
    const diary = new Diary(shop.consume(await shop.elsewhere(queue), () => 'done', { source: second }));
    await parked(2);
    if (second === 'flat') await queue.enqueue(1);
    else await enqueueIntoLane();
    await diary.until('completed');
    expect(idle.stats().claimed).toBe(0);
    // and then all is quiet again
    await parked(2);
    await vi.waitUntil(async () => (await shop.raw.exists(queue.keys.wake)) === 0, PATIENCE);
  });

  async function enqueueIntoLane(): Promise<void> {
    const [id, group] = [mint(), 'GRP0KHTOWnGLuC'];
    const { base, wake, ring } = queue.keys;
    await shop.raw
      .multi()
      .hset(queue.keys.job(id), { state: 'pending', attempts: '0', payload: '1', group })
      .zadd(`${base}g:${group}:pending`, 0, id)
      .rpush(ring, group)
      .lpush(wake, '1')
      .exec();
  }

  it('is less than 600 ms in coming at a beat of 2 s', async () => {
    queue = shop.queue();
    const diary = new Diary(shop.consume(queue, () => 'done', { beatMs: 2_000 }));
    await parked();
    await queue.enqueue(1);
    const started = performance.now();
    await diary.until('completed');
    expect(performance.now() - started).toBeLessThan(600);
  });

  it('costs one blocked connection and one beat a second, however many consumers there are', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const log = new CallLog(connector);
    const before = Number(await connectedClients());
    const same = await shop.elsewhere(queue, connector);
    const consumers = Array.from({ length: 16 }, () =>
      shop.consume(same, () => 'done', { beatMs: 1_000, concurrency: 3 }),
    );
    await parked(1);
    // a blocked one, and the one ear of the process
    await vi.waitUntil(async () => (await connectedClients()) === before + 2, PATIENCE);
    await vi.waitUntil(() => log.of('agenda').length >= 2, PATIENCE);
    log.calls.length = log.times.length = 0;
    await vi.waitUntil(() => log.of('agenda').length >= 3, PATIENCE);
    const beats = log.of('agenda').length;
    expect(log.names.toSorted()).toEqual(
      ['promote', 'reap', 'agenda', 'take'].flatMap((name) => Array.from({ length: beats }, () => name)).sort(),
    );
    const { ms, steps } = log.span('promote');
    expect(ms).toBeGreaterThan(steps * 950);
    expect(String(log.of('take')[0]?.args[1])).toBe('48');
    await Promise.all(consumers.map((consumer) => consumer.close()));
    await vi.waitUntil(async () => (await connectedClients()) === before, PATIENCE);
  });

  async function connectedClients(): Promise<number> {
    return String(await shop.raw.client('LIST')).trim().split('\n').filter((line) => !/ flags=O/.test(line)).length; // prettier-ignore
  }

  it('P32: a job that is due is started on time, though another is due much later and no beat comes', async () => {
    queue = shop.queue();
    const diary = new Diary(shop.consume(queue, () => 'done'));
    await parked();
    await queue.schedule('late', { inMs: 6 * 3_600_000 });
    const { id } = await queue.schedule('soon', { inMs: 1_000 });
    const due = Number(await shop.raw.zscore(queue.keys.schedule, id));
    let lateness = NaN;
    diary.consumer.once('claimed', () => void shop.stage.now().then((now) => (lateness = now - due)));
    await diary.until('completed');
    await vi.waitUntil(() => !Number.isNaN(lateness), PATIENCE);
    expect(lateness).toBeGreaterThanOrEqual(0);
    expect(lateness).toBeLessThan(500); // tens of ms at worst on a machine of one's own
  });

  it('a nearer schedule shortens the wait, one after the other', async () => {
    queue = shop.queue();
    const order: unknown[] = [];
    const diary = new Diary(shop.consume(queue, ({ payload }) => order.push(payload)));
    await parked();
    for (const [payload, inMs] of [['c', 700], ['b', 400], ['a', 100]] as const) await queue.schedule(payload, { inMs }); // prettier-ignore
    await diary.until('completed', 3);
    expect(order).toEqual(['a', 'b', 'c']);
  });

  it('P32: a promote that fails is not the last one', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    let failures = 2;
    const log = new CallLog(connector, ({ transition }) =>
      transition.name === 'promote' && failures-- > 0 ? new Error('out of sorts') : undefined,
    );
    const consumer = shop.consume(await shop.elsewhere(queue, connector), () => 'done', { beatMs: 50 });
    const diary = new Diary(consumer, { warnings: true });
    await queue.schedule(1, { inMs: 0 });
    await diary.until('completed');
    expect(log.of('promote').length).toBeGreaterThanOrEqual(3);
    expect(String(diary.of('warning')[0]?.args[0])).toMatch(/out of sorts \(promote on queue/);
  });

  it('comes with a resume', async () => {
    queue = shop.queue();
    await queue.pause();
    const diary = new Diary(shop.consume(queue, () => 'done'));
    await parked();
    await queue.enqueueMany([1, 2, 3].map((payload) => ({ payload })));
    await vi.waitUntil(async () => (await shop.raw.exists(queue.keys.wake)) === 0, PATIENCE);
    expect(diary.of('claimed')).toEqual([]);
    await queue.resume();
    await diary.until('completed', 3);
  });

  it('is passed on: of two processes with one slot each, both run when a queue with two jobs is resumed', async () => {
    queue = shop.queue();
    await queue.pause();
    await queue.enqueueMany([1, 2].map((payload) => ({ payload })));
    await shop.raw.del(queue.keys.wake);
    const ends: (() => void)[] = [];
    const handler = () => new Promise<void>((end) => ends.push(end));
    const diaries = await Promise.all(
      [1, 2].map(async () => new Diary(shop.consume(await shop.elsewhere(queue), handler))),
    );
    await parked(2);
    await queue.resume(); // one token
    await Promise.all(diaries.map((diary) => diary.until('claimed')));
    for (const end of ends) end();
    await Promise.all(diaries.map((diary) => diary.until('completed')));
  });

  it('is passed on by a process that has no slot left when its token arrives', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const log = new CallLog(connector);
    const ends: (() => void)[] = [];
    const handler = () => new Promise<void>((end) => ends.push(end));
    const full = shop.consume(await shop.elsewhere(queue, connector), handler);
    await parked(1);
    // Its slot is asked for by somebody else of the process in the very moment in which the token comes.
    full.reserve(1);
    const { id } = await queue.enqueue(1);
    await vi.waitUntil(() => log.of('wake').length === 1, PATIENCE);
    const diary = new Diary(shop.consume(await shop.elsewhere(queue), () => 'done'));
    await diary.until('completed');
    expect(diary.story(id)).toEqual(['claimed', 'completed']);
    full.serve([], 1);
  });

  it('finds what waits for a consumer that joins, without a token of its own', async () => {
    queue = shop.queue();
    await queue.enqueueMany([1, 2].map((payload) => ({ payload })));
    await shop.raw.del(queue.keys.wake);
    const ends: (() => void)[] = [];
    const handler = () => new Promise<void>((end) => ends.push(end));
    const first = new Diary(shop.consume(queue, handler));
    const second = new Diary(shop.consume(queue, handler));
    await first.until('claimed');
    await second.until('claimed');
    for (const end of ends) end();
  });

  it('tells of a nearer schedule during a beat that has looked already: the job is on time all the same', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const run = connector.run.bind(connector);
    let free: () => void = () => {};
    const held = new Promise<void>((resolve) => (free = resolve));
    const names: string[] = [];
    vi.spyOn(connector, 'run').mockImplementation(async (call) => {
      names.push(call.transition.name);
      const looks = names.filter((name) => name === 'agenda').length;
      const reply = await run(call);
      // The beat's own look at the schedule is long in coming back.
      if (call.transition.name === 'agenda' && looks === 1) await held;
      return reply;
    });
    const diary = new Diary(shop.consume(await shop.elsewhere(queue, connector), () => 'done', { recovery: 'none' }));
    await parked();
    await queue.schedule(1, { inMs: 200 });
    await vi.waitUntil(() => names.filter((name) => name === 'agenda').length === 2, PATIENCE);
    free();
    await diary.until('completed');
  });

  it('serves those that are left when a consumer of the process goes', async () => {
    queue = shop.queue();
    const going = shop.consume(queue, () => 'gone');
    const diary = new Diary(shop.consume(queue, () => 'done'));
    await parked();
    await going.close();
    await parked();
    await queue.enqueue(1);
    await diary.until('completed');
    expect(going.stats()).toMatchObject({ state: 'closed', claimed: 0 });
  });

  it('a boundary stream: thirty jobs, each enqueued the moment the one before is done', async () => {
    queue = shop.queue();
    const diary = new Diary(shop.consume(queue, () => 'done'));
    diary.consumer.on('completed', () => {
      if (diary.of('completed').length < 30) void queue.enqueue(1);
    });
    await queue.enqueue(1);
    await diary.until('completed', 30);
  });
});
