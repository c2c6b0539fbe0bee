/**
 * A soak: a producer and four consumers at work for a given time, while something goes wrong every few seconds, and then the
 * accounts: every job that was added is done or dead, none is lost, none ran twice with one token; and nothing has grown:
 * the server's memory, its keys and clients, and each process's memory, handles and open files.
 *
 * Invariants: the plan of the faults and the load come from the seed. Does not: say for how long (the test files do).
 */
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { Admin, Keyspace, Queue, type Connector } from '../../src/index.js';
import { flowViolations } from '../../src/parity/flow-invariants.js';
import { violations } from '../../src/parity/invariants.js';
import { readKeys, type Keys } from '../../src/parity/keyspace-dump.js';
import { rng } from '../../src/parity/prng.js';
import { WorkerNode, type Wire } from '../worker/support/nodes.js';
import { freshFolder } from '../worker/support/processes.js';
import { FAULTS, type SoakScene } from './soak-faults.js';
import { SoakFleet } from './soak-fleet.js';
import { accounts } from './soak-ledger.js';
import { QUEUES, type SoakHealth } from './soak-words.js';

const SOON = { timeout: 60_000, interval: 100 };
const MIB = 1_048_576;
const SERVER_GROWTH = 2 * MIB;
/** What memory may grow from the second quarter to the last, over a soak of any length: the code that is compiled meanwhile. */
const GROWTH = {
  heap: { factor: 1.05, bytes: 1.5 * MIB },
  // as the system sees it
  rss: { factor: 1.25, bytes: 32 * MIB },
} as const;

/** How things are between two faults, or when nothing is left to do. */
interface Look {
  readonly atMs: number;
  readonly producer: SoakHealth;
  readonly consumer: SoakHealth;
}

/** @param minutes of work, @param pauseMs between two faults, at most */
export function soakSuite(wire: Wire, minutes: number, pauseMs: number, seed: number, consumers = 4): void {
  it(
    `${minutes} minutes of work and faults: every job is done or dead, and nothing has grown`,
    async () => {
      await using node = await WorkerNode.start(
        wire,
        ...['--appendonly', 'yes', '--appendfsync', 'always', '--enable-debug-command', 'local'],
      );
      await using folder = await freshFolder();
      const plan = { wire, folder: folder.path, seed, pauseMs: 20 };
      await using fleet = await SoakFleet.start(consumers, plan, node.port);
      const connector = await node.connect({ reconnectMaxMs: 500 });
      await fleet.produce();
      const scene = { node, fleet, connector, draw: rng(seed) };

      // the operator, the producer, and of each consumer: its calls, its ear for cancels, and a blocking read for each queue
      await vi.waitUntil(async () => (await node.clients()) === 2 + consumers * (2 + QUEUES.length), SOON);
      const before = await restingServer(node);
      const idle = await look(scene);
      fleet.producer.order('go');
      const looks = await ordeal(scene, minutes * 60_000, pauseMs, wire);
      await fleet.producer.stop();
      await drained(connector, node);

      const keys = await readKeys(node.admin);
      const stateOf = (id: string): string | undefined => {
        const rows = QUEUES.map((queue) => keys.get(new Keyspace(queue).job(id)));
        const row = rows.find((entry) => entry !== undefined);
        return row?.type === 'hash' ? row.fields.get('state') : undefined;
      };
      const told = await accounts(folder.path, stateOf);
      const about = `seed ${seed}`;
      expect([...told.wrong, ...unsound(keys), ...(await audit(connector))], about).toEqual([]);
      // One that was done by two runs, since an answer was lost, was counted once all the same.
      const count = await completions(node);
      expect(count, about).toBeGreaterThanOrEqual(told.done);
      expect(count, about).toBeLessThanOrEqual(told.done + told.again);
      expect(told.added, about).toBeGreaterThan(minutes * 60);

      // nothing has grown
      for (const queue of QUEUES) await new Admin(connector, queue).trimDead({ keep: 0 });
      // children of dead parents are told by letters
      await vi.waitUntil(async () => (await remains(node)).length === 0, SOON).catch(() => {});
      expect(await remains(node), 'keys that are left').toEqual([]);
      await vi.waitUntil(async () => (await node.clients()) <= before.clients, SOON);
      const after = await restingServer(node);
      expect(after.bytes, "the server's memory").toBeLessThan(before.bytes + SERVER_GROWTH);
      const rest = await look(scene);
      for (const who of ['producer', 'consumer'] as const) {
        expect(rest[who].fds, `open files of the ${who}`).toBeLessThanOrEqual(idle[who].fds);
        expect(rest[who].handles, `handles of the ${who}`).toBeLessThanOrEqual(idle[who].handles + 1);
        for (const what of ['heap', 'rss'] as const) {
          const values = looks.map((one) => one[who][what]);
          const [early, late] = quarters(values);
          const { factor, bytes } = GROWTH[what];
          expect(late, `${what} of the ${who}: ${values.map(mib).join(' ')}`).toBeLessThan(factor * early + bytes);
        }
      }
      expect(await fleet.close(), 'all end by themselves').toEqual(fleet.all.map(() => 0));
      console.log(
        `wire ${wire}: ${told.added} jobs added, ${told.done} done, ${told.dead} dead, ${told.repeated} runs repeated; server ${mib(before.bytes)} -> ${mib(after.bytes)} MiB, consumer's heap ${mib(idle.consumer.heap)} -> ${mib(rest.consumer.heap)} MiB`,
      );
    },
    minutes * 60_000 + 180_000,
  );
}

/** Keys of a queue without a job: counters, settings, names that lapse, tokens, the brand. */
const STAYS = /^\{emq\}:|:(meta|wake|metrics:\w+|metrics:\w+:\w+|history.*|g\w+)$/;

/** What the server has counted, in all queues. */
async function completions(node: WorkerNode): Promise<number> {
  const keys = QUEUES.map((queue) => new Keyspace(queue).metrics('completed'));
  const counts = await Promise.all(keys.map((key) => node.admin.hget(key, 'count')));
  return counts.reduce((sum, count) => sum + Number(count ?? 0), 0);
}

async function remains(node: WorkerNode): Promise<string[]> {
  return (await node.admin.keys('*')).filter((key) => !STAYS.test(key));
}

/** Lets faults happen for so long. Gives how the lasting processes were meanwhile. */
async function ordeal(scene: SoakScene, ms: number, pauseMs: number, wire: Wire): Promise<Look[]> {
  const { draw, node } = scene;
  const names = Object.keys(FAULTS);
  const counts = new Map<string, number>();
  const looks: Look[] = [];
  let toldAt = performance.now();
  let bag: string[] = [];
  const ended = (): boolean => performance.now() - start >= ms;
  const start = performance.now();
  while (!ended()) {
    await pause(draw.below(pauseMs));
    if (bag.length === 0) bag = names.slice();
    const name = bag.splice(draw.below(bag.length), 1)[0] as string;
    await FAULTS[name]?.(scene);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    looks.push(await look(scene));
    if (performance.now() - toldAt < 60_000 && !ended()) continue;
    toldAt = performance.now();
    const last = looks.at(-1) as Look;
    const total = await completions(node);
    const all = [...counts].map(([what, times]) => `${what} ${times}`).join(', ');
    console.log(
      `wire ${wire}, ${Math.round((toldAt - start) / 1_000)} s: ${last.producer.added} added, ${total} done; heaps ${mib(last.producer.heap)} and ${mib(last.consumer.heap)} MiB, ${last.consumer.fds} files; ${all}`,
    );
  }
  return looks;
}

async function look({ fleet }: SoakScene): Promise<Look> {
  const [lasting] = fleet.consumers;
  if (lasting === undefined) throw new Error('no consumer');
  const [producer, consumer] = await Promise.all([fleet.producer.health(), lasting.health()]);
  return { atMs: performance.now(), producer, consumer };
}

/** When nobody works: clients, and the bytes that are not buffers of replication. */
async function restingServer(node: WorkerNode): Promise<{ readonly clients: number; readonly bytes: number }> {
  await node.admin.call('MEMORY', 'PURGE');
  const info = await node.admin.info('memory');
  const field = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  const buffers = ['mem_replication_backlog', 'mem_clients_normal', 'mem_aof_buffer'];
  const bytes = buffers.reduce((sum, name) => sum - field(name), field('used_memory'));
  return { clients: await node.clients(), bytes };
}

/** Until nothing waits, runs, or is to be delivered. */
async function drained(connector: Connector, node: WorkerNode): Promise<void> {
  await vi.waitUntil(
    async () => {
      const counts = await Promise.all(QUEUES.map((queue) => new Queue(connector, queue).counts()));
      const letters = await Promise.all(QUEUES.map((queue) => node.admin.llen(new Keyspace(queue).outbox)));
      const open = counts.map((one) => one.pending + one.active + one.scheduled + one.awaiting_children);
      return [...open, ...letters].every((count) => count === 0);
    },
    { ...SOON, timeout: 90_000 },
  );
}

function unsound(keys: Keys): string[] {
  const bases = QUEUES.map((queue) => new Keyspace(queue).base);
  return [...bases.flatMap((base) => violations(keys, base)), ...flowViolations(keys, bases)];
}

async function audit(connector: Connector): Promise<string[]> {
  const checked = await Promise.all(QUEUES.map((queue) => new Admin(connector, queue).check()));
  return checked.flatMap(({ findings }) => findings.map(({ text }) => text));
}

/** The means of the second and the last quarter. */
function quarters(values: readonly number[]): [number, number] {
  const mean = (part: readonly number[]): number => part.reduce((sum, one) => sum + one, 0) / Math.max(1, part.length);
  const { length } = values;
  return [
    mean(values.slice(Math.floor(length / 4), Math.ceil(length / 2))),
    mean(values.slice(Math.floor((3 * length) / 4))),
  ];
}

const mib = (bytes: number): string => (bytes / MIB).toFixed(1);
