/**
 * Five processes that fire the repeats of a queue, killed at random and replaced, and what is left to be true: each slot made
 * one job, none was left out, and it still ticks.
 *
 * Does not: say for how long (the test files do).
 */
import { setTimeout as pause } from 'node:timers/promises';
import { expect, vi } from 'vitest';
import { rng } from '../../../src/parity/prng.js';
import { Repeats, type RepeatRun } from '../../../src/queue/repeats.js';
import { lines } from '../../worker/support/ledger.js';
import { freshQueue, type WorkerNode } from '../../worker/support/nodes.js';
import { freshFolder, type WorkerProcess, type WorkerProgram } from '../../worker/support/processes.js';

const FLEET = 5;
const EVERY_MS = 200;
const TICK = 'tick';
const PATIENCE = { timeout: 20_000, interval: 20 };

export async function ordeal(node: WorkerNode, program: WorkerProgram, ms: number, seed: number): Promise<void> {
  await using folder = await freshFolder();
  const queue = await node.queue(freshQueue('ticks'));
  const repeats = new Repeats(queue.wire, queue.queue);
  const random = rng(seed);
  const start = (): Promise<WorkerProcess> =>
    program.start({
      ...{
        queue: queue.queue,
        work: 'repeat',
        connector: { url: node.server.url, wire: node.wire },
        ledger: folder.path,
      },
      repeat: { name: TICK, everyMs: EVERY_MS },
      options: { leaseMs: 1_500, beatMs: 250, concurrency: 3, maxAttempts: 1_000 },
    });
  const fleet = await Promise.all(Array.from({ length: FLEET }, start));
  let kills = 0;
  for (const since = performance.now(); performance.now() - since < ms;) {
    await pause(random.below(400));
    const at = random.below(FLEET);
    await fleet[at]?.kill();
    fleet[at] = await start();
    kills++;
  }
  const count = async (): Promise<number> => (await repeats.get(TICK))?.count ?? 0;

  const fired = await count();
  await vi.waitUntil(async () => (await count()) >= fired + 3, PATIENCE);
  await repeats.pause(TICK);
  const total = await count();
  const last = (await repeats.get(TICK))?.last as number;
  await vi.waitUntil(async () => {
    const { pending, active, scheduled } = await queue.counts(['pending', 'active', 'scheduled']);
    return pending + active + scheduled === 0;
  }, PATIENCE);
  await program.endAll();

  /** Slot -> the jobs that were made for it. */
  const jobs = new Map<number, Set<string>>();
  for (const { at, id, result } of lines(folder.path)) {
    if (at !== 'done') continue;
    const { slot } = result as RepeatRun;
    jobs.set(slot, (jobs.get(slot) ?? new Set()).add(id));
  }
  const told = `seed ${seed}, ${kills} kills, ${total} slots`;
  expect(kills, told).toBeGreaterThan(ms / 2_000);
  expect(
    [...jobs.values()].filter(({ size }) => size !== 1),
    told,
  ).toEqual([]);
  const slots = Array.from({ length: total }, (_, n) => last - (total - 1 - n) * EVERY_MS);
  expect(
    [...jobs.keys()].sort((a, b) => a - b),
    told,
  ).toEqual(slots);
  // as many as there was time for
  expect(total, told).toBeGreaterThanOrEqual(Math.floor(ms / EVERY_MS));
  expect(await queue.counts(['dead', 'failed']), told).toEqual({ dead: 0, failed: 0 });
}
