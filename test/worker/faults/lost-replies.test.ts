/**
 * Outcomes whose reply was lost, and outcomes that come too late: each is reported as what it was, once.
 */
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  DelayError,
  Queue,
  RateLimitError,
  transitions,
  type ConsumeOptions,
  type Consumer,
  type Handler,
} from '../../../src/index.js';
import { WIRES, WorkerNode, freshQueue } from '../support/nodes.js';
import { FaultyProxy } from '../support/proxy.js';

const SOON = { timeout: 10_000, interval: 5 };
/** No beat meanwhile: what is cut is the reply to the outcome. */
const OPTIONS: ConsumeOptions = { beatMs: 60_000, retryDelayMs: 60_000 };

describe.each(WIRES)('wire %i', (wire) => {
  let node: WorkerNode;
  beforeAll(async () => {
    node = await WorkerNode.start(wire);
    // No first reply is a NOSCRIPT: what is lost is the reply to what has happened.
    for (const { script } of Object.values(transitions)) await node.admin.script('LOAD', script.source);
  });
  afterAll(() => node[Symbol.asyncDispose]());

  interface Scene extends AsyncDisposable {
    readonly proxy: FaultyProxy;
    readonly direct: Queue<number>;
    readonly consumer: Consumer<number>;
    /** What was told, outcomes only. */
    readonly told: string[];
    readonly id: string;
  }

  async function scene(handler: Handler<number>, options = OPTIONS): Promise<Scene> {
    const proxy = await FaultyProxy.start(node.port);
    const direct = await node.queue<number>(freshQueue('lost'));
    const connector = await node.connect({ url: proxy.url, reconnectMinMs: 10, reconnectMaxMs: 50 });
    const consumer = new Queue<number>(connector, direct.queue).consume(handler, options);
    const told: string[] = [];
    for (const event of ['completed', 'scheduled', 'failed', 'delayed', 'released', 'stale'] as const) {
      consumer.on(event, () => void told.push(event));
    }
    consumer.on('warning', () => {});
    const [[job]] = await Promise.all([once(consumer, 'claimed') as Promise<[{ id: string }]>, direct.enqueue(1)]);
    return {
      ...{ proxy, direct, consumer, told, id: job.id },
      async [Symbol.asyncDispose]() {
        await consumer.close({ timeoutMs: 0 });
        await proxy[Symbol.asyncDispose]();
      },
    };
  }

  const outcomes = [
    ['a completion', 'completed', 'absent', () => {}],
    [
      'a failure',
      'scheduled',
      'scheduled',
      () => {
        throw new Error('no luck');
      },
    ],
    [
      'a delay',
      'delayed',
      'scheduled',
      () => {
        throw new DelayError(60_000);
      },
    ],
  ] as const;

  it.each(outcomes)('%s whose reply was lost has happened once, and is reported so', async (_, event, state, ends) => {
    let proceed: () => void = () => {};
    const held = new Promise<void>((resolve) => (proceed = resolve));
    await using at = await scene(async () => {
      await held;
      ends();
    });
    const cut = at.proxy.cutReplyTo(at.id);
    proceed();
    await cut;
    await vi.waitUntil(() => at.told.length > 0, SOON);
    expect(at.told).toEqual([event]);
    expect(await at.direct.state(at.id)).toBe(state);
    // and it goes on
    const next = once(at.consumer, 'claimed');
    await at.direct.enqueue(2);
    await next;
  });

  it('a hand-back whose reply was lost has happened once, and is reported so', async () => {
    await using at = await scene(() => new Promise(() => {}));
    const cut = at.proxy.cutReplyTo(at.id);
    await Promise.all([cut, at.consumer.close({ timeoutMs: 0 })]);
    await vi.waitUntil(() => at.told.length > 0, SOON);
    expect(at.told).toEqual(['released']);
    expect(await at.direct.get(at.id)).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
  });

  it('a back-off whose reply was lost has happened once, and is reported so', async () => {
    let proceed: () => void = () => {};
    const held = new Promise<void>((resolve) => (proceed = resolve));
    await using at = await scene(async () => {
      await held;
      throw new RateLimitError(60_000);
    });
    const cut = at.proxy.cutReplyTo(at.id);
    proceed();
    await cut;
    await vi.waitUntil(() => at.told.length > 0, SOON);
    expect(at.told).toEqual(['delayed']);
    expect(await at.direct.get(at.id)).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
  });

  it.each(outcomes)(
    'P6: %s that comes after another worker has completed the job is stale: one completion in all',
    async (...row) => {
      const ends = row[3];
      let proceed: () => void = () => {};
      const held = new Promise<void>((resolve) => (proceed = resolve));
      await using at = await scene(async () => {
        await held;
        ends();
      });
      await at.proxy.refuse();
      await vi.waitUntil(() => at.proxy.open === 0, SOON);
      // Meanwhile the lease lapses, and another one takes the job and completes it.
      await node.lapse(at.direct.queue);
      expect(await at.direct.reap()).toBe(1);
      const other = at.direct.consume(() => {}, OPTIONS);
      const [{ token }] = (await once(other, 'completed')) as [{ token: number }];
      expect(token).toBe(2);
      await other.close();
      // The outcome is on its way before there is a way.
      proceed();
      await vi.waitUntil(() => at.consumer.stats().running === 0, SOON);
      await at.proxy.accept();
      await vi.waitUntil(() => at.told.length > 0, SOON);
      expect(at.told).toEqual(['stale']);
      expect(await at.direct.metrics('completed')).toEqual({ count: 1 });
    },
  );
});
