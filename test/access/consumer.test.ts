/**
 * The rights of a consumer: two more than those of a connector. With them it is woken, hears cancels and has nothing to
 * complain about; without one of them, or without a channel, it says so and works all the same.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Queue, type Connector, type EmqError } from '../../src/index.js';
import { EXECUTORS, MINUTE } from '../conformance/stage.js';
import { CONSUMER, WIRE_4, WIRE_6 } from './rules.js';
import { Users } from './users.js';

describe.each(EXECUTORS)('the rights of a consumer, %s', (_executor, wire) => {
  const rules = [...(wire === 6 ? WIRE_6 : WIRE_4), ...CONSUMER];
  let users: Users;
  let connector: Connector;
  let queue: Queue;

  beforeAll(async () => {
    users = await Users.start(wire);
  });
  afterAll(() => users[Symbol.asyncDispose]());
  beforeEach(async () => {
    await users.stage.raw.flushall();
    await users.brand(true);
  });

  /** The queue as the user sees it, with these rights. */
  async function open(granted: readonly string[]): Promise<void> {
    await users.grant(granted);
    connector = await users.connect();
    queue = new Queue(connector, 'a');
  }

  it('all of them: woken, told of a cancel, and no warning', async () => {
    await open(rules);
    const warnings: EmqError[] = [];
    const reasons: unknown[] = [];
    const consumer = queue.consume(
      (_job, { signal }) =>
        new Promise((_resolve, reject) =>
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason);
            reject(signal.reason as Error);
          }),
        ),
      { beatMs: MINUTE },
    );
    consumer.on('warning', (error) => warnings.push(error));
    const blocked = async () => /blocked_clients:1\b/.test(await users.stage.raw.info('clients'));
    const listening = async () => (await users.stage.raw.pubsub('NUMSUB', queue.keys.cancel))[1] === 1;
    await vi.waitUntil(async () => (await blocked()) && (await listening()), { timeout: 20_000 });

    const { id } = await users.stage.jobs('a').enqueue('work');
    await vi.waitUntil(() => consumer.stats().running === 1, { timeout: 20_000 });
    expect(await queue.cancel(id, 'not wanted')).toBe('signalled');
    await vi.waitUntil(() => consumer.stats().failed === 1, { timeout: 20_000 });
    expect(reasons).toMatchObject([{ kind: 'cancelled' }]);
    await consumer.close();
    expect(warnings).toEqual([]);
    await connector.close();
  });

  it.each([...CONSUMER, '&emq:{a}:cancel', '&emq:{a}:events'])('without %s: a warning, and jobs run', async (rule) => {
    await open(rules.filter((one) => one !== rule));
    const warnings: EmqError[] = [];
    const consumer = queue.consume(() => 'done', { beatMs: 20 });
    consumer.on('warning', (error) => warnings.push(error));
    await users.stage.jobs('a').enqueue('work');
    await vi.waitUntil(() => consumer.stats().completed === 1 && warnings.length > 0, { timeout: 20_000 });
    expect(warnings[0]).toMatchObject({ name: 'EmqError', code: 'NOPERM' });
    await consumer.close();
    await connector.close();
  });
});
