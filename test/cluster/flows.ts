/**
 * Flows over three slots on three nodes, while those who work on them are cut off at random: every parent hears of each of its
 * children, once, and runs. For the bounded and the long suite.
 *
 * A cut is what a crash looks like from the server: connections that end in the middle of whatever they were at, and jobs in
 * hand that nobody gives back. Does not: stop a server.
 */
import { expect, vi } from 'vitest';
import { Admin, Connector, EmqError, Flows, Queue, type FlowChild } from '../../src/index.js';
import { rng } from '../../src/parity/prng.js';
import type { Nodes } from './nodes.js';
import { sound } from './moving.js';

const SOON = { timeout: 60_000, interval: 20 };
const WORKERS = 3;

export interface Amounts {
  readonly parents: number;
  readonly cuts: number;
  readonly seed: number;
}

/** Consumers of all queues on a connection of their own, that can be cut off. */
class Worker {
  private constructor(readonly connector: Connector) {}

  static async start(nodes: Nodes, wire: 4 | 6, queues: readonly string[], heard: Map<string, number[]>) {
    const connector = await Connector.connect({ cluster: { nodes: nodes.start }, wire, closeGraceMs: 0 });
    for (const name of queues) {
      const queue = new Queue<string>(connector, name);
      const consumer = queue.consume(
        async (job, context) => {
          const { values } = await context.children();
          if (values.size > 0) heard.set(job.payload, [...(heard.get(job.payload) ?? []), values.size]);
          return job.payload;
        },
        // a job whose worker is gone comes back soon, and is not dead for it
        { concurrency: 3, leaseMs: 400, beatMs: 50, maxAttempts: 1_000, maxStalled: 1_000 },
      );
      consumer.on('warning', () => {});
    }
    return new Worker(connector);
  }

  cut(): Promise<void> {
    return this.connector.close();
  }
}

export async function flowsUnderCuts(nodes: Nodes, wire: 4 | 6, { parents, cuts, seed }: Amounts): Promise<void> {
  await nodes.empty();
  const plan = rng(seed);
  const fate = rng(seed + 1);
  const queues = [0, 1, 2].map((node) => nodes.queueOn(node, `flow${wire}-`)) as [string, string, string];
  const heard = new Map<string, number[]>();
  await using adder = await Connector.connect({ cluster: { nodes: nodes.start }, wire });
  const start = (): Promise<Worker> => Worker.start(nodes, wire, queues, heard);
  const workers = await Promise.all(Array.from({ length: WORKERS }, start));
  let over = false;
  const cutting = (async () => {
    for (let i = 0; i < cuts && !over; i++) {
      const before = heard.size;
      // some progress between two cuts, or some time
      await vi.waitUntil(() => over || heard.size > before, { timeout: 500, interval: 5 }).catch(() => {});
      const [worker] = workers.splice(fate.below(workers.length), 1);
      await worker?.cut();
      workers.push(await start());
    }
  })();
  const wanted = new Map<string, number>();
  try {
    const flows = queues.map((name) => new Flows<string>(adder, name));
    for (let i = 0; i < parents; i++) {
      const leaves = (name: string, most: number): FlowChild[] =>
        Array.from({ length: 1 + plan.below(most) }, (_, n) => ({
          payload: `${name}.${n}`,
          queue: queues[plan.below(3)] ?? queues[0],
        }));
      const middle = `middle ${i}`;
      const children = leaves(`root ${i}`, 4);
      const below = leaves(middle, 3);
      wanted.set(`root ${i}`, children.length + 1).set(middle, below.length);
      const flow = {
        payload: `root ${i}`,
        children: [...children, { payload: middle, queue: queues[plan.below(3)] ?? queues[0], children: below }],
      };
      await flows[i % 3]?.add(flow);
    }
    await cutting;
    await vi.waitUntil(() => heard.size === wanted.size, SOON).catch(() => {});
    const missing = [...wanted.keys()].filter((name) => !heard.has(name));
    const wrong = [...heard].filter(([name, counts]) => counts.some((count) => count !== wanted.get(name)));
    expect({ missing, wrong }).toEqual({ missing: [], wrong: [] });
    const left = async (): Promise<number> => {
      const sizes = queues.map(async (name) => {
        const { counts } = await new Admin(adder, name).stats();
        return counts.pending + counts.active + counts.scheduled + counts.dead;
      });
      return (await Promise.all(sizes)).reduce((sum, n) => sum + n, 0);
    };
    await vi.waitUntil(async () => (await left()) === 0, SOON);
    await sound(nodes, adder, ...queues);
    for (const node of [0, 1, 2]) {
      const keys = await nodes.admin(node).keys('*flow:*');
      expect(keys).toEqual([]);
    }
  } finally {
    over = true;
    await cutting.catch((error: unknown) => {
      if (!(error instanceof EmqError)) throw error;
    });
    await Promise.all(workers.map((worker) => worker.cut()));
  }
}
