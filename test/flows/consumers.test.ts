/**
 * Flows as consumers run them: over queues and processes, with results, cancels and lost replies, and without a price for
 * jobs that are in no flow.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  Flows,
  Queue,
  transitions,
  type Children,
  type ConsumeOptions,
  type Consumer,
  type EmqError,
  type Handler,
} from '../../src/index.js';
import { Monitor } from '../worker/support/monitor.js';
import { freshQueue, WIRES, WorkerNode } from '../worker/support/nodes.js';
import { WorkerProgram } from '../worker/support/processes.js';
import { FaultyProxy } from '../worker/support/proxy.js';
import { ROOT } from '../worker/sandbox/support.js';
import { PATIENCE } from './support.js';

const QUICK: ConsumeOptions = { beatMs: 50, retryDelayMs: 0, concurrency: 4 };
const NO_BEAT: ConsumeOptions = { beatMs: 600_000, retryDelayMs: 600_000 };
const PROCESSOR = new URL('./processors/family.mjs', import.meta.url);

interface Part {
  readonly n: number;
}

describe.each(WIRES)('wire %i', (wire) => {
  let node: WorkerNode;
  beforeAll(async () => {
    node = await WorkerNode.start(wire);
    // No first reply is a NOSCRIPT: what is lost is the reply to what has happened.
    for (const { script } of Object.values(transitions)) await node.admin.script('LOAD', script.source);
  });
  afterAll(() => node[Symbol.asyncDispose]());

  /** So many queues with names of their own. */
  const names = (count: number): string[] => Array.from({ length: count }, () => freshQueue('family'));

  /** What is left of queues but counters and wake tokens. */
  async function remains(queues: readonly string[]): Promise<string[]> {
    const keys = await Promise.all(queues.map((queue) => node.admin.keys(`emq:{${queue}}:*`)));
    return keys.flat().filter((key) => !/:(wake|metrics:\w+|meta)$/.test(key));
  }

  async function ended(consumer: Consumer<never> | Consumer<Part>, count: number): Promise<void> {
    await vi.waitUntil(() => consumer.stats().completed >= count, PATIENCE);
  }

  it('trees over three queues with three consumers: every sum comes up to the root, and nothing is left', async () => {
    const queues = names(3);
    const connector = await node.connect();
    const [a, b, c] = queues.map((queue) => new Queue<Part>(connector, queue)) as [
      Queue<Part>,
      Queue<Part>,
      Queue<Part>,
    ];
    const sum: Handler<Part, number> = async (job, { children }) => {
      const { values } = await children();
      return [...values.values()].reduce<number>((total, value) => total + Number(value), job.payload.n);
    };
    const results: unknown[] = [];
    const options = { ...QUICK, beatMs: 1_000 };
    await using root = a.consume(sum, options);
    await using _second = b.consume(sum, options);
    await using _third = c.consume(sum, options);
    root.on('completed', (job, info) => void (job.payload.n === 1000 && results.push(info.result)));
    const flows = new Flows<Part>(connector, a.queue);
    const leaf = (n: number, queue: string) => ({ payload: { n }, queue });
    const added = await flows.addBulk(
      Array.from({ length: 30 }, () => ({
        payload: { n: 1000 },
        children: [
          leaf(1, a.queue),
          leaf(2, b.queue),
          { ...leaf(10, b.queue), children: [leaf(3, c.queue), leaf(4, b.queue), leaf(5, a.queue)] },
          {
            ...leaf(20, c.queue),
            children: [{ ...leaf(30, a.queue), children: [leaf(6, c.queue), leaf(7, b.queue)] }],
          },
        ],
      })),
    );
    expect(added.every(({ outcome }) => outcome === 'added')).toBe(true);
    await vi.waitUntil(() => results.length === 30, PATIENCE);
    expect(new Set(results)).toEqual(new Set([1088]));
    await vi.waitUntil(async () => (await remains(queues)).length === 0, PATIENCE);
    for (const [queue, count] of [
      [a, 30 * 4],
      [b, 30 * 4],
      [c, 30 * 3],
    ] as const) {
      expect(await queue.metrics('completed')).toEqual({ count });
    }
  });

  it('children in two other processes, of which one is killed in the middle: the parents have the right digests', async () => {
    const [parents, ...others] = names(3) as [string, string, string];
    await using program = await WorkerProgram.build();
    const plan = (queue: string) => ({
      ...{ queue, work: 'hash' as const, connector: { url: node.server.url, wire } },
      options: { ...QUICK, leaseMs: 1_000 },
    });
    const [first] = await Promise.all([program.start(plan(others[0])), program.start(plan(others[1]))]);
    const connector = await node.connect();
    const queue = new Queue(connector, parents);
    const done: Children[] = [];
    await using _consumer = queue.consume(async (_job, { children }) => void done.push(await children()), QUICK);
    const files = ['README.md', 'package.json', 'tsconfig.json', 'eslint.config.js'].map((name) => join(ROOT, name));
    const flow = {
      payload: 1,
      children: others.flatMap((other) => files.map((path) => ({ payload: { path }, queue: other }))),
    };
    const flows = new Flows(connector, parents);
    const added = await flows.addBulk(Array.from({ length: 10 }, () => flow));
    first.signal('SIGKILL');
    await first.ended;
    await program.start(plan(others[0]));
    await vi.waitUntil(() => done.length === 10, PATIENCE);
    const digests = await Promise.all(
      files.map(async (path) =>
        createHash('sha256')
          .update(await readFile(path))
          .digest('hex'),
      ),
    );
    for (const { values, ignored, failures } of done) {
      expect([ignored.size, failures.size, values.size]).toEqual([0, 0, 8]);
      expect(JSON.stringify([...values.values()])).toContain(digests[0]);
      for (const digest of digests) expect(JSON.stringify([...values.values()]).split(digest)).toHaveLength(3);
    }
    expect(added).toHaveLength(10);
    await vi.waitUntil(async () => (await remains([parents, ...others])).length === 0, PATIENCE);
  });

  describe('children()', () => {
    it('is three empty maps for a job that is no parent, and is read anew at each call', async () => {
      const queue = await node.queue(freshQueue('plain'));
      const told: Children[] = [];
      await using consumer = queue.consume(async (_job, { children }) => {
        told.push(await children(), await children());
      });
      await queue.enqueue(1);
      await ended(consumer as Consumer<never>, 1);
      const none = { values: new Map(), ignored: new Map(), failures: new Map() };
      expect(told).toEqual([none, none]);
      expect(told[0]).not.toBe(told[1]);
    });

    it('tells a parent that was brought back of the child it died of', async () => {
      const connector = await node.connect();
      const queue = new Queue(connector, freshQueue('back'));
      const told: Children[] = [];
      const handler: Handler = async (job, { children }) => {
        if (job.payload === 'dies') throw new Error('no luck');
        told.push(await children());
      };
      await using _consumer = queue.consume(handler, { ...QUICK, maxAttempts: 1 });
      const flow = { payload: 'parent', children: [{ payload: 'dies' }] };
      const { id, children } = await new Flows(connector, queue.queue).add(flow);
      const child = children[0]?.id as string;
      await vi.waitUntil(async () => (await queue.state(id)) === 'dead', PATIENCE);
      // for good: nobody waits for it any more
      expect(await queue.remove(child)).toBe('removed');
      await vi
        .waitUntil(async () => (await queue.reprocess(id).catch(() => '')) === 'pending', PATIENCE)
        .catch(() => {});
      await vi.waitUntil(() => told.length === 1, PATIENCE);
      expect(told[0]?.failures.get(child)).toBe('removed');
      expect(told[0]?.values.size).toBe(0);
    });

    it.each(['thread', 'process'] as const)('is the same in a %s', async (processor) => {
      const connector = await node.connect();
      const [here, there] = names(2) as [string, string];
      const queue = new Queue(connector, here);
      const options = { ...QUICK, processor, maxAttempts: 1, concurrency: 2 };
      await using consumer = queue.consume(PROCESSOR, options);
      await using _other = new Queue(connector, there).consume(PROCESSOR, options);
      const results: unknown[] = [];
      consumer.on(
        'completed',
        (job, info) => void (Object.keys(job.payload as object).length === 0 && results.push(info.result)),
      );
      const children = [
        ...[{ gives: 'text' }, { gives: 7 }, { bytes: 'a\0\xff' }, { gives: { a: [null] } }, { dies: 'so what' }],
      ].map((payload, i) => ({ payload, queue: i % 2 === 0 ? here : there, onFailure: 'ignore' as const }));
      await new Flows(connector, here).add({ payload: {}, children });
      await vi.waitUntil(() => results.length === 1, PATIENCE);
      expect(results[0]).toEqual({
        maps: true,
        values: [{ value: 'text' }, { value: 7 }, { bytes: 'a\0\xff' }, { value: { a: [null] } }],
        ignored: ['so what'],
        failures: 0,
      });
    });
  });

  describe('a result', () => {
    it('of whatever kind comes to the parent', async () => {
      const connector = await node.connect();
      const queue = new Queue<number>(connector, freshQueue('results'));
      const bytes = Buffer.from([0, 255, 10, 0]);
      const results: unknown[] = ['text', 7, { a: [1] }, bytes, undefined, () => 1, null];
      let found: Children | undefined;
      await using _consumer = queue.consume(async (job, { children }) => {
        if (job.payload >= 0) return results[job.payload];
        return void (found = await children());
      }, QUICK);
      const { children } = await new Flows<number>(connector, queue.queue).add({
        payload: -1,
        children: results.map((_, payload) => ({ payload })),
      });
      await vi.waitUntil(() => found !== undefined, PATIENCE);
      const values = children.map(({ id }) => found?.values.get(id));
      expect(values).toEqual(['text', 7, { a: [1] }, bytes, undefined, undefined, null]);
      expect(found?.values.size).toBe(7);
    });

    it.each<[string, () => unknown, RegExp]>([
      [
        'a cycle',
        () => {
          const cycle: Record<string, unknown> = {};
          return (cycle['self'] = cycle);
        },
        /circular/i,
      ],
      ['a bigint', () => 1n, /BigInt/],
    ])('without a form, %s, fails its job by a clear word, and it is tried again', async (_what, odd, why) => {
      const connector = await node.connect();
      for (const other of [undefined, freshQueue('odd')]) {
        const parents = new Queue<string>(connector, freshQueue('odd'));
        const children = other === undefined ? parents : new Queue<string>(connector, other);
        await using consumer = children.consume((job) => (job.attempts === 1 ? odd() : 'better'), QUICK);
        const failed = once(consumer, 'scheduled');
        const done = once(consumer, 'completed');
        const flows = new Flows<string>(connector, parents.queue);
        const {
          id,
          children: [child],
        } = await flows.add({ payload: 'p', children: [{ payload: 'c', queue: children.queue }] });
        const [, info] = (await failed) as [unknown, { error: EmqError }];
        expect(info.error.message).toMatch(why);
        expect(info.error.message).toMatch(/no JSON form for its parent.*give bytes or plain data/s);
        await done;
        await vi.waitUntil(
          async () => (await flows.childrenValues(id)).size === 1 || (await parents.state(id)) === 'absent',
          PATIENCE,
        );
        if (other !== undefined) expect(await flows.childrenValues(id)).toEqual(new Map([[child?.id, 'better']]));
      }
    });

    it('without a form at the last try is the death of the child, and of its parent', async () => {
      const connector = await node.connect();
      const queue = new Queue<string>(connector, freshQueue('odd'));
      await using _consumer = queue.consume(() => 1n, { ...QUICK, maxAttempts: 1 });
      const flows = new Flows<string>(connector, queue.queue);
      const { id, children } = await flows.add({ payload: 'p', children: [{ payload: 'c' }] });
      await vi.waitUntil(async () => (await queue.state(id)) === 'dead', PATIENCE);
      expect((await flows.failures(id)).get(children[0]?.id as string)).toMatch(/BigInt/);
    });
  });

  describe('a settle whose reply was lost', () => {
    const ends = [
      ['a completion', 'completed', () => 'fine', 'pending'],
      [
        'a death',
        'failed',
        () => {
          throw new Error('no luck');
        },
        'dead',
      ],
    ] as const;
    const cases = ends.flatMap((end) => [false, true].map((elsewhere) => [...end, elsewhere] as const));
    it.each(cases)('%s has happened once, and is told so', async (_what, event, does, state, elsewhere) => {
      await using proxy = await FaultyProxy.start(node.port);
      const direct = await node.connect();
      const parents = new Queue(direct, freshQueue('lost'));
      const children = elsewhere ? freshQueue('lost') : parents.queue;
      const connector = await node.connect({ url: proxy.url, reconnectMinMs: 10, reconnectMaxMs: 50 });
      let proceed: () => void = () => {};
      const held = new Promise<void>((resolve) => (proceed = resolve));
      const queue = new Queue(connector, children);
      const consumer = queue.consume(
        async () => {
          await held;
          return does();
        },
        { ...NO_BEAT, maxAttempts: 1 },
      );
      consumer.on('warning', () => {});
      const told: string[] = [];
      for (const name of ['completed', 'failed', 'scheduled', 'stale'] as const)
        consumer.on(name, () => void told.push(name));
      const flows = new Flows(direct, parents.queue);
      const claimed = once(consumer, 'claimed');
      const open = { payload: 2, queue: freshQueue('lost') };
      const { id } = await flows.add({ payload: 1, children: [{ payload: 2, queue: children }, open] });
      await claimed;
      // the child's own settle is the first to name the parent
      const cut = proxy.cutReplyTo(id);
      proceed();
      await cut;
      await vi.waitUntil(() => told.length > 0, PATIENCE);
      // what it left, if nobody was told that there is a letter
      await new Flows(direct, children).deliver();
      expect(told).toEqual([event]);
      const { open: count, processed, failed } = await flows.counts(id);
      expect({ count, processed, failed }).toEqual(
        state === 'dead' ? { count: 2, processed: 0, failed: 1 } : { count: 1, processed: 1, failed: 0 },
      );
      expect(await parents.state(id)).toBe(state === 'dead' ? 'dead' : 'awaiting_children');
      await consumer.close();
    });
  });

  describe('cancel of a parent', () => {
    it('cancels its open children, here and elsewhere, and theirs: waiting ones go, running ones are told', async () => {
      const connector = await node.connect();
      const [a, b] = names(2).map((name) => new Queue<string>(connector, name)) as [Queue<string>, Queue<string>];
      const aborted: string[] = [];
      const running = new Set<string>();
      let proceed: () => void = () => {};
      const gone = new Promise<void>((resolve) => (proceed = resolve));
      const handler: Handler<string> = async (job, { signal }) => {
        if (job.payload === 'done') return;
        running.add(job.payload);
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        aborted.push(`${job.payload}: ${(signal.reason as Error).message}`);
        // its slot is not free before all that wait are gone
        await gone;
        throw signal.reason;
      };
      const leaf = (payload: string, queue: Queue<string>) => {
        return { payload, queue: queue.queue, priority: payload.startsWith('waits') ? 1 : 0 };
      };
      const flow = {
        payload: 'root',
        children: [
          ...[leaf('done', a), leaf('runs a', a), leaf('runs b', b)],
          { ...leaf('node', b), children: [leaf('runs below', b), leaf('waits b', b), leaf('waits a', a)] },
          ...[leaf('runs a too', a), leaf('waits a', a), leaf('waits b', b)],
        ],
      };
      const { id } = await new Flows<string>(connector, a.queue).add(flow);
      const options = { ...QUICK, concurrency: 2, maxAttempts: 1 };
      await using _a = a.consume(handler, options);
      await using _b = b.consume(handler, options);
      const all = ['runs a', 'runs a too', 'runs b', 'runs below'];
      await vi.waitUntil(() => running.size === 4, PATIENCE);
      expect([...running].sort()).toEqual(all);
      expect(await a.cancel(id, 'the customer left')).toBe('removed');
      await vi.waitUntil(() => aborted.length === 4, PATIENCE);
      const why = `its flow parent ${id} no longer waits for it: the customer left`;
      const direct = ['runs a too', 'runs a', 'runs b'].map((name) => `${name}: cancelled: ${why}`);
      const below = new RegExp(`^runs below: cancelled: its flow parent \\w{14} no longer waits for it: ${why}$`);
      expect([...aborted].sort()).toEqual([...direct, expect.stringMatching(below)]);
      await vi.waitUntil(async () => {
        const waiting = await Promise.all([a, b].map((queue) => queue.counts(['pending', 'awaiting_children'])));
        return waiting.every(({ pending, awaiting_children: held }) => pending + held === 0);
      }, PATIENCE);
      proceed();
      // the four that ran are dead by it; nothing else is left of the flow
      const dead = async () => (await a.counts(['dead'])).dead + (await b.counts(['dead'])).dead;
      await vi.waitUntil(async () => (await dead()) === 4, PATIENCE);
      for (const queue of [a, b]) for (const job of await queue.browse('dead')) await queue.remove(job);
      await vi.waitUntil(async () => (await remains([a.queue, b.queue])).length === 0, PATIENCE);
    });

    it('that was let go already is that of any job', async () => {
      const connector = await node.connect();
      const queue = new Queue(connector, freshQueue('cancel'));
      const { id, children } = await new Flows(connector, queue.queue).add({ payload: 1, children: [{ payload: 2 }] });
      expect(await queue.remove(children[0]?.id as string)).toBe('removed');
      await new Flows(connector, queue.queue).deliver();
      expect(await queue.cancel(id)).toBe('dead');
    });
  });

  it('a job that is in no flow costs one take and one complete, and not one read more; a child its link', async () => {
    const connector = await node.connect();
    const queue = new Queue(connector, freshQueue('price'));
    using monitor = await Monitor.start(node);
    const consumer = queue.consume(() => 'done', { ...NO_BEAT, publish: false });
    for (let i = 0; i < 50; i++) await queue.enqueue(i);
    await ended(consumer as Consumer<never>, 50);
    const count = (name: string) => monitor.seen.filter((one) => one.name === name).length;
    await vi.waitUntil(() => count('complete') >= 50, PATIENCE);
    expect(['complete', 'flow_link', 'flow_children', 'flow', 'get'].map(count)).toEqual([50, 0, 0, 0, 0]);
    const flows = new Flows(connector, queue.queue);
    await flows.add({ payload: 1, children: Array.from({ length: 9 }, (_, payload) => ({ payload })) });
    await ended(consumer as Consumer<never>, 60);
    await consumer.close();
    // the script of complete and that of complete_child are one
    await vi.waitUntil(() => count('flow_link') >= 9, PATIENCE);
    expect([count('flow_link'), count('complete') + count('complete_child')]).toEqual([9, 50 + 1 + 2 * 9]);
    expect(count('flow_children')).toBe(0);
  });
});

describe('on wire 6', () => {
  let node: WorkerNode;
  beforeAll(async () => {
    node = await WorkerNode.start(6);
  });
  afterAll(() => node[Symbol.asyncDispose]());

  it('consumers take children and parents natively, and settle children by scripts', async () => {
    const connector = await node.connect();
    const queue = new Queue(connector, freshQueue('native'));
    await node.admin.config('RESETSTAT');
    const consumer = queue.consume(
      (job) => {
        if (job.payload === 'dies') throw new Error('no');
      },
      { ...NO_BEAT, maxAttempts: 1 },
    );
    await new Flows(connector, queue.queue).add({
      payload: 'parent',
      children: [{ payload: 'done' }, { payload: 'dies', onFailure: 'ignore' }],
    });
    await vi.waitUntil(async () => (await queue.counts(['completed'])).completed === 2, PATIENCE);
    await consumer.close();
    const stats = await commandStats();
    expect(stats.get('emq.take')?.failed).toBe(0);
    expect(stats.get('emq.take')?.calls).toBeGreaterThan(0);
    // the child's is refused, the parent's is not
    expect(stats.get('emq.complete')).toEqual({ calls: 2, rejected: 0, failed: 1 });
    expect(stats.get('emq.fail')).toEqual({ calls: 1, rejected: 0, failed: 1 });
  });

  async function commandStats(): Promise<Map<string, { calls: number; rejected: number; failed: number }>> {
    const info = await node.admin.info('commandstats');
    const lines = [...info.matchAll(/^cmdstat_([\w.|-]+):calls=(\d+),.*rejected_calls=(\d+),failed_calls=(\d+)/gm)];
    return new Map(
      lines.map(([, name = '', calls, rejected, failed]) => [
        name,
        { calls: Number(calls), rejected: Number(rejected), failed: Number(failed) },
      ]),
    );
  }
});
