/** The server loses its scripts at every moment there is: no caller sees it, and nothing runs twice or out of order. */
import { once } from 'node:events';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { Connector } from '../../src/wire/connector.js';
import { Proxy } from './proxy.js';
import { TestServer } from './server.js';
import { append, append2, call, count, errorOf, read, touch, transition } from './stand-ins.js';

let server: TestServer;

beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  await server.admin.flushall();
  await server.admin.script('FLUSH');
});

const LIST = 'emq:{q}:list';
const letters = [...'abcdefghij'];

it('loads a script at its first call, once', async () => {
  await using connector = await Connector.connect(server.url);
  expect(await connector.run(call(count))).toBe(1);
  expect(await connector.run(call(count))).toBe(2);
  expect(connector.stats().scriptLoads).toBe(1);
  expect(await server.admin.script('EXISTS', count.script.sha)).toEqual([1]);
});

it('heals a flush between any two calls', async () => {
  await using connector = await Connector.connect(server.url);
  for (let n = 1; n <= 5; n++) {
    expect(await connector.run(call(count))).toBe(n);
    await server.admin.script('FLUSH');
  }
});

it.each([2, 3] as const)('heals a pipeline of which no script is known, order kept, RESP%i', async (protocol) => {
  await using connector = await Connector.connect({ url: server.url, protocol });
  const calls = letters.map((letter, i) => call(i % 2 === 0 ? append : append2, 'list', [letter]));
  const outcomes = await connector.runAll(calls);
  expect(outcomes).toEqual(letters.map((_, i) => ({ ok: true, reply: i + 1 })));
  expect(await server.admin.lrange(LIST, 0, -1)).toEqual(letters);
  expect(connector.stats().scriptLoads).toBe(2);
});

it('heals a flush in the middle of a pipeline, outcomes and repeated calls in order', async () => {
  await using proxy = await Proxy.start(server.port);
  await using connector = await Connector.connect(proxy.url);
  await server.admin.script('LOAD', append.script.source);
  // The server runs a to e, then forgets the script, then gets f to j.
  proxy.hold = { before: 'the-f', until: () => server.admin.script('FLUSH') };
  const outcomes = await connector.runAll(letters.map((letter) => call(append, 'list', [`the-${letter}`])));
  expect(outcomes).toEqual(letters.map((_, i) => ({ ok: true, reply: i + 1 })));
  expect(await server.admin.lrange(LIST, 0, -1)).toEqual(letters.map((letter) => `the-${letter}`));
  expect(proxy.hold).toBeUndefined();
  expect(connector.stats().scriptLoads).toBe(1);
});

it('repeats only the calls whose script was missing, in their order', async () => {
  await using connector = await Connector.connect(server.url);
  await server.admin.script('LOAD', append2.script.source);
  const calls = letters.map((letter, i) => call(i % 2 === 0 ? append : append2, 'list', [letter]));
  const outcomes = await connector.runAll(calls);
  // b, d, f, h, j ran at once; then a, c, e, g, i.
  expect(await server.admin.lrange(LIST, 0, -1)).toEqual([...'bdfhjacegi']);
  expect(outcomes.map((o) => (o.ok ? o.reply : o.error))).toEqual([6, 1, 7, 2, 8, 3, 9, 4, 10, 5]);
});

it('sends LOAD and EVAL in one write, so that a flush between them changes nothing', async () => {
  await using proxy = await Proxy.start(server.port);
  await using connector = await Connector.connect(proxy.url);
  const requests: string[] = [];
  proxy.on('request', (bytes) => requests.push(bytes.toString()));
  // The flush comes after the LOAD and before the EVAL.
  proxy.hold = { before: '\r\nEVAL\r\n', until: () => server.admin.script('FLUSH') };
  expect(await connector.run(call(count))).toBe(1);
  expect(proxy.hold).toBeUndefined();
  expect(requests.filter((request) => request.includes('LOAD'))).toEqual([expect.stringContaining('\r\nEVAL\r\n')]);
});

it('survives a flush storm under load, each call exactly once', async () => {
  await using connector = await Connector.connect(server.url);
  let storm = true;
  const flushing = (async () => {
    while (storm) await server.admin.script('FLUSH');
  })();
  let done = 0;
  for (let round = 0; round < 30; round++) {
    const outcomes = await connector.runAll(Array.from({ length: 20 }, () => call(count)));
    expect(outcomes.filter((o) => !o.ok)).toEqual([]);
    done += outcomes.length;
  }
  storm = false;
  await flushing;
  expect(await server.admin.get('emq:{q}:k')).toBe(String(done));
});

it('heals after a restart, which forgets all scripts', async () => {
  await using own = await TestServer.start();
  await using connector = await Connector.connect({ url: own.url, reconnectMinMs: 10, reconnectMaxMs: 50 });
  await connector.run(call(count));
  const up = once(connector, 'connected');
  await own.end();
  await own.boot();
  await up;
  expect(await connector.run(call(count))).toBe(1);
});

it('keeps its scripts on a server that evicts those it only knows from EVAL', async () => {
  await using connector = await Connector.connect(server.url);
  await connector.run(call(count));
  for (let i = 0; i < 600; i++) await server.admin.eval(`return ${i}`, 0);
  expect(await server.admin.script('EXISTS', count.script.sha)).toEqual([1]);
  await connector.run(call(count));
  expect(connector.stats().scriptLoads).toBe(1);
});

it('works, by EVAL alone, for a user that may not load scripts', async () => {
  await server.admin.call('ACL', 'SETUSER', 'eve', 'on', '>pass', '~*', '+@all', '-script|load');
  await using connector = await Connector.connect({ url: server.url, redis: { username: 'eve', password: 'pass' } });
  expect(await connector.run(call(count))).toBe(1);
  expect(await connector.run(call(count))).toBe(2);
});

it('refuses a script whose sha is not its own, before anything runs', async () => {
  await using connector = await Connector.connect(server.url);
  const right = transition('broken', "return redis.call('INCR', KEYS[1])");
  const broken = { ...right, script: { ...right.script, sha: '0'.repeat(40) } };
  const error = await errorOf(connector.run(call(broken)), 'EMQ_INPUT');
  expect(error.message).toMatch(/script broken.*build the scripts again/);
  expect(await server.admin.exists('emq:{q}:k')).toBe(0);
});

it('does not trust a server that loaded something else than was sent', async () => {
  await using proxy = await Proxy.start(server.port);
  await using connector = await Connector.connect(proxy.url);
  proxy.alter = (bytes) => Buffer.from(bytes.toString('latin1').replaceAll('-- again', '-- agaim'), 'latin1');
  const error = await errorOf(connector.run(call(touch)), 'EMQ_UNKNOWN_OUTCOME');
  expect(error.message).toMatch(/another script/);
});

it('passes on an error of the first, healed, attempt as it is', async () => {
  await server.admin.rpush('emq:{q}:k', 'x');
  await using connector = await Connector.connect(server.url);
  await errorOf(connector.run(call(count)), 'WRONGTYPE');
  await errorOf(connector.run(call(read)), 'WRONGTYPE');
});
