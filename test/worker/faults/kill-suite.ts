/**
 * kill -9 of worker processes in the middle of their work, at moments that a seed draws: nothing is lost, and the
 * attempts and the stall counts tell what happened. For the quick and the long suite.
 */
import { expect, it, vi } from 'vitest';
import { rng } from '../../../src/parity/prng.js';
import { seed } from '../../parity/seed.js';
import { story } from '../support/ledger.js';
import { WorkerNode, freshQueue, type Wire } from '../support/nodes.js';
import { freshFolder, type WorkerProcess, type WorkerProgram } from '../support/processes.js';
import type { Plan } from '../support/program.js';

const JOBS = 1_000;
const CONCURRENCY = 8;
const WORKERS = 2;

/** @param program the bundled worker, once the test runs */
export function killSuite(wire: Wire, program: () => WorkerProgram, kills: number): void {
  it(`P2: kill -9 of a worker process ${kills} times in the middle of ${JOBS} jobs: none is lost, each kill is counted`, async () => {
    const draw = rng(seed);
    await using node = await WorkerNode.start(wire);
    await using folder = await freshFolder();
    const name = freshQueue('kill');
    const queue = await node.queue<{ ms: number }>(name);
    const added = await queue.enqueueMany(Array.from({ length: JOBS }, () => ({ payload: { ms: draw.below(8) } })));
    const ids = added.map(({ id }) => id);

    const plan: Plan = {
      queue: name,
      work: 'note',
      ledger: folder.path,
      connector: { url: node.server.url, wire },
      options: {
        concurrency: CONCURRENCY,
        leaseMs: 2_000,
        beatMs: 200,
        recovery: 'stalled',
        // Far away: here every job is to complete, however often it was hit.
        ...{ maxStalled: 1_000, maxAttempts: 1_000 },
      },
    };
    const killed = new Set<number>();
    const workers: WorkerProcess[] = [];
    for (let i = 0; i < WORKERS; i++) workers.push(await program().start(plan));
    const completed = async (): Promise<number> => (await queue.metrics('completed')).count;
    const until = (count: number): Promise<unknown> =>
      vi.waitUntil(async () => (await completed()) >= count, { timeout: 60_000, interval: 2 });
    // The moments are drawn in completed jobs, so that they lie in the middle of the work on any machine.
    const moments = Array.from({ length: kills }, () => 1 + draw.below(JOBS - WORKERS * CONCURRENCY - 1));
    for (const moment of moments.sort((a, b) => a - b)) {
      await until(moment);
      const victim = workers.shift() as WorkerProcess;
      killed.add(victim.pid);
      await victim.kill();
      workers.push(await program().start(plan));
    }
    await until(JOBS);

    expect(await queue.counts()).toEqual({
      pending: 0,
      active: 0,
      scheduled: 0,
      dead: 0,
      awaiting_children: 0,
      completed: JOBS,
      failed: 0,
    });
    expect(await node.admin.keys(`${queue.keys.base}job:*`)).toEqual([]);
    await Promise.all(workers.map((worker) => worker.kill()));
    const told = story(folder.path);
    expect([...told.keys()].sort()).toEqual([...ids].sort());
    let again = 0;
    for (const [id, ofJob] of told) {
      for (const [i, run] of ofJob.entries()) {
        const last = i === ofJob.length - 1;
        // One process a token, and only a killed one leaves its run to another.
        expect(run.starts, id).toHaveLength(1);
        expect(killed.has(run.starts[0]?.pid ?? 0) || last, id).toBe(true);
        // Each claim before this one ended in a stall, and each was counted.
        expect(run.starts[0], id).toMatchObject({ stalled: run.token - 1, credit: 0 });
        if (last) expect(run.dones, id).toHaveLength(1);
      }
      again += (ofJob.at(-1)?.token ?? 1) - 1;
    }
    // A kill hits what was in hand, and no more than that.
    expect(again).toBeGreaterThan(0);
    expect(again).toBeLessThanOrEqual(killed.size * CONCURRENCY);
  }, 180_000);
}
