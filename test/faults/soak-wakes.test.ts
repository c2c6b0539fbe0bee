/**
 * What a worker does for weeks leaves nothing behind: being woken, and asking again for a channel that it may not listen to.
 * Counted in promises that are alive, since a heap has too many reasons to grow.
 */
import { once } from 'node:events';
import { queryObjects } from 'node:v8';
import { describe, expect, it, vi } from 'vitest';
import { Queue } from '../../src/index.js';
import { WIRES, WorkerNode, freshQueue } from '../worker/support/nodes.js';

const TIMES = 200;
/** Whatever else is under way at the moment. */
const OTHERS = TIMES / 4;
const SOON = { timeout: 20_000, interval: 10 };

/** Promises that are alive, after a collection. */
const promises = (): number => queryObjects(Promise, { format: 'count' });

describe.each(WIRES)('wire %i', (wire) => {
  it(`a consumer that was woken ${TIMES} times holds no more than before`, async () => {
    await using node = await WorkerNode.start(wire);
    const queue = new Queue<number>(await node.connect(), freshQueue('wakes'));
    await using consumer = queue.consume(() => {}, { beatMs: 600_000 });
    const parked = async (): Promise<boolean> => / cmd=blpop /.test(String(await node.admin.client('LIST')));
    const wake = async (): Promise<void> => {
      await Promise.all([once(consumer, 'completed'), queue.enqueue(1)]);
      // only one that is parked is woken
      await vi.waitUntil(parked, { timeout: 10_000, interval: 1 });
    };
    for (let i = 0; i < 20; i++) await wake();
    const before = promises();
    for (let i = 0; i < TIMES; i++) await wake();
    expect(promises()).toBeLessThan(before + OTHERS);
  });

  it(`a consumer whose cancel channel was refused ${TIMES} times holds no more than before`, async () => {
    await using node = await WorkerNode.start(wire);
    await node.admin.call('ACL', 'SETUSER', 'deaf', 'on', '>deaf', '~*', 'resetchannels', '+@all');
    const url = `redis://deaf:deaf@127.0.0.1:${node.port}`;
    const connector = await node.connect({ url, reconnectMinMs: 1, reconnectMaxMs: 2 });
    const queue = new Queue<number>(connector, freshQueue('deaf'));
    await using consumer = queue.consume(() => {}, { beatMs: 600_000, publish: false });
    consumer.on('warning', () => {});
    const refusals = async (): Promise<number> =>
      Number(/errorstat_NOPERM:count=(\d+)/.exec(await node.admin.info('errorstats'))?.[1] ?? 0);
    await vi.waitUntil(async () => (await refusals()) > 20, SOON);
    const before = promises();
    const from = await refusals();
    await vi.waitUntil(async () => (await refusals()) > from + TIMES, SOON);
    expect(promises()).toBeLessThan(before + OTHERS);
  });
});
