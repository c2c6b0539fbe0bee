/** Options and URLs: what is refused, with what words, and that no secret is ever repeated. */
import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { readOptions, type ConnectorOptions } from '../../src/wire/connector-options.js';
import { readUrl } from '../../src/wire/connector-url.js';
import { Connector } from '../../src/wire/connector.js';
import { EmqError } from '../../src/wire/errors.js';
import { freePort } from './server.js';
import { errorOf } from './stand-ins.js';

const SECRET = 'hunter2hunter2';

describe('URLs', () => {
  it.each([
    ['redis://localhost', { host: 'localhost' }],
    ['valkey://h:7/3', { host: 'h', port: 7, db: 3 }],
    ['valkeys://u:p%40ss@h', { host: 'h', username: 'u', password: 'p@ss', tls: {} }],
    ['rediss://:only@h:1', { host: 'h', port: 1, password: 'only', tls: {} }],
    ['valkey://[::1]:6380?db=2', { host: '::1', port: 6380, db: 2 }],
    ['unix:///run/valkey%20x/s?db=1', { path: '/run/valkey x/s', db: 1 }],
  ])('%s', (url, endpoint) => {
    expect(readUrl(url)).toEqual(endpoint);
  });

  it.each([
    [`http://u:${SECRET}@h`, /scheme/],
    [`u:${SECRET}@h:99999999`, /scheme/],
    [`valkey://u:${SECRET}@h:99999999`, /not a URL/],
    [`valkey://u:${SECRET}@h:0`, /port must be 1 to 65535/],
    [`valkey://u:${SECRET}@h/one`, /database/],
    [`valkey://u:${SECRET}@h?dbb=1`, /unknown parameter "dbb"/],
    [`valkey://u:${SECRET}%zz@h`, /password holds a %/],
    [`unix://u:${SECRET}@relative/s`, /three slashes/],
    [`unix://u:${SECRET}@/s`, /user and password go to the redis option/],
    [`valkey:///3`, /no host/],
    ['', /not a URL/],
  ])('refuses %s', (url, words) => {
    const error = thrown(() => readUrl(url));
    expect(error.code).toBe('EMQ_INPUT');
    expect(error.message).toMatch(words);
    expect(inspect(error, { depth: 9 })).not.toContain(SECRET);
  });
});

describe('options', () => {
  const client = new Redis({ lazyConnect: true });

  it.each<[unknown, RegExp]>([
    [{ hearbeatMs: 1 }, /unknown connector option "hearbeatMs"/],
    [{ wire: 5 }, /wire must be 4/],
    [{ wire: '4' }, /wire must be 4/],
    [{ protocol: 1 }, /protocol must be 2 or 3/],
    [{ claim: 'no' }, /claim must be true or false/],
    [{ waitMs: -1 }, /waitMs must be a whole number, 0 or more/],
    [{ heartbeatMs: 0 }, /heartbeatMs must be a whole number, 1 or more/],
    [{ replyTimeoutMs: 1.5 }, /replyTimeoutMs/],
    [{ connectTimeoutMs: 2 ** 31 }, /connectTimeoutMs/],
    [{ connectTimeoutMs: Number.NaN }, /connectTimeoutMs/],
    [{ maxPending: 0 }, /maxPending/],
    [{ reconnectMinMs: 10, reconnectMaxMs: 5 }, /reconnectMinMs must not exceed/],
    [{ signal: {} }, /AbortSignal/],
    [{ url: 'valkey://h', client }, /one of url/],
    [{ client, cluster: { nodes: [1] } }, /one of url/],
    [{ url: 7 }, /url must be a string/],
    [{ url: undefined }, /url is undefined: is the variable that should hold it set\?/],
    [{ redis: 'h' }, /redis must be an object/],
    [{ redis: { keyPrefix: 'x:' } }, /redis.keyPrefix must be empty/],
    [{ client: { duplicate: 1 } }, /ioredis Redis or Cluster/],
    [{ client: new Redis({ lazyConnect: true, keyPrefix: 'x:' }) }, /client's keyPrefix must be empty/],
    [{ cluster: { nodes: [] } }, /at least one node/],
    [{ cluster: { nodes: [1], options: { redisOptions: { keyPrefix: 'x:' } } } }, /keyPrefix must be empty/],
    [7, /URL or an object/],
    [null, /URL or an object/],
    [[], /URL or an object/],
  ])('refuses %o', async (options, words) => {
    const error = await errorOf(Connector.connect(options as ConnectorOptions), 'EMQ_INPUT');
    expect(error.message).toMatch(words);
  });

  it('refuses credentials and databases in the node of a cluster, which has one set for all nodes', async () => {
    for (const node of [`valkey://u:${SECRET}@h:1`, 'valkey://h:1/2', 'unix:///s']) {
      const error = await errorOf(Connector.connect({ cluster: { nodes: [node] } }), 'EMQ_INPUT');
      expect(error.message).toMatch(/redisOptions/);
      expect(inspect(error)).not.toContain(SECRET);
    }
  });

  it('fills in the documented defaults', () => {
    expect(readOptions()).toMatchObject({
      wire: 4,
      claim: true,
      connectTimeoutMs: 10_000,
      waitMs: 1_000,
      replyTimeoutMs: 10_000,
      heartbeatMs: 1_000,
      heartbeatDeadlineMs: 2_500,
      reconnectMinMs: 100,
      reconnectMaxMs: 2_000,
      closeGraceMs: 1_000,
      maxPending: 10_000,
    });
  });
});

it('rejects, within its time, where nobody listens, and never shows the password', async () => {
  const port = await freePort();
  const url = `valkey://user:${SECRET}@127.0.0.1:${port}`;
  const error = await errorOf(Connector.connect({ url, connectTimeoutMs: 300 }), 'EMQ_CONNECTION');
  expect(error.message).toMatch(new RegExp(`127.0.0.1:${port}.*ECONNREFUSED`));
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(SECRET);
});

it('can be given up while connecting', async () => {
  const port = await freePort();
  const url = `valkey://127.0.0.1:${port}`;
  const controller = new AbortController();
  const connecting = Connector.connect({ url, signal: controller.signal });
  controller.abort(new Error('changed my mind'));
  const error = await errorOf(connecting, 'EMQ_CLOSED');
  expect(error.cause).toMatchObject({ message: 'changed my mind' });
  await errorOf(Connector.connect({ url, signal: AbortSignal.abort() }), 'EMQ_CLOSED');
});

function thrown(run: () => unknown): EmqError {
  try {
    run();
  } catch (error) {
    if (error instanceof EmqError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}
