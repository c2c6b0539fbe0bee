/**
 * Limits: whatever a verb writes is bounded. One byte too many is refused with `EMQ_INPUT` before the wire, as the server's
 * own counts say; as many as may be go through. The text of an error is cut instead, since a job must be able to fail.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Admin, Flows, Jobs, Lanes, mint, NamedQueue, Queue, Repeats, type JobContext } from '../../src/index.js';
import { claimed, errorOf, EXECUTORS, MINUTE, MISSING, Stage } from '../conformance/stage.js';

const MIB = 1_048_576;
const KIB_64 = 65_536;
const bytes = (count: number): Buffer => Buffer.alloc(count, 'x');
const text = (count: number): string => 'x'.repeat(count);
/** Opts whose JSON has so many bytes. */
const opts = (count: number): { opts: { a: string } } => ({ opts: { a: text(count - '{"a":""}'.length) } });

describe.each(EXECUTORS)('%s', (_executor, wire) => {
  let stage: Stage;
  let jobs: Jobs;
  beforeAll(async () => {
    stage = await Stage.start(wire);
    jobs = stage.jobs('limits');
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  /** How many commands of clients the server has run, but for those that count and those that ask for a sign of life. */
  async function commands(): Promise<number> {
    const stats = await stage.raw.info('commandstats');
    const counts = [...stats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)];
    return counts.reduce((sum, [, name, calls]) => (['info', 'ping'].includes(name!) ? sum : sum + Number(calls)), 0);
  }

  const group = mint('TEN');
  const over = bytes(MIB + 1);
  const everyMs = { everyMs: 60_000 };
  const child = { payload: 1 };
  const held = { id: MISSING, token: 1 };
  const make = () => ({
    lanes: new Lanes(stage.connector, jobs),
    flows: new Flows(stage.connector, jobs),
    repeats: new Repeats(stage.connector, jobs),
    admin: new Admin(stage.connector, jobs),
    named: new NamedQueue<{ a: unknown }>(stage.connector, 'limits'),
  });
  type Parts = ReturnType<typeof make>;
  const tooMuch: readonly (readonly [string, RegExp, (parts: Parts) => Promise<unknown>])[] = [
    ['enqueue', /payload has 1048577 bytes/, () => jobs.enqueue(over)],
    ['enqueue, as JSON', /payload has 1048577 bytes/, () => jobs.enqueue(text(MIB - 1))],
    ['enqueue with dedup', /payload has 1048577 bytes/, () => jobs.enqueue(over, { dedup: { id: 'd' } })],
    ['enqueueMany, the last', /payload has/, () => jobs.enqueueMany([{ payload: 1 }, { payload: over }])],
    ['schedule', /payload has/, () => jobs.schedule(over, { inMs: 1 })],
    ['updateData', /payload has/, () => jobs.updateData(MISSING, over)],
    ['Admin.updateData', /payload has/, ({ admin }) => admin.updateData(MISSING, over)],
    ['Lanes.enqueue', /payload has/, ({ lanes }) => lanes.enqueue(group, over)],
    ['Lanes.schedule', /payload has/, ({ lanes }) => lanes.schedule(group, over, { inMs: 1 })],
    ['Lanes.enqueueMany', /payload has/, ({ lanes }) => lanes.enqueueMany([{ group, payload: over }])],
    ['NamedQueue.enqueue', /payload has/, ({ named }) => named.enqueue('a', over)],
    ['NamedQueue.enqueueMany', /payload has/, ({ named }) => named.enqueueMany([{ name: 'a', payload: over }])],
    ['NamedQueue.schedule', /payload has/, ({ named }) => named.schedule('a', over, { inMs: 1 })],
    ['a flow', /payload has/, ({ flows }) => flows.add({ payload: over, children: [child] })],
    [
      'a child',
      /child 1: .*payload has/,
      ({ flows }) => flows.add({ payload: 1, children: [child, { payload: over }] }),
    ],
    ['addBulk', /payload has/, ({ flows }) => flows.addBulk([{ payload: over, children: [child] }])],
    ['prepare', /payload has/, ({ flows }) => flows.prepare({ payload: over, children: [child] })],
    ['a repeat', /payload has/, ({ repeats }) => repeats.upsert('r', everyMs, { payload: over })],
    ['opts', /opts have 1048577 bytes as JSON, the limit is 1048576/, () => jobs.enqueue(1, opts(MIB + 1))],
    ['opts of a repeat', /opts have/, ({ repeats }) => repeats.upsert('r', everyMs, { payload: 1, ...opts(MIB + 1) })],
    [
      'opts of a child',
      /opts have/,
      ({ flows }) => flows.add({ payload: 1, children: [{ ...child, ...opts(MIB + 1) }] }),
    ],
    ['a name', /name of a job .* 1 to 255/, () => jobs.enqueue(1, { name: text(256) })],
    ['a dedup id', /dedup id .* 1 to 255/, () => jobs.enqueue(1, { dedup: { id: text(256) } })],
    ['the name of a repeat', /1 to 255/, ({ repeats }) => repeats.upsert(text(256), everyMs, { payload: 1 })],
    [
      'a cron pattern',
      /1000 characters, got 1001/,
      ({ repeats }) => repeats.upsert('r', { cron: `${'0,'.repeat(496)}0 * * * *` }, { payload: 1 }),
    ],
    ['a result', /result of .* has 1048577 bytes/, () => jobs.complete(held, { result: over })],
    ['progress', /progress has 65537 bytes, the limit is 65536/, () => jobs.updateProgress(MISSING, text(KIB_64 + 1))],
    ['progress, in bytes', /progress has 65537 bytes/, () => jobs.updateProgress(MISSING, `é${text(KIB_64 - 1)}`)],
    ['a log line', /line has 65537 bytes, the limit is 65536/, () => jobs.addLog(MISSING, text(KIB_64 + 1))],
    ['a log line of bytes', /line has 65537 bytes/, () => jobs.addLog(MISSING, bytes(KIB_64 + 1))],
    ['a reason', /reason of a cancel has 4097 bytes, the limit is 4096/, () => jobs.cancel(MISSING, text(4_097))],
    ['Admin.cancel', /reason of a cancel has 4097 bytes/, ({ admin }) => admin.cancel(MISSING, text(4_097))],
  ];

  it.each(tooMuch)('too much is refused before the wire: %s', async (_what, words, act) => {
    const parts = make();
    const [sent, { calls }] = [await commands(), stage.connector.stats()];
    const error = await errorOf(() => act(parts));
    expect(error.code).toBe('EMQ_INPUT');
    expect(error.reason).toMatch(words);
    expect(error.message.length).toBeLessThan(400);
    expect(stage.connector.stats().calls).toBe(calls);
    expect(await commands()).toBe(sent);
  });

  it('as much as may be goes through', async () => {
    const { lanes, flows, repeats } = make();
    const most = bytes(MIB);
    const job = await claimed(jobs, most);
    expect(job.bytes.equals(most)).toBe(true);
    expect(await jobs.updateProgress(job.id, text(KIB_64))).toBe('updated');
    expect(await jobs.addLog(job.id, text(KIB_64))).toBe(1);
    expect(await jobs.updateData(job.id, most)).toBe('updated');
    expect(await jobs.cancel(job.id, text(4_096))).toBe('signalled');
    expect(await jobs.complete(job, { result: most })).toBe('completed');
    await lanes.enqueue(group, most, opts(MIB));
    await flows.add({ payload: most, children: [{ payload: most }] });
    await jobs.enqueue(1, { name: text(255), dedup: { id: text(255) } });
    await repeats.upsert(text(255), everyMs, { payload: most });
  });

  it('the error of a fail is cut, with a mark, and the job fails', async () => {
    for (const [error, kept] of [
      [text(4_096), text(4_096)],
      [text(9_999_999), `${text(4_090)} [cut]`],
      [bytes(4_097), `${text(4_090)} [cut]`],
      // never half a character
      ['€'.repeat(3_000), `${'€'.repeat(1_363)} [cut]`],
    ] as const) {
      await jobs.enqueue(1);
      const [job] = await jobs.claimBatch({ leaseMs: MINUTE, size: 1 });
      expect(await jobs.fail(job!, { delayMs: 0, maxAttempts: 1, error })).toBe('dead');
      expect(String((await jobs.get(job!.id))?.lastError)).toBe(kept);
    }
  });

  it('a handler that logs or tells too much is told so, and its error is cut', async () => {
    const queue = new Queue(stage.connector, 'handler');
    const codes: string[] = [];
    const attempt = async (act: () => Promise<unknown>): Promise<void> => {
      codes.push((await errorOf(act)).reason.split(',')[0]!);
    };
    const consumer = queue.consume(
      async (_job, { log, progress }: JobContext) => {
        await attempt(() => log(text(KIB_64 + 1)));
        await attempt(() => progress(text(KIB_64 + 1)));
        throw new Error(text(9_999_999));
      },
      { maxAttempts: 1 },
    );
    const { id } = await queue.enqueue(1);
    await vi.waitUntil(async () => (await queue.state(id)) === 'dead', { timeout: 10_000 });
    expect(codes).toEqual(['line has 65537 bytes', 'progress has 65537 bytes']);
    const row = await queue.get(id);
    expect(row?.lastError).toHaveLength(4_096);
    expect(String(row?.lastError)).toMatch(/ \[cut\]$/);
    expect(row?.progress).toBeUndefined();
    expect(await queue.logs(id)).toEqual([]);
    await consumer.close();
  });

  it('many large jobs leave in writes of 8 MiB and a little', async () => {
    const steps: number[] = [];
    const tap = {
      run: stage.connector.run.bind(stage.connector),
      runAll: (calls: Parameters<typeof stage.connector.runAll>[0]) => {
        steps.push(calls.length);
        return stage.connector.runAll(calls);
      },
    };
    const many = new Jobs(tap, 'many');
    const answers = await many.enqueueMany(Array.from({ length: 20 }, () => ({ payload: bytes(MIB) })));
    expect(steps).toEqual([8, 8, 4]);
    expect(answers.map(({ outcome }) => outcome)).toEqual(Array(20).fill('enqueued'));
    expect(await many.browse('pending', { order: 'asc' })).toEqual(answers.map(({ id }) => id));
  });
});
