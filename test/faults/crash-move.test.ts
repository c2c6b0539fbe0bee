/**
 * What one executor has written, a server of the other loads: the log and the snapshot of a server with the module on one
 * without it, and the other way round, with jobs of every kind in them. The brand is moved, and clients carry on.
 */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { Admin, Connector, Flows, mint, Queue, type ConsumedJob } from '../../src/index.js';
import { NODE_VERSION_KEY } from '../../src/wire/keyspace.js';
import { BRANDS } from '../../src/wire/fence.js';
import { WIRES, WorkerNode, type Wire } from '../worker/support/nodes.js';
import { freshFolder } from '../worker/support/processes.js';
import { MAIN, QUEUES } from './crash-load.js';
import { AOF, Copy, CrashLog } from './crash-log.js';
import { unsound } from './crash-suite.js';

const LONG_MS = 600_000;

/** Jobs in every place: waiting flat and in lanes, scheduled, held for children, in hand, dead. Gives the ids of all but the dead. */
async function furnish(node: WorkerNode): Promise<Set<string>> {
  const connector = await node.connect();
  const queue = new Queue<number>(connector, MAIN.queue);
  const group = mint('TEN');
  const ids = new Set<string>();
  const keep = ({ id }: { readonly id: string }): string => (ids.add(id), id);
  for (let i = 0; i < 6; i++) keep(await queue.enqueue(i, { priority: i % 2, dedup: { id: `name-${i}` } }));
  for (let i = 0; i < 4; i++) keep(await queue.enqueue(i, { group }));
  keep(await queue.schedule(1, { inMs: LONG_MS }));
  const flow = await new Flows<number>(connector, queue).add({
    payload: 0,
    children: [{ payload: 1 }, { payload: 2 }],
  });
  for (const one of [flow, ...flow.children]) keep(one);
  const held = await queue.take({ leaseMs: LONG_MS, count: 4 });
  expect(held).toHaveLength(4);
  const [failing, dying] = held;
  if (failing === undefined || dying === undefined) throw new Error('nothing to fail');
  await queue.fail(failing, { delayMs: LONG_MS, maxAttempts: 5, error: 'once' });
  await queue.fail(dying, { delayMs: 0, maxAttempts: 1, error: 'for good' });
  ids.delete(dying.id);
  await connector.close();
  return ids;
}

/** Consumes all that is there; what is held or put off comes at once. */
async function drain(copy: Copy, wire: Wire): Promise<string[]> {
  const connector = await Connector.connect({ url: copy.server.url, wire });
  const queue = new Queue<number>(connector, MAIN.queue);
  const done: string[] = [];
  const work = ({ id }: ConsumedJob<number>): void => void done.push(id);
  for (const key of [MAIN.active, MAIN.schedule]) {
    const ids = await copy.admin.zrange(key, '0', '-1');
    if (ids.length > 0) await copy.admin.zadd(key, 'XX', ...ids.flatMap((id) => ['1', id]));
  }
  const consumer = queue.consume(work, { concurrency: 4, beatMs: 50 });
  await vi.waitUntil(
    async () => {
      const { pending, active, scheduled, awaiting_children: held } = await queue.counts();
      return pending + active + scheduled + held === 0;
    },
    { timeout: 20_000, interval: 20 },
  );
  expect((await new Admin(connector, MAIN.queue).check()).findings).toEqual([]);
  await consumer.close();
  await connector.close();
  return done;
}

describe.each(WIRES)('what wire %i has written', (wire) => {
  const other = wire === 6 ? 4 : 6;
  const what = other === 4 ? 'a server without the module' : 'a server with the module';

  async function carriesOn(copy: Copy, ids: ReadonlySet<string>): Promise<void> {
    expect(unsound(await copy.dump())).toEqual([]);
    expect(await copy.admin.get(NODE_VERSION_KEY), 'the brand came with the data').toBe(BRANDS[wire]);
    await expect(Connector.connect({ url: copy.server.url, wire: other })).rejects.toMatchObject({ code: 'EMQWIRE' });
    await copy.admin.set(NODE_VERSION_KEY, BRANDS[other]);
    expect((await drain(copy, other)).sort()).toEqual([...ids].sort());
    const keys = await copy.dump();
    expect(unsound(keys)).toEqual([]);
    expect([...keys.keys()].filter((key) => QUEUES.some(({ base }) => key.startsWith(`${base}job:`)))).toHaveLength(1);
  }

  it(`${what} loads from the append-only file, and goes on with it`, async () => {
    await using node = await WorkerNode.start(wire, ...AOF, '--appendfsync', 'always');
    const ids = await furnish(node);
    await node.server.kill();
    await using log = await CrashLog.of(node);
    await using copy = await log.start(other);
    await carriesOn(copy, ids);
  });

  it(`${what} loads from a snapshot, and goes on with it`, async () => {
    await using node = await WorkerNode.start(wire);
    const ids = await furnish(node);
    await node.admin.save();
    await node.server.kill();
    const folder = await freshFolder();
    await cp(join(node.server.dir, 'dump.rdb'), join(folder.path, 'dump.rdb'));
    await using copy = await Copy.start(folder, other, []);
    await carriesOn(copy, ids);
  });
});
