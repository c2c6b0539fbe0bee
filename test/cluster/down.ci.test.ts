/**
 * A part of the cluster that nobody serves: a primary that is gone with its replica. Its queues get a typed error, the others
 * go on (or, where the cluster wants all its slots served, do not); all of it mends itself when the nodes are back. And a
 * replica that is met by itself.
 */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Connector, Jobs, listQueues, Queue } from '../../src/index.js';
import { errorOf } from '../conformance/stage.js';
import { Nodes } from './nodes.js';

const LEASE = { leaseMs: 60_000 };
const LOST = 2;
const SOON = { timeout: 20_000, interval: 20 };
/** What a worker may be told of meanwhile: all of it passes. */
const PASSING: ReadonlySet<string> = new Set([
  ...['CLUSTERDOWN', 'LOADING', 'MOVED', 'EMQ_CONNECTION', 'EMQ_TIMEOUT', 'EMQ_UNKNOWN_OUTCOME'],
]);
const QUICK = { reconnectMinMs: 10, reconnectMaxMs: 50 };

let nodes: Nodes;
afterEach(() => nodes[Symbol.asyncDispose]());

const lose = () => Promise.all([LOST, LOST + 3].map((i) => nodes.lose(i)));
const bring = async (): Promise<void> => {
  // the primary first: its replica would take its place
  for (const i of [LOST, LOST + 3]) await nodes.bring(i);
  await nodes.settled();
};
const knownAsDown = (i: number, state: RegExp) =>
  vi.waitUntil(async () => state.test(String(await nodes.admin(i).call('CLUSTER', 'INFO'))), SOON);

describe.each([4, 6] as const)('wire %i', (wire) => {
  it('a primary and its replica are gone: a typed error for their queues, the others go on; it mends itself', async () => {
    nodes = await Nodes.start({ args: ['--cluster-require-full-coverage', 'no', '--appendonly', 'yes'] });
    await using connector = await Connector.connect({
      ...{ cluster: { nodes: nodes.start }, wire, ...QUICK, waitMs: 300, replyTimeoutMs: 1_500 },
    });
    const [kept, lost] = [0, LOST].map((node) => nodes.queueOn(node, 'down')) as [string, string];
    const ran: string[] = [];
    const consumers = [kept, lost].map((name) =>
      new Queue<number>(connector, name).consume(({ payload }) => void ran.push(`${name} ${payload}`), { beatMs: 50 }),
    );
    const told: string[] = [];
    for (const consumer of consumers) consumer.on('warning', ({ code }) => told.push(code));
    const [here, there] = [kept, lost].map((name) => new Jobs(connector, name)) as [Jobs, Jobs];
    for (const jobs of [here, there]) await jobs.enqueue(0);
    await vi.waitUntil(() => ran.length === 2, SOON);

    await lose();
    const first = await errorOf(() => there.enqueue(1));
    expect(['EMQ_CONNECTION', 'EMQ_UNKNOWN_OUTCOME']).toContain(first.code);
    await knownAsDown(0, /cluster_slots_fail:[1-9]/);
    for (const act of [() => there.counts(), () => there.claim(LEASE), () => there.enqueue(2)]) {
      const { code, reason } = await errorOf(act);
      expect(['CLUSTERDOWN', 'EMQ_CONNECTION']).toContain(code);
      expect(reason).not.toBe('');
    }
    expect((await errorOf(() => listQueues(connector))).code).toBe('EMQ_CONNECTION');
    // nothing of it is felt elsewhere
    for (let i = 1; i <= 20; i++) await here.enqueue(i);
    await vi.waitUntil(() => ran.filter((line) => line.startsWith(kept)).length === 21, SOON);

    await bring();
    await vi.waitUntil(() => there.enqueue(3).then(...settled), SOON);
    await vi.waitUntil(() => ran.includes(`${lost} 3`), SOON);
    expect(await listQueues(connector)).toEqual(expect.arrayContaining([kept, lost]) as string[]);
    expect(told.filter((code) => !PASSING.has(code))).toEqual([]);
    expect(connector.stats()).toMatchObject({ connects: 1, state: 'up' });
    await Promise.all(consumers.map((consumer) => consumer.close()));
  }, 60_000);

  it('where all slots must be served every queue is CLUSTERDOWN, until they are', async () => {
    nodes = await Nodes.start();
    await using connector = await Connector.connect({
      ...{ cluster: { nodes: nodes.start }, wire, ...QUICK, waitMs: 300, replyTimeoutMs: 1_000 },
    });
    const here = new Jobs(connector, nodes.queueOn(0, 'whole'));
    await here.enqueue(1);
    await lose();
    await knownAsDown(0, /cluster_state:fail/);
    for (const act of [() => here.enqueue(2), () => here.claim(LEASE), () => here.counts()]) {
      expect(await errorOf(act)).toMatchObject({ code: 'CLUSTERDOWN' });
    }
    // a call that has the time waits for it
    await using patient = await Connector.connect({
      ...{ cluster: { nodes: nodes.start }, wire, ...QUICK, replyTimeoutMs: 30_000 },
    });
    const waiting = new Jobs(patient, here.queue).enqueue(3);
    waiting.catch(() => {}); // looked at below
    await vi.waitUntil(() => patient.stats().retries > 0, SOON);
    await bring();
    expect((await waiting).outcome).toBe('enqueued');
    expect((await here.counts()).pending).toBe(2);
  }, 60_000);
});

it('a replica that is met by itself sends everyone to its cluster, and writes nothing', async () => {
  nodes = await Nodes.start();
  const queue = nodes.queueOn(0, 'replica');
  await using connector = await Connector.connect({ url: nodes.server(3).url });
  const error = await errorOf(() => new Jobs(connector, queue).enqueue(1));
  expect(error).toMatchObject({ code: 'MOVED' });
  expect(error.reason).toMatch(/connect with the cluster option/);
  expect(await nodes.admin(0).dbsize()).toBe(0);
});

/** True when it went well, false when not. */
const settled = [() => true, () => false] as const;
