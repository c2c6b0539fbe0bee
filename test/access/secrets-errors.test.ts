/**
 * What the package says of itself holds no payload, no user name, no password and no key: errors in all that can be seen of
 * them, events of the connector, warnings of consumers, and the spans and measures of telemetry.
 */
import { once } from 'node:events';
import { inspect } from 'node:util';
import { metrics, trace } from '@opentelemetry/api';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { EmqError } from '../../src/index.js';
import { Connector, Flows, Jobs, Lanes, Queue, Repeats } from '../../src/index.js';
import { errorOf, MINUTE } from '../conformance/stage.js';
import { Proxy } from '../wire/proxy.js';
import { TestServer } from '../wire/server.js';

const PAYLOAD = 'card 4929 of Zebediah Quux';
const [USER, SECRET] = ['zebediah', 'Zq7kV9xWy'];

let server: TestServer;
let proxy: Proxy;
beforeAll(async () => {
  server = await TestServer.start();
  proxy = await Proxy.start(server.port);
  await server.admin.call('ACL', 'SETUSER', USER, 'on', `>${SECRET}`, '+@all', '~*', '&*');
});
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

const connect = (options = {}) =>
  Connector.connect({
    url: `valkey://${USER}:${SECRET}@127.0.0.1:${proxy.port}`,
    ...{ reconnectMinMs: 5, reconnectMaxMs: 10, waitMs: 100 },
    ...options,
  });

/** Fails if any of it can be seen, hidden properties, causes and stacks included. */
function shows(what: string, ...things: readonly unknown[]): void {
  const shown = inspect(things, { depth: 20, showHidden: true }) + JSON.stringify(things);
  for (const one of ['4929', 'Quux', USER, SECRET]) expect(shown, what).not.toContain(one);
}

it('an error of a verb that was given a payload holds none of it', async () => {
  await using connector = await connect();
  const [jobs, lanes] = [new Jobs<unknown>(connector, 'mail'), new Lanes(connector, 'mail')];
  const [flows, repeats] = [new Flows(connector, 'mail'), new Repeats(connector, 'mail')];
  const circle: Record<string, unknown> = { PAYLOAD };
  circle.self = circle;
  const small = new Jobs(connector, 'mail', { maxPayloadBytes: 5 });
  const wrong: Readonly<Record<string, () => unknown>> = {
    'too large': () => small.enqueue(PAYLOAD),
    'too large, of many': async () => {
      const [first] = await small.enqueueMany([{ payload: PAYLOAD }]);
      if (first?.outcome === 'failed') throw first.error;
    },
    'no JSON': () => jobs.enqueue(circle),
    'a wrong option': () => jobs.enqueue(PAYLOAD, { priority: -1 }),
    'no lane': () => lanes.enqueue('none', PAYLOAD),
    'no flow': () => flows.add({ payload: PAYLOAD, children: [] }),
    'a child too large': () =>
      new Flows(connector, small).add({ payload: 1, children: [{ payload: PAYLOAD, queue: small }] }),
    'no schedule': () => repeats.upsert('x', { everyMs: -1 }, { payload: PAYLOAD }),
    'an error too': () => jobs.fail({ id: 'x', token: 1 }, { delayMs: 0, maxAttempts: 1, error: PAYLOAD }),
    'a result too': () => jobs.complete({ id: 'x', token: 1 }, { result: PAYLOAD }),
  };
  for (const [what, act] of Object.entries(wrong)) shows(what, await errorOf(act));

  await server.admin.call('ACL', 'SETUSER', USER, '-hset');
  for (const act of [
    () => jobs.enqueue(PAYLOAD),
    () => lanes.enqueue('TEN00000000001', PAYLOAD),
    () => flows.add({ payload: PAYLOAD, children: [{ payload: PAYLOAD }] }),
    () => repeats.upsert('x', { everyMs: MINUTE }, { payload: PAYLOAD }),
  ]) {
    const error = await errorOf(act);
    expect(error.code).toBe('NOPERM');
    // the server's own text names its user, and nothing else of this
    shows('NOPERM', error.code, error.cause, Object.keys(error));
    expect(inspect(error, { depth: 20, showHidden: true })).not.toMatch(/4929|Quux|Zq7kV9xWy/);
  }
  await server.admin.call('ACL', 'SETUSER', USER, '+hset');

  await server.admin.config('SET', 'maxmemory', '1');
  const full = await errorOf(() => jobs.enqueue(PAYLOAD));
  await server.admin.config('SET', 'maxmemory', '0');
  expect(full.code).toBe('OOM');
  shows('OOM', full);
});

it('nor does one of a call whose reply was lost, or that found no connection, nor the events around it', async () => {
  await using connector = await connect();
  const told: unknown[] = [];
  for (const event of ['connected', 'disconnected', 'retrying', 'refused'] as const) {
    connector.on(event, (...args: unknown[]) => told.push([event, ...args]));
  }
  const jobs = new Jobs(connector, 'mail');
  proxy.mode = 'mute';
  const sent = proxy.seen('4929');
  const lost = errorOf(() => jobs.enqueue(PAYLOAD));
  await sent;
  proxy.cut();
  const unknown = await lost;
  expect(unknown.code).toBe('EMQ_UNKNOWN_OUTCOME');
  const away = await errorOf(() => jobs.enqueue(PAYLOAD));
  expect(['EMQ_CONNECTION', 'EMQ_UNKNOWN_OUTCOME']).toContain(away.code);
  shows('a loss', unknown, away, connector, connector.stats(), told);
  const up = once(connector, 'connected');
  proxy.mode = 'pass';
  proxy.cut();
  await up;
  await connector.close();
  shows('closed', await errorOf(() => jobs.enqueue(PAYLOAD)));
});

it('nor what a consumer warns of, nor what telemetry is told', async () => {
  const spans = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }));
  const measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: measured, exportIntervalMillis: 2 ** 31 - 1 });
  const meters = new MeterProvider({ readers: [reader] });
  metrics.setGlobalMeterProvider(meters);
  await using connector = await connect();
  const queue = new Queue<string>(connector, 'told');
  const warnings: unknown[] = [];
  await queue.enqueue(PAYLOAD);
  await queue.enqueueMany([{ payload: PAYLOAD }]);
  await queue.schedule(PAYLOAD, { inMs: 0 });
  // one that cannot be read: its payload is no JSON
  await queue.enqueue(Buffer.from(`{${PAYLOAD}`));
  let runs = 0;
  const consumer = queue.consume(
    () => {
      runs += 1;
      if (runs % 2 === 1) throw new Error('not this time');
    },
    { beatMs: 20, retryDelayMs: 0, maxAttempts: 2 },
  );
  consumer.on('warning', (warning: EmqError) => warnings.push(warning));
  await expect
    .poll(async () => (await queue.counts()).pending + (await queue.counts()).active + (await queue.counts()).scheduled)
    .toBe(0);
  await consumer.close();
  await meters.forceFlush();
  const seen = spans
    .getFinishedSpans()
    .map(({ name, attributes, events, status, links }) => [name, attributes, events, status, links]);
  expect(seen.length).toBeGreaterThan(5);
  expect(measured.getMetrics().length).toBeGreaterThan(0);
  const told = measured.getMetrics().map(({ scopeMetrics }) => scopeMetrics.map(({ metrics: all }) => all));
  shows('telemetry', seen, told);
  shows('warnings', warnings);
  trace.disable();
  metrics.disable();
});
