/**
 * Audits of queues at work: no false alarm, nothing written, and repairs that are cut short or met by others.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Admin, Flows, Jobs, Keyspace, Lanes, mint, Queue, type Consumer } from '../../src/index.js';
import { checkQueues } from '../../src/queue/audit/check.js';
import { sourceOf } from '../../src/queue/audit/source.js';
import type { Runs } from '../../src/queue/child.js';
import type { AuditInput } from '../../src/wire/audit-transitions.js';
import { snapshot } from '../../src/parity/keyspace-dump.js';
import { rng } from '../../src/parity/prng.js';
import { freshQueue, WIRES, WorkerNode } from '../worker/support/nodes.js';
import { oracle } from './suite.js';
import { BREAKS, makeWorld } from './world.js';

const HOUR = 3_600_000;

describe.each(WIRES)('on wire %i', (wire) => {
  let node: WorkerNode;
  beforeAll(async () => {
    node = await WorkerNode.start(wire);
  });
  afterAll(() => node[Symbol.asyncDispose]());

  test('a queue at work gives no alarm', { timeout: 30_000 }, async () => {
    const name = freshQueue('busy');
    const queue = new Queue<number>(await node.connect(), name);
    const lanes = new Lanes(await node.connect(), name);
    const flows = new Flows(await node.connect(), name);
    const groups = [mint('TEN'), mint('TEN'), mint('TEN')];
    const consumers: Consumer<number>[] = [1, 2].map(() =>
      queue.consume(
        async ({ payload }) => {
          await turn();
          if (payload % 7 === 0) throw new Error('it fails');
          return payload;
        },
        { concurrency: 8, beatMs: 50, maxAttempts: 2, backoff: () => 5 },
      ),
    );
    let stop = false;
    const produce = async (): Promise<void> => {
      for (let i = 0; !stop; i++) {
        await Promise.all([
          queue.enqueue(i, { priority: i % 3, dedup: { id: `d${i % 5}`, mode: 'replace' } }),
          lanes.enqueue(groups[i % 3] ?? '', i),
          queue.schedule(i, { inMs: i % 10 }),
          flows.add({ payload: 1, children: [{ payload: i }, { payload: 2, onFailure: 'ignore' }] }),
        ]);
        // an operator's verb for all lanes takes several steps
        if (i % 20 === 0) await lanes.setLimit('*', 1 + (i % 4));
        if (i % 9 === 0) await lanes.pause(groups[0] ?? '').then(() => lanes.resume(groups[0] ?? ''));
      }
    };
    const producing = produce();
    const admin = new Admin(await node.connect(), name);
    for (let round = 0; round < 6; round++) {
      const { findings, looked } = await admin.check();
      expect(findings).toEqual([]);
      expect(looked.keys).toBeGreaterThan(0);
    }
    stop = true;
    await producing;
    await Promise.all(consumers.map((consumer) => consumer.close()));
    expect((await queue.counts()).completed).toBeGreaterThan(50);
  });

  test('what is put right between two looks is nothing', async () => {
    const connector = await node.connect();
    const name = freshQueue('looks');
    const lanes = new Lanes(connector, name);
    const group = mint('TEN');
    await lanes.enqueue(group, 1);
    const { ring } = new Keyspace(name);
    await node.admin.del(ring);
    const source = await sourceOf('check', connector, name);
    let looks = 0;
    const runs = (queue: string): Runs => ({
      run: async (transition, input) => {
        const reply = await source.runs(queue).run(transition, input);
        const isLanes = transition.name === 'audit' && (input as unknown as AuditInput).what === 'lanes';
        if (isLanes && (looks += 1) === 1) await node.admin.rpush(ring, group);
        return reply;
      },
    });

    const { findings } = await checkQueues({ ...source, runs }, name);

    expect(findings).toEqual([]);
    expect(looks).toBe(2);
  });

  test('a check changes no byte', async () => {
    const name = freshQueue('whole');
    const world = await makeWorld(await node.connect(), node.admin, name, rng(7));
    for (const broken of BREAKS) if (!['row', 'type'].includes(broken.kind)) await broken.act(world);
    const before = await snapshot(node.admin);

    const { findings } = await world.admin.check();
    await world.admin.repair({ dryRun: true });

    expect(await snapshot(node.admin)).toEqual(before);
    expect(findings.length).toBeGreaterThan(30);
  });

  test('a repair that is cut short is gone on with', async () => {
    const name = freshQueue('cut');
    const world = await makeWorld(await node.connect(), node.admin, name, rng(3));
    const mendable = BREAKS.filter(({ left }) => left !== true);
    for (const broken of mendable) await broken.act(world);
    let done = 0;
    for (let cuts = 0; cuts < 5; cuts++) {
      const controller = new AbortController();
      const onDone = (): void => {
        done += 1;
        if (done % 4 === 0) controller.abort();
      };
      await expect(world.admin.repair({ signal: controller.signal, onDone })).rejects.toThrow('aborted');
    }
    // one mend may mend several things
    expect(done).toBeGreaterThanOrEqual(20);
    expect(done).toBeLessThan(30);

    const { findings, mended } = await world.admin.repair();

    expect(findings.filter(({ mends }) => mends)).toEqual([]);
    expect(mended).toBeGreaterThan(0);
    expect(await oracle(world)).toEqual([]);
  });

  test('two repairs at a time do each thing once', async () => {
    const name = freshQueue('two');
    const jobs = new Jobs(await node.connect(), name);
    const { id } = await jobs.enqueue({ a: 1 });
    await node.admin.zrem(jobs.keys.pending, id);
    await node.admin.hset(`${jobs.keys.base}gactive`, mint('TEN'), '3');
    const admins = [new Admin(await node.connect(), name), new Admin(await node.connect(), name)];

    const told = await Promise.all(admins.map((admin) => admin.repair()));

    expect(told.flatMap(({ done }) => done)).toHaveLength(2);
    expect(await jobs.browse('pending')).toEqual([id]);
  });

  test('whoever held a job that was lost from its place may still settle it', async () => {
    const jobs = new Jobs(await node.connect(), freshQueue('held'));
    await jobs.enqueue({ a: 1 });
    const [held] = await jobs.take({ leaseMs: HOUR, count: 1 });
    await node.admin.zrem(jobs.keys.active, held?.id ?? '');
    await expect(jobs.complete(held!)).rejects.toThrow('EMQSTATE complete not active');

    await new Admin(jobs.wire, jobs).repair();

    expect(await jobs.complete(held!)).toBe('completed');
  });

  test('what is asked for in another way than it can be', async () => {
    const connector = await node.connect();
    const admin = new Admin(connector, freshQueue());
    await expect(admin.check({ most: 0 })).rejects.toThrow('most must be an integer from 1');
    await expect(admin.check({ dryRun: true } as object)).rejects.toThrow('unknown option "dryRun" of check');
    await expect(admin.repair({ dryRun: 'yes' } as never)).rejects.toThrow('dryRun must be true or false');
    const wire = { run: (call: never) => connector.run(call), runAll: () => Promise.resolve([]) } as never;
    await expect(new Admin(wire, 'q').check()).rejects.toThrow('make the Admin with a Connector');
    expect(await admin.check({ signal: AbortSignal.abort(new Error('no more')) }).catch(String)).toBe('Error: no more');
  });

  test('with too many jobs at work, or too many letters, it says what it did not look at', async () => {
    const jobs = new Jobs(await node.connect(), freshQueue('crowded'));
    const { base } = jobs.keys;
    const [group, parent] = [mint('TEN'), mint('JOB')];
    const fill = `for n = 1, 2001 do
      local id = string.format('JOB%011d', n)
      redis.call('HSET', KEYS[1] .. 'job:' .. id, 'state', 'active', 'attempts', '1', 'payload', '1', 'group', ARGV[1])
      redis.call('ZADD', KEYS[1] .. 'active', 4e12, id)
      redis.call('RPUSH', KEYS[1] .. 'flow:outbox', '\\0cancel\\0' .. id .. '\\0x')
    end`;
    await node.admin.eval(fill, 1, base, group);
    await node.admin.hset(`${base}gactive`, group, '7');
    await node.admin.hset(`${base}flow:cancel:${parent}`, mint('JOB'), '');
    const admin = new Admin(jobs.wire, jobs);

    const { findings, skipped } = await admin.check();

    expect(findings).toEqual([]);
    expect(skipped).toEqual([
      `whether children of queue ${jobs.queue} tell their parents: more than 1000 letters wait (2001)`,
      `the counts of lanes of queue ${jobs.queue}: more than 2000 jobs are in flight (2001)`,
    ]);
    await node.admin.zrem(jobs.keys.active, 'JOB00000002001');
    await node.admin.del(`${base}job:JOB00000002001`);
    await node.admin.ltrim(`${base}flow:outbox`, 0, 999);
    expect((await admin.check()).findings.map(({ kind }) => kind)).toEqual(['cancel', 'gactive']);
  });

  test('more is found than is kept', async () => {
    const jobs = new Jobs(await node.connect(), freshQueue('many'));
    for (let i = 0; i < 5; i++) await node.admin.zadd(jobs.keys.dead, i, mint('JOB'));
    const kinds: string[] = [];

    const told = await new Admin(jobs.wire, jobs).check({ most: 2, onFinding: ({ kind }) => kinds.push(kind) });

    expect(told.findings).toHaveLength(2);
    expect(told.found).toBe(5);
    expect(kinds).toEqual(Array(5).fill('ghost'));
  });
});
