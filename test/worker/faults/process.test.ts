/**
 * Worker processes as an operator sees them: they end by themselves after a close and on a signal, and an event loop
 * that is blocked for three leases does no harm.
 */
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Queue } from '../../../src/index.js';
import { story } from '../support/ledger.js';
import { Monitor } from '../support/monitor.js';
import { WIRES, WorkerNode, freshQueue } from '../support/nodes.js';
import { WorkerProgram, freshFolder, type WorkerProcess } from '../support/processes.js';
import type { Plan } from '../support/program.js';
import { FaultyProxy } from '../support/proxy.js';

const SOON = { timeout: 15_000, interval: 10 };

let program: WorkerProgram;
beforeAll(async () => {
  program = await WorkerProgram.build();
});
afterEach(() => program.endAll());
afterAll(() => program[Symbol.asyncDispose]());

describe.each(WIRES)('wire %i', (wire) => {
  let node: WorkerNode;
  let queue: Queue;
  beforeAll(async () => {
    node = await WorkerNode.start(wire);
  });
  afterAll(() => node[Symbol.asyncDispose]());

  async function plan(work: Plan['work'], more: Partial<Plan> = {}): Promise<Plan> {
    queue = await node.queue(freshQueue('process'));
    return { queue: queue.queue, work, connector: { url: node.server.url, wire }, ...more };
  }

  describe('P17: a process ends by itself', () => {
    it('when its consumers and its connector are closed', async () => {
      const worker = await program.start(await plan('note', { consumers: 3, tell: ['completed'] }));
      await queue.enqueue({});
      await worker.told('completed');
      worker.order({ order: 'close', timeoutMs: 5_000 });
      expect(await worker.ended).toEqual({ code: 0, signal: null });
    });

    it('when they are closed with the server away and a job that never ends', async () => {
      await using proxy = await FaultyProxy.start(node.port);
      const worker = await program.start(await plan('hang', { connector: { url: proxy.url, wire } }));
      await queue.enqueue({});
      await worker.told('holding');
      await proxy.refuse();
      worker.order({ order: 'close', timeoutMs: 100 });
      expect(await worker.ended).toEqual({ code: 0, signal: null });
    });
  });

  /** Resolves when the process has begun to close its consumers. */
  async function closing(worker: WorkerProcess, consumers = 1): Promise<void> {
    for (let asked = 1; ; asked++) {
      worker.order({ order: 'stats' });
      const stats = (await worker.told('stats', asked)).at(-1);
      if (stats?.text?.match(/"state":"closing"/g)?.length === consumers) return;
    }
  }

  describe('closeOnSignal', () => {
    it('on SIGTERM lets the jobs in hand end, and the process ends as by the signal', async () => {
      const worker = await program.start(await plan('hold', { closeOnSignalMs: 60_000, tell: ['completed'] }));
      const [held, next] = await queue.enqueueMany([{ payload: {} }, { payload: {} }]);
      await worker.told('holding');
      worker.signal('SIGTERM');
      // what comes free now takes no new job
      await closing(worker);
      worker.order({ order: 'go' });
      expect(await worker.ended).toEqual({ code: 143, signal: null });
      expect(worker.of('completed')).toMatchObject([{ id: held?.id, token: 1 }]);
      expect(await queue.get(next?.id ?? '')).toMatchObject({ state: 'pending', attempts: 0 });
    });

    it('hands back what does not end in time', async () => {
      const worker = await program.start(await plan('hang', { closeOnSignalMs: 100 }));
      const { id } = await queue.enqueue({});
      await worker.told('holding');
      worker.signal('SIGTERM');
      expect(await worker.ended).toEqual({ code: 143, signal: null });
      expect(await queue.get(id)).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
    });

    it('closes all consumers at once, and does not wait any longer after a second signal', async () => {
      const worker = await program.start(await plan('hang', { consumers: 3, closeOnSignalMs: 600_000 }));
      const added = await queue.enqueueMany([{ payload: {} }, { payload: {} }, { payload: {} }]);
      await worker.told('holding', 3);
      worker.signal('SIGTERM');
      await closing(worker, 3);
      worker.signal('SIGTERM');
      expect(await worker.ended).toEqual({ code: 143, signal: null });
      for (const { id } of added) {
        expect(await queue.get(id)).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
      }
    });
  });

  describe('P9: an event loop that is blocked for three leases', () => {
    // Where another process must come first, it needs the time to.
    const [LEASE_MS, LEASE_ALONE_MS] = [1_000, 500];
    const blocking = (leaseMs: number, recovery: 'reap' | 'stalled'): Partial<Plan> => ({
      options: { leaseMs, beatMs: 100, recovery },
      tell: ['completed', 'lost', 'stale', 'scheduled', 'failed'],
    });

    it('loses its job to another process: the signal is aborted, the late outcome refused and reported', async () => {
      await using folder = await freshFolder();
      const blocked = await program.start(await plan('block', { ...blocking(LEASE_MS, 'reap'), ledger: folder.path }));
      const { id } = await queue.enqueue({ ms: 3 * LEASE_MS });
      await blocked.told('blocking');
      const rescuer = queue.consume(() => {}, { beatMs: 100 });
      const [job] = (await once(rescuer, 'completed')) as [{ id: string; token: number }];
      expect(job).toMatchObject({ id, token: 2 });
      expect(blocked.of('blocked')).toEqual([]);

      const [aborted] = await blocked.told('aborted');
      expect(aborted?.text).toBe(`the lease of ${id} was lost: another worker may have the job`);
      const [stale] = await blocked.told('stale');
      expect(stale).toMatchObject({ id, token: 1, text: expect.stringMatching(/^EMQSTALE job gone/) as string });
      expect(blocked.of('lost')).toHaveLength(1);
      expect(blocked.of('completed')).toEqual([]);
      expect(await queue.metrics('completed')).toEqual({ count: 1 });
      await rescuer.close();
    });

    it.each(['reap', 'stalled'] as const)(
      'with nobody else there renews before it sweeps (%s), and completes',
      async (recovery) => {
        await using folder = await freshFolder();
        const alone = await program.start(
          await plan('block', { ...blocking(LEASE_ALONE_MS, recovery), ledger: folder.path }),
        );
        const { id } = await queue.enqueue({ ms: 3 * LEASE_ALONE_MS });
        await alone.told('blocking');
        await alone.told('blocked');
        using monitor = await Monitor.start(node);
        // it sweeps again, and finds nothing of its own
        const sweep = recovery === 'reap' ? 'reap' : 'stalled_check';
        await vi.waitUntil(() => monitor.seen.some(({ name }) => name === sweep), SOON);
        alone.order({ order: 'go' });
        expect(await alone.told('completed')).toMatchObject([{ id, token: 1 }]);
        expect(
          story(folder.path)
            .get(id)
            ?.map(({ token }) => token),
        ).toEqual([1]);
        expect(
          alone.all.filter(({ event }) => ['lost', 'stale', 'scheduled', 'failed', 'aborted'].includes(event)),
        ).toEqual([]);
        expect(await queue.counts()).toMatchObject({ completed: 1, pending: 0, active: 0 });
      },
    );
  });
});
