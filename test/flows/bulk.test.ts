/**
 * Many flows at once: one result for each, in their order, in few writes.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EmqError, Flows, mint, type Call, type Flow, type Wire } from '../../src/index.js';
import { EXECUTORS, ORDER, Stage } from '../conformance/stage.js';
import { chain, claimAll, FlowScene } from './support.js';

describe.each(EXECUTORS)('addBulk on %s', (_executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  it('gives each flow its ids and its outcome, in order, whatever way it lands', async () => {
    const scene = new FlowScene(stage, 'bulk');
    const own = { payload: 'own', id: mint(), children: [{ payload: 1, id: mint() }] };
    const taken = mint();
    await scene.jobs.enqueue('taken', { id: taken });
    const prepared = await scene.flows.prepare(chain(3));
    const flows = [
      chain(2),
      own,
      { payload: 'over queues', children: [{ payload: 1, queue: scene.name('b') }, { payload: 2 }] },
      own,
      { payload: 'kind', children: [{ payload: 1, id: ORDER }] },
      prepared,
      { payload: 'taken', children: [{ payload: 1 }, { payload: 2, id: taken }] },
      { payload: 'large', children: Array.from({ length: 501 }, (_, payload) => ({ payload })) },
      chain(4),
      prepared,
    ];
    const results = await scene.flows.addBulk(flows);
    expect(results.map((one) => (one.outcome === 'failed' ? one.error.code : one.outcome))).toEqual([
      ...['added', 'added', 'added', 'duplicate', 'EMQKIND', 'added', 'EMQSTATE', 'added', 'added', 'duplicate'],
    ]);
    expect(results[1]).toEqual({ id: own.id, children: [{ id: own.children[0]?.id, children: [] }], outcome: 'added' });
    expect(results[3]).toMatchObject({ id: own.id });
    expect([results[5]?.id, results[9]?.id]).toEqual([prepared.id, prepared.id]);
    for (const [i, result] of results.entries()) {
      const there = result.outcome === 'failed' ? 'absent' : 'awaiting_children';
      expect(await scene.jobs.state(result.id), String(i)).toBe(there);
    }
    // leaves: 1 + 1 + 1 here, the chains' ends, 501, and the one that was there
    expect((await claimAll(scene.jobs)).size).toBe(1 + 1 + 1 + 1 + 501 + 1 + 1);
    expect((await claimAll(scene.at('b'))).size).toBe(1);
  });

  it('sends small flows many in one write', async () => {
    const scene = new FlowScene(stage, 'bulk');
    let writes = 0;
    const counting: Wire = {
      run: (call) => {
        writes += 1;
        return stage.connector.run(call);
      },
      runAll: (calls) => {
        writes += 1;
        return stage.connector.runAll(calls);
      },
    };
    const results = await new Flows(counting, scene.queue).addBulk(Array.from({ length: 400 }, () => chain(3)));
    expect(results.every(({ outcome }) => outcome === 'added')).toBe(true);
    expect(writes).toBeLessThanOrEqual(20);
    expect(await scene.jobs.counts(['pending', 'awaiting_children'])).toEqual({ pending: 400, awaiting_children: 800 });
  });

  it('one whose reply was lost is reported as such, and the others land', async () => {
    const scene = new FlowScene(stage, 'bulk');
    const lost = new EmqError('EMQ_UNKNOWN_OUTCOME', 'no reply');
    const ids = [mint(), mint(), mint()];
    const losing: Wire = {
      run: (call: Call) => stage.connector.run(call),
      runAll: async (calls) => {
        const outcomes = await stage.connector.runAll(calls);
        return outcomes.map((outcome, i) => (i === 1 ? { ok: false, error: lost } : outcome));
      },
    };
    const flows = ids.map((id): Flow => ({ payload: 1, id, children: [{ payload: 2 }] }));
    const results = await new Flows(losing, scene.queue).addBulk(flows);
    expect(results.map(({ id, outcome }) => [id, outcome])).toEqual([
      [ids[0], 'added'],
      [ids[1], 'failed'],
      [ids[2], 'added'],
    ]);
    expect(results[1]).toMatchObject({ error: { code: 'EMQ_UNKNOWN_OUTCOME' } });
    // with ids of its own it can be added again, which says that it was there
    expect(await scene.jobs.state(ids[1] as string)).toBe('awaiting_children');
  });

  it('takes other ids where those it minted are taken', async () => {
    const scene = new FlowScene(stage, 'bulk');
    let first = true;
    const crowded: Wire = {
      run: (call: Call) => stage.connector.run(call),
      runAll: async (calls) => {
        if (first) await scene.jobs.enqueue('there', { id: String(calls[0]?.args[1]) });
        first = false;
        return stage.connector.runAll(calls);
      },
    };
    const [one, two] = await new Flows(crowded, scene.queue).addBulk([chain(2), chain(2)]);
    expect([one?.outcome, two?.outcome]).toEqual(['added', 'added']);
    expect(await scene.jobs.counts(['awaiting_children'])).toEqual({ awaiting_children: 2 });
    expect((await claimAll(scene.jobs)).size).toBe(3);
  });
});
