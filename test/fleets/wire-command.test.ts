/**
 * `emq wire` on one node: what it shows, what it moves, and what it refuses, with no byte changed.
 *
 * The cluster is in wire-cluster.test.ts, the move under load in rolling.test.ts.
 */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Connector, Jobs } from '../../src/index.js';
import { defaultModulePath } from '../../src/dev/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { BRANDS, moveBrand } from '../../src/wire/fence.js';
import { TestServer } from '../wire/server.js';
import { emq, type Said } from './command.js';
import { oldModule } from './old-module.js';

const KEY = '{emq}:version';
const MODULE = ['--loadmodule', defaultModulePath()];

let plain: TestServer;
let native: TestServer;
beforeAll(async () => {
  [plain, native] = await Promise.all([TestServer.start(), TestServer.start(...MODULE)]);
});
afterAll(async () => {
  await plain[Symbol.asyncDispose]();
  await native[Symbol.asyncDispose]();
});
beforeEach(async () => {
  for (const server of [plain, native]) await server.admin.flushall();
});

/** Runs it, and fails if that changed any key but the brand, or the brand's TTL. */
async function wire(server: TestServer, ...args: string[]): Promise<Said> {
  const before = await snapshot(server.admin);
  const said = await emq(['wire', ...args, '--url', server.url]);
  const changed = changedKeys(before, await snapshot(server.admin)).filter((key) => key !== KEY);
  expect(changed).toEqual([]);
  return said;
}

/** The same, and the brand may not change either. */
async function unmoved(server: TestServer, ...args: string[]): Promise<Said> {
  const before = await server.admin.dump(KEY);
  const said = await wire(server, ...args);
  expect(await server.admin.dump(KEY)).toEqual(before);
  return said;
}

describe('what it shows', () => {
  it.each([
    ['echomq:4.0.0', 4, 0, /the node is echomq:4.0.0: clients connect with wire: 4\n.*has no module/],
    [null, null, 0, /the node is unbranded: the first connector brands it, with wire: 4\n/],
    ['echomq:6.0.0', 6, 1, /wire: 6: the module is wanting, no connector gets past/],
    ['echomq:7.\u001b[0m', null, 1, /has the brand "echomq:7.\\x1b\[0m": foreign/],
  ])('without the module, brand %j', async (brand, found, code, text) => {
    if (brand !== null) await plain.admin.set(KEY, brand);
    const said = await unmoved(plain);
    expect(said.stdout).toMatch(text);
    expect(said.code).toBe(code);
    const { json } = await unmoved(plain, '--json');
    expect(json).toMatchObject([{ cluster: false, brand, wire: found, ok: code === 0 }]);
    expect(json[0].nodes).toEqual([{ where: `127.0.0.1:${plain.port}`, role: 'primary', module: 'missing' }]);
  });

  it('with the module', async () => {
    expect((await unmoved(native)).stdout).toMatch(/with wire: 4 or wire: 6\n.*has the module/);
    await native.admin.set(KEY, 'echomq:6.0.0');
    const { code, json } = await unmoved(native, '--json');
    expect(code).toBe(0);
    expect(json).toMatchObject([
      { brand: 'echomq:6.0.0', wire: 6, replicasKnown: true, nodes: [{ module: 'loaded' }] },
    ]);
  });
});

describe('a move', () => {
  it('changes the brand and nothing else, its TTL included, there and back, and says so once more', async () => {
    await using connector = await Connector.connect(native.url);
    const jobs = new Jobs(connector, 'mail');
    await jobs.enqueue('one');
    await jobs.claim({ leaseMs: 60_000 });
    await native.admin.pexpireat(KEY, 4_000_000_000_000);
    const dry = await unmoved(native, 'upgrade', '--dry-run');
    expect(dry).toMatchObject({ code: 0 });
    expect(dry.stdout).toMatch(/^dry run: moves 127.0.0.1:\d+ from echomq:4.0.0 to echomq:6.0.0; wire 4 clients that/);

    expect((await wire(native, 'upgrade', '--yes')).stdout).toBe('the node: moved to echomq:6.0.0\n');
    expect(await native.admin.get(KEY)).toBe('echomq:6.0.0');
    expect(await native.admin.pexpiretime(KEY)).toBe(4_000_000_000_000);
    const again = await unmoved(native, 'upgrade', '--json');
    expect(again).toMatchObject({ code: 0, json: [{ outcomes: [{ queue: null, outcome: 'already' }] }] });

    await native.admin.zadd('{emq}:queues', '1', 'mail');
    const back = await wire(native, 'downgrade', '--yes');
    expect(back.stderr).toMatch(/wire 6 clients are refused at once; the 1 job in flight there run/);
    expect(await native.admin.get(KEY)).toBe('echomq:4.0.0');
  });

  it('needs somebody who wants it: --yes, where nobody can be asked', async () => {
    await native.admin.set(KEY, 'echomq:4.0.0');
    for (const args of [['upgrade'], ['upgrade', '--json']]) {
      const said = await unmoved(native, ...args);
      expect(said.code).toBe(2);
      expect(said.stdout + said.stderr).toMatch(/--yes does it, --dry-run only tells/);
    }
  });

  it('back needs no module: it is the way out when that is lost', async () => {
    await plain.admin.set(KEY, 'echomq:6.0.0');
    expect(await wire(plain, 'downgrade', '--yes')).toMatchObject({ code: 0 });
    expect(await plain.admin.get(KEY)).toBe('echomq:4.0.0');
  });

  it('is of the database of the URL', async () => {
    await native.admin.set(KEY, 'echomq:4.0.0');
    const other = new Redis({ path: native.socket, db: 3 });
    await other.set(KEY, 'echomq:4.0.0');
    const { code } = await emq(['wire', 'upgrade', '--yes', '--url', `${native.url}/3`]);
    expect(code).toBe(0);
    expect([await native.admin.get(KEY), await other.get(KEY)]).toEqual(['echomq:4.0.0', 'echomq:6.0.0']);
    other.disconnect();
  });
});

describe('is refused, and nothing is written', () => {
  it.each([
    ['upgrade', null, /the node is unbranded: there is nothing to move; the first connector with wire: 6 brands it/],
    ['downgrade', null, /the node is unbranded: there is nothing to move; the first connector with wire: 4 brands it/],
    ['upgrade', 'echomq:5.0.0', /the node has the foreign brand "echomq:5.0.0", not echomq:4.0.0/],
    ['downgrade', 'echomq:4.0.0 ', /the node has the foreign brand "echomq:4.0.0 ", not echomq:6.0.0/],
  ])('%s of the brand %j', async (step, brand, text) => {
    if (brand !== null) await native.admin.set(KEY, brand);
    const said = await unmoved(native, step, '--yes');
    expect(said.code).toBe(4);
    expect(said.stderr).toMatch(text);
    expect((await unmoved(native, step, '--yes', '--json')).json).toMatchObject([
      { error: { code: 'EMQWIRE', exit: 4 } },
    ]);
  });

  it('an upgrade without the module', async () => {
    await plain.admin.set(KEY, 'echomq:4.0.0');
    const said = await unmoved(plain, 'upgrade', '--yes');
    expect(said.code).toBe(4);
    expect(said.stderr).toMatch(/needs the module on every primary: primary 127.0.0.1:\d+ has no module/);
  });

  it('an upgrade with a module that lacks a command', async () => {
    await using old = await TestServer.start('--loadmodule', await oldModule());
    await old.admin.set(KEY, 'echomq:4.0.0');
    const said = await unmoved(old, 'upgrade', '--yes');
    expect(said.code).toBe(4);
    expect(said.stderr).toMatch(/has an older module, without some of the commands/);
    await old.admin.set(KEY, 'echomq:6.0.0');
    expect((await unmoved(old)).stdout).toMatch(/the module is wanting, no connector gets past/);
  });

  it('a brand key that is no string', async () => {
    await native.admin.lpush(KEY, 'echomq:4.0.0');
    expect(await unmoved(native, 'upgrade', '--yes')).toMatchObject({ code: 1 });
  });

  it('a user without the rights', async () => {
    await native.admin.set(KEY, 'echomq:4.0.0');
    const connect = ['on', '>pw', '+get', `%R~${KEY}`, '+command|info', '+eval', '+hello'];
    await native.admin.call('ACL', 'SETUSER', 'ops', 'reset', ...connect);
    const url = `valkey://ops:pw@127.0.0.1:${native.port}`;
    const before = await snapshot(native.admin);
    const said = await emq(['wire', 'upgrade', '--yes', '--url', url]);
    expect(changedKeys(before, await snapshot(native.admin))).toEqual([]);
    expect(said.code).toBe(4);
    expect(said.stdout).toMatch(/not moved: "NOPERM/);
    expect(said.stderr).toMatch(/whether there are replicas, and have the module, cannot be told/);
  });

  it('an option that makes no sense, before anything is opened', async () => {
    const closed = 'valkey://127.0.0.1:1';
    for (const args of [['--yes'], ['--dry-run'], ['sideways'], ['upgrade', '--queue', 'a b']]) {
      expect((await emq(['wire', ...args, '--url', closed])).code).toBe(2);
    }
    expect((await emq(['wire', 'upgrade', '--yes', '--url', closed])).code).toBe(3);
    expect((await unmoved(native, 'upgrade', '--queue', 'mail')).stderr).toMatch(
      /is no cluster: its one brand is for all/,
    );
  });
});

describe('replicas', () => {
  it('one without the module is told, is refused itself, and the primary moves all the same', async () => {
    await native.admin.set(KEY, 'echomq:4.0.0');
    await using replica = await TestServer.start('--replicaof', `127.0.0.1 ${native.port}`);
    await expect.poll(() => replica.admin.get(KEY)).toBe('echomq:4.0.0');

    const refused = await unmoved(replica, 'upgrade', '--yes');
    expect(refused.code).toBe(4);
    expect(refused.stderr).toMatch(new RegExp(`is a replica: ask its primary, 127.0.0.1:${native.port}`));
    expect((await unmoved(replica, '--json')).json).toMatchObject([
      { nodes: [{ role: 'replica', module: 'missing' }] },
    ]);

    const said = await wire(native, 'upgrade', '--yes');
    expect(said.code).toBe(0);
    expect(said.stderr).toMatch(new RegExp(`replica 127.0.0.1:${replica.port} has no module: were it to become`));
    await expect.poll(() => replica.admin.get(KEY)).toBe('echomq:6.0.0');
  });

  it('one that cannot be asked is told as that', async () => {
    await native.admin.set(KEY, 'echomq:4.0.0');
    await using replica = await TestServer.start(...MODULE, '--replicaof', `127.0.0.1 ${native.port}`);
    await expect.poll(() => replica.admin.get(KEY)).toBe('echomq:4.0.0');
    await replica.admin.config('SET', 'requirepass', 'another');
    const { json } = await unmoved(native, 'upgrade', '--dry-run', '--json');
    expect(json[0].nodes).toMatchObject([{ module: 'loaded' }, { role: 'replica', module: 'unknown' }]);
    expect(json[0].nodes[1].why).toMatch(/wants a password/);
  });
});

it('of many who move at once, each step is made by one', async () => {
  await native.admin.set(KEY, BRANDS[4]);
  const ask = async (command: string, args: readonly (string | Buffer)[]) =>
    (await native.admin.callBuffer(command, [...args])) as Buffer;
  const found = await Promise.all(Array.from({ length: 50 }, () => moveBrand(ask, KEY, 4, 6)));
  expect(found.filter((brand) => brand === BRANDS[4])).toHaveLength(1);
  expect(found.filter((brand) => brand === BRANDS[6])).toHaveLength(49);
  await native.admin.del(KEY);
  expect(await moveBrand(ask, KEY, 4, 6)).toBeNull();
  expect(await native.admin.exists(KEY)).toBe(0);
});
