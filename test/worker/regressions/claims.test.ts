/**
 * What once broke between a claim and its handlers, on both executors: a steady load that starved the beats, handlers
 * that never wait, a cancel that overtook the claim, a schedule beyond what a timer can wait.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { subscriberOf } from '../../../src/bus/subscriber.js';
import { EmqError, Keyspace, Queue, type Call, type Connector, type Consumer } from '../../../src/index.js';
import { freshQueue, WIRES, WorkerNode } from '../support/nodes.js';

const PATIENCE = { timeout: 10_000, interval: 5 };

/** Holds the replies to calls of one name back, from the first that `when` says yes to, until it is let go. */
function holdBack(connector: Connector, name: string, when: (reply: unknown) => boolean) {
  const run = connector.run.bind(connector);
  let letGo!: () => void;
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  const hold = { holding: false, letGo };
  connector.run = async (call: Call) => {
    const reply = await run(call);
    if (call.transition.name === name && when(reply)) {
      hold.holding = true;
      await gate;
    }
    return reply;
  };
  return hold;
}

describe.each(WIRES)('between claim and handler, on wire %i', (wire) => {
  let node: WorkerNode;
  const consumers: Consumer<unknown>[] = [];
  beforeAll(async () => {
    node = await WorkerNode.start(wire);
  });
  afterEach(async () => {
    await Promise.all(consumers.splice(0).map((consumer) => consumer.close({ timeoutMs: 0 })));
  });
  afterAll(() => node[Symbol.asyncDispose]());

  async function workers(): Promise<{ connector: Connector; queue: Queue; outside: Queue }> {
    const name = freshQueue();
    const connector = await node.connect();
    return { connector, queue: new Queue(connector, name), outside: await node.queue(name) };
  }

  it('promotes at every beat although more work than it can hold always waits', async () => {
    const { queue, outside } = await workers();
    await outside.enqueueMany(Array.from({ length: 3_000 }, (_, n) => ({ payload: n })));
    let over = false;
    const consumer = queue.consume(
      () => {
        // every job leaves another one behind: the claims never come to an end by themselves
        if (!over) void outside.enqueue('more').catch(() => {});
      },
      { concurrency: 1_000, beatMs: 100, publish: false },
    );
    consumers.push(consumer);
    await vi.waitUntil(() => consumer.stats().completed > 0, PATIENCE);
    await outside.schedule('due', { inMs: 200 });
    await vi.waitUntil(async () => (await outside.counts()).scheduled === 0, PATIENCE);
    expect((await outside.counts()).pending).toBeGreaterThan(0);
    over = true;
  });

  it('lets the event loop turn between handlers that were claimed together and never wait', async () => {
    const { queue, outside } = await workers();
    await outside.enqueueMany(Array.from({ length: 20 }, (_, n) => ({ payload: n })));
    let turns = 0;
    const count = (): void => {
      turns++;
      timer = setImmediate(count);
    };
    let timer = setImmediate(count);
    const seen: number[] = [];
    const consumer = queue.consume(
      () => {
        seen.push(turns);
        for (const end = performance.now() + 20; performance.now() < end;);
      },
      { concurrency: 20 },
    );
    consumers.push(consumer);
    await vi.waitUntil(() => consumer.stats().completed === 20, PATIENCE);
    clearImmediate(timer);
    // each of them took longer than a turn may take
    expect(new Set(seen).size).toBe(20);
  });

  it('hands back what had not begun when the close came, and the try does not count', async () => {
    const { queue, outside } = await workers();
    await outside.enqueueMany(Array.from({ length: 5 }, (_, n) => ({ payload: n })));
    const told: string[] = [];
    const consumer: Consumer<unknown> = queue.consume(
      () => {
        void consumer.close();
        for (const end = performance.now() + 20; performance.now() < end;);
      },
      { concurrency: 5 },
    );
    consumers.push(consumer);
    consumer.on('completed', (job) => told.push(`completed ${String(job.payload)}`));
    consumer.on('released', (job) => told.push(`released ${String(job.payload)}`));
    await vi.waitUntil(() => consumer.stats().state === 'closed', PATIENCE);
    expect(told.sort()).toEqual(['completed 0', 'released 1', 'released 2', 'released 3', 'released 4']);
    expect(consumer.stats()).toMatchObject({ running: 0, held: 0, completed: 1, released: 4 });
    expect(await outside.counts()).toMatchObject({ pending: 4, active: 0 });
  });

  it('hears a cancel that comes before the reply of the claim', async () => {
    const { connector, queue, outside } = await workers();
    const hold = holdBack(connector, 'take', (jobs) => (jobs as unknown[]).length > 0);
    const consumer = queue.consume((_job, { signal }) => {
      signal.throwIfAborted();
    });
    consumers.push(consumer);
    const { cancel } = new Keyspace(queue.queue);
    await vi.waitUntil(async () => Number((await node.admin.pubsub('NUMSUB', cancel))[1]) === 1, PATIENCE);
    let heard = 0;
    // told after the consumer, by the same ear
    subscriberOf(connector).subscribe(cancel, { message: () => heard++, gap: () => {} });
    const { id } = await outside.enqueue(1);
    await vi.waitUntil(() => hold.holding, PATIENCE);
    const errors: string[] = [];
    consumer.on('failed', (_job, { error }) => errors.push(error.message));
    expect(await outside.cancel(id, 'too late')).toBe('signalled');
    await vi.waitUntil(() => heard === 1, PATIENCE);
    hold.letGo();
    await vi.waitUntil(() => errors.length > 0 || consumer.stats().completed > 0, PATIENCE);
    expect(errors).toEqual(['cancelled: too late']);
  });

  it('listens to cancels before it claims its first job', async () => {
    const { connector, queue, outside } = await workers();
    const order: string[] = [];
    let beaten!: () => void;
    const beat = new Promise<void>((resolve) => (beaten = resolve));
    const run = connector.run.bind(connector);
    connector.run = async (call: Call) => {
      if (call.transition.name === 'take') order.push('claim');
      const reply = await run(call);
      // the claim of the first beat leaves together with this one
      if (call.transition.name === 'promote') beaten();
      return reply;
    };
    const open = connector.openDedicated.bind(connector);
    connector.openDedicated = async (signal, use) => {
      if (use !== undefined) return open(signal, use);
      await beat;
      const link = await open(signal);
      const subscribe = link.subscribe.bind(link);
      link.subscribe = async (channel) => {
        await subscribe(channel);
        order.push('listening');
      };
      return link;
    };
    await outside.enqueue(1);
    const consumer = queue.consume(() => 'done');
    consumers.push(consumer);
    await vi.waitUntil(() => consumer.stats().completed === 1, PATIENCE);
    expect(order.slice(0, 2)).toEqual(['listening', 'claim']);
  });

  it('says once that its claims are refused, not at every beat', async () => {
    const { connector, queue } = await workers();
    const run = connector.run.bind(connector);
    let [claims, beats] = [0, 0];
    connector.run = (call: Call) => {
      if (call.transition.name === 'promote') beats++;
      if (call.transition.name !== 'take') return run(call);
      claims++;
      return Promise.reject(new EmqError('NOPERM', 'NOPERM this user may not claim'));
    };
    const consumer = queue.consume(() => 'done', { beatMs: 40 });
    consumers.push(consumer);
    const warnings: string[] = [];
    consumer.on('warning', ({ code }) => warnings.push(code));
    await vi.waitUntil(() => claims >= 6 && beats >= 6, PATIENCE);
    expect(warnings).toEqual(['NOPERM']);
  });

  it('keeps to its beat when a job is scheduled for later than a timer can wait', async () => {
    const warnings: string[] = [];
    const onWarning = ({ name }: Error): void => void warnings.push(name);
    process.on('warning', onWarning);
    try {
      const { connector, queue, outside } = await workers();
      const hold = holdBack(connector, 'promote', () => true);
      const consumer = queue.consume(() => 'done');
      consumers.push(consumer);
      await vi.waitUntil(() => hold.holding, PATIENCE);
      // during a beat there is no other one that would come before
      await outside.schedule('in 60 days', { inMs: 60 * 86_400_000 });
      const { wake } = new Keyspace(queue.queue);
      await node.admin.lpush(wake, '1');
      await vi.waitUntil(async () => (await node.admin.llen(wake)) === 0, PATIENCE);
      hold.letGo();
      await outside.enqueue(1);
      await vi.waitUntil(() => consumer.stats().completed === 1, PATIENCE);
      expect(warnings).toEqual([]);
    } finally {
      process.off('warning', onWarning);
    }
  });
});
