/** Running calls: replies, errors, order, both protocols, both executors, on one healthy server. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Connector } from '../../src/wire/connector.js';
import { TestServer } from './server.js';
import { append, append2, call, count, echo, errorOf, refuse, spoken } from './stand-ins.js';

let server: TestServer;

beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

describe.each([2, 3] as const)('RESP%i', (protocol) => {
  it('passes bytes through untouched, both ways', async () => {
    await using connector = await Connector.connect({ url: server.url, protocol });
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const reply = await connector.run(call(echo, 'k', [bytes, '', Buffer.alloc(0), 'Привет\r\n']));
    expect(reply).toEqual([
      [bytes, Buffer.alloc(0), Buffer.alloc(0), Buffer.from('Привет\r\n')],
      7,
      null,
      [],
      Buffer.from('OK'),
    ]);
    expect(connector.stats().protocol).toBe(spoken(protocol));
  });

  it('passes a megabyte through', async () => {
    await using connector = await Connector.connect({ url: server.url, protocol });
    const bytes = Buffer.alloc(1 << 20, 'Ω');
    const [args] = (await connector.run(call(echo, 'k', [bytes]))) as [Buffer[]];
    expect(args[0]?.equals(bytes)).toBe(true);
  });

  it('turns refusals into typed errors', async () => {
    await using connector = await Connector.connect({ url: server.url, protocol });
    const error = await errorOf(connector.run(call(refuse)), 'EMQSTALE');
    expect(error.reason).toBe('EMQSTALE complete token mismatch');
    await server.admin.rpush('emq:{q}:list', 'x');
    const wrong = await errorOf(connector.run(call(count, 'list')), 'WRONGTYPE');
    expect(wrong.reason).not.toMatch(/user_script/);
    await server.admin.del('emq:{q}:list');
  });
});

it('gives the outcomes of runAll in the order of the calls, errors at their places', async () => {
  await using connector = await Connector.connect(server.url);
  await server.admin.del('emq:{q}:order');
  const outcomes = await connector.runAll([
    call(append, 'order', ['a']),
    call(refuse),
    call(append2, 'order', ['b']),
    call(append, 'order', ['c']),
  ]);
  expect(outcomes.map((o) => (o.ok ? o.reply : o.error.code))).toEqual([1, 'EMQSTALE', 2, 3]);
  expect(await server.admin.lrange('emq:{q}:order', 0, -1)).toEqual(['a', 'b', 'c']);
  expect(await connector.runAll([])).toEqual([]);
  await errorOf(connector.runAll('x' as never), 'EMQ_INPUT');
});

it('keeps the order of calls that are made one by one without waiting', async () => {
  await using connector = await Connector.connect(server.url);
  await server.admin.del('emq:{q}:order');
  const values = Array.from({ length: 200 }, (_, i) => String(i));
  await Promise.all(values.map((value) => connector.run(call(append, 'order', [value]))));
  expect(await server.admin.lrange('emq:{q}:order', 0, -1)).toEqual(values);
});

it('refuses calls beyond maxPending and sends nothing of them', async () => {
  await using connector = await Connector.connect({ url: server.url, maxPending: 3 });
  await server.admin.del('emq:{q}:n');
  const calls = Array.from({ length: 5 }, () => connector.run(call(count, 'n')));
  const outcomes = await Promise.allSettled(calls);
  expect(outcomes.map((o) => o.status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'rejected']);
  const error = await errorOf(calls[4] as Promise<unknown>, 'EMQ_CONNECTION');
  expect(error.message).toMatch(/overloaded.*maxPending/);
  // Together or not at all: one is in flight, and three more have no room beside it.
  const one = connector.run(call(count, 'n'));
  const all = await connector.runAll(Array.from({ length: 3 }, () => call(count, 'n')));
  expect(all.every((o) => !o.ok && o.error.code === 'EMQ_CONNECTION')).toBe(true);
  expect(await one).toBe(4);
  // More than can ever be in flight go in steps.
  const many = await connector.runAll(Array.from({ length: 7 }, () => call(count, 'n')));
  expect(many.map((o) => o.ok && o.reply)).toEqual([5, 6, 7, 8, 9, 10, 11]);
  // Room again once they are answered.
  expect(await connector.run(call(count, 'n'))).toBe(12);
});

it('does not connect on wire 6 to a server without the module', async () => {
  const error = await errorOf(Connector.connect({ url: server.url, wire: 6 }), 'EMQWIRE');
  expect(error.reason).toMatch(/trafikey is not loaded/);
});

it('counts what it does', async () => {
  await using connector = await Connector.connect(server.url);
  await connector.run(call(count, 'n'));
  expect(connector.stats()).toMatchObject({
    state: 'up',
    wire: 4,
    perQueueBrand: false,
    connects: 1,
    reconnects: 0,
    calls: 1,
    pending: 0,
    waiting: 0,
    repeats: 0,
    unknownOutcomes: 0,
  });
});
