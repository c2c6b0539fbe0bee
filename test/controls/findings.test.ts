/**
 * What a user and a breaker found of lanes, limits, repeats and the operator's verbs; each as it was found.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Admin, Lanes, mint, RateLimitError, Repeats, type Call, type Jobs, type Wire } from '../../src/index.js';
import { callOf } from '../../src/queue/job-controls.js';
import { checkSchedule, latestSlot } from '../../src/queue/repeat-spec.js';
import { transitions } from '../../src/wire/transitions.js';
import { EXECUTORS, MINUTE, Stage } from '../conformance/stage.js';
import { Diary } from '../worker/support/diary.js';
import { Shop } from '../worker/support/shop.js';

const LEASE = { leaseMs: MINUTE };
const DEATH = { delayMs: 0, maxAttempts: 1, error: 'broken' };

describe('a cron repeat that was to run at once', () => {
  it('runs for that time, and loses no slot of its pattern', () => {
    const spec = checkSchedule({ cron: '30 2 * * *', timeZone: 'UTC' });
    const at = Date.UTC(2026, 10, 30, 4, 10, 36);
    expect(latestSlot(spec, at, at + 500)).toBe(at);
    // a slot of the pattern has passed meanwhile: that is the latest
    const night = Date.UTC(2026, 11, 1, 2, 30);
    expect(latestSlot(spec, at, night + 5)).toBe(night);
    expect(latestSlot(spec, at, night - 1)).toBe(at);
  });
});

describe.each(EXECUTORS)('the operator on %s', (_executor, wire) => {
  let stage: Stage;
  let jobs: Jobs<unknown>;
  let count = 0;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  beforeEach(() => {
    jobs = stage.jobs(`findings.${(count += 1)}`);
  });

  it('gives lanes, repeats and an admin the queue itself', () => {
    for (const Of of [Lanes, Repeats, Admin]) expect(new Of(jobs.wire, jobs).queue).toBe(jobs.queue);
    expect(() => new Repeats(5 as unknown as Wire, 'q')).toThrow(/first argument of Repeats is a Connector/);
  });

  it('is told of wrong input, before the wire', async () => {
    const admin = new Admin(jobs.wire, jobs);
    await expect(admin.setLimits({ concurrency: 2 ** 60 })).rejects.toThrow(/EMQ_INPUT.*1 to 2\^52/);
    const repeats = new Repeats(jobs.wire, jobs);
    for (const opts of [null, 'x', 5]) {
      const job = { payload: 1, opts: opts as never };
      await expect(repeats.upsert('r', { everyMs: MINUTE }, job)).rejects.toThrow(
        /EMQ_INPUT.*opts must be a plain object/,
      );
    }
    expect(await repeats.get('r')).toBeNull();
  });

  it('brings back no dead job whose event has been processed meanwhile; one whose id is free has it again', async () => {
    const admin = new Admin(jobs.wire, jobs);
    const dedup = { id: 'event-1', ttlMs: MINUTE, keep: true };
    const first = await jobs.enqueue(1, { dedup });
    await jobs.fail((await jobs.claim(LEASE))!, DEATH);
    const second = await jobs.enqueue(1, { dedup });
    expect(second.outcome).toBe('enqueued');
    await jobs.complete((await jobs.claim(LEASE))!);
    await expect(stage.unchanged(() => jobs.reprocess(first.id))).rejects.toThrow(/EMQSTATE dedup id taken/);
    expect(await admin.reprocessAll({})).toEqual({ reprocessed: 0, held: 1, looked: 1 });
    expect(await jobs.freeDedup('event-1')).toBe('freed');
    expect(await admin.reprocessAll({})).toEqual({ reprocessed: 1, held: 0, looked: 1 });
    expect(await jobs.dedupOwner('event-1')).toMatchObject({ id: first.id });
    expect((await jobs.enqueue(1, { dedup })).outcome).toBe('deduplicated');
    await jobs.complete((await jobs.claim(LEASE))!);
    // for the rest of a whole ttl, as when it was enqueued
    const kept = await jobs.dedupOwner('event-1');
    expect(kept?.ttlMs).toBeGreaterThan(MINUTE - 10_000);
  });

  it.each([
    ['the same rate', (lanes: Lanes, lane: string) => lanes.setRate(lane, { max: 10, durationMs: MINUTE })],
    ['a weight', (lanes: Lanes, lane: string) => lanes.setWeight(lane, 3)],
    ['a limit', (lanes: Lanes, lane: string) => lanes.setLimit(lane, 5)],
    ['another rate', (lanes: Lanes, lane: string) => lanes.setRate(lane, { max: 500, durationMs: MINUTE })],
    ['no rate', (lanes: Lanes, lane: string) => lanes.setRate(lane, null)],
    ['a limit of all lanes', (lanes: Lanes) => lanes.setLimit('*', 5)],
    ['a rate of all lanes', (lanes: Lanes) => lanes.setRate('*', { max: 7 })],
  ])('does not lift the back-off of a lane by setting %s', async (_what, set) => {
    const lane = mint('TEN');
    const lanes = new Lanes(jobs.wire, jobs);
    await lanes.setRate(lane, { max: 10, durationMs: MINUTE });
    await jobs.enqueueMany([1, 2].map((payload) => ({ payload, group: lane })));
    const { id, token } = (await lanes.claim(LEASE))!;
    await jobs.wire.run(callOf(jobs.keys, transitions.backOff, { id, token, ms: 60 * MINUTE, scope: 'own' }));
    const [before] = await lanes.info([lane]);
    expect(before?.state).toBe('waits');
    await set(lanes, lane);
    const [after] = await lanes.info([lane]);
    expect(after?.waitsUntil).toBe(before?.waitsUntil);
    expect(await lanes.claim(LEASE)).toBeNull();
  });

  it('does not lift the back-off of a queue by setting a rate, another or none', async () => {
    const admin = new Admin(jobs.wire, jobs);
    await jobs.enqueueMany([1, 2].map((payload) => ({ payload })));
    const { id, token } = (await jobs.claim(LEASE))!;
    await jobs.wire.run(callOf(jobs.keys, transitions.backOff, { id, token, ms: 60 * MINUTE, scope: 'own' }));
    for (const rate of [{ max: 5 }, { max: 50, durationMs: MINUTE }, null, { max: 5 }]) {
      await admin.setLimits({ rate });
      expect((await admin.limits()).nextTokenMs).toBeGreaterThan(59 * MINUTE);
      expect(await jobs.claim(LEASE)).toBeNull();
    }
  });

  it('drains what goes from one place to another behind its back', async () => {
    const lane = mint('TEN');
    const lanes = new Lanes(jobs.wire, jobs);
    await lanes.setLimit(lane, 1);
    await jobs.enqueueMany([1, 2, 3].map((payload) => ({ payload, group: lane })));
    const running = (await lanes.claim(LEASE))!;
    const late = await jobs.schedule(4, { at: 1 }, { group: mint('TEN') });
    let [settled, promoted] = [false, false];
    const meddling: Wire = {
      run: async (call: Call) => {
        const reply = await jobs.wire.run(call);
        if (call.transition.name === 'lanes' && String(call.args[0]) === 'ring' && !settled) {
          settled = true;
          await jobs.complete(running);
        }
        if (call.transition.name === 'purge' && String(call.keys[0]) === jobs.keys.pending && !promoted) {
          promoted = true;
          await jobs.promote();
        }
        return reply;
      },
      runAll: (calls) => jobs.wire.runAll(calls),
    };
    expect(await new Admin(meddling, jobs.queue).drain({ scheduled: true })).toEqual({ removed: 3, kept: 0 });
    expect(await jobs.get(late.id)).toBeNull();
    for await (const { waiting } of lanes.list()) expect(waiting).toBe(0);
  });

  it('obliterates thousands of lanes that are known from one place only, and their spent rates', async () => {
    const lanes = new Lanes(jobs.wire, jobs);
    const groups = Array.from({ length: 1_500 }, () => mint('TEN'));
    await jobs.enqueueMany(groups.map((group) => ({ payload: 1, group })));
    const [rated = ''] = groups;
    await lanes.setRate(rated, { max: 1, durationMs: 3_600_000 });
    await Promise.all(groups.map((group) => lanes.pause(group)));
    await lanes.resume(rated);
    await jobs.complete((await lanes.claim(LEASE))!);
    const admin = new Admin(jobs.wire, jobs);
    await admin.pause();
    await admin.obliterate();
    expect(await stage.raw.keys(`${jobs.keys.base}*`)).toEqual([]);
  });
});

describe.each(EXECUTORS)('a consumer on %s', (_executor, wire) => {
  let shop: Shop;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  it.each([
    ['gmax', ['HSET', 'gmax']],
    ['limiter', ['SET', 'limiter']],
  ])('says that a lane cannot be served for its %s, and does not spin', async (what, [command = '']) => {
    const queue = shop.queue();
    const group = mint('TEN');
    await new Lanes(queue.wire, queue).setRate(group, { max: 5 });
    const { base } = queue.keys;
    const words = what === 'gmax' ? [`${base}gmax`, group, 'many'] : [`${base}g:${group}:limiter`, 'soon'];
    await shop.raw.call(command, ...words);
    await queue.enqueue(1, { group });
    const diary = new Diary(
      shop.consume(queue, () => 'done'),
      { warnings: true },
    );
    await diary.until('warning');
    expect(String(diary.of('warning')[0]?.args[0])).toContain(
      `lane ${group} cannot be served: ${what} is not an integer`,
    );
    expect(diary.of('quarantined')).toEqual([]);
    const calls = async (): Promise<number> => {
      const stats = String(await shop.raw.call('INFO', 'commandstats'));
      return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    const before = await calls();
    await shop.raw.call('BLPOP', 'nobody', '0.5');
    expect((await calls()) - before).toBeLessThan(60);
    await shop.raw.call('DEL', ...(what === 'gmax' ? [`${base}gmax`] : [`${base}g:${group}:limiter`]));
    await diary.until('completed');
  });

  it('fires the other repeats at their slots beside one that cannot be read', async () => {
    const queue = shop.queue<string>();
    const { base } = queue.keys;
    await shop.raw.call('HSET', `${base}repeat:junk`, 'name', 'junk', 'spec', 'no spec', 'payload', '1');
    await shop.raw.call('ZADD', `${base}repeat`, '1', 'junk');
    await new Repeats(queue.wire, queue).upsert('ok', { everyMs: 100, missed: 'skip' }, { payload: 'x' });
    const slots: number[] = [];
    const diary = new Diary(
      shop.consume(queue, ({ opts }) => {
        slots.push((opts['repeat'] as { slot: number }).slot);
      }),
      { warnings: true },
    );
    await diary.until('completed', 8);
    // without a beat: each comes because it is due
    expect((slots[7] ?? 0) - (slots[0] ?? 0)).toBeLessThan(2_000);
    expect(String(diary.of('warning')[0]?.args[0])).toContain('repeat junk');
  });

  it('takes a back-off that is too long for a failure that says so', async () => {
    const queue = shop.queue();
    const { id } = await queue.enqueue(1, { maxAttempts: 1 });
    const consumer = shop.consume(queue, () => {
      throw new RateLimitError(Date.now());
    });
    await new Diary(consumer).until('failed');
    expect(String((await queue.get(id))?.lastError)).toContain('ms of a RateLimitError must be a whole number of ms');
    await vi.waitFor(async () => expect(await queue.counts(['active', 'dead'])).toEqual({ active: 0, dead: 1 }));
  });
});
