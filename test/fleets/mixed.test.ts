/**
 * Clients of both wires on one node: who is refused, when, and with what trace; and jobs that the one claims and the other
 * settles, sweeps or takes back, as happens while a node is moved from wire 4 to wire 6.
 */
import { once } from 'node:events';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { defaultModulePath } from '../../src/dev/index.js';
import { Connector, Jobs, Lanes, type ConnectorOptions, type EmqError } from '../../src/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { errorOf, MINUTE, type Wire } from '../conformance/stage.js';
import { TestServer } from '../wire/server.js';
import { emq } from './command.js';
import { oldModule } from './old-module.js';

const KEY = '{emq}:version';
const [GROUP, OTHER_GROUP] = ['TEN00000000001', 'TEN00000000002'];
const step = (to: Wire) => (to === 6 ? 'upgrade' : 'downgrade');

let server: TestServer;
let runId: string;
beforeAll(async () => {
  server = await TestServer.start('--loadmodule', defaultModulePath());
  runId = /run_id:(\w+)/.exec(await server.admin.info('server'))?.[1] ?? '';
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  await server.admin.flushall();
});

const connect = (wire: Wire, options: ConnectorOptions = {}) =>
  Connector.connect({ url: server.url, wire, reconnectMinMs: 5, reconnectMaxMs: 20, ...options });

async function move(to: Wire): Promise<void> {
  const said = await emq(['wire', step(to), '--yes', '--url', server.url]);
  expect(said).toMatchObject({ code: 0, stderr: expect.stringMatching(/^moves /) as string });
}

/** The error of a call that is to be refused by the fence; fails if any key changed. */
async function outlawed(act: () => unknown): Promise<EmqError> {
  const before = await snapshot(server.admin);
  const error = await errorOf(act);
  expect(error.code).toBe('EMQWIRE');
  expect(changedKeys(before, await snapshot(server.admin))).toEqual([]);
  return error;
}

describe.each([
  [4, 6],
  [6, 4],
] as const)('a wire %i client on a node of wire %i', (wire, owner) => {
  it('is refused at connect, told what to do, and leaves no trace', async () => {
    await using mine = await connect(owner);
    await new Jobs(mine, 'mail').enqueue('x');
    for (const claim of [true, false]) {
      const { reason } = await outlawed(() => connect(wire, { claim }));
      expect(reason).toBe(
        `EMQWIRE node is echomq:${owner}.0.0, needs echomq:${wire}.0.0: connect with wire: ${owner}, or move it (emq wire ${step(wire)})`,
      );
    }
  });

  it('is refused at a reconnect, and so is every call until the brand is back', async () => {
    await using connector = await connect(wire);
    const jobs = new Jobs(connector, 'mail');
    await jobs.enqueue('x');
    await server.admin.set(KEY, `echomq:${owner}.0.0`);
    const refused = once(connector, 'refused');
    await server.killClients();
    await refused;
    for (const act of [() => jobs.enqueue('y'), () => jobs.claim({ leaseMs: MINUTE }), () => jobs.counts()]) {
      await outlawed(act);
    }
    const up = once(connector, 'connected');
    await move(wire);
    await up;
    expect(await jobs.claim({ leaseMs: MINUTE })).toMatchObject({ payload: 'x' });
  });
});

it('connected when the node moves to wire 6, a wire 4 client works on until it reconnects', async () => {
  await using four = await connect(4);
  const jobs = new Jobs<string>(four, 'mail');
  await jobs.enqueue('before');
  await move(6);
  await jobs.enqueue('after');
  const job = await jobs.claim({ leaseMs: MINUTE });
  expect(await jobs.complete(job ?? { id: '', token: 0 })).toBe('completed');
  // what it opens from now on is refused: a wait for work, a subscription
  const signal = new AbortController().signal;
  expect((await errorOf(() => four.openDedicated(signal))).code).toBe('EMQWIRE');
  await outlawed(() => connect(4));
});

it('connected when the node moves to wire 4, a wire 6 client is refused at its first native call, and comes back', async () => {
  await using six = await connect(6);
  const jobs = new Jobs<string>(six, 'mail');
  await jobs.enqueue('x');
  await jobs.enqueue('y');
  const job = await jobs.claim({ leaseMs: MINUTE });
  if (job === null) throw new Error('nothing was claimed');
  await move(4);
  // scripts are not asked for a brand: adding goes on until the first native call
  await jobs.enqueue('z');
  await outlawed(() => jobs.complete(job));
  await expect.poll(() => six.stats().state).toBe('refused');
  await outlawed(() => jobs.enqueue('w'));
  await outlawed(() => jobs.claim({ leaseMs: MINUTE }));
  const up = once(six, 'connected');
  await move(6);
  await up;
  expect(await jobs.complete(job)).toBe('completed');
  expect(await jobs.counts()).toMatchObject({ pending: 2, active: 0, completed: 1 });
});

it('a wire 6 client does not start on a module that lacks a command it needs, and brands nothing', async () => {
  await using old = await TestServer.start('--loadmodule', await oldModule());
  const error = await errorOf(() => Connector.connect({ url: old.url, wire: 6 }));
  expect(error.code).toBe('EMQWIRE');
  expect(error.reason).toMatch(
    /^EMQWIRE the module trafikey on the server is older than this client \(no EMQ.CLAIM.BATCH, EMQ.TAKE, EMQ.TAKE.BATCH, EMQ.RELEASE\).*emq build-module/,
  );
  expect(await old.admin.dbsize()).toBe(0);
  await using four = await Connector.connect({ url: old.url, wire: 4 });
  expect(await new Jobs(four, 'mail').enqueue('x')).toMatchObject({ outcome: 'enqueued' });
});

describe.each([
  [4, 6],
  [6, 4],
] as const)('a job that wire %i claimed', (claimer, settler) => {
  let by: Record<Wire, Connector>;
  beforeEach(async () => {
    // the wire 4 client is connected before the move, as in a rolling upgrade
    const four = await connect(4);
    await move(6);
    by = { 4: four, 6: await connect(6) };
  });
  const done = async () => {
    await by[4].close();
    await by[6].close();
  };

  const jobsOf = (wire: Wire) => new Jobs<string>(by[wire], 'mail');
  const epochOf = (id: string) => server.admin.hget(`emq:{mail}:job:${id}`, 'lease_epoch');

  /** A claimed job, flat or of a lane with one more that waits. */
  async function claimed(lane: string | undefined) {
    const [lanes, jobs] = [new Lanes(by[claimer], 'mail'), jobsOf(claimer)];
    if (lane === undefined) await jobs.enqueue('x');
    else for (const payload of ['x', 'y']) await lanes.enqueue(lane, payload);
    const [job] = await jobs.take({ leaseMs: MINUTE, count: 1 });
    if (job === undefined) throw new Error('nothing was claimed');
    expect(await epochOf(job.id)).toBe(claimer === 6 ? runId : null);
    return job;
  }

  it.each([undefined, GROUP])(`is settled by wire ${settler} in every way, lane %s`, async (lane) => {
    const jobs = jobsOf(settler);
    const gactive = () => server.admin.hget('emq:{mail}:gactive', lane ?? OTHER_GROUP);
    const settles = [
      async (job: { id: string; token: number }) => expect(await jobs.complete(job)).toBe('completed'),
      async (job: { id: string; token: number }) =>
        expect(await jobs.fail(job, { delayMs: MINUTE, maxAttempts: 9, error: 'no' })).toBe('scheduled'),
      async (job: { id: string; token: number }) =>
        expect(await jobs.fail(job, { delayMs: 0, maxAttempts: 1, error: 'no' })).toBe('dead'),
      async (job: { id: string; token: number }) => expect(await jobs.delay(job, { inMs: MINUTE })).toBeDefined(),
      async (job: { id: string; token: number }) => expect(await jobs.release(job)).toBeDefined(),
    ];
    for (const settle of settles) {
      await server.admin.flushall();
      await server.admin.set(KEY, 'echomq:6.0.0');
      const job = await claimed(lane);
      await jobs.extend(job, { leaseMs: 2 * MINUTE });
      await settle(job);
      expect(await server.admin.zcard('emq:{mail}:active')).toBe(0);
      expect(await gactive()).toBeNull();
    }
    await done();
  });

  it(`is swept by wire ${settler}, and counted as one stall on either`, async () => {
    const job = await claimed(GROUP);
    await server.admin.zadd('emq:{mail}:active', 'XX', 1, job.id);
    const swept = await jobsOf(settler).stalledCheck({ maxStalled: 3, limit: 10 });
    expect(swept).toMatchObject({ recovered: [job.id], dead: [] });
    expect(await server.admin.hget(`emq:{mail}:job:${job.id}`, 'stalled')).toBe('1');
    // and claimed anew by the other, which says whose lease it is now
    const [again] = await jobsOf(settler).take({ leaseMs: MINUTE, count: 1 });
    expect(again).toMatchObject({ id: job.id, token: job.token + 1 });
    expect(await epochOf(job.id)).toBe(settler === 6 ? runId : null);
    await expect(jobsOf(claimer).complete(job)).rejects.toMatchObject({ code: 'EMQSTALE' });
    expect(await jobsOf(claimer).complete(again ?? job)).toBe('completed');
    await done();
  });
});

describe('leases of another life of the server', () => {
  it.each([4, 6] as const)('a job that wire 6 claimed before a restart, swept by wire %i', async (sweeper) => {
    await using node = await TestServer.start('--loadmodule', defaultModulePath(), '--appendonly', 'yes');
    const four = await Connector.connect({ url: node.url, wire: 4 });
    await node.admin.set(KEY, 'echomq:6.0.0');
    const six = await Connector.connect({ url: node.url, wire: 6 });
    const by = { 4: four, 6: six };
    const { id } = await new Jobs(six, 'mail').enqueue('x');
    await new Jobs(six, 'mail').claim({ leaseMs: MINUTE });
    // another run_id, as after a restart: the sweep looks at nothing else
    await node.admin.hset(`emq:{mail}:job:${id}`, 'lease_epoch', 'f'.repeat(40));
    await node.admin.zadd('emq:{mail}:active', 'XX', 1, id);
    const swept = await new Jobs(by[sweeper], 'mail').stalledCheck({ maxStalled: 1, limit: 10 });
    // only the native sweep knows that the worker was not to blame
    expect(swept).toMatchObject(sweeper === 6 ? { recovered: [id], dead: [] } : { recovered: [], dead: [id] });
    await four.close();
    await six.close();
  });
});
