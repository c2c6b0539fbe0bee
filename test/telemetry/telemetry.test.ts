/** Spans, context and metrics against the real SDK; a whole job on both executors; and a package without any of it. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { context, metrics, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type Histogram,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-base';
import { build } from 'esbuild';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startServer, type EmbeddedServer } from '../../src/dev/index.js';
import { telemetry, type Telemetry } from '../../src/telemetry/index.js';
import { DelayError } from '../../src/worker/handler.js';
import { Queue } from '../../src/worker/queue.js';
import { Connector } from '../../src/wire/connector.js';
import { EmqError } from '../../src/wire/errors.js';

const spans = new InMemorySpanExporter();
let provider: BasicTracerProvider;
let meters: MeterProvider;
let measured: InMemoryMetricExporter;
/** Looked up before there is an SDK, as in a program that sets it up later. */
const told = telemetry() as Telemetry;
const job = { queue: 'q', id: 'JOB0KHTOWnGLuC', name: 'mail', attempts: 2, carrier: undefined };

function freshMeters(): void {
  measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  meters = new MeterProvider({
    readers: [new PeriodicExportingMetricReader({ exporter: measured, exportIntervalMillis: 2 ** 31 - 1 })],
  });
  metrics.disable();
  metrics.setGlobalMeterProvider(meters);
}

beforeAll(async () => {
  // Before there is an SDK all of it runs, and tells nobody.
  expect(
    await told.producing({ queue: 'q', operation: 'enqueue', count: 1 }, (carrier) => Promise.resolve(carrier)),
  ).toEqual({});
  expect(await told.consuming(job, () => Promise.resolve(7))).toBe(7);
  told.settled({ queue: 'q', name: undefined, outcome: 'completed', durationMs: 1 });
  provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
});
afterAll(() => provider.shutdown());
beforeEach(() => {
  spans.reset();
  freshMeters();
});

function only(): ReadableSpan {
  const [span, ...more] = spans.getFinishedSpans();
  expect(more).toEqual([]);
  return span as ReadableSpan;
}

/** The data points of a metric, as [value, attributes]. */
async function points(name: string): Promise<[unknown, object][]> {
  await meters.forceFlush();
  const found =
    measured
      .getMetrics()
      .at(-1)
      ?.scopeMetrics.flatMap((scope) => scope.metrics) ?? [];
  const metric = found.find(({ descriptor }) => descriptor.name === name);
  return (metric?.dataPoints ?? []).map(({ value, attributes }) => [value, attributes]);
}

describe('an admission', () => {
  it('is a producer span, a child of what is active, whose context is for the row', async () => {
    const parent = trace.getTracer('app').startSpan('request');
    const carriers: Record<string, string>[] = [];
    const result = await context.with(trace.setSpan(context.active(), parent), () =>
      told.producing({ queue: 'q', operation: 'schedule', count: 1 }, async (carrier) => {
        await Promise.resolve();
        carriers.push(carrier);
        // What is sent from within is a part of it.
        expect(trace.getActiveSpan()?.spanContext().traceId).toBe(parent.spanContext().traceId);
        return { id: 'JOB0KHTOWnGLuC', outcome: 'scheduled' };
      }),
    );
    expect(result).toEqual({ id: 'JOB0KHTOWnGLuC', outcome: 'scheduled' });
    const span = only();
    expect(span.name).toBe('schedule q');
    expect(span.kind).toBe(SpanKind.PRODUCER);
    expect(span.parentSpanContext?.spanId).toBe(parent.spanContext().spanId);
    expect(span.attributes).toEqual({
      'messaging.system': 'echomq',
      'messaging.destination.name': 'q',
      'messaging.operation.name': 'schedule',
      'messaging.operation.type': 'send',
      'messaging.message.id': 'JOB0KHTOWnGLuC',
    });
    const { traceId, spanId } = span.spanContext();
    expect(carriers).toEqual([{ traceparent: `00-${traceId}-${spanId}-01` }]);
    expect(await points('messaging.client.sent.messages')).toEqual([
      [1, expect.objectContaining({ 'messaging.operation.name': 'schedule' })],
    ]);
  });

  it('has its context in the row where nothing keeps track of what is active', async () => {
    context.disable();
    try {
      const carrier = await told.producing({ queue: 'q', operation: 'enqueue', count: 1 }, (one) =>
        Promise.resolve(one),
      );
      expect(carrier['traceparent']).toContain(only().spanContext().spanId);
    } finally {
      context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    }
  });

  it('of many tells how many', async () => {
    await told.producing({ queue: 'q', operation: 'enqueueMany', count: 30 }, () => Promise.resolve([]));
    expect(only().attributes).toMatchObject({ 'messaging.batch.message_count': 30 });
    expect(await points('messaging.client.sent.messages')).toEqual([[30, expect.anything()]]);
  });

  it('that is refused says why, and the error goes on', async () => {
    const error = new EmqError('OOM', 'OOM command not allowed');
    await expect(
      told.producing({ queue: 'q', operation: 'enqueue', count: 1 }, () => Promise.reject(error)),
    ).rejects.toBe(error);
    expect(only()).toMatchObject({
      attributes: { 'error.type': 'OOM' },
      status: { code: SpanStatusCode.ERROR, message: error.message },
    });
    expect(await points('messaging.client.sent.messages')).toEqual([
      [1, expect.objectContaining({ 'error.type': 'OOM' })],
    ]);
  });
});

describe('a run', () => {
  it('is a consumer span in the trace of the row, active while the handler runs', async () => {
    const carrier = { traceparent: '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01', tracestate: 'a=b' };
    const bystander = trace.getTracer('app').startSpan('where the consumer was made');
    const seen = await context.with(trace.setSpan(context.active(), bystander), () =>
      told.consuming({ ...job, carrier }, async () => {
        await Promise.resolve();
        return trace.getActiveSpan()?.spanContext();
      }),
    );
    const span = only();
    expect(seen?.spanId).toBe(span.spanContext().spanId);
    expect(span).toMatchObject({ name: 'process q', kind: SpanKind.CONSUMER, status: { code: SpanStatusCode.UNSET } });
    expect(span.spanContext().traceId).toBe('0123456789abcdef0123456789abcdef');
    expect(span.parentSpanContext?.spanId).toBe('0123456789abcdef');
    expect(span.attributes).toEqual({
      'messaging.system': 'echomq',
      'messaging.destination.name': 'q',
      'messaging.operation.name': 'process',
      'messaging.operation.type': 'process',
      'messaging.message.id': job.id,
      'messaging.echomq.job.name': 'mail',
      'messaging.echomq.job.attempts': 2,
    });
  });

  it.each([
    ['without a context', undefined],
    ['with rubbish for a context', { traceparent: 'rubbish', other: '' }],
  ])('%s begins a trace of its own', async (_, carrier) => {
    const bystander = trace.getTracer('app').startSpan('where the consumer was made');
    await context.with(trace.setSpan(context.active(), bystander), () =>
      told.consuming({ ...job, name: undefined, carrier }, () => Promise.resolve()),
    );
    expect(only().parentSpanContext).toBeUndefined();
    expect(only().attributes).not.toHaveProperty('messaging.echomq.job.name');
  });

  it.each<[string, unknown, string, string]>([
    ['an error', new TypeError('no'), 'TypeError', 'no'],
    ['one of ours', new EmqError('EMQSTALE', 'EMQSTALE job gone'), 'EMQSTALE', 'EMQSTALE job gone'],
    ['a text', 'no', '_OTHER', 'no'],
    ['nothing', null, '_OTHER', 'a handler threw null'],
    ['a thing', { secret: 1 }, '_OTHER', 'a handler threw object'],
    [
      'what cannot be read',
      Object.defineProperty(new Error('x'), 'message', {
        get() {
          throw new Error('unreadable');
        },
      }),
      '_OTHER',
      'an error that cannot be read',
    ],
  ])('that throws %s is an error, and throws just that', async (_, thrown, type, message) => {
    const caught = await told
      .consuming(job, () => Promise.reject(thrown as Error))
      .then(
        () => 'nothing',
        (error: unknown) => error,
      );
    expect(caught).toBe(thrown);
    const span = only();
    expect(span.status).toEqual({ code: SpanStatusCode.ERROR, message });
    expect(span.attributes['error.type']).toBe(type);
    expect(span.events.map(({ name }) => name)).toEqual(['exception']);
  });

  it('that is put off is no error', async () => {
    const delay = new DelayError(100);
    await expect(told.consuming(job, () => Promise.reject(delay))).rejects.toBe(delay);
    expect(only()).toMatchObject({ status: { code: SpanStatusCode.UNSET }, events: [] });
  });
});

it('counts outcomes and durations, in an SDK that may be replaced', async () => {
  for (const times of [1, 2]) {
    told.settled({ queue: 'q', name: 'mail', outcome: 'completed', durationMs: 20 });
    told.settled({ queue: 'q', name: 'mail', outcome: 'completed', durationMs: 2_000 });
    told.settled({ queue: 'q', name: undefined, outcome: 'stale', durationMs: 1 });
    const completed = {
      'messaging.system': 'echomq',
      'messaging.destination.name': 'q',
      'messaging.operation.name': 'process',
      'messaging.echomq.outcome': 'completed',
      'messaging.echomq.job.name': 'mail',
    };
    expect(await points('messaging.client.consumed.messages'), `time ${times}`).toEqual([
      [2, completed],
      [1, expect.objectContaining({ 'messaging.echomq.outcome': 'stale' })],
    ]);
    const [[histogram, attributes] = [undefined, {}]] = await points('messaging.process.duration');
    expect(attributes).toEqual(completed);
    const { count, sum, buckets } = histogram as Histogram;
    expect([count, sum]).toEqual([2, 2.02]);
    expect(buckets.boundaries[0]).toBe(0.005);
    freshMeters();
  }
});

describe.each([
  { wire: 4, module: false },
  { wire: 6, module: true },
] as const)('a whole job on wire $wire', ({ wire, module }) => {
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

  it('is one trace from the request to every try, and no attribute holds what it carries', async () => {
    const queue = new Queue<{ secret: string }>(connector, 'q');
    const parent = trace.getTracer('app').startSpan('request');
    await context.with(trace.setSpan(context.active(), parent), () =>
      queue.enqueue({ secret: 'payload-1' }, { name: 'mail' }),
    );
    const inner: (string | undefined)[] = [];
    const consumer = queue.consume(
      ({ attempts }) => {
        inner.push(trace.getActiveSpan()?.spanContext().spanId);
        if (attempts === 1) throw new Error('once more');
        return 'payload-2';
      },
      { retryDelayMs: 1 },
    );
    await once(consumer, 'completed');
    await consumer.close();
    const { traceId } = parent.spanContext();
    const mine = spans.getFinishedSpans();
    expect(mine.map((span) => [span.name, span.spanContext().traceId])).toEqual([
      ['enqueue q', traceId],
      ['process q', traceId],
      ['process q', traceId],
    ]);
    const [enqueued, ...tries] = mine;
    expect(tries.map((span) => span.parentSpanContext?.spanId)).toEqual(Array(2).fill(enqueued?.spanContext().spanId));
    expect(tries.map((span) => span.spanContext().spanId)).toEqual(inner);
    expect(tries.map(({ status }) => status.code)).toEqual([SpanStatusCode.ERROR, SpanStatusCode.UNSET]);
    expect(JSON.stringify(mine.map(({ name, attributes, events }) => [name, attributes, events]))).not.toMatch(
      /payload-/,
    );
    const outcomes = (await points('messaging.client.consumed.messages')).map(([value, attributes]) => [
      value,
      (attributes as Record<string, unknown>)['messaging.echomq.outcome'],
    ]);
    expect(outcomes).toEqual([
      [1, 'scheduled'],
      [1, 'completed'],
    ]);
  });
});

describe('in a program of its own', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'emq-otel-'));
    await build({
      entryPoints: ['src/telemetry/index.ts'],
      bundle: true,
      platform: 'node',
      format: 'esm',
      outfile: join(folder, 'telemetry.mjs'),
    });
    await writeFile(
      join(folder, 'main.mjs'),
      "import { telemetry } from './telemetry.mjs';\nconsole.log(typeof telemetry(), typeof telemetry());\n",
    );
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const run = async (): Promise<string> => {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(folder, 'main.mjs')]);
    return stdout + stderr;
  };

  it('without the package there is none, and no complaint', async () => {
    expect(await run()).toBe('undefined undefined\n');
  });

  it('a broken package is as good as none', async () => {
    const home = join(folder, 'node_modules', '@opentelemetry', 'api');
    await mkdir(home, { recursive: true });
    await writeFile(join(home, 'index.js'), "throw new Error('broken');\n");
    expect(await run()).toBe('undefined undefined\n');
    await writeFile(join(home, 'index.js'), 'exports.trace = { getTracer: () => ({}) };\n');
    expect(await run()).toBe('object object\n');
  });
});
