/**
 * Where calls go in a cluster: straight to the node of their queue, on both wires; nowhere with the keys of two queues; and
 * the list of queues, which has a slot of its own.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  Connector,
  encodeId,
  Jobs,
  Lanes,
  listQueues,
  Queue,
  transitions,
  type Arg,
  type ConnectorOptions,
} from '../../src/index.js';
import { announce, unregister } from '../../src/queue/registry.js';
import { bytesOf, snapshot } from '../../src/parity/keyspace-dump.js';
import { ask } from '../../src/parity/node.js';
import { evalFrame, executorOf } from '../../src/wire/executor.js';
import { errorOf } from '../conformance/stage.js';
import { cases } from '../parity/situations/index.js';
import { QUEUES } from '../parity/situations/controls.js';
import { Nodes, slotOf } from './nodes.js';

const CLAIMS = 1_000;
const LEASE = { leaseMs: 60_000 };
const BRANDS = { 4: 'echomq:4.0.0', 6: 'echomq:6.0.0' } as const;

let nodes: Nodes;
beforeAll(async () => {
  nodes = await Nodes.start({ replicas: false });
});
afterAll(() => nodes[Symbol.asyncDispose]());
beforeEach(() => nodes.empty());

function connect(wire: 4 | 6, options: ConnectorOptions = {}): Promise<Connector> {
  return Connector.connect({ cluster: { nodes: nodes.start }, wire, ...options });
}

/** All keys of all nodes, each where it is. */
const everyKey = () => Promise.all(nodes.primaries.map((admin) => snapshot(admin)));
/** How often a command ran on all nodes, since their start. */
async function ran(command: string): Promise<number> {
  const counts = nodes.primaries.map(async (admin) => {
    const found = new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(await admin.info('commandstats'));
    return Number(found?.[1] ?? 0);
  });
  return (await Promise.all(counts)).reduce((sum, n) => sum + n, 0);
}

describe.each([4, 6] as const)('wire %i', (wire) => {
  it(`${CLAIMS} claims on thirty queues, from a cold connector: 3 MOVED at most`, async () => {
    const names = Array.from({ length: 30 }, (_, i) => nodes.queueOn(i % 3, `straight${i}-`));
    const each = Math.ceil(CLAIMS / names.length);
    await using producer = await connect(wire);
    for (const name of names) {
      await new Jobs(producer, name).enqueueMany(Array.from({ length: each }, (_, payload) => ({ payload })));
    }
    const before = await nodes.said('MOVED');
    await using connector = await connect(wire);
    const queues = names.map((name) => new Jobs(connector, name));
    let claimed = 0;
    for (let i = 0; i < each; i++) {
      const jobs = await Promise.all(queues.map((queue) => queue.claim(LEASE)));
      claimed += jobs.filter((job) => job !== null).length;
    }
    expect(claimed).toBeGreaterThanOrEqual(CLAIMS);
    expect((await nodes.said('MOVED')) - before).toBeLessThanOrEqual(3);
  });

  it('consumers on all nodes, their names in the list, settles and lanes: no MOVED at all', async () => {
    const before = await nodes.said('MOVED');
    await using connector = await connect(wire);
    const names = [0, 1, 2].map((node) => nodes.queueOn(node, 'busy'));
    let done = 0;
    const consumers = names.map((name) => new Queue(connector, name).consume(() => void done++, { beatMs: 50 }));
    for (const name of names) {
      await new Jobs(connector, name).enqueueMany([1, 2, 3].map((payload) => ({ payload })));
      await new Lanes(connector, name).enqueue('TEN00000000001', 4);
    }
    await vi.waitUntil(() => done === 12, { timeout: 20_000, interval: 5 });
    await vi.waitUntil(async () => (await listQueues(connector, { scan: false })).length === 3);
    await Promise.all(consumers.map((consumer) => consumer.close()));
    expect(await nodes.said('MOVED')).toBe(before);
  });

  it('the keys of another queue are refused before the wire', async () => {
    await using connector = await connect(wire);
    const [here, there] = [nodes.queueOn(0), nodes.queueOn(1)].map((name) => new Jobs(connector, name)) as [Jobs, Jobs];
    await here.enqueue(1);
    await there.enqueue(1);
    const before = await everyKey();
    const own = transitions.claim.layout(here.keys, LEASE);
    const other = transitions.claim.layout(there.keys, LEASE);
    const mixed: (readonly Arg[])[] = own.keys.map((_, i) => own.keys.with(i, other.keys[i] ?? ''));
    for (const keys of [...mixed, other.keys, other.keys.map((key) => Buffer.from(key))]) {
      const call = { transition: transitions.claim, queue: here.queue, keys, args: own.args };
      const error = await errorOf(() => connector.run(call));
      expect(error).toMatchObject({ code: 'EMQ_INPUT' });
      expect(error.reason).toContain(`a call of claim about queue ${here.queue} has the key "emq:{${there.queue}}:`);
    }
    expect(await everyKey()).toEqual(before);
  });

  it('an unbranded queue is claimed once, whoever comes at the same time', async () => {
    const all = await Promise.all(([4, 6, 4, 6, 4, 6] as const).map((one) => connect(one)));
    const name = nodes.queueOn(2, `once${wire}-`);
    const order = wire === 4 ? all : all.toReversed();
    const answers = await Promise.allSettled(order.map((connector) => new Jobs(connector, name).enqueue(1)));
    const brand = await nodes.admin(2).get(`emq:{${name}}:version`);
    const winner = brand === BRANDS[4] ? 4 : 6;
    expect(brand).toBe(BRANDS[winner]);
    for (const [i, answer] of answers.entries()) {
      if (order[i]?.wire === winner) expect(answer.status).toBe('fulfilled');
      else expect(answer).toMatchObject({ status: 'rejected', reason: { code: 'EMQWIRE' } });
    }
    expect(await nodes.admin(2).zcard(`emq:{${name}}:pending`)).toBe(3);
    await Promise.all(all.map((connector) => connector.close()));
  });
});

describe('a client that sends the keys of two queues all the same', () => {
  const id = encodeId('JOB', 1n);
  const names = (queue: string) => ({
    ...{ b: `emq:{${queue}}:`, id, other: encodeId('JOB', 2n), group: 'PRT0KHTOWnGLu1' },
  });

  it.each([4, 6] as const)('wire %i, queues of two slots: CROSSSLOT, nothing written', async (wire) => {
    const [here, far] = [nodes.queueOn(0, 'two-a'), nodes.queueOn(0, 'two-b')];
    expect(slotOf(here)).not.toBe(slotOf(far));
    const admin = nodes.admin(0);
    let tried = 0;
    for (const [name, { situations }] of Object.entries(cases)) {
      const transition = Object.values(transitions).find((one) => one.name === name);
      const [own, other] = [situations(names(here))[0], situations(names(far))[0]];
      if (transition === undefined || own === undefined || other === undefined) throw new Error(`no case of ${name}`);
      if (own.keys.length < 2 || own.keys.includes(QUEUES)) continue;
      if (wire === 6 && !('native' in transition)) continue;
      tried += 1;
      const before = await everyKey();
      const keys = own.keys.with(-1, other.keys.at(-1) ?? '').map(bytesOf);
      const call = { transition, queue: here, keys, args: own.args.map(bytesOf) };
      const frame = wire === 6 ? executorOf(6)(call) : evalFrame(call);
      const answer = await ask(admin, [frame.command, ...frame.args]);
      expect([name, answer]).toMatchObject([name, { ok: false, text: expect.stringMatching(/^CROSSSLOT /) as string }]);
      expect(await everyKey()).toEqual(before);
    }
    expect(tried).toBeGreaterThan(wire === 6 ? 5 : 20);
  });

  it('queues of one slot: the module sees that they are two, nothing written', async () => {
    const here = nodes.queueOn(0, 'same');
    const twin = twinOf(here);
    const admin = nodes.admin(0);
    for (const queue of [here, twin]) await admin.set(`emq:{${queue}}:version`, BRANDS[6]);
    const before = await everyKey();
    for (const transition of Object.values(transitions).filter((one) => 'native' in one)) {
      const [own, other] = [here, twin].map((queue) => cases[transition.name]?.situations(names(queue))[0]);
      if (own === undefined || other === undefined) throw new Error(`no case of ${transition.name}`);
      for (const [i, key] of other.keys.entries()) {
        const call = { transition, queue: here, keys: own.keys.with(i, key).map(bytesOf), args: own.args.map(bytesOf) };
        const frame = executorOf(6)(call);
        const answer = await ask(admin, [frame.command, ...frame.args]);
        expect(answer).toEqual({ ok: false, text: 'ERR keys do not belong to one queue' });
      }
    }
    expect(await everyKey()).toEqual(before);
  });
});

describe('the list of queues', () => {
  it('is written and read where its slot is, by one call each', async () => {
    await using connector = await connect(4);
    const names = [0, 1, 2].map((node) => nodes.queueOn(node, 'named'));
    for (const name of names) await new Jobs(connector, name).counts();
    const moved = await nodes.said('MOVED');
    for (const name of names) await announce(connector, name);
    const reads = await ran('zrange');
    expect(await listQueues(connector, { scan: false })).toEqual([...names].sort());
    expect((await ran('zrange')) - reads).toBe(1);
    await unregister(connector, names[0] ?? '');
    expect(await listQueues(connector, { scan: false })).toEqual(names.slice(1).sort());
    expect(await nodes.said('MOVED')).toBe(moved);
    const owner = nodes.admin(await nodes.ownerOf(slotOf('emq')));
    expect(await owner.zcard('{emq}:queues')).toBe(2);
    // those that nobody has named are found by their keys
    expect(await listQueues(connector)).toEqual([...names].sort());
  });
});

/** Another queue in the slot of that one. */
function twinOf(queue: string): string {
  const slot = slotOf(queue);
  for (let n = 0; ; n++) if (slotOf(`twin${n}`) === slot) return `twin${n}`;
}
