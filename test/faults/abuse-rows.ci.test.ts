/**
 * Rows that strangers wrote: any bytes in any field, ids that are none, opts that are broken or absurd, beside good jobs. A
 * consumer runs every good job; each other one ends somewhere, by its own rules, and never in an exception. What the command
 * line shows of them holds nothing that a terminal would obey.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Admin, mint, Queue } from '../../src/index.js';
import { EXECUTORS, Stage } from '../conformance/stage.js';
import { emq } from '../fleets/command.js';
import { printSeed, seed } from '../parity/seed.js';

printSeed('abuse-rows.ci.test.ts');
const ROWS = 150;
const PATIENCE = { timeout: 20_000, interval: 20 } as const;
/** Everything but text, blanks and ends of lines, and what turns a line around. */
const OBEYED = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

const bytes = fc.uint8Array({ maxLength: 40 }).map((list) => Buffer.from(list));
const text = fc
  .constantFrom(
    '',
    '0',
    '1',
    '-1',
    '007',
    '1e3',
    '9'.repeat(30),
    'NaN',
    '\0',
    'x\x1b[2J\x07',
    'a\r\nb',
    '\u202eabc',
    '{}',
  )
  .map((one) => Buffer.from(one));
const number = fc.constantFrom(0, 1, -1, 1.5, 1e300, 2 ** 53, '5', null, true, [], {});
const opts = fc.oneof(
  bytes,
  fc
    .record(
      {
        name: fc.oneof(fc.string({ unit: 'binary', maxLength: 30 }), number),
        maxAttempts: number,
        timeoutMs: number,
        backoff: fc.oneof(
          number,
          fc.record({ type: fc.constantFrom('fixed', 'jitter', 'x'), delayMs: number, of: number }),
        ),
        trace: fc.oneof(number, fc.dictionary(fc.string(), fc.string())),
        __proto__: number,
      },
      { requiredKeys: [] },
    )
    .map((value) => Buffer.from(JSON.stringify(value))),
  fc.constant(Buffer.from(`${'['.repeat(10_000)}`)),
);
const value = fc.oneof(bytes, text);
const row = fc.record(
  {
    attempts: fc.oneof({ weight: 3, arbitrary: fc.constant(Buffer.from('0')) }, value),
    payload: value,
    opts,
    state: value,
    stalled: value,
    credit: value,
    priority: value,
    progress: value,
    last_error: value,
    lease_epoch: value,
    dedup: value,
    'any other': value,
  },
  { requiredKeys: [] },
);

describe.each(EXECUTORS)('%s', (_executor, wire) => {
  let stage: Stage;
  const stray: unknown[] = [];
  const onStray = (error: unknown): void => void stray.push(error);
  beforeAll(async () => {
    stage = await Stage.start(wire);
    process.on('unhandledRejection', onStray);
  });
  afterAll(async () => {
    process.off('unhandledRejection', onStray);
    await stage[Symbol.asyncDispose]();
  });

  it('a consumer outlives them, and the command line shows them as they are not', async () => {
    const queue = new Queue<unknown>(stage.connector, 'strange');
    const { keys } = queue;
    const strange: string[] = [];
    for (const fields of fc.sample(row, { seed, numRuns: ROWS })) {
      const id = mint();
      strange.push(id);
      const flat = Object.entries(fields).flatMap(([name, one]) => [name, one as Buffer]);
      if (flat.length > 0) await stage.raw.hset(keys.job(id), ...flat);
      await stage.raw.zadd(keys.pending, 0, id);
      // and ids that are none: the rows are there or not
      const none = `JOB\x1b[2J\0${strange.length}`;
      if (strange.length % 10 === 0) await stage.raw.zadd(keys.dead, 1, none);
      if (strange.length % 20 === 0) await stage.raw.hset(`${keys.base}job:${none}`, 'payload', 'x\x1b[2J');
    }
    const good = await queue.enqueueMany(Array.from({ length: 50 }, (_, i) => ({ payload: { i } })));
    const shown = async (...args: string[]): Promise<void> => {
      const { stdout, stderr } = await emq([...args, '--url', stage.server.url]);
      expect(OBEYED.exec(stdout + stderr)?.[0]).toBeUndefined();
    };
    for (const state of ['pending', 'dead']) await shown('jobs', 'strange', '--state', state, '--limit', '200');
    for (const id of strange.slice(0, 5)) await shown('job', 'strange', id, '--payload');

    const ran = new Set<string>();
    const ends = { warning: 0, quarantined: 0 };
    const consumer = queue.consume(
      (job) => {
        ran.add(job.id);
        // whatever it is: reading it is a typed error at most
        void job.payload;
        void [job.name, job.opts, job.group, job.credit, job.maxAttempts];
      },
      { beatMs: 20, maxAttempts: 1, concurrency: 8, leaseMs: 5_000, backoff: 0 },
    );
    consumer.on('warning', () => ends.warning++).on('quarantined', () => ends.quarantined++);
    await vi.waitUntil(async () => {
      const left = await queue.counts(['pending', 'active']);
      return left.pending === 0 && left.active === 0;
    }, PATIENCE);
    expect(good.filter(({ id }) => !ran.has(id))).toEqual([]);
    expect(stray).toEqual([]);
    expect(ends.quarantined).toBeGreaterThan(0);
    // each is gone or dead: or it was put off by limits of its own
    for (const id of strange) expect(['absent', 'dead', 'scheduled']).toContain(await queue.state(id));
    for (const state of ['dead', 'scheduled']) await shown('jobs', 'strange', '--state', state, '--limit', '200');
    for (const id of strange.slice(0, 20)) await shown('job', 'strange', id, '--payload');
    // what an operator asks of them is answered too
    const admin = new Admin(stage.connector, queue);
    await admin.stats();
    for (const id of strange) await admin.job(id);
    await admin.jobs({ state: 'dead', limit: 500 });
    await consumer.close();
  });
});
