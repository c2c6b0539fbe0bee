/**
 * The private node of a test file: one line to have it, nothing left of it, and empty between two tests.
 */
import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Connector, EmqError, Jobs } from '../../src/index.js';
import { testNode, type TestNode, type TestNodeOptions } from '../../src/testing/index.js';
import { isAlive } from '../dev/support.js';
import { WIRES } from '../worker/support/nodes.js';

describe('a test node', () => {
  it('has the module and runs on wire 6 unless told otherwise, and is gone when it is closed', async () => {
    let pid: number, dir: string, connector: Connector;
    {
      await using node = await testNode();
      ({ connector } = node);
      ({ pid, dir } = node.server);
      expect([node.wire, connector.wire]).toEqual([6, 6]);
      const queue = node.queue<{ n: number }>('mail');
      const { id } = await queue.enqueue({ n: 1 });
      expect(await queue.get(id)).toMatchObject({ state: 'pending' });
      expect((await queue.claim({ leaseMs: 60_000 }))?.payload).toEqual({ n: 1 });
      // what a native claim leaves behind
      expect((await queue.get(id))?.leaseEpoch).toMatch(/^[0-9a-f]{40}$/);
    }
    expect(connector.stats().state).toBe('closed');
    expect([isAlive(pid), existsSync(dir)]).toEqual([false, false]);
  });

  it.each(WIRES)('can be met by another process on wire %i', async (wire) => {
    await using node = await testNode({ wire });
    await using other = await Connector.connect({ url: node.url, wire });
    await node.queue('mail').enqueue(1);
    expect(await new Jobs(other, 'mail').counts(['pending'])).toEqual({ pending: 1 });
  });

  it('takes options for its server and its connector', async () => {
    await using node = await testNode({
      wire: 4,
      server: { port: 'free', args: ['--maxclients', '77'] },
      connector: { maxPending: 1 },
    });
    expect(node.url).toMatch(/^redis:\/\/127\.0\.0\.1:\d+$/);
    const jobs = node.queue('q');
    const [first, second] = await Promise.allSettled([jobs.pause(), jobs.pause()]);
    expect([first.status, second.status]).toEqual(['fulfilled', 'rejected']);
  });

  it.each<[object, string]>([
    [{ wire: 5 }, 'wire must be 4 (scripts) or 6 (the module)'],
    [{ module: true }, 'unknown option "module" of testNode: it takes wire, server, connector'],
    [{ server: { server: '/nowhere/valkey-server' } }, 'names /nowhere/valkey-server'],
    [{ connector: { maxPending: 0 } }, 'maxPending'],
  ])('refuses %j', async (options, reason) => {
    const error = await testNode(options as TestNodeOptions).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(EmqError);
    expect(error).toMatchObject({ code: 'EMQ_INPUT', reason: expect.stringContaining(reason) });
  });

  it('may be closed twice', async () => {
    const node = await testNode({ wire: 4 });
    await Promise.all([node.close(), node.close()]);
    await node.close();
    expect(isAlive(node.server.pid)).toBe(false);
  });
});

describe.each(WIRES)('between two tests on wire %i', (wire) => {
  let node: TestNode;
  beforeAll(async () => {
    node = await testNode({ wire });
  });
  afterAll(() => node.close());

  it('is empty, and still what it was', async () => {
    const [mail, other] = [node.queue('mail'), node.queue('other')];
    await mail.enqueue(1);
    await other.schedule(2, { inMs: 60_000 });
    await other.pause();
    await node.reset();
    const nothing = { pending: 0, active: 0, scheduled: 0, dead: 0, awaiting_children: 0, completed: 0, failed: 0 };
    expect([await mail.counts(), await other.counts()]).toEqual([nothing, nothing]);
    // the fence of a new connection and the module's own still let it pass, and the pause is forgotten
    await other.enqueue(3);
    expect(await other.claim({ leaseMs: 60_000 })).not.toBeNull();
    await using another = await Connector.connect({ url: node.url, wire, claim: false });
    expect(another.stats().state).toBe('up');
  });
});
