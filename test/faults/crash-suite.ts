/**
 * kill -9 of a server at random moments under a load of every kind, again and again on the same folder: what its clients
 * were promised holds after each restart, as far as the way in which it keeps its data promises that.
 *
 * After each restart, before any client is let in again: the dump keeps all invariants, no promise is broken, and of the
 * jobs in flight some lose their lease and are swept: on wire 6 nothing is counted against them.
 * Invariants: the moments, the load and the choices come from the seed. Does not: say how many rounds (the test files do).
 */
import { stat, truncate } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { expect, it, vi } from 'vitest';
import { Admin, Queue, type Keyspace } from '../../src/index.js';
import { flowViolations } from '../../src/parity/flow-invariants.js';
import { violations } from '../../src/parity/invariants.js';
import { readKeys, type Keys } from '../../src/parity/keyspace-dump.js';
import { rng, type Rng } from '../../src/parity/prng.js';
import { WorkerNode, type Wire } from '../worker/support/nodes.js';
import { CrashLoad, mostStalls, QUEUES } from './crash-load.js';
import { AOF, growing } from './crash-log.js';

/** A way of keeping data. */
export interface Keeping {
  readonly name: string;
  readonly args: readonly string[];
  /** A crash may take back what was answered. */
  readonly lossy: boolean;
  /** What happens to the server at the end of a round. Gives the time until which nothing answered may be lost. */
  strike(node: WorkerNode, draw: Rng): Promise<number>;
  /** What an operator does when the server is up again. */
  readonly mend?: (node: WorkerNode) => Promise<void>;
}

/** An answer may come so long before its effect is in the file, by the server's own rule; and some time for the kill. */
const EVERYSEC_MS = 2_000 + 500;

async function crash(node: WorkerNode): Promise<void> {
  await node.server.kill();
}

export const ALWAYS: Keeping = {
  name: 'AOF always',
  lossy: false,
  args: [...AOF, '--appendfsync', 'always'],
  strike: async (node) => {
    await crash(node);
    return Infinity;
  },
};

export const REWRITING: Keeping = {
  name: 'AOF always, while it is rewritten',
  lossy: false,
  args: [...AOF, '--appendfsync', 'always'],
  strike: async (node, draw) => {
    await node.admin.bgrewriteaof();
    await pause(draw.below(40));
    await crash(node);
    return Infinity;
  },
};

export const EVERYSEC: Keeping = {
  name: 'AOF everysec',
  lossy: true,
  args: [...AOF, '--appendfsync', 'everysec'],
  strike: async (node) => {
    const killed = performance.now();
    await crash(node);
    return killed - EVERYSEC_MS;
  },
};

/** A kill leaves what was written; when the machine goes, so does what was not on disk: the last second of the file. */
export const POWER_CUT: Keeping = {
  name: 'AOF everysec, and the last second of the file is gone',
  lossy: true,
  args: [...AOF, '--appendfsync', 'everysec'],
  strike: async (node, draw) => {
    const file = await growing(node.server.dir);
    const { size } = await stat(file);
    const onDisk = performance.now();
    await pause(draw.below(1_000));
    await crash(node);
    const now = (await stat(file)).size;
    // somewhere in what was written meanwhile, mostly in the middle of a transaction
    await truncate(file, size + draw.below(Math.max(1, now - size)));
    return onDisk - EVERYSEC_MS;
  },
  mend: rewrite,
};

/**
 * Before 9.1 a server leaves the head of a transaction that was cut in its file, and runs it at its next start. A rewrite
 * takes it out.
 */
export async function rewrite(node: { readonly admin: Redis }): Promise<void> {
  await node.admin.bgrewriteaof();
  await vi.waitUntil(async () =>
    /aof_rewrite_in_progress:0[^]*aof_rewrite_scheduled:0/.test(await node.admin.info('persistence')),
  );
}

export const SNAPSHOT: Keeping = {
  name: 'snapshots only',
  lossy: true,
  args: ['--save', '', '--appendonly', 'no'],
  strike: async (node, draw) => {
    const saved = performance.now();
    await node.admin.save();
    await pause(draw.below(300));
    await crash(node);
    return saved;
  },
};

export function crashSuite(wire: Wire, keeping: Keeping, rounds: number, seed: number): void {
  it(
    `kill -9 of the server under load, ${keeping.name}, ${rounds} times: what was answered holds, the keyspace is sound`,
    async () => {
      await using node = await WorkerNode.start(wire, ...keeping.args);
      await using load = await CrashLoad.start(node, seed, keeping.lossy);
      const draw = rng(seed + 77);
      for (let round = 1; round <= rounds; round++) {
        const enough = load.books.jobs.size + 20;
        await vi.waitUntil(() => load.books.jobs.size > enough, { timeout: 20_000, interval: 5 });
        // The moment of the crash is what this test draws.
        await pause(draw.below(900));
        const until = await keeping.strike(node, draw);
        await load.cutOff();
        await node.server.restart();
        const keys = await readKeys(node.admin);
        const about = `seed ${seed}, round ${round}`;
        expect([...unsound(keys), ...load.books.broken(keys, until)], about).toEqual([]);
        expect(await audit(node), about).toEqual([]);
        load.books.rebase(keys);
        await keeping.mend?.(node);
        for (const queue of QUEUES) await sweep(node, queue, draw, about);
        await load.letIn();
      }
      await load.finish();
      const keys = await drained(node, load);
      expect([...unsound(keys), ...load.books.wrong, ...load.books.unaccounted(keys)], `seed ${seed}`).toEqual([]);
      const { done, dead, added } = load.books.totals(keys);
      expect(done, 'jobs were done').toBeGreaterThan(rounds * 5);
      if (load.books.lost === 0) expect(await counted(node), 'each was counted once').toBe(done);
      const { lost } = load.books;
      console.log(
        `wire ${wire}, ${keeping.name}: ${rounds} crashes, ${added} jobs added, ${done} done, ${dead} dead, ${lost} promises lost`,
      );
    },
    30_000 + rounds * 10_000,
  );
}

/** What is not as it must be between any two transitions, a line each. */
export function unsound(keys: Keys): string[] {
  const bases = QUEUES.map(({ base }) => base);
  return [...bases.flatMap((base) => violations(keys, base)), ...flowViolations(keys, bases)];
}

/** What `Admin.check` finds, which looks in a way of its own. */
async function audit(node: WorkerNode): Promise<unknown[]> {
  const connector = await node.connect();
  const checked = await Promise.all(QUEUES.map(({ queue }) => new Admin(connector, queue).check()));
  await connector.close();
  return checked.flatMap(({ findings }) => [...findings]);
}

/** Lets the leases of about half of the jobs in flight lapse, and looks what the sweep makes of that. */
async function sweep(node: WorkerNode, queue: Keyspace, draw: Rng, about: string): Promise<void> {
  const active = await node.admin.zrange(queue.active, '0', '-1');
  const lapsed = active.filter(() => draw.chance(50));
  if (lapsed.length === 0) return;
  await node.admin.zadd(queue.active, 'XX', ...lapsed.flatMap((id) => ['1', id]));
  const connector = await node.connect();
  const maxStalled = mostStalls(node);
  const { recovered, dead } = await new Queue(connector, queue.queue).stalledCheck({ maxStalled, limit: 1_000 });
  await connector.close();
  expect({ recovered: recovered.sort(), dead }, about).toEqual({ recovered: lapsed.sort(), dead: [] });
  const counts = await node.fields(queue.queue, recovered, 'stalled');
  if (node.wire === 6) expect(counts, `${about}: a restart is no stall`).toEqual(recovered.map(() => null));
  else
    expect(
      counts.every((count) => Number(count) > 0),
      `${about}: a script counts it`,
    ).toBe(true);
}

/** Until nothing waits or runs: claims whose answer was lost in a crash are let go as their leases lapse. */
async function drained(node: WorkerNode, load: CrashLoad): Promise<Keys> {
  const connector = await node.connect();
  for (const deadline = performance.now() + 60_000; ;) {
    const left = await Promise.all(
      QUEUES.map(async ({ queue }) => {
        const counts = await new Queue(connector, queue).counts();
        return counts.pending + counts.active + counts.scheduled + counts.awaiting_children;
      }),
    );
    const letters = await Promise.all(QUEUES.map(({ outbox }) => node.admin.llen(outbox)));
    if ([...left, ...letters].every((count) => count === 0)) {
      await load.rest();
      return readKeys(node.admin);
    }
    if (performance.now() > deadline) {
      throw new Error(`not drained: ${left.join(' ')} jobs, ${letters.join(' ')} letters; ${[...load.told].join(' ')}`);
    }
    await pause(50);
    for (const { queue } of QUEUES) {
      await node.lapse(queue);
      await new Queue(connector, queue).reap({ limit: 1_000 });
    }
  }
}

/** Completions that the server has counted, in all queues. */
async function counted(node: WorkerNode): Promise<number> {
  const counts = await Promise.all(QUEUES.map((queue) => node.admin.hget(queue.metrics('completed'), 'count')));
  return counts.reduce((sum, count) => sum + Number(count ?? 0), 0);
}
