/**
 * The client in trouble: a server that does not answer while calls rain in, options that bite, and a script of ours that a
 * stranger tries to kill half-way. Whatever it is, each call has one typed answer, memory is bounded, and nothing is thrown
 * at nobody.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Connector, EmqError, Jobs, type ConnectorOptions } from '../../src/index.js';
import { printSeed, seed } from '../parity/seed.js';
import { TestServer } from '../wire/server.js';
import { biteAt, HOSTILE, placesOf, withAt } from './abuse-values.js';

printSeed('abuse-client.ci.test.ts');
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const MIB = 1_048_576;
const codeOf = (error: unknown): string => (error instanceof EmqError ? error.code : String(error));

const stray: unknown[] = [];
const onStray = (error: unknown): void => void stray.push(error);
beforeEach(() => void process.on('unhandledRejection', onStray));
afterEach(() => {
  process.off('unhandledRejection', onStray);
  expect(stray).toEqual([]);
});

describe('calls rain in while the server is away', () => {
  const OPTIONS = {
    ...{ maxPending: 200, waitMs: 100, replyTimeoutMs: 1_000, heartbeatMs: 50, heartbeatDeadlineMs: 200 },
    ...{ reconnectMinMs: 10, reconnectMaxMs: 50 },
  } as const;
  const CALLS = 2_000;

  it.each([
    ['silent', (server: TestServer) => server.signal('SIGSTOP'), (server: TestServer) => server.signal('SIGCONT')],
    ['gone', (server: TestServer) => server.end(), (server: TestServer) => server.boot()],
  ] as const)('%s: at most maxPending are kept, each has an answer, and it works again', async (_how, leave, come) => {
    await using server = await TestServer.start();
    await using connector = await Connector.connect({ url: server.url, ...OPTIONS });
    const jobs = new Jobs(connector, 'rain');
    const payload = Buffer.alloc(1_000);
    await jobs.enqueue(payload);
    const rain = async (): Promise<Map<string, number>> => {
      const fates = new Map<string, number>();
      const drops: Promise<void>[] = [];
      let most = 0;
      for (let i = 0; i < CALLS; i += 1) {
        const drop = jobs.enqueue(payload).then(() => 'enqueued', codeOf);
        drops.push(drop.then((fate) => void fates.set(fate, (fates.get(fate) ?? 0) + 1)));
        if (i % 500 === 0) await new Promise(setImmediate);
        most = Math.max(most, connector.stats().pending);
      }
      expect(most).toBeLessThanOrEqual(OPTIONS.maxPending);
      await Promise.all(drops);
      return fates;
    };

    await leave(server);
    await rain();
    collect();
    const before = process.memoryUsage().heapUsed;
    const fates = await rain();
    collect();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(4 * MIB);
    expect([...fates.values()].reduce((sum, count) => sum + count, 0)).toBe(CALLS);
    expect(['EMQ_CONNECTION', 'EMQ_UNKNOWN_OUTCOME']).toEqual(expect.arrayContaining([...fates.keys()]));
    expect(fates.get('EMQ_CONNECTION')).toBeGreaterThan(CALLS / 2);
    expect(connector.stats()).toMatchObject({ pending: 0, waiting: 0 });

    await come(server);
    await vi.waitUntil(() => connector.stats().state === 'up', { timeout: 10_000 });
    expect(await jobs.enqueue(payload)).toMatchObject({ outcome: 'enqueued' });
  });
});

describe('options that bite', () => {
  const right: ConnectorOptions = {
    url: 'valkey://127.0.0.1:1',
    ...{ wire: 4, claim: true, eviction: 'warn', protocol: 2, maxPending: 5, closeGraceMs: 1, connectTimeoutMs: 1 },
    ...{ waitMs: 1, replyTimeoutMs: 1, heartbeatMs: 1, heartbeatDeadlineMs: 1, reconnectMinMs: 1, reconnectMaxMs: 1 },
  };
  const cluster: ConnectorOptions = { cluster: { nodes: [{ host: '127.0.0.1', port: 1 }] }, connectTimeoutMs: 1 };

  it('a hostile value at every place, a getter that throws, another prototype: typed, whatever it is', async () => {
    const found: string[] = [];
    const attempt = async (args: readonly unknown[], what: string): Promise<void> => {
      try {
        await (await Connector.connect(...(args as [ConnectorOptions]))).close();
        found.push(`${what}: connected`);
      } catch (error) {
        const ok = error instanceof EmqError || (error as Error).message === 'bitten' || /revoked/.test(String(error));
        if (!ok) found.push(`${what}: ${String(error)} ${(error as Error).stack?.split('\n')[1] ?? ''}`);
      }
    };
    let turn = Math.abs(seed);
    for (const options of [right, cluster]) {
      for (const place of placesOf([options])) {
        turn += 1;
        for (const [what, make] of HOSTILE.filter((_one, i) => (i + turn) % 5 === 0)) {
          // what is no option at all would mean the server of this machine; an address is the library's own to read
          if (place.length === 1 || place.includes('host') || place.includes('port')) continue;
          await attempt(withAt([options], place, make()), `${what} at ${place.join('.')}`);
        }
        const bites = biteAt([options], place);
        if (bites !== undefined) await attempt(bites, `a getter that throws at ${place.join('.')}`);
      }
    }
    expect(found.slice(0, 20)).toEqual([]);
  });

  it('a getter that throws is refused without its words, which may hold a secret', async () => {
    const options = {
      get url(): string {
        throw new Error('password hunter2');
      },
    };
    const error: unknown = await Connector.connect(options).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'EMQ_INPUT' });
    expect(`${String(error)} ${String((error as Error).cause)}`).not.toContain('hunter2');
  });

  it('options of a class, or with a prototype, count as if they were given', async () => {
    class Options {
      get wire(): 5 {
        return 5;
      }
    }
    const error: unknown = await Connector.connect(new Options() as never).catch((reason: unknown) => reason);
    expect(String(error)).toMatch(/wire must be 4/);
  });
});

describe('SCRIPT KILL', () => {
  it('does not end a script of ours half-way: it is not there, done whole, or has written nothing', async () => {
    await using server = await TestServer.start('--busy-reply-threshold', '1');
    await using connector = await Connector.connect({ url: server.url, eviction: 'ignore' });
    const jobs = new Jobs(connector, 'kill');
    const size = 20_000;
    // rows in one step: the ids in the order of their numbers
    await server.admin.eval(
      `for i = 1, tonumber(ARGV[1]) do
         local id = 'JOB' .. string.format('%011d', i)
         redis.call('HSET', KEYS[1] .. 'job:' .. id, 'state', 'pending', 'attempts', '0', 'payload', '1')
         redis.call('ZADD', KEYS[1] .. 'pending', 0, id)
       end`,
      ...[1, jobs.keys.base, String(size)],
    );
    const answers = new Set<string>();
    let over = false;
    const claiming = jobs.claimBatch({ leaseMs: 600_000, size }).then(
      (claimed) => claimed.length,
      (error: unknown) => error,
    );
    void claiming.then(() => (over = true));
    while (!over) {
      const answer: unknown = await server.admin
        .script('KILL')
        .catch((error: unknown) => (error as Error).message.split(' ')[0]);
      answers.add(String(answer));
    }
    const outcome = await claiming;
    const counts = await jobs.counts(['pending', 'active']);
    // otherwise nobody tried while it ran
    expect([...answers].some((answer) => answer === 'UNKILLABLE' || answer === 'OK')).toBe(true);
    if (outcome instanceof EmqError) {
      expect(outcome.code).toBe('ERR');
      expect(outcome.reason).toMatch(/killed by user/i);
      expect(counts).toEqual({ pending: size, active: 0 });
    } else {
      expect(outcome).toBe(size);
      expect(answers).toContain('UNKILLABLE');
      expect(counts).toEqual({ pending: 0, active: size });
    }
  });
});
