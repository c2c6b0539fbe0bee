/**
 * What consumers and listeners do: conformance scenarios 18, 35-37 and 39.
 */
import { trace } from '@opentelemetry/api';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { expect, vi } from 'vitest';
import { Queue, QueueEvents, type ConsumeOptions, type Consumer, type Handler } from '../../src/index.js';
import type { Scenario, Scene } from './scenario.js';

const PATIENCE = { timeout: 15_000, interval: 2 };
/** So long that no beat but the first comes within a scenario. */
const NO_BEAT = { beatMs: 600_000 };

const spans = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
let traced = false;

function consume({ stage, jobs }: Scene, handler: Handler, options: ConsumeOptions = {}): Consumer {
  return new Queue(stage.connector, jobs.queue).consume(handler, { ...NO_BEAT, ...options });
}

export const workerPlane: readonly Scenario[] = [
  {
    number: 18,
    name: 'resubscribe',
    shows: 'a subscriber whose connection is killed hears again, and is told that it may have missed something',
    async play(scene) {
      const { stage, jobs } = scene;
      const connector = await stage.connect({ reconnectMinMs: 20, reconnectMaxMs: 50 });
      await using events = new QueueEvents(connector, jobs.queue);
      const heard: string[] = [];
      events.on('event', ({ event, job }) => heard.push(`${event} ${job}`));
      let gaps = 0;
      events.on('gap', () => gaps++);
      await events.ready();
      const id = /^id=(\d+)/.exec(String(await stage.raw.call('CLIENT', 'LIST', 'TYPE', 'pubsub')))?.[1];
      expect(await stage.raw.client('KILL', 'ID', id as string)).toBe(1);
      await vi.waitUntil(() => gaps === 1, PATIENCE);
      await using consumer = consume(scene, () => 'done');
      const job = await jobs.enqueue(18);
      await vi.waitUntil(() => heard.includes(`completed ${job.id}`), PATIENCE);
      expect(consumer.stats().completed).toBe(1);
    },
  },
  {
    number: 35,
    name: 'events',
    shows: 'what a consumer completes reaches a subscriber under its name',
    async play(scene) {
      const { stage, jobs } = scene;
      await using events = new QueueEvents(stage.connector, jobs.queue);
      await events.ready();
      const completed = new Promise((resolve) => events.once('completed', resolve));
      await using _consumer = consume(scene, () => 'done');
      const { id } = await jobs.enqueue(35);
      expect(await completed).toEqual({ event: 'completed', job: id });
    },
  },
  {
    number: 36,
    name: 'telemetry',
    shows: 'with telemetry a span has the job and its outcome; without it nothing is told and nothing fails',
    async play(scene) {
      const { jobs } = scene;
      let done = 0;
      await using consumer = consume(scene, () => 'done');
      consumer.on('completed', () => done++);
      const work = async () => {
        const before = done;
        const { id } = await jobs.enqueue(36);
        await vi.waitUntil(() => done > before, PATIENCE);
        return id;
      };
      // A process has its telemetry for good: without it there is only the time before.
      if (!traced) await work();
      traced ||= trace.setGlobalTracerProvider(provider);
      spans.reset();
      const id = await work();
      const told = spans.getFinishedSpans().filter(({ name }) => name === `process ${jobs.queue}`);
      expect(told.map(({ attributes }) => attributes['messaging.message.id'])).toEqual([id]);
    },
  },
  {
    number: 37,
    name: 'cancel',
    shows: 'a fresh signal is quiet; a cancelled one has its reason; a handler that throws it ends its job',
    async play(scene) {
      const { stage, jobs } = scene;
      const seen: unknown[] = [];
      await using consumer = consume(scene, async (_job, { signal }) => {
        seen.push(signal.aborted);
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        seen.push((signal.reason as Error).message);
        signal.throwIfAborted();
      });
      const failed = new Promise((resolve) => consumer.once('failed', resolve));
      const { id } = await jobs.enqueue(37);
      await vi.waitUntil(() => seen.length === 1, PATIENCE);
      await vi.waitUntil(async () => {
        const [, listeners] = (await stage.raw.pubsub('NUMSUB', jobs.keys.cancel)) as [string, number];
        return listeners === 1;
      }, PATIENCE);
      expect(await jobs.cancel(id, 'the customer left')).toBe('signalled');
      await failed;
      expect(seen).toEqual([false, 'cancelled: the customer left']);
      const row = await jobs.get(id);
      expect(row).toMatchObject({ state: 'dead', attempts: 1 });
      expect(row?.lastError?.toString()).toMatch(/^cancelled: the customer left\n/);
    },
  },
  {
    number: 39,
    name: 'rate_consult',
    // The ceiling here is the consumer's own; the queue's, in meta, comes with scenario 23.
    shows: 'at its ceiling a consumer does not claim: one active, one pending; it claims after the completion',
    async play(scene) {
      const { jobs } = scene;
      const ends: (() => void)[] = [];
      await using consumer = consume(scene, () => new Promise<void>((end) => ends.push(end)), { concurrency: 1 });
      await jobs.enqueue(1);
      await jobs.enqueue(2);
      await vi.waitUntil(() => ends.length === 1, PATIENCE);
      expect(await jobs.counts(['pending', 'active'])).toEqual({ pending: 1, active: 1 });
      ends[0]?.();
      await vi.waitUntil(() => ends.length === 2, PATIENCE);
      expect(await jobs.counts(['pending', 'active', 'completed'])).toEqual({ pending: 0, active: 1, completed: 1 });
      ends[1]?.();
      await vi.waitUntil(() => consumer.stats().completed === 2, PATIENCE);
    },
  },
];
