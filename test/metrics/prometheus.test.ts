/** The scrape: right numbers from real queues and real consumers, in text that a strict reader takes. */
import { EventEmitter, once } from 'node:events';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startServer, type EmbeddedServer } from '../../src/dev/index.js';
import { Minter } from '../../src/ids/index.js';
import { ConsumerMetrics } from '../../src/metrics/consumer-metrics.js';
import { prometheusText } from '../../src/metrics/prometheus.js';
import { familiesText, PROMETHEUS_CONTENT_TYPE } from '../../src/metrics/text.js';
import { DelayError, UnrecoverableError } from '../../src/worker/handler.js';
import { Queue } from '../../src/worker/queue.js';
import type { Call } from '../../src/wire/call.js';
import { Connector } from '../../src/wire/connector.js';
import { errorOf } from '../wire/stand-ins.js';
import { parseExposition, type ParsedFamily } from './exposition.js';

/** All samples of all families in one map. */
function samples(families: ReadonlyMap<string, ParsedFamily>): Record<string, number> {
  return Object.fromEntries([...families.values()].flatMap((family) => [...family.samples]));
}
const scrape = async (...args: Parameters<typeof prometheusText>): Promise<Record<string, number>> =>
  samples(parseExposition(await prometheusText(...args)));

describe('the text', () => {
  it('is what the format says, byte for byte', () => {
    const labels = { queue: 'q', name: 'a\\b"c\nd' };
    expect(
      familiesText([
        { name: 'a_total', help: 'How many.', type: 'counter', samples: [{ labels, value: 3 }] },
        { name: 'left_out', help: 'Nothing.', type: 'gauge', samples: [] },
        {
          name: 'b',
          help: 'How much.',
          type: 'gauge',
          samples: [
            { labels: {}, value: 1.5 },
            { labels: { x: '' }, value: Infinity },
          ],
        },
      ]),
    ).toBe(
      [
        '# HELP a_total How many.',
        '# TYPE a_total counter',
        'a_total{queue="q",name="a\\\\b\\"c\\nd"} 3',
        '# HELP b How much.',
        '# TYPE b gauge',
        'b{} 1.5',
        'b{x=""} +Inf',
        '',
      ].join('\n'),
    );
    expect(PROMETHEUS_CONTENT_TYPE).toBe('text/plain; version=0.0.4; charset=utf-8');
  });

  it('carries any label and any number', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.double(), (text, value) => {
        const family = { name: 'a', help: 'A.', type: 'gauge', samples: [{ labels: { text }, value }] } as const;
        const [parsed] = [...(parseExposition(familiesText([family])).get('a')?.samples ?? [])];
        // The format knows one zero.
        expect(parsed).toEqual([`a{text=${JSON.stringify(text)}}`, value === 0 ? 0 : value]);
      }),
    );
  });
});

describe('consumer metrics', () => {
  const job = (name?: string): object => ({ queue: 'q', ...(name === undefined ? {} : { name }) });
  const text = (metrics: ConsumerMetrics): Promise<Record<string, number>> => scrape({ consumers: metrics });

  it('count outcomes by queue and name, and durations in buckets', async () => {
    const metrics = new ConsumerMetrics({ buckets: [0.1, 1] });
    const consumer = new EventEmitter();
    metrics.watch(consumer).watch(consumer);
    for (const durationMs of [50, 100, 101, 5_000]) consumer.emit('completed', job('mail'), { durationMs });
    consumer.emit('failed', job(), { durationMs: 2_000, error: new Error('no') });
    consumer.emit('scheduled', job(), { durationMs: 500 });
    consumer.emit('delayed', job(), { durationMs: 500 });
    consumer.emit('stale', job(), new Error('stale'));
    consumer.emit('released', job());
    consumer.emit('claimed', job());
    const mail = 'queue="q",name="mail",outcome="completed"';
    const seen = await text(metrics);
    expect(seen).toMatchObject({
      [`echomq_processed_total{${mail}}`]: 4,
      'echomq_processed_total{queue="q",name="",outcome="failed"}': 1,
      'echomq_processed_total{queue="q",name="",outcome="scheduled"}': 1,
      'echomq_processed_total{queue="q",name="",outcome="delayed"}': 1,
      'echomq_processed_total{queue="q",name="",outcome="stale"}': 1,
      'echomq_processed_total{queue="q",name="",outcome="released"}': 1,
      [`echomq_process_duration_seconds_bucket{${mail},le="0.1"}`]: 2,
      [`echomq_process_duration_seconds_bucket{${mail},le="1"}`]: 3,
      [`echomq_process_duration_seconds_bucket{${mail},le="+Inf"}`]: 4,
      [`echomq_process_duration_seconds_count{${mail}}`]: 4,
      'echomq_process_duration_seconds_bucket{queue="q",name="",outcome="failed",le="1"}': 0,
      'echomq_process_duration_seconds_bucket{queue="q",name="",outcome="failed",le="+Inf"}': 1,
    });
    expect(seen[`echomq_process_duration_seconds_sum{${mail}}`]).toBeCloseTo(5.251, 9);
    expect(Object.keys(seen).filter((key) => key.includes('outcome="stale"'))).toHaveLength(1);
  });

  it('several consumers are one sum, and names without end are counted together', async () => {
    const metrics = new ConsumerMetrics({ maxNames: 2 });
    const consumers = [new EventEmitter(), new EventEmitter()];
    for (const consumer of consumers) metrics.watch(consumer);
    for (const name of ['a', 'b', 'c', 'd', 'a']) {
      for (const consumer of consumers) consumer.emit('completed', job(name), { durationMs: 1 });
    }
    const of = (name: string): string => `echomq_processed_total{queue="q",name="${name}",outcome="completed"}`;
    const seen = await text(metrics);
    expect([seen[of('a')], seen[of('b')], seen[of('_other')]]).toEqual([4, 2, 4]);
    expect(Object.keys(seen).filter((key) => key.startsWith('echomq_processed_total'))).toHaveLength(3);
  });

  it('without anything to tell are no text at all', async () => {
    expect(await prometheusText({ consumers: new ConsumerMetrics() })).toBe('');
  });

  it.each([[[]], [[1]], [[0.5, 2]]])('take the buckets %j', (buckets) => {
    expect(() => new ConsumerMetrics({ buckets })).not.toThrow();
  });

  it.each([[[0]], [[-1]], [[2, 1]], [[1, 1]], [[NaN]], [[Infinity]], [['1']], ['1'], [null]])(
    'refuse the buckets %j',
    (buckets) => {
      expect(() => new ConsumerMetrics({ buckets: buckets as number[] })).toThrow(/buckets must be numbers of seconds/);
    },
  );
});

describe.each([
  { wire: 4, module: false },
  { wire: 6, module: true },
] as const)('queues on wire $wire', ({ wire, module }) => {
  let server: EmbeddedServer;
  let connector: Connector;
  beforeAll(async () => {
    server = await startServer({ module, fetch: true });
    connector = await Connector.connect({ url: server.url, wire });
  });
  afterAll(async () => {
    await connector.close();
    await server.stop();
  });

  it('in every state', async () => {
    const queue = new Queue(connector, 'states');
    const old = new Minter({ clock: () => Date.now() - 90_000 });
    await queue.enqueue(1, { id: old.mint() });
    for (let i = 0; i < 100; i++) await queue.enqueue(i);
    await queue.enqueue('later', { priority: 5 });
    await queue.schedule(1, { inMs: 60_000 });
    await queue.schedule(1, { inMs: -5_000 });
    for (const error of ['dead', 'again']) {
      const id = old.mint();
      await queue.enqueue(1, { id });
      const [first, taken] = [await queue.claim({ leaseMs: 60_000 }), await queue.claim({ leaseMs: 60_000 })];
      if (first === null || taken === null) throw new Error('nothing was claimed');
      expect(taken.id === id || first.id === id).toBe(true);
      await queue.fail(first, { delayMs: 60_000, maxAttempts: error === 'dead' ? 1 : 9, error });
      await queue.complete(taken);
    }
    const families = parseExposition(await prometheusText({ connector, queues: ['states', 'empty', 'states'] }));
    const seen = samples(families);
    const label = '{queue="states"}';
    expect(seen).toMatchObject({
      'echomq_jobs{queue="states",state="pending"}': 100,
      'echomq_jobs{queue="states",state="active"}': 0,
      'echomq_jobs{queue="states",state="scheduled"}': 3,
      'echomq_jobs{queue="states",state="dead"}': 1,
      'echomq_jobs{queue="states",state="awaiting_children"}': 0,
      'echomq_flow_letters{queue="states"}': 0,
      [`echomq_queue_depth${label}`]: 103,
      [`echomq_jobs_completed_total${label}`]: 2,
      [`echomq_jobs_failed_total${label}`]: 1,
      'echomq_jobs{queue="empty",state="pending"}': 0,
      'echomq_queue_depth{queue="empty"}': 0,
      'echomq_oldest_waiting_age_seconds{queue="empty"}': 0,
      'echomq_schedule_lateness_seconds{queue="empty"}': 0,
      'echomq_jobs_completed_total{queue="empty"}': 0,
    });
    const late = seen[`echomq_schedule_lateness_seconds${label}`];
    expect(late).toBeGreaterThanOrEqual(5);
    expect(late).toBeLessThan(60);
    expect(Object.fromEntries([...families].map(([name, { type }]) => [name, type]))).toEqual({
      echomq_jobs: 'gauge',
      echomq_queue_depth: 'gauge',
      echomq_flow_letters: 'gauge',
      echomq_oldest_waiting_age_seconds: 'gauge',
      echomq_schedule_lateness_seconds: 'gauge',
      echomq_jobs_completed_total: 'counter',
      echomq_jobs_failed_total: 'counter',
    });
  });

  it('the age is that of the job which is claimed next, however many wait behind it', async () => {
    const queue = new Queue(connector, 'ages');
    const head = new Minter({ clock: () => Date.now() - 3_600_000 }).mint();
    for (let i = 0; i < 70; i++) await queue.enqueue(i);
    await queue.enqueue('old', { id: head });
    const { ['echomq_oldest_waiting_age_seconds{queue="ages"}']: age } = await scrape({ connector, queues: ['ages'] });
    expect(age).toBeGreaterThanOrEqual(3_600);
    expect(age).toBeLessThan(3_660);
    expect((await queue.claim({ leaseMs: 60_000 }))?.id).toBe(head);
  });

  it('a head that goes between the two reads, or is no id of ours, is no sample, and no error', async () => {
    const queue = new Queue(connector, 'racing');
    const { id } = await queue.enqueue(1);
    const emptied = {
      runAll: connector.runAll.bind(connector),
      run: async (call: Call) => {
        if (call.transition.name === 'browse') await queue.remove(id);
        return connector.run(call);
      },
    };
    const seen = await scrape({ connector: emptied, queues: ['racing'] });
    expect(seen['echomq_jobs{queue="racing",state="pending"}']).toBe(1);
    expect(seen).not.toHaveProperty(['echomq_oldest_waiting_age_seconds{queue="racing"}']);
  });

  it('and what real consumers did with them', async () => {
    const queue = new Queue(connector, 'worked');
    const metrics = new ConsumerMetrics();
    const consumer = queue.consume(
      ({ payload }) => {
        if (payload === 'fail') throw new Error('no');
        if (payload === 'die') throw new UnrecoverableError('never');
        if (payload === 'put off') throw new DelayError(3_600_000);
      },
      { retryDelayMs: 3_600_000, concurrency: 4 },
    );
    metrics.watch(consumer);
    const settled = ['completed', 'scheduled', 'failed', 'delayed'].map((name) => once(consumer, name));
    for (const payload of ['work', 'fail', 'die', 'put off']) await queue.enqueue(payload, { name: 'kind' });
    await Promise.all(settled);
    await consumer.close();
    const seen = await scrape({ connector, queues: ['worked'], consumers: metrics });
    const of = (outcome: string): string => `{queue="worked",name="kind",outcome="${outcome}"}`;
    for (const outcome of ['completed', 'scheduled', 'failed', 'delayed']) {
      expect(seen[`echomq_processed_total${of(outcome)}`], outcome).toBe(1);
      expect(seen[`echomq_process_duration_seconds_count${of(outcome)}`], outcome).toBe(1);
    }
    expect(seen).toMatchObject({
      'echomq_jobs_completed_total{queue="worked"}': 1,
      'echomq_jobs_failed_total{queue="worked"}': 1,
      'echomq_jobs{queue="worked",state="scheduled"}': 2,
    });
  });

  it('in two writes, whatever their number', async () => {
    const queues = Array.from({ length: 20 }, (_, i) => `many${i}`);
    for (const name of queues) await new Queue(connector, name).enqueue(1);
    const turns: number[] = [];
    const asked: string[] = [];
    let now = 0;
    const counting = {
      runAll: connector.runAll.bind(connector),
      run: (call: Call) => {
        if (turns.at(-1) !== now) turns.push(now);
        asked.push(call.transition.name);
        return connector.run(call).finally(() => now++);
      },
    };
    await prometheusText({ connector: counting, queues: [...queues, 'nothing-waits-here'] });
    expect(turns).toHaveLength(2);
    expect(asked.filter((name) => name === 'browse')).toHaveLength(20);
  });

  it('a read that fails is the error of the scrape', async () => {
    const run = vi.fn(() => Promise.reject(new TypeError('broken')));
    await expect(
      prometheusText({ connector: { run, runAll: connector.runAll.bind(connector) }, queues: ['q'] }),
    ).rejects.toThrow(TypeError);
    const closed = await Connector.connect({ url: server.url, wire });
    await closed.close();
    expect((await errorOf(prometheusText({ connector: closed, queues: ['q'] }), 'EMQ_CLOSED')).message).toMatch(
      /on queue q/,
    );
  });

  it('refuses what cannot be', async () => {
    await errorOf(prometheusText({ connector, queues: 'q' as never }), 'EMQ_INPUT');
    await errorOf(prometheusText({ connector, queues: ['no spaces'] }), 'EMQ_INPUT');
    await errorOf(prometheusText({ connector, queue: ['q'] } as never), 'EMQ_INPUT');
    await errorOf(prometheusText({ connector, consumers: [] as never }), 'EMQ_INPUT');
    await errorOf(prometheusText({ queues: ['q'] }), 'EMQ_INPUT');
  });
});
