/**
 * A server goes away while 100 jobs are held, and comes back as itself or as its replica. Two stories for each way:
 * all workers come back in time, or too late. For the quick and the long suite.
 *
 * The leases lapse while the server is away (a past score instead of waiting); the workers come and go through proxies,
 * which also lead them to the replica.
 */
import { expect, it, vi } from 'vitest';
import { Queue } from '../../../src/index.js';
import { story } from '../support/ledger.js';
import { Monitor } from '../support/monitor.js';
import { freshQueue, type Wire, type WorkerNode } from '../support/nodes.js';
import { freshFolder, type WorkerProcess, type WorkerProgram } from '../support/processes.js';
import type { Plan } from '../support/program.js';
import { FaultyProxy } from '../support/proxy.js';
import { FAILOVER, type Outage } from './outages.js';

const JOBS = 100;
/** Half of it is less than the least grace. */
const LEASE_MS = 8_000;
const GRACE_MS = 5_000;
const SOON = { timeout: 20_000, interval: 20 };

export function outageSuite(wire: Wire, program: () => WorkerProgram, outage: Outage): void {
  const plan = (name: string, ledger: string, concurrency: number, proxy: FaultyProxy): Plan => ({
    queue: name,
    work: 'hold',
    ledger,
    connector: { url: proxy.url, wire, reconnectMaxMs: 300 },
    // one more would be dead
    options: { concurrency, leaseMs: LEASE_MS, recovery: 'stalled', maxStalled: 2 },
    tell: ['completed', 'lost', 'stale', 'stalled', 'failed', 'scheduled'],
  });

  async function hold(node: WorkerNode): Promise<{ name: string; ids: string[] }> {
    const name = freshQueue('outage');
    const queue = await node.queue<number>(name);
    const added = await queue.enqueueMany(Array.from({ length: JOBS }, (_, payload) => ({ payload })));
    return { name, ids: added.map(({ id }) => id) };
  }

  async function lead(proxy: FaultyProxy, node: WorkerNode): Promise<void> {
    proxy.target = node.port;
    await proxy.accept();
  }

  const lapsed = async (node: WorkerNode, name: string): Promise<number> => {
    const [seconds, micros] = await node.admin.time();
    const now = Number(seconds) * 1_000 + Number(micros) / 1_000;
    return (await node.deadlines(name)).filter((deadline) => deadline <= now).length;
  };

  it.concurrent(
    `${outage.name} while ${JOBS} jobs are held, all workers back within 5 s: no count moves and no job runs twice`,
    async () => {
      await using scene = await outage.start(wire);
      await using folder = await freshFolder();
      await using early = await FaultyProxy.start(scene.node.port);
      await using late = await FaultyProxy.start(scene.node.port);
      const { name, ids } = await hold(scene.node);
      await using first = await program().start(plan(name, folder.path, JOBS / 2, early));
      await using second = await program().start(plan(name, folder.path, JOBS / 2, late));
      const workers: WorkerProcess[] = [first, second];
      for (const worker of workers) await worker.told('holding', JOBS / 2);

      for (const proxy of [early, late]) await proxy.refuse();
      const node = await scene.strike();
      using monitor = await Monitor.start(node);
      expect(await node.lapse(name)).toBe(JOBS);
      await lead(early, node);
      await vi.waitUntil(async () => (await lapsed(node, name)) === JOBS / 2, SOON);
      await lead(late, node);
      await vi.waitUntil(async () => (await lapsed(node, name)) === 0, SOON);

      // Both have renewed. Now both sweep, and there is nothing for them to find.
      const sweepers = (): string[] => [
        ...new Set(monitor.seen.filter((one) => one.name === 'stalled_check').map((one) => one.source)),
      ];
      await vi.waitUntil(() => sweepers().length === 2, SOON);
      for (const source of sweepers()) {
        const seen = monitor.from(source);
        const at = (what: string): number => seen.find((one) => one.name === what)?.atMs ?? NaN;
        expect(at('extend_many')).toBeLessThan(at('stalled_check'));
        expect(at('stalled_check') - (seen[0]?.atMs ?? NaN)).toBeGreaterThan(GRACE_MS - 100);
      }
      expect(await node.fields(name, ids, 'stalled')).toEqual(ids.map(() => null));
      expect(await node.fields(name, ids, 'credit')).toEqual(ids.map(() => null));
      expect(await node.fields(name, ids, 'attempts')).toEqual(ids.map(() => '1'));

      for (const worker of workers) worker.order({ order: 'go' });
      for (const worker of workers) await worker.told('completed', JOBS / 2);
      const told = story(folder.path);
      for (const id of ids) expect(told.get(id)?.map(({ token }) => token)).toEqual([1]);
      for (const worker of workers) {
        expect(worker.all.filter(({ event }) => !['ready', 'holding', 'completed'].includes(event))).toEqual([]);
      }
    },
    60_000,
  );

  const headline =
    wire === 6
      ? `P1: ${outage.name} while ${JOBS} jobs are held, workers back too late: on wire 6 no stall count moves`
      : `P1: ${outage.name} while ${JOBS} jobs are held, workers back too late: on wire 4 each stall count moves (the contrast)`;
  it.concurrent(
    headline,
    async () => {
      await using scene = await outage.start(wire);
      await using folder = await freshFolder();
      await using far = await FaultyProxy.start(scene.node.port);
      await using near = await FaultyProxy.start(scene.node.port);
      const { name, ids } = await hold(scene.node);
      await using holder = await program().start(plan(name, folder.path, JOBS, far));
      await holder.told('holding', JOBS);
      await using rescuer = await program().start(plan(name, folder.path, JOBS, near));

      for (const proxy of [far, near]) await proxy.refuse();
      const node = await scene.strike();
      expect(await node.lapse(name)).toBe(JOBS);
      await lead(near, node);
      await rescuer.told('holding', JOBS);
      // The headline: the server was away, the workers were sound. Who counts that against the jobs?
      expect(await node.fields(name, ids, 'stalled')).toEqual(ids.map(() => (wire === 6 ? null : '1')));
      expect(await node.fields(name, ids, 'credit')).toEqual(ids.map(() => (wire === 6 ? '1' : null)));
      expect(await node.fields(name, ids, 'attempts')).toEqual(ids.map(() => '2'));

      // Whoever comes back too late is told, and what it still says is refused.
      await lead(far, node);
      await holder.told('aborted', JOBS);
      await holder.told('stale', JOBS);
      expect(holder.of('lost')).toHaveLength(JOBS);
      expect(holder.of('aborted')[0]?.text).toMatch(/^the lease of JOB\w{11} was lost/);
      rescuer.order({ order: 'go' });
      await rescuer.told('completed', JOBS);
      for (const id of ids)
        expect(
          story(folder.path)
            .get(id)
            ?.map(({ token }) => token),
        ).toEqual([1, 2]);
      expect([...holder.all, ...rescuer.all].filter(({ event }) => ['failed', 'scheduled'].includes(event))).toEqual(
        [],
      );
    },
    60_000,
  );
}

/** A failover under workers that stay connected: they learn of it from what the old primary answers. */
export function handoverSuite(wire: Wire, program: () => WorkerProgram): void {
  it.concurrent(
    `FAILOVER under connected workers: jobs in hand and jobs that wait go on at the new primary, each run once`,
    async () => {
      await using scene = await FAILOVER.start(wire);
      await using folder = await freshFolder();
      await using proxy = await FaultyProxy.start(scene.node.port);
      const connector = { url: proxy.url, wire };
      const held = await scene.node.queue<object>(freshQueue('held'));
      const busy = await scene.node.queue<object>(freshQueue('busy'));
      const tell = ['completed', 'stalled', 'lost', 'stale'];
      const options = { concurrency: 100, leaseMs: LEASE_MS, recovery: 'stalled' } as const;
      const plan = { ledger: folder.path, connector, tell } as const;
      await using holder = await program().start({ ...plan, work: 'hold', queue: held.queue, options });
      await using runner = await program().start({
        ...{ ...plan, work: 'note', queue: busy.queue },
        options: { ...options, concurrency: 4 },
      });
      await held.enqueueMany(Array.from({ length: JOBS }, () => ({ payload: {} })));
      await holder.told('holding', JOBS);
      await busy.enqueueMany(Array.from({ length: 5 * JOBS }, () => ({ payload: { ms: 5 } })));
      await runner.told('completed', JOBS);

      // Who connects anew is led to the replica; who is connected stays where he is.
      proxy.target = scene.heir;
      const node = await scene.strike();
      await runner.told('completed', 5 * JOBS);
      holder.order({ order: 'go' });
      await holder.told('completed', JOBS);
      const now = await node.connect();
      for (const queue of [held, busy]) {
        const { pending, active, dead, completed } = await new Queue(now, queue.queue).counts();
        expect({ pending, active, dead }).toEqual({ pending: 0, active: 0, dead: 0 });
        expect(completed).toBe(queue === held ? JOBS : 5 * JOBS);
      }
      const told = story(folder.path);
      expect(told.size).toBe(6 * JOBS);
      for (const [id, runs] of told)
        expect(
          runs.map(({ token, starts }) => [token, starts.length]),
          id,
        ).toEqual([[1, 1]]);
      expect([...holder.all, ...runner.all].filter(({ event }) => /stalled|lost|stale/.test(event))).toEqual([]);
    },
    60_000,
  );
}
