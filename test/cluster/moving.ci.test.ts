/**
 * Slots that move: key by key under load and while nothing happens, by the server's own tool, and all at once (Valkey 9).
 * A job in hand stays its worker's, a brand goes with its queue, and what is met where that went is looked at.
 */
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { findServer } from '../../src/dev/index.js';
import { Admin, Connector, Jobs, Queue, type ConnectorOptions, type Consumer } from '../../src/index.js';
import { errorOf } from '../conformance/stage.js';
import { missingTools, runs } from '../module/tools.js';
import { moveUnderLoad } from './moving.js';
import { Nodes, slotOf } from './nodes.js';

const BRANDS = { 4: 'echomq:4.0.0', 6: 'echomq:6.0.0' } as const;
const MINUTE = 60_000;
const SOON = { timeout: 20_000, interval: 10 };

let nodes: Nodes;
beforeAll(async () => {
  nodes = await Nodes.start();
});
afterAll(() => nodes[Symbol.asyncDispose]());
beforeEach(() => nodes.empty());

function connect(wire: 4 | 6, options: ConnectorOptions = {}): Promise<Connector> {
  return Connector.connect({ cluster: { nodes: nodes.start }, wire, ...options });
}

describe.each([4, 6] as const)('wire %i', (wire) => {
  it('to and fro under load: nothing is lost, nothing runs twice', () => moveUnderLoad(nodes, wire, 6), 90_000);

  it('a worker that waits wakes where its queue has gone, without a beat', async () => {
    await using connector = await connect(wire);
    const queue = new Queue<number>(connector, nodes.queueOn(0, `idle${wire}-`));
    const ran: number[] = [];
    // only a token can wake it
    const consumer = queue.consume((job) => void ran.push(job.payload), { beatMs: 10 * MINUTE });
    consumer.on('warning', () => {});
    for (const [i, node] of [1, 0, 1, 0].entries()) {
      await queue.enqueue(2 * i);
      await vi.waitUntil(() => ran.length === 2 * i + 1, SOON);
      // once with a token and a row on the way, once with hardly a key
      await nodes.move(slotOf(queue.queue), node, i < 2 ? { pauseMs: 50, step: 1 } : {});
      const moved = performance.now();
      await queue.enqueue(2 * i + 1);
      await vi.waitUntil(() => ran.length === 2 * i + 2, SOON);
      expect(performance.now() - moved).toBeLessThan(5_000);
    }
    expect(ran).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    await consumer.close();
  });

  it('a job in hand stays its worker’s, though its lease ends before the slot has moved', async () => {
    await using mine = await connect(wire);
    await using other = await connect(wire);
    const name = nodes.queueOn(0, `held${wire}-`);
    const jobs = new Jobs(mine, name);
    const options = { leaseMs: 300, beatMs: 20 };
    const tokens: number[] = [];
    let free: () => void = () => {};
    const freed = new Promise<void>((resolve) => (free = resolve));
    const worker = new Queue<number>(mine, name).consume(async (job) => {
      tokens.push(job.token);
      await freed;
    }, options);
    const { id } = await jobs.enqueue(1);
    await vi.waitUntil(() => tokens.length === 1, SOON);
    const rivals: Consumer<number>[] = [];
    // The lease ends, and by then the worker tries to renew it only now and then. One that has just come tries more often.
    const open = async (): Promise<void> => {
      const lapses = Number(await nodes.admin(0).zscore(jobs.keys.active, id));
      await vi.waitUntil(() => Date.now() - lapses > 1_000, SOON);
      rivals.push(new Queue<number>(other, name).consume((job) => void tokens.push(job.token), options));
      for (const one of [worker, ...rivals]) one.on('warning', () => {});
      await vi.waitUntil(() => other.stats().retries > 0, SOON);
    };
    await nodes.move(slotOf(name), 1, { open });
    // renewed and not swept: its lease is ahead again
    const lease = async (): Promise<number> => Number(await nodes.admin(1).zscore(jobs.keys.active, id));
    await vi.waitUntil(async () => (await lease()) > Date.now(), SOON);
    free();
    await vi.waitUntil(async () => (await jobs.state(id)) === 'absent', SOON);
    expect(tokens).toEqual([1]);
    await Promise.all([worker, ...rivals].map((one) => one.close()));
    await nodes.move(slotOf(name), 0);
  });

  it('the brand goes with its queue; a foreign one met there refuses, an absent one is claimed', async () => {
    await using connector = await connect(wire);
    await using guest = await connect(wire, { claim: false });
    const name = nodes.queueOn(0, `brand${wire}-`);
    const [jobs, visits] = [connector, guest].map((one) => new Jobs(one, name)) as [Jobs, Jobs];
    const [version, pending] = [jobs.keys.version, jobs.keys.pending];
    const there = nodes.admin(1);
    await jobs.enqueue(1);
    await visits.counts();
    await nodes.move(slotOf(name), 1);
    expect(await there.get(version)).toBe(BRANDS[wire]);
    expect(await nodes.admin(0).call('CLUSTER', 'COUNTKEYSINSLOT', slotOf(name))).toBe(0);
    for (const one of [jobs, visits]) expect((await one.counts()).pending).toBe(1);

    const foreign = BRANDS[wire === 4 ? 6 : 4];
    await nodes.move(slotOf(name), 0);
    await nodes.admin(0).set(version, foreign);
    const error = await errorOf(() => jobs.enqueue(2));
    expect(error).toMatchObject({ code: 'EMQWIRE' });
    expect(error.reason).toContain(`queue ${name} is ${foreign}, needs ${BRANDS[wire]}`);
    expect((await errorOf(() => jobs.claim({ leaseMs: MINUTE }))).code).toBe('EMQWIRE');
    expect((await errorOf(() => visits.counts())).code).toBe('EMQWIRE');
    expect(await nodes.admin(0).zcard(pending)).toBe(1);

    await nodes.admin(0).del(version);
    await nodes.move(slotOf(name), 1);
    expect((await errorOf(() => visits.enqueue(3))).code).toBe('EMQWIRE');
    expect(await there.exists(version)).toBe(0);
    expect(await jobs.claim({ leaseMs: MINUTE })).not.toBeNull();
    expect(await there.get(version)).toBe(BRANDS[wire]);
    await nodes.move(slotOf(name), 0);
  });
});

const { path } = await findServer();
const cli = join(dirname(path), 'valkey-cli');

describe('the server’s own tool', () => {
  const there = runs('valkey-cli --cluster reshard', missingTools(cli));
  it.runIf(there)('valkey-cli --cluster reshard moves a queue in use', async () => {
    await using connector = await connect(6);
    // the tool takes the lowest slots of a node
    const name = nameIn(0);
    const queue = new Queue<number>(connector, name);
    let ran = 0;
    const consumer = queue.consume(() => void ran++, { beatMs: 50 });
    consumer.on('warning', () => {});
    let added = 0;
    const producing = new AbortController();
    const producer = (async () => {
      while (!producing.signal.aborted) {
        await queue.enqueue(added);
        added += 1;
      }
    })();
    await vi.waitUntil(() => ran > 50, SOON);
    const start = nodes.start[0];
    const from = ['--cluster-from', nodes.id(0), '--cluster-to', nodes.id(1), '--cluster-slots', '1', '--cluster-yes'];
    await promisify(execFile)(cli, ['--cluster', 'reshard', `127.0.0.1:${start?.port}`, ...from]);
    expect(await nodes.ownerOf(0)).toBe(1);
    const before = ran;
    await vi.waitUntil(() => ran > before + 50, SOON);
    producing.abort();
    await producer;
    await vi.waitUntil(() => ran === added, SOON);
    expect((await new Admin(connector, name).check()).findings).toEqual([]);
    await consumer.close();
    await nodes.move(0, 0);
  });
});

/** The name of a queue in that slot. */
function nameIn(slot: number): string {
  for (let n = 0; ; n++) if (slotOf(`s${n}`) === slot) return `s${n}`;
}
