/**
 * A full server that evicts nothing: what lets jobs in is refused as OOM with nothing written, and all the rest works
 * until the server is drained. On both executors, through the public API.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Connector, EmqError, Jobs } from '../../src/index.js';
import { bytesOf, changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { need, perform } from '../../src/parity/node.js';
import { EXECUTORS, startNode, type TestNode } from './nodes.js';
import { cases, type Names } from './situations/index.js';

const codeOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'no refusal',
    (error: unknown) => (error instanceof EmqError ? error.code : error),
  );

/** What lets jobs in, and what is a step of that. */
const ADMISSIONS = [
  ...['enqueue', 'schedule', 'admit', 'repeat_put', 'repeat_fire'],
  ...['enqueue_flow', 'flow_hold', 'flow_list', 'flow_land'],
];
const names: Names = { b: 'emq:{q}:', id: 'JOB0KHTOWnGLuC', other: 'JOB0KHTOWnGLuD', group: 'PRT0KHTOWnGLu1' };

for (const executor of EXECUTORS) {
  describe(`every transition on a full server, ${executor}`, () => {
    let node: TestNode;
    beforeAll(async () => {
      node = await startNode(executor, { args: ['--maxmemory-policy', 'noeviction'] });
    });
    afterAll(() => node[Symbol.asyncDispose]());

    for (const [transition, { situations }] of Object.entries(cases)) {
      const admits = ADMISSIONS.includes(transition);
      test(`${transition}: ${admits ? 'refused, nothing written' : 'does its work'}`, async () => {
        for (const { name, setup, keys, args } of situations(names)) {
          await node.reset();
          for (const command of setup) await need(node.client, command);
          await need(node.client, ['CONFIG', 'SET', 'maxmemory', '1']);
          const before = await snapshot(node.client);
          const answer = await perform(node, { transition, keys: keys.map(bytesOf), args: args.map(bytesOf) });
          const changed = changedKeys(before, await snapshot(node.client));
          await need(node.client, ['CONFIG', 'SET', 'maxmemory', '0']);
          const told = answer.ok ? 'done' : answer.text.split(' ', 1)[0];
          expect({ name, told }).toEqual({ name, told: admits ? 'OOM' : 'done' });
          if (admits) expect(changed).toEqual([]);
        }
      });
    }
  });

  describe(`a full server, ${executor}`, () => {
    let node: TestNode;
    let connector: Connector;
    let jobs: Jobs<Buffer>;
    beforeAll(async () => {
      node = await startNode(executor, { args: ['--maxmemory-policy', 'noeviction'] });
      connector = await Connector.connect({ url: node.server.url, wire: executor === 'native' ? 6 : 4 });
      jobs = new Jobs(connector, 'full');
    });
    afterAll(async () => {
      await connector.close();
      await node[Symbol.asyncDispose]();
    });

    const limit = (maxmemory: '0' | '1') => need(node.client, ['CONFIG', 'SET', 'maxmemory', maxmemory]);
    /** What the test itself does to the keyspace, for which there has to be room. */
    const arrange = async (...commands: string[][]): Promise<void> => {
      const full = String(await need(node.client, ['CONFIG', 'GET', 'maxmemory'])).endsWith('1');
      if (full) await limit('0');
      for (const [name = '', ...args] of commands) await need(node.client, [name, ...args]);
      if (full) await limit('1');
    };
    const lapse = (key: string, id: string) => arrange(['ZADD', key, '1', id]);

    test('takes no job, and drains', async () => {
      const ids: string[] = [];
      for (let i = 0; i < 12; i += 1) ids.push((await jobs.enqueue(Buffer.alloc(1000, i))).id);
      // one more that is due, of a lane, and one that waits there
      const [first = '', second = ''] = ids;
      const lane = `${jobs.keys.base}g:PRT0KHTOWnGLu1:pending`;
      for (const id of [first, second]) {
        await arrange(['HSET', jobs.keys.job(id), 'group', 'PRT0KHTOWnGLu1'], ['ZREM', jobs.keys.pending, id]);
      }
      await arrange(['ZADD', lane, '0', second], ['ZADD', jobs.keys.schedule, '1', first]);
      const later = await jobs.schedule(Buffer.from('later'), { at: 1 });

      // less than an empty server takes
      await limit('1');
      const before = await snapshot(node.client);
      expect(await codeOf(jobs.enqueue(Buffer.from('one more')))).toBe('OOM');
      expect(await codeOf(jobs.schedule(Buffer.from('one more'), { inMs: 5 }))).toBe('OOM');
      expect(await jobs.enqueueMany([{ payload: Buffer.from('x') }])).toMatchObject([
        { outcome: 'failed', error: { code: 'OOM' } },
      ]);
      expect(changedKeys(before, await snapshot(node.client))).toEqual([]);

      expect(await jobs.promote()).toBe(2);
      const [a, c, d, e, f] = await Promise.all(Array.from({ length: 5 }, () => jobs.claim({ leaseMs: 60_000 })));
      expect(await jobs.extend(a!, { leaseMs: 120_000 })).toBe('extended');
      expect(await jobs.extendMany([a!, c!], { leaseMs: 120_000 })).toEqual([]);
      expect(await jobs.complete(a!)).toBe('completed');
      expect(await jobs.fail(c!, { delayMs: 60_000, maxAttempts: 3, error: 'boom' })).toBe('scheduled');
      expect(await jobs.fail(d!, { delayMs: 0, maxAttempts: 1, error: 'boom' })).toBe('dead');
      expect(await jobs.delay(e!, { inMs: 60_000 })).toBe('scheduled');
      expect(await jobs.addLog(f!.id, 'a line')).toBe(1);
      expect(await jobs.updateProgress(f!.id, 10)).toBe('updated');
      expect(await jobs.updateData(f!.id, Buffer.from('smaller'))).toBe('updated');
      await jobs.pause();
      expect(await jobs.claim({ leaseMs: 60_000 })).toBeNull();
      await jobs.resume();
      expect(await jobs.reprocess(d!.id)).toBe('pending');
      await lapse(jobs.keys.active, f!.id);
      expect(await jobs.stalledCheck({ maxStalled: 2 })).toEqual({ recovered: [f!.id], dead: [] });
      expect(await jobs.remove(f!.id)).toBe('removed');
      const [g] = await jobs.claimBatch({ leaseMs: 60_000, size: 1 });
      await lapse(jobs.keys.active, g!.id);
      expect(await jobs.reap()).toBe(1);
      const [taken] = await jobs.take({ leaseMs: 60_000, count: 1 });
      expect(await jobs.release(taken!)).toBe('released');
      await jobs.setRecovery('stalled');
      await arrange(['HSET', jobs.keys.job(g!.id), 'stalled', 'x']);
      expect(await jobs.quarantine()).toEqual([{ id: g!.id, why: 'stalled is not an integer' }]);
      expect(await jobs.cancel(g!.id)).toBe('dead');
      await arrange(['HSET', jobs.keys.job(g!.id), 'stalled', '0']);
      expect(await jobs.reprocess(g!.id)).toBe('pending');

      // the rest, to the last job
      for (const id of [c!.id, e!.id]) await lapse(jobs.keys.schedule, id);
      for (const id of [first, second]) {
        await arrange(['HDEL', jobs.keys.job(id), 'group'], ['ZREM', lane, id], ['ZADD', jobs.keys.pending, '0', id]);
      }
      await jobs.promote();
      let done = 0;
      for (let job = await jobs.claim({ leaseMs: 60_000 }); job; job = await jobs.claim({ leaseMs: 60_000 })) {
        expect(await jobs.complete(job)).toBe('completed');
        done += 1;
      }
      // all but the one completed and the one removed before
      expect(done).toBe(ids.length + 1 - 2);
      expect(await jobs.state(later.id)).toBe('absent');
      expect(await jobs.counts(['pending', 'active', 'scheduled', 'dead'])).toEqual({
        pending: 0,
        active: 0,
        scheduled: 0,
        dead: 0,
      });

      expect(await codeOf(jobs.enqueue(Buffer.from('still full')))).toBe('OOM');
      await limit('0');
      expect(await codeOf(jobs.enqueue(Buffer.from('room again')))).toBe('no refusal');
    });
  });
}
