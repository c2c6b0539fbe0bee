/**
 * `Admin.obliterate`: a queue with everything in it goes, in steps; cut short at any of them it goes on; what flow parents
 * elsewhere have to hear is delivered first.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Admin, EmqError, Flows, Lanes, listQueues, mint, Repeats, type Jobs, type Wire } from '../../../src/index.js';
import { announce } from '../../../src/queue/registry.js';
import { errorOf, EXECUTORS, MINUTE, Stage } from '../../conformance/stage.js';

const LEASE = { leaseMs: MINUTE };
const DEATH = { delayMs: 0, maxAttempts: 1, error: 'broken' };

describe.each(EXECUTORS)('obliterate on %s', (_executor, wire) => {
  let stage: Stage;
  let jobs: Jobs<unknown>;
  let admin: Admin;
  let count = 0;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  beforeEach(() => {
    jobs = stage.jobs(`obliterate.${(count += 1)}`);
    admin = new Admin(stage.connector, jobs.queue);
  });
  afterEach(async () => {
    const keys = (await stage.raw.keys('*')).filter((key) => key !== '{emq}:version');
    if (keys.length > 0) await stage.raw.del(...keys);
  });

  const keysLeft = () => stage.raw.keys(`${jobs.keys.base}*`);

  /** One of everything, and more than a step of some. */
  async function furnish(): Promise<void> {
    const lanes = new Lanes(stage.connector, jobs);
    await jobs.enqueueMany(Array.from({ length: 120 }, (_, payload) => ({ payload })));
    for (const job of await jobs.claimBatch({ ...LEASE, size: 3 })) await jobs.fail(job, DEATH);
    await jobs.complete((await jobs.claim(LEASE)) ?? { id: '', token: 0 });
    await jobs.enqueue(1, { dedup: { id: 'd', ttlMs: MINUTE } });
    const { id } = await jobs.schedule(1, { inMs: MINUTE });
    await jobs.addLog(id, 'line');
    const [a, b, c] = [mint('TEN'), mint('TEN'), mint('TEN')];
    await lanes.enqueueMany(Array.from({ length: 130 }, () => ({ group: a, payload: 1 })));
    await lanes.enqueue(b, 1);
    await lanes.pause(b);
    await lanes.setRate(c, { max: 1, durationMs: 10 * MINUTE });
    await lanes.enqueueMany([{ group: c, payload: 1 }, { group: c, payload: 2 }]); // prettier-ignore
    await jobs.take({ ...LEASE, count: 3, source: 'lanes' });
    await lanes.setLimit(mint('TEN'), 3);
    await lanes.setWeight('*', 2);
    await admin.setLimits({ concurrency: 500, rate: { max: 500, durationMs: MINUTE } });
    await jobs.claim(LEASE);
    await new Flows(stage.connector, jobs).add({ payload: 'p', children: [{ payload: 1 }, { payload: 2 }] });
    await new Repeats(stage.connector, jobs.queue).upsert('nightly', { everyMs: MINUTE }, { payload: 1 });
    await admin.metrics();
    await stage.raw.hincrby(`${jobs.keys.base}metrics:rolled`, 'minute', -2);
    await admin.metrics();
    await jobs.setRecovery('reap');
    await announce(stage.connector, jobs.queue);
  }

  it('nothing is left of a queue, its name in the registry included; others stay', async () => {
    const other = stage.jobs('neighbour');
    const { id } = await other.enqueue(1);
    await announce(stage.connector, 'neighbour');
    await furnish();
    await admin.pause();
    const { steps } = await admin.obliterate({ force: true });
    expect(steps).toBeGreaterThan(3);
    expect(await keysLeft()).toEqual([]);
    expect(await listQueues(stage.connector)).toEqual(['neighbour']);
    expect(await other.state(id)).toBe('pending');
    // a queue that is used again is there again, and not paused
    await jobs.enqueue(1);
    expect(await jobs.claim(LEASE)).not.toBeNull();
  });

  it('refuses a queue that is not paused, or has jobs in flight; nothing changes', async () => {
    await jobs.enqueue(1);
    const running = await stage.refused('EMQSTATE', () => admin.obliterate());
    expect(running.reason).toMatch(/^EMQSTATE not paused: .*pause the queue first/);
    const job = await jobs.claim(LEASE);
    await admin.pause();
    const active = await stage.refused('EMQSTATE', () => admin.obliterate());
    expect(active.reason).toMatch(/^EMQSTATE active jobs present: .* give force/);
    await jobs.complete(job ?? { id: '', token: 0 });
    await admin.obliterate();
    expect(await keysLeft()).toEqual([]);
  });

  it('cut short at any step, before or after it was done, it goes on where it was', async () => {
    let cuts = 0;
    for (let at = 1, over = false; !over; at += 1) {
      for (const lost of [false, true]) {
        await furnish();
        await admin.pause();
        const cut = new Admin(breaking(stage.connector, at, lost), jobs.queue);
        try {
          await cut.obliterate({ force: true });
          over = true;
        } catch (error) {
          expect(error).toMatchObject({ code: 'EMQ_CONNECTION' });
          cuts += 1;
        }
        // the last step took the pause with it, and there is nothing to go on with
        if ((await keysLeft()).length > 0) await admin.obliterate({ force: true });
        expect(await keysLeft()).toEqual([]);
      }
    }
    expect(cuts).toBeGreaterThan(8);
  });

  it('tells flow parents elsewhere before the outbox goes', async () => {
    const above = stage.jobs(`${jobs.queue}.parents`);
    const flow = await new Flows(stage.connector, above).add({
      payload: 'parent',
      children: Array.from({ length: 150 }, (_, payload) => ({
        queue: jobs.queue,
        payload,
        onFailure: 'ignore' as const,
      })),
    });
    await admin.pause();
    expect(await admin.obliterate()).toMatchObject({ delivered: 150 });
    expect(await keysLeft()).toEqual([]);
    expect(await above.claim(LEASE)).toMatchObject({ id: flow.id });
  });

  it('looks again when somebody else touched the outbox meanwhile', async () => {
    const above = stage.jobs(`${jobs.queue}.parents`);
    const flow = await new Flows(stage.connector, above).add({
      payload: 'parent',
      children: [{ queue: jobs.queue, payload: 1, onFailure: 'ignore' }],
    });
    await admin.pause();
    let reads = 0;
    const { connector } = stage;
    const shared: Wire = {
      run: async (call) => {
        const reply = await connector.run(call);
        if (call.transition.name === 'flow_letters' && (reads += 1) === 1) {
          await stage.raw.hincrby(jobs.keys.meta, 'letters', 1);
        }
        return reply;
      },
      runAll: (calls) => connector.runAll(calls),
    };
    expect(await new Admin(shared, jobs.queue).obliterate()).toMatchObject({ delivered: 1 });
    expect(reads).toBe(2);
    expect(await above.claim(LEASE)).toMatchObject({ id: flow.id });
  });

  it('with force too, as far as they can be told', async () => {
    const above = stage.jobs(`${jobs.queue}.parents`);
    const flow = await new Flows(stage.connector, above).add({
      payload: 'parent',
      children: [{ queue: jobs.queue, payload: 1, onFailure: 'ignore' }],
    });
    await jobs.claim(LEASE);
    await admin.pause();
    expect(await admin.obliterate({ force: true })).toMatchObject({ delivered: 1 });
    expect(await above.claim(LEASE)).toMatchObject({ id: flow.id });
  });

  it('letters that cannot be delivered stay, and the queue with them, unless it is forced', async () => {
    const above = stage.jobs(`${jobs.queue}.parents`);
    await new Flows(stage.connector, above).add({ payload: 'p', children: [{ queue: jobs.queue, payload: 1 }] });
    await admin.pause();
    // whoever obliterates may not write the parents' queue
    const user = `a${count}`;
    await stage.raw.call('ACL', 'SETUSER', user, 'on', '>pw', '+@all', `~${jobs.keys.base}*`, '%R~{emq}:version', '&*');
    const connector = await stage.connect({ redis: { path: stage.server.socketPath, username: user, password: 'pw' } });
    const few = new Admin(connector, jobs.queue);
    const error = await errorOf(() => few.obliterate());
    expect(error.code).toBe('EMQSTATE');
    expect(error.reason).toMatch(/^EMQSTATE 2 letters .* cannot be delivered \(NOPERM .* give force/);
    expect(await stage.raw.llen(jobs.keys.outbox)).toBe(2);
    expect((await admin.stats()).paused).toBe(true);
    expect(await few.obliterate({ force: true })).toMatchObject({ delivered: 0 });
    expect(await keysLeft()).toEqual([]);
    await stage.raw.call('ACL', 'DELUSER', user);
  });
});

/** A wire that breaks at one obliterate: before it is sent, or so that its reply is lost. */
function breaking(wire: Wire, at: number, lost: boolean): Wire {
  let calls = 0;
  return {
    run: async (call) => {
      if (call.transition.name !== 'obliterate') return wire.run(call);
      calls += 1;
      if (calls === at && !lost) throw new EmqError('EMQ_CONNECTION', 'cut');
      const reply = await wire.run(call);
      if (calls === at) throw new EmqError('EMQ_CONNECTION', 'cut');
      return reply;
    },
    runAll: (calls_) => wire.runAll(calls_),
  };
}
