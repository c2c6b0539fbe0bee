/**
 * What waits in a queue, and the assertions on it: on both executors, with what they say when they fail.
 */
import { AssertionError } from 'node:assert';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bytesCodec, NamedQueue, type Queue } from '../../src/index.js';
import {
  assertEnqueued,
  assertNotEnqueued,
  enqueued,
  testNode,
  type Expectation,
  type TestNode,
} from '../../src/testing/index.js';
import { putInLane } from './lanes.js';
import { freshQueue, WIRES } from '../worker/support/nodes.js';

interface Mail {
  to: string;
  tags?: string[];
  more?: { deep: { n: number; m?: number } };
}

/** What an assertion fails with. */
async function failure(assertion: Promise<unknown>): Promise<AssertionError> {
  return assertion.then(
    () => {
      throw new Error('it passed');
    },
    (error: unknown) => error as AssertionError,
  );
}

describe.each(WIRES)('on wire %i', (wire) => {
  let node: TestNode;
  let queue: Queue<Mail>;
  beforeAll(async () => {
    node = await testNode({ wire });
  });
  afterAll(() => node.close());
  beforeEach(() => {
    queue = node.queue(freshQueue());
  });

  describe('enqueued', () => {
    it('gives what waits and what is scheduled, decoded, in order', async () => {
      const late = await queue.enqueue({ to: 'late' }, { priority: 7, opts: { own: 1 }, maxAttempts: 5 });
      const first = await queue.enqueue({ to: 'first' }, { name: 'welcome' });
      const then = await queue.schedule({ to: 'then' }, { at: 4_000_000_000_000 });
      const soon = await queue.schedule({ to: 'soon' }, { at: 3_000_000_000_000 });
      const none = { name: undefined, priority: 0, runAt: undefined, attempts: 0, group: undefined, opts: {} };
      expect(await enqueued(queue)).toEqual([
        {
          ...none,
          id: first.id,
          state: 'pending',
          name: 'welcome',
          payload: { to: 'first' },
          opts: { name: 'welcome' },
        },
        {
          ...none,
          id: late.id,
          state: 'pending',
          payload: { to: 'late' },
          priority: 7,
          opts: { own: 1, maxAttempts: 5 },
        },
        { ...none, id: soon.id, state: 'scheduled', payload: { to: 'soon' }, runAt: new Date(3_000_000_000_000) },
        { ...none, id: then.id, state: 'scheduled', payload: { to: 'then' }, runAt: new Date(4_000_000_000_000) },
      ]);
    });

    it('does not see what runs, is done or is dead, nor an id without a job', async () => {
      for (const to of ['runs', 'done', 'dead', 'again', 'ghost']) await queue.enqueue({ to });
      const claim = async () => (await queue.claim({ leaseMs: 60_000 }))!;
      await claim();
      await queue.complete(await claim());
      await queue.fail(await claim(), { delayMs: 0, maxAttempts: 1, error: 'e' });
      await queue.fail(await claim(), { delayMs: 60_000, maxAttempts: 2, error: 'e' });
      const [ghost] = await assertEnqueued(queue, { payload: { to: 'ghost' } });
      const raw = new Redis({ path: node.server.socketPath });
      await raw.del(queue.keys.job(ghost!.id));
      raw.disconnect();
      expect(await queue.counts(['pending'])).toEqual({ pending: 1 });
      expect(await enqueued(queue)).toMatchObject([{ state: 'scheduled', payload: { to: 'again' }, attempts: 1 }]);
    });

    it('sees the jobs of lanes: on the ring, paused, at their limit, and such as wait for their rate', async () => {
      const lanes = [];
      for (const stand of ['ring', 'paused', 'limit', 'waits'] as const) {
        lanes.push(await putInLane(node, queue, { to: stand }, stand));
      }
      expect(await enqueued(queue)).toMatchObject([
        { ...lanes[0], payload: { to: 'ring' } },
        { ...lanes[1], payload: { to: 'paused' } },
        { ...lanes[2], payload: { to: 'limit' } },
        { ...lanes[3], payload: { to: 'waits' } },
      ]);
      const { group = '' } = lanes[3] ?? {};
      await assertEnqueued(queue, { group, count: 1 });
      await expect(assertNotEnqueued(queue, { group })).rejects.toBeInstanceOf(AssertionError);
    });

    it('reads payloads by the codec of the queue, and says so when that cannot', async () => {
      const bytes = node.queue<Buffer>(queue.queue, { codec: bytesCodec });
      const { id } = await bytes.enqueue(Buffer.from([0xff]));
      expect((await enqueued(bytes))[0]?.payload).toEqual(Buffer.from([0xff]));
      await expect(enqueued(queue)).rejects.toMatchObject({
        code: 'EMQ_INPUT',
        message: expect.stringContaining(`the payload of ${id} (1 bytes) cannot be decoded`),
      });
    });

    it('wants a queue', async () => {
      const named = new NamedQueue<{ a: Mail }>(node.connector, queue.queue);
      await named.enqueue('a', { to: 'ada' });
      expect(await enqueued(named.queue)).toHaveLength(1);
      await expect(enqueued(named as unknown as Queue<Mail>)).rejects.toMatchObject({
        code: 'EMQ_INPUT',
        reason: 'a Queue or Jobs must be given (of a NamedQueue its `queue`), got object',
      });
    });
  });

  describe('assertEnqueued', () => {
    beforeEach(async () => {
      await queue.enqueue({ to: 'ada', tags: ['a', 'b'], more: { deep: { n: 1, m: 2 } } }, { name: 'welcome' });
      await queue.enqueue({ to: 'bob' }, { name: 'invoice', priority: 3 });
      await queue.schedule({ to: 'bob' }, { inMs: 60_000 }, { name: 'reminder' });
    });

    it.each<[Expectation<Mail>, string[]]>([
      [{}, ['welcome', 'invoice', 'reminder']],
      [{ name: 'welcome' }, ['welcome']],
      [{ payload: { to: 'bob' } }, ['invoice', 'reminder']],
      [{ payload: { to: 'bob' }, state: 'scheduled' }, ['reminder']],
      [{ payload: { tags: ['a', 'b'] } }, ['welcome']],
      [{ payload: { more: { deep: { n: 1 } } } }, ['welcome']],
      [{ priority: 3 }, ['invoice']],
      [{ priority: 0, count: 2 }, ['welcome', 'reminder']],
      [{ match: ({ runAt }) => runAt !== undefined && runAt.getTime() > Date.now() }, ['reminder']],
      [{ name: 'none', count: 0 }, []],
    ])('gives those that fit %j', async (expectation, names) => {
      expect((await assertEnqueued(queue, expectation)).map(({ name }) => name)).toEqual(names);
      if (names.length === 0) await assertNotEnqueued(queue, { name: 'none' });
      else {
        const { count: _count, ...what } = expectation;
        await expect(assertNotEnqueued(queue, what)).rejects.toBeInstanceOf(AssertionError);
      }
    });

    it.each<[Expectation<Mail>]>([
      [{ name: 'goodbye' }],
      [{ payload: { to: 'eve' } }],
      [{ payload: { tags: ['a'] } }],
      [{ payload: { more: { deep: { n: 2 } } } }],
      [{ payload: { tags: [] } }],
      [{ name: 'welcome', state: 'scheduled' }],
      [{ group: 'GRP00000000001' }],
      [{ id: 'JOB00000000001' }],
      [{ match: () => false }],
      [{ count: 2 }],
      [{ payload: { to: 'bob' }, count: 1 }],
      [{ count: 0 }],
    ])('fails for %j', async (expectation) => {
      expect(await failure(assertEnqueued(queue, expectation))).toBeInstanceOf(AssertionError);
    });

    it('says what there is and why it does not fit, where it was called', async () => {
      async function theTest(): Promise<void> {
        await assertEnqueued(queue, { name: 'welcome', payload: { to: 'eve' } });
      }
      const error = await failure(theTest());
      const [ada, bob, later] = await enqueued(queue);
      expect(error.message).toBe(
        [
          `0 jobs of queue ${queue.queue} enqueued fit { name: 'welcome', payload: { to: 'eve' } }, at least one expected; there are:`,
          `  ${ada?.id} pending welcome { to: 'ada', tags: [ 'a', 'b' ], more: { deep: { n: 1, m: 2 } } } - payload.to is 'ada'`,
          `  ${bob?.id} pending invoice { to: 'bob' } - name is 'invoice'`,
          `  ${later?.id} scheduled reminder { to: 'bob' } - name is 'reminder'`,
        ].join('\n'),
      );
      expect(error).toMatchObject({ operator: 'assertEnqueued', code: 'ERR_ASSERTION', actual: [ada, bob, later] });
      expect(error.stack).toContain('theTest');
      expect(error.stack).not.toContain('/src/testing/');
    });

    it('counts', async () => {
      const error = await failure(assertEnqueued(queue, { payload: { to: 'bob' }, count: 5 }));
      expect(error.message).toMatch(/^2 jobs of queue \S+ enqueued fit \{ payload: \{ to: 'bob' \} \}, 5 expected; /);
    });

    it.each<[object, string]>([
      [{ nmae: 'welcome' }, 'unknown option "nmae" of assertEnqueued: it takes id, name, state, priority, group'],
      [{ count: -1 }, 'count must be an integer from 0, got -1'],
      [{ match: 5 }, 'match must be a function of the job, got 5'],
    ])('refuses %j', async (expectation, reason) => {
      const error = await failure(assertEnqueued(queue, expectation as Expectation<Mail>));
      expect(error).toMatchObject({ code: 'EMQ_INPUT', reason: expect.stringContaining(reason) });
    });
  });

  describe('assertNotEnqueued', () => {
    it('passes when nothing fits, and fails with what does', async () => {
      await assertNotEnqueued(queue);
      const { id } = await queue.enqueue({ to: 'ada' });
      await queue.enqueue({ to: 'bob' });
      await assertNotEnqueued(queue, { payload: { to: 'eve' } });
      const error = await failure(assertNotEnqueued(queue, { payload: { to: 'ada' } }));
      expect(error.message).toBe(
        `1 jobs of queue ${queue.queue} enqueued fit { payload: { to: 'ada' } }, none expected; there are:\n  ${id} pending { to: 'ada' }`,
      );
      expect((await failure(assertNotEnqueued(queue))).message).toMatch(
        /^2 jobs of queue \S+ are enqueued, none expected/,
      );
    });

    it('shows ten at most, and none of them at length', async () => {
      for (let i = 0; i < 12; i++) await queue.enqueue({ to: 'x'.repeat(5000) });
      const { message } = await failure(assertNotEnqueued(queue));
      expect(message.split('\n')).toHaveLength(12);
      expect(message).toMatch(/\n {2}and 2 more$/);
      expect(message.length).toBeLessThan(3000);
    });

    it('takes no count', async () => {
      const error = await failure(assertNotEnqueued(queue, { count: 1 } as object));
      expect(error).toMatchObject({ code: 'EMQ_INPUT', reason: expect.stringContaining('unknown option "count"') });
    });
  });
});
