/**
 * Admissions that are confirmed by replicas or by the disk, and what is said of those that are not: a frozen replica, a
 * server that cannot, a user that may not, a connection that breaks between the write and its confirmation.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  Flows,
  Jobs,
  Keyspace,
  Lanes,
  mint,
  NamedQueue,
  Repeats,
  transitions,
  type Call,
  type Connector,
  type Durability,
  type Flow,
} from '../../src/index.js';
import { DurableSteps } from '../../src/queue/durability.js';
import { PRODUCER, PRODUCER_6 } from '../access/rules.js';
import { errorOf } from '../wire/stand-ins.js';
import { freshQueue, WIRES, WorkerNode } from '../worker/support/nodes.js';

/** Long enough for a healthy replica on a busy machine, where the test is not about the time. */
const ONE: Durability = { replicas: 1, timeoutMs: 10_000 };
/** Nobody confirms in time. */
const SOON: Durability = { replicas: 1, timeoutMs: 60 };

describe.each(WIRES)('wire %i', (wire) => {
  let primary: WorkerNode;
  let replica: WorkerNode;
  let connector: Connector;
  let name: string;
  let jobs: Jobs<number>;
  let keys: Keyspace;

  beforeAll(async () => {
    primary = await WorkerNode.start(wire, '--appendonly', 'yes', '--appendfsync', 'always');
    replica = await primary.replica();
    connector = await primary.connect();
  });
  afterAll(async () => {
    await replica[Symbol.asyncDispose]();
    await primary[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    name = freshQueue();
    jobs = new Jobs(connector, name);
    keys = new Keyspace(name);
  });

  const there = async (node: WorkerNode, id: string, queue = keys): Promise<boolean> =>
    (await node.admin.exists(queue.job(id))) === 1;
  /** The replica is frozen while it runs. */
  async function frozen(run: () => Promise<void>): Promise<void> {
    replica.stop();
    try {
      await run();
    } finally {
      replica.go();
    }
  }
  const waits = async (): Promise<number> => {
    const stats = await primary.admin.info('commandstats');
    return Number(/cmdstat_wait:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  };

  it('has every kind of admission on the replica when the verb resolves', async () => {
    const lanes = new Lanes<number>(connector, jobs);
    const flows = new Flows(connector, name);
    const side = new Keyspace(`${name}-side`);
    const child = { payload: 1, queue: side.queue };
    const durability = ONE;
    const group = mint('TEN');
    const named = new NamedQueue<{ mail: number }>(connector, name);
    const ids = [
      (await jobs.enqueue(1, { durability })).id,
      (await jobs.enqueue(1, { durability, dedup: { id: 'once' } })).id,
      (await jobs.schedule(1, { inMs: 60_000 }, { durability })).id,
      ...(await jobs.enqueueMany([{ payload: 1 }, { payload: 2, group }], { durability })).map(({ id }) => id),
      (await lanes.enqueue(group, 1, { durability })).id,
      (await lanes.schedule(group, 1, { inMs: 60_000 }, { durability })).id,
      ...(await lanes.enqueueMany([{ payload: 1, group }], { durability })).map(({ id }) => id),
      (await named.enqueue('mail', 1, { durability })).id,
      ...(await named.enqueueMany([{ name: 'mail', payload: 1 }], { durability })).map(({ id }) => id),
      ...(await flows.addBulk([{ payload: 1, children: [{ payload: 2 }] }], { durability })).map(({ id }) => id),
    ];
    // over two queues: lands in steps
    const flow = await flows.add({ payload: 1, children: [child, { payload: 2 }] }, { durability });
    const found = await Promise.all(ids.map((id) => there(replica, id)));
    expect(found).toEqual(ids.map(() => true));
    expect(await there(replica, flow.id)).toBe(true);
    expect(await there(replica, flow.children[0]?.id ?? '', side)).toBe(true);
  });

  it('takes the default of its queue, and false for none', async () => {
    const careful = new Jobs(connector, name, { durability: ONE });
    const flows = new Flows(connector, careful);
    const before = await waits();
    await careful.enqueue(1);
    await flows.add({ payload: 1, children: [{ payload: 2 }] });
    const between = await waits();
    expect(between).toBeGreaterThanOrEqual(before + 2);
    await careful.enqueue(1, { durability: false });
    await careful.enqueueMany([{ payload: 1 }], { durability: false });
    await flows.add({ payload: 1, children: [{ payload: 2 }] }, { durability: false });
    expect(await waits()).toBe(between);
  });

  it('lets many share a WAIT', async () => {
    await jobs.enqueue(1, { durability: ONE });
    const before = await waits();
    await Promise.all(Array.from({ length: 200 }, () => jobs.enqueue(1, { durability: ONE })));
    expect((await waits()) - before).toBeLessThan(20);
    expect(await primary.admin.zcard(keys.pending)).toBe(201);
  });

  it('says what was not confirmed; the job is there, and a repeat is confirmed in earnest', async () => {
    const id = mint();
    // each is there from before, on the replica too: without a write of its own a WAIT would answer at once
    const old = await jobs.enqueue(1, { dedup: { id: 'old' }, durability: ONE });
    await frozen(async () => {
      const error = await errorOf(jobs.enqueue(1, { id, durability: SOON }), 'EMQ_DURABILITY');
      expect(error.unconfirmed).toEqual({ id, outcome: 'enqueued', replicas: 0, fsynced: false });
      expect(error.reason).toBe(
        `${id} is on queue ${name} (enqueued), but not as durably as was asked for: within 60 ms 0 of 1 replicas have acknowledged it. Nothing was undone; enqueue it again with the same id, which is confirmed too if it is there`,
      );
      expect(await there(primary, id)).toBe(true);
      const again = await errorOf(jobs.enqueue(1, { id, durability: SOON }), 'EMQ_DURABILITY');
      expect(again.unconfirmed).toMatchObject({ id, outcome: 'duplicate' });
      // also where it is the first thing that a connection does
      await using fresh = await primary.connect();
      const first = await errorOf(new Jobs(fresh, name).enqueue(1, { id, durability: SOON }), 'EMQ_DURABILITY');
      expect(first.unconfirmed).toMatchObject({ id, outcome: 'duplicate' });
      const held = await errorOf(jobs.enqueue(1, { dedup: { id: 'old' }, durability: SOON }), 'EMQ_DURABILITY');
      expect(held.unconfirmed).toMatchObject({ id: old.id, outcome: 'deduplicated' });
      const row = await primary.admin.hgetall(keys.job(id));
      expect(row).toEqual({ state: 'pending', attempts: '0', payload: '1' });
    });
    expect(await jobs.enqueue(1, { id, durability: ONE })).toEqual({ id, outcome: 'duplicate' });
    expect(await there(replica, id)).toBe(true);
  });

  it('says so of each of many, and of a flow, which is confirmed when it is added again', async () => {
    const flows = new Flows(connector, name);
    const prepare = (): Flow => ({ payload: 1, children: [{ payload: 2 }, { payload: 3, queue: `${name}-side` }] });
    const flow = await flows.prepare(prepare());
    const small = await flows.prepare({ payload: 1, children: [{ payload: 2 }] });
    await frozen(async () => {
      const many = await jobs.enqueueMany([{ payload: 1 }, { payload: 2 }], { durability: SOON });
      for (const { id, ...one } of many) {
        expect(one).toMatchObject({ outcome: 'failed', error: { code: 'EMQ_DURABILITY', unconfirmed: { id } } });
        expect(await there(primary, id)).toBe(true);
      }
      const error = await errorOf(flows.add(flow, { durability: SOON }), 'EMQ_DURABILITY');
      expect(error.unconfirmed).toMatchObject({ id: flow.id, outcome: 'added' });
      const again = await errorOf(flows.add(flow, { durability: SOON }), 'EMQ_DURABILITY');
      expect(again.unconfirmed).toMatchObject({ id: flow.id, outcome: 'duplicate' });
      for (const outcome of ['added', 'duplicate']) {
        const [one] = await flows.addBulk([small], { durability: SOON });
        expect(one).toMatchObject({ outcome: 'failed', error: { code: 'EMQ_DURABILITY', unconfirmed: { outcome } } });
      }
    });
    expect(await flows.add(flow, { durability: ONE })).toMatchObject({ id: flow.id, outcome: 'duplicate' });
    expect(await there(replica, flow.id)).toBe(true);
  });

  it('waits for nobody where a job that was there is done meanwhile', async () => {
    const { id } = await jobs.enqueue(1, { dedup: { id: 'kept', keep: true, ttlMs: 60_000 } });
    const job = await jobs.claim({ leaseMs: 60_000 });
    await jobs.complete(job ?? { id, token: 1 });
    const outcome = await jobs.enqueue(1, { dedup: { id: 'kept' }, durability: ONE });
    expect(outcome).toEqual({ id, outcome: 'deduplicated' });
    expect(await there(primary, id)).toBe(false);
  });

  it('holds up no other call', async () => {
    await frozen(async () => {
      let over = false;
      const slow = jobs.enqueue(1, { durability: { replicas: 1, timeoutMs: 30_000 } }).finally(() => (over = true));
      slow.catch(() => {});
      await blocked(primary);
      expect(await jobs.counts()).toMatchObject({ pending: 1 });
      await jobs.enqueue(2);
      expect(over).toBe(false);
      replica.go();
      await slow;
    });
  });

  it('a connection that breaks before the confirmation leaves an unknown outcome with the id', async () => {
    await frozen(async () => {
      const id = mint();
      const enqueueing = errorOf(jobs.enqueue(1, { id, durability: { replicas: 1, timeoutMs: 30_000 } }));
      const client = await blocked(primary);
      await primary.admin.client('KILL', 'ID', client);
      const error = await enqueueing;
      expect(error.code).toBe('EMQ_UNKNOWN_OUTCOME');
      expect(error.unconfirmed).toMatchObject({ id, outcome: 'enqueued' });
      expect(error.message).toContain(`enqueue ${id} on queue ${name}`);
    });
    // and it comes back by itself
    expect(await jobs.enqueue(1, { durability: ONE })).toMatchObject({ outcome: 'enqueued' });
  });

  it('a new connection confirms nothing of the one before', async () => {
    const { durable } = connector;
    const needs = { replicas: 1, fsync: false, timeoutMs: 10_000 };
    const id = mint();
    const standing = { id, queue: name, outcome: 'enqueued' };
    const enqueue = (one: string): Call => ({
      ...{ transition: transitions.enqueue, queue: name },
      ...transitions.enqueue.layout(keys, { id: one, payload: '1' }),
    });
    const anew = async (): Promise<void> => {
      for (const client of await wireClients(primary)) await primary.admin.client('KILL', 'ID', client);
      await vi.waitFor(async () => durable.run(enqueue(mint())), { timeout: 10_000, interval: 10 });
    };
    const ran = await durable.run(enqueue(id));
    await durable.confirm(ran, needs, standing, []);
    await anew();
    for (const there of [[], [id]]) {
      const error = await errorOf(durable.confirm(ran, needs, standing, there), 'EMQ_UNKNOWN_OUTCOME');
      expect(error.reason).toContain('another connection or node serves the queue by now');
    }
    // nor of steps that did not all run on one
    const steps = new DurableSteps(connector, needs);
    await steps.run(enqueue(mint()));
    await anew();
    await steps.run(enqueue(mint()));
    await errorOf(steps.confirm({ id, outcome: 'added' }, []), 'EMQ_UNKNOWN_OUTCOME');
  });

  it('a connector that is closed meanwhile says so, and leaves no connection', async () => {
    const before = await primary.clients();
    const own = await primary.connect({ closeGraceMs: 50 });
    await frozen(async () => {
      const enqueueing = errorOf(new Jobs(own, name).enqueue(1, { durability: { replicas: 1, timeoutMs: 30_000 } }));
      await blocked(primary);
      await own.close();
      expect((await enqueueing).code).toBe('EMQ_UNKNOWN_OUTCOME');
    });
    expect((await errorOf(new Jobs(own, name).enqueue(1, { durability: ONE }))).code).toBe('EMQ_CLOSED');
    await expect.poll(() => primary.clients()).toBe(before);
  });

  it('a primary that is told to be a replica confirms nothing any more', async () => {
    await frozen(async () => {
      const enqueueing = errorOf(jobs.enqueue(1, { durability: { replicas: 1, timeoutMs: 30_000 } }));
      await blocked(primary);
      try {
        await primary.admin.call('REPLICAOF', '127.0.0.1', replica.port);
        const error = await enqueueing;
        expect(error.code).toBe('EMQ_UNKNOWN_OUTCOME');
        expect(error.reason).toContain('its server is no longer the primary');
        // nor does it take anything
        const next = async (): Promise<string> => (await errorOf(jobs.enqueue(1, { durability: ONE }))).code;
        await expect.poll(next).toBe('READONLY');
      } finally {
        await primary.admin.call('REPLICAOF', 'NO', 'ONE');
      }
    });
    await expect.poll(async () => replica.admin.info('replication')).toContain('master_link_status:up');
    await vi.waitFor(async () => jobs.enqueue(1, { durability: ONE }), { timeout: 10_000, interval: 50 });
  });

  it('confirms what is on disk, and refuses before any write what the server cannot', async () => {
    const { id } = await jobs.enqueue(1, { durability: { fsync: true } });
    expect(await jobs.enqueue(1, { id, durability: { fsync: true } })).toMatchObject({ outcome: 'duplicate' });
    await primary.admin.config('SET', 'appendfsync', 'no');
    try {
      const never = await errorOf(jobs.enqueue(1, { durability: { fsync: true, timeoutMs: 60 } }), 'EMQ_DURABILITY');
      expect(never.unconfirmed).toMatchObject({ replicas: 0, fsynced: false });
      expect(never.reason).toContain('within 60 ms it was not fsynced.');
    } finally {
      await primary.admin.config('SET', 'appendfsync', 'always');
    }
    // the replica writes no AOF
    const both = await errorOf(jobs.enqueue(1, { durability: { ...SOON, fsync: true } }), 'EMQ_DURABILITY');
    expect(both.unconfirmed).toMatchObject({ replicas: 0, fsynced: true });
    expect(both.reason).toContain('within 60 ms 0 of 1 replicas have fsynced it');
    await using plain = await WorkerNode.start(wire);
    const elsewhere = new Jobs(await plain.connect(), name);
    const error = await errorOf(elsewhere.enqueue(1, { durability: { fsync: true } }), 'EMQ_INPUT');
    expect(error.reason).toBe(
      'durability with fsync needs a server that writes an AOF: set appendonly yes there, or ask for replicas; nothing was sent',
    );
    expect(await plain.admin.keys('emq:*')).toEqual([]);
    // it is asked again
    await plain.admin.config('SET', 'appendonly', 'yes');
    expect(await elsewhere.enqueue(1, { durability: { fsync: true, timeoutMs: 10_000 } })).toMatchObject({
      outcome: 'enqueued',
    });
    await plain.admin.config('SET', 'appendonly', 'no');
    const late = await errorOf(elsewhere.enqueue(1, { durability: { fsync: true } }), 'EMQ_DURABILITY');
    expect(late.reason).toContain('appendonly is disabled');
    expect(await plain.admin.zcard(keys.pending)).toBe(2);
  });

  it('refuses before any write what the server does not know', async () => {
    await using old = await WorkerNode.start(wire, '--rename-command', 'WAITAOF', '');
    const error = await errorOf(
      new Jobs(await old.connect(), name).enqueue(1, { durability: { fsync: true } }),
      'EMQ_INPUT',
    );
    expect(error.reason).toContain('needs WAITAOF, which the server does not know');
    expect(await old.admin.keys('emq:*')).toEqual([]);
  });

  it('refuses before any write what the user may not', async () => {
    const rules = (wire === 6 ? PRODUCER_6 : PRODUCER).map((rule) => rule.replaceAll('{a}', `{${name}}`));
    const grant = (...more: string[]): Promise<unknown> =>
      primary.admin.call('ACL', 'SETUSER', 'producer', 'reset', 'on', '>correct-horse', ...rules, ...more);
    await grant();
    const user = { username: 'producer', password: 'correct-horse' };
    await using own = await primary.connect({ redis: user });
    const mine = new Jobs(own, name);
    for (const durability of [ONE, { fsync: true }]) {
      const error = await errorOf(mine.enqueue(1, { durability }), 'NOPERM');
      expect(error.reason).toMatch(/durable calls need \+wait(aof)?; nothing was sent$/);
    }
    expect(await primary.admin.exists(keys.pending)).toBe(0);
    await grant('+wait', '+waitaof');
    const { id } = await mine.enqueue(1, { durability: ONE });
    await mine.enqueue(1, { durability: { fsync: true } });
    // it takes one more to confirm what was there
    const error = await errorOf(mine.enqueue(1, { id, durability: ONE }), 'EMQ_DURABILITY');
    expect(error.reason).toMatch(/ACL failure in script|can't run/);
    await grant('+wait', '+hget');
    expect(await mine.enqueue(1, { id, durability: ONE })).toEqual({ id, outcome: 'duplicate' });
  });

  it('waits for a server that is away as any call does, nothing sent', async () => {
    await using lone = await WorkerNode.start(wire, '--appendonly', 'yes', '--appendfsync', 'always');
    const own = await lone.connect({ waitMs: 50, reconnectMinMs: 10, reconnectMaxMs: 50 });
    const mine = new Jobs(own, name, { durability: { fsync: true, timeoutMs: 10_000 } });
    const { id } = await mine.enqueue(1);
    await lone.server.kill();
    const error = await errorOf(mine.enqueue(1));
    expect(['EMQ_CONNECTION', 'EMQ_UNKNOWN_OUTCOME']).toContain(error.code);
    expect((await errorOf(mine.enqueue(1), 'EMQ_CONNECTION')).reason).toContain('nothing was sent');
    await lone.server.restart();
    await vi.waitFor(async () => mine.enqueue(2), { timeout: 10_000, interval: 20 });
    expect(await there(lone, id)).toBe(true);
  });
});

it('refuses wrong options and wires without connections of their own', async () => {
  const nowhere = { run: () => Promise.reject(new Error('sent')), runAll: () => Promise.reject(new Error('sent')) };
  const jobs = new Jobs(nowhere, 'q');
  const enqueue = async (durability: unknown): Promise<string> =>
    (await errorOf(jobs.enqueue(1, { durability: durability as Durability }), 'EMQ_INPUT')).reason;
  expect(await enqueue({ replicas: 1 })).toContain('durability needs a Connector');
  expect(await enqueue({})).toContain('durability needs replicas (how many) or fsync: true');
  expect(await enqueue({ replicas: 0 })).toContain('replicas of durability must be an integer from 1');
  expect(await enqueue({ replicas: 1_001 })).toContain('at most 1000');
  expect(await enqueue({ fsync: 1 })).toContain('fsync of durability must be true or false');
  expect(await enqueue({ replicas: 1, timeoutMs: 0 })).toContain(
    'timeoutMs of durability must be a whole number of ms',
  );
  expect(await enqueue({ replica: 1 })).toContain('unknown option "replica" of durability');
  expect(await enqueue('yes')).toContain('the options of durability must be an object');
  expect(() => new Jobs(nowhere, 'q', { durability: {} })).toThrow('durability needs replicas');
  expect(() => new Repeats(nowhere, 'q', { durability: { replicas: 1 } })).toThrow('a repeat takes no durability');
  const items = [{ payload: 1, durability: { replicas: 1 } }];
  expect((await errorOf(jobs.enqueueMany(items), 'EMQ_INPUT')).reason).toContain('unknown option "durability"');
});

/** The ids of all clients but the admin and the replica. */
async function wireClients(node: WorkerNode): Promise<string[]> {
  const own = String(await node.admin.client('ID'));
  const lines = String(await node.admin.client('LIST')).split('\n');
  const ids = lines.filter((line) => !/ flags=\w*[SMO]/.test(line)).map((line) => /^id=(\d+)/.exec(line)?.[1] ?? own);
  return ids.filter((id) => id !== own);
}

/** The id of the client that waits at the server, once there is one. */
async function blocked(node: WorkerNode): Promise<string> {
  for (;;) {
    const list = String(await node.admin.client('LIST'));
    const found = list.split('\n').find((line) => / flags=\w*b/.test(line) && / cmd=wait(aof)? /.test(line));
    if (found !== undefined) return /^id=(\d+)/.exec(found)?.[1] ?? '';
    await pause(5);
  }
}
