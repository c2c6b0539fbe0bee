/**
 * How flows land: whole, in steps, again after a crash at any of them, and not at all where they are refused.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  EmqError,
  Flows,
  mint,
  type Call,
  type Flow,
  type FlowIds,
  type PlannedJob,
  type PreparedFlow,
  type Wire,
} from '../../src/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { EXECUTORS, ORDER, Stage } from '../conformance/stage.js';
import { chain, claimAll, DyingWire, FlowScene, idsDown } from './support.js';

/** What becomes of what has landed before the flow is added again. */
type Meanwhile = 'nothing runs' | 'all runs' | 'all runs and is delivered';

function all(job: PlannedJob): PlannedJob[] {
  return [job, ...job.children.flatMap(all)];
}

/** A tree over three queues, with leaves and nodes in the parent's own and in others at each level. */
function tree({ queue }: FlowScene): Flow {
  const leaf = (word = '') => ({ payload: 1, queue: word === '' ? queue : `${queue}.${word}` });
  const node = (word: string, ...children: (typeof leaf extends () => infer R ? R : never)[]) => ({
    ...leaf(word),
    children,
  });
  return {
    payload: 'root',
    children: [leaf(), leaf('b'), leaf('b'), node('b', leaf('c'), leaf('b'), leaf()), node('', leaf('c'), leaf())],
  };
}

/** Every job of the flow, once, as `run` counts. */
const onceEach = (flow: PreparedFlow): [string, number][] =>
  all(flow.root)
    .map(({ id }): [string, number] => [id, 1])
    .sort();

/** Many scenes at once, which are on queues of their own. */
async function everyStep(steps: number, play: (at: number, when: 'before' | 'after') => Promise<void>): Promise<void> {
  const places = Array.from({ length: steps }, (_, at) => at);
  await Promise.all(places.flatMap((at) => [play(at, 'before'), play(at, 'after')]));
}

/** Runs all that can be run, and counts the runs. */
async function run(scene: FlowScene, runs: Map<string, number>, deliver: boolean): Promise<void> {
  for (let moved = true; moved;) {
    moved = false;
    for (const word of ['', 'b', 'c']) {
      const jobs = scene.at(word);
      for (const job of (await claimAll(jobs)).values()) {
        moved = true;
        runs.set(job.id, (runs.get(job.id) ?? 0) + 1);
        expect(await jobs.complete(job, { result: job.id })).toBe('completed');
      }
    }
    if (!deliver) continue;
    for (const word of ['', 'b', 'c']) {
      const { delivered, errors, poison } = await scene.deliver(word);
      expect([errors, poison]).toEqual([[], []]);
      moved ||= delivered > 0;
    }
  }
}

describe.each(EXECUTORS)('landing on %s', (_executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  // the next test looks at all keys
  afterEach(async () => {
    const keys = await stage.raw.keys('emq:*');
    if (keys.length > 0) await stage.raw.unlink(...keys);
  });

  /** Counts the steps of a landing that nothing disturbs. */
  async function steps(make: (scene: FlowScene) => Flow): Promise<string[]> {
    const scene = new FlowScene(stage, 'whole');
    const counting = new DyingWire(stage.connector, -1, 'before');
    const flows = new Flows(counting, scene.queue);
    expect(await flows.add(await flows.prepare(make(scene)))).toMatchObject({ outcome: 'added' });
    return counting.names;
  }

  async function crash(scene: FlowScene, flow: PreparedFlow, at: number, when: 'before' | 'after'): Promise<void> {
    const dying = new DyingWire(stage.connector, at, when);
    await expect(new Flows(dying, scene.queue).add(flow)).rejects.toMatchObject({ code: 'EMQ_CLOSED' });
    expect(dying.calls).toBe(when === 'before' ? at : at + 1);
  }

  it.each<[string, (scene: FlowScene) => Flow]>([
    ['of one queue', () => ({ payload: 'p', priority: 3, opts: { a: 1 }, children: [{ payload: 1 }, { payload: 2 }] })],
    ['of one queue, eight levels', () => chain(8)],
    ['over three queues', tree],
    ['over three queues, eight levels', (scene) => chain(8, [scene.queue, scene.name('b'), scene.name('c')])],
    ['of 600 children', () => ({ payload: 1, children: Array.from({ length: 600 }, (_, i) => ({ payload: i })) })],
  ])('a flow %s that is added again is a duplicate, and not one key changes', async (_what, make) => {
    const scene = new FlowScene(stage, 'again');
    const flow = await scene.flows.prepare(make(scene));
    const added = await scene.flows.add(flow);
    expect(added.outcome).toBe('added');
    expect(await stage.unchanged(() => scene.flows.add(flow))).toEqual({ ...added, outcome: 'duplicate' });
    expect(await stage.unchanged(() => scene.flows.addBulk([flow]))).toEqual([{ ...added, outcome: 'duplicate' }]);
    // nor while its children run, and when some are done
    const [word, first] = await firstLeaf(scene, added);
    const jobs = scene.at(word);
    await scene.take(first, jobs);
    expect(await stage.unchanged(() => scene.flows.add(flow))).toMatchObject({ outcome: 'duplicate' });
    await scene.done(first, 'done', jobs);
    expect(await stage.unchanged(() => scene.flows.add(flow))).toMatchObject({ outcome: 'duplicate' });
    await scene.deliverAll('b', 'c');
    expect(await stage.unchanged(() => scene.flows.add(flow))).toMatchObject({ outcome: 'duplicate' });
  });

  it('a flow of eight levels lands: the last can be claimed, all above are held', async () => {
    for (const queues of [[], ['', 'b', 'c']]) {
      const scene = new FlowScene(stage, 'deep');
      const words = queues.length === 0 ? [''] : queues;
      const names = queues.map((word) => (word === '' ? scene.queue : scene.name(word)));
      const ids = idsDown(await scene.flows.add(chain(8, names)));
      expect(ids).toHaveLength(8);
      for (const [level, id] of ids.entries()) {
        const jobs = scene.at(words[level % words.length]);
        expect(await jobs.state(id)).toBe(level === 7 ? 'pending' : 'awaiting_children');
      }
    }
  });

  it('a flow of one queue is one step', async () => {
    expect(await steps(() => chain(8))).toEqual(['enqueue_flow']);
    const wide = { payload: 1, children: Array.from({ length: 500 }, (_, i) => ({ payload: i })) };
    expect(await steps(() => wide)).toEqual(['enqueue_flow']);
    const wider = { payload: 1, children: Array.from({ length: 501 }, (_, i) => ({ payload: i })) };
    const names = await steps(() => wider);
    expect(new Set(names)).toEqual(new Set(['state', 'flow_hold', 'flow_list', 'flow_land']));
  });

  it('a crash at any step of one step leaves all or nothing, and the flow can be added again', async () => {
    for (const when of ['before', 'after'] as const) {
      const scene = new FlowScene(stage, 'one');
      const flow = await scene.flows.prepare(chain(3));
      await crash(scene, flow, 0, when);
      expect(await scene.remains()).toHaveLength(when === 'before' ? 0 : 9);
      const { outcome } = await scene.flows.add(flow);
      expect(outcome).toBe(when === 'before' ? 'added' : 'duplicate');
      const runs = new Map<string, number>();
      await run(scene, runs, false);
      expect([...runs.values()]).toEqual([1, 1, 1]);
    }
  });

  it.each<Meanwhile>(['nothing runs', 'all runs', 'all runs and is delivered'])(
    'a crash at any step, after which %s, and the flow is added again: each job runs once',
    async (meanwhile) => {
      const { length } = await steps(tree);
      expect(length).toBeGreaterThan(15);
      await everyStep(length, async (at, when) => {
        const scene = new FlowScene(stage, 'crash');
        const flow = await scene.flows.prepare(tree(scene));
        await crash(scene, flow, at, when);
        const runs = new Map<string, number>();
        if (meanwhile !== 'nothing runs') await run(scene, runs, meanwhile === 'all runs and is delivered');
        // the root waits for what has not landed; a flow that is over already runs once more, and marks that were left of
        // its first life keep no child out of the second
        if (runs.has(flow.id)) {
          expect([...runs].sort(), `${when} step ${at}`).toEqual(onceEach(flow));
          runs.clear();
        }
        const { outcome } = await scene.flows.add(flow);
        if (at < length - 3) expect(outcome, `${when} step ${at}`).toBe('added');
        await run(scene, runs, true);
        expect([...runs].sort(), `${when} step ${at}`).toEqual(onceEach(flow));
        expect(await scene.remains(), `${when} step ${at}`).toEqual([]);
      });
    },
  );

  it('lands what is missing and nothing else: what is there keeps every byte', async () => {
    const { length } = await steps(tree);
    await everyStep(length, async (at, when) => {
      const scene = new FlowScene(stage, 'keeps');
      const flow = await scene.flows.prepare(tree(scene));
      await crash(scene, flow, at, when);
      const rows = async (): Promise<Map<string, Record<string, string>>> => {
        const found = new Map<string, Record<string, string>>();
        for (const key of await stage.raw.keys(`emq:{${scene.queue}*:job:??????????????`)) {
          const { landing: _count, ...row } = await stage.raw.hgetall(key);
          found.set(key, row);
        }
        return found;
      };
      const before = await rows();
      await scene.flows.add(flow);
      const now = await rows();
      expect(now.size).toBe(all(flow.root).length);
      for (const [key, row] of before) expect(now.get(key)).toEqual(row);
    });
  });

  it('a step whose reply was lost is made again, and what ran meanwhile does not run again', async () => {
    const names = await steps(tree);
    await everyStep(names.length, async (at, when) => {
      const scene = new FlowScene(stage, 'lost');
      const runs = new Map<string, number>();
      let calls = 0;
      // As a connector does: what may be repeated is sent again, of the rest the outcome is unknown.
      const losing: Wire = {
        run: async (call: Call) => {
          if (calls++ !== at) return stage.connector.run(call);
          if (when === 'after') await stage.connector.run(call);
          await run(scene, runs, true);
          if (!call.transition.repeatable) throw new EmqError('EMQ_UNKNOWN_OUTCOME', 'no reply');
          return stage.connector.run(call);
        },
        runAll: (list) => stage.connector.runAll(list),
      };
      const flow = await scene.flows.prepare(tree(scene));
      expect((await new Flows(losing, scene.queue).add(flow)).outcome, `${when} step ${at}`).toBe('added');
      await run(scene, runs, true);
      expect([...runs].sort(), `${when} step ${at}, ${names[at]}`).toEqual(onceEach(flow));
    });
  });

  it('a flow of one queue whose reply was lost is not added again: it may be over', async () => {
    const scene = new FlowScene(stage, 'lost');
    const runs = new Map<string, number>();
    const losing: Wire = {
      run: async (call: Call) => {
        await stage.connector.run(call);
        await run(scene, runs, false);
        throw new EmqError('EMQ_UNKNOWN_OUTCOME', 'no reply');
      },
      runAll: (list) => stage.connector.runAll(list),
    };
    await expect(new Flows(losing, scene.queue).add(chain(3))).rejects.toMatchObject({ code: 'EMQ_UNKNOWN_OUTCOME' });
    expect([...runs.values()]).toEqual([1, 1, 1]);
    expect(await scene.remains()).toEqual([]);
  });

  it.each<[string, (scene: FlowScene) => Flow]>([
    ['that has one child', (scene) => ({ payload: 1, children: [{ payload: 2, queue: scene.name('b') }] })],
    ['that is a chain', (scene) => chain(4, [scene.queue, scene.queue, scene.name('b'), scene.name('c')])],
    ['that is a tree', tree],
  ])('a flow %s and is done before its producer has told so is added', async (_what, make) => {
    const scene = new FlowScene(stage, 'fast');
    const runs = new Map<string, number>();
    const slow: Wire = {
      run: async (call: Call) => {
        if (call.transition.name === 'flow_landed') await run(scene, runs, true);
        return stage.connector.run(call);
      },
      runAll: (list) => stage.connector.runAll(list),
    };
    const flow = await scene.flows.prepare(make(scene));
    expect(await new Flows(slow, scene.queue).add(flow)).toMatchObject({ id: flow.id, outcome: 'added' });
    await run(scene, runs, true);
    expect([...runs].sort()).toEqual(onceEach(flow));
    expect(await scene.remains()).toEqual([]);
  });

  it('added by four at once it is there once', async () => {
    for (const make of [tree, () => chain(8)]) {
      const scene = new FlowScene(stage, 'many');
      const flow = await scene.flows.prepare(make(scene));
      const added = await Promise.all([1, 2, 3, 4].map(() => scene.flows.add(flow)));
      expect(added.some(({ outcome }) => outcome === 'added')).toBe(true);
      const runs = new Map<string, number>();
      await run(scene, runs, true);
      expect([...runs].sort()).toEqual(onceEach(flow));
      expect(await scene.remains()).toEqual([]);
    }
  });

  it('is refused where a child’s id is taken: of one queue with nothing written', async () => {
    const scene = new FlowScene(stage, 'taken');
    const { id: taken } = await scene.jobs.enqueue('somebody else');
    const flow: Flow = { payload: 1, children: [{ payload: 2 }, { payload: 3, id: taken }] };
    const error = await stage.refused('EMQSTATE', () => scene.flows.add(flow));
    expect(error.reason).toBe('EMQSTATE flow child exists');
    const other: Flow = {
      payload: 1,
      id: mint(),
      children: [
        { payload: 2, queue: scene.name('b') },
        { payload: 3, id: taken },
      ],
    };
    await expect(scene.flows.add(other)).rejects.toMatchObject({ code: 'EMQSTATE' });
    expect((await scene.jobs.get(taken))?.bytes.toString()).toBe('"somebody else"');
    expect(await scene.jobs.state(other.id as string)).toBe('awaiting_children');
  });

  it('is refused where an id is of another kind: of one queue with nothing written', async () => {
    const scene = new FlowScene(stage, 'kind');
    for (const flow of [
      { payload: 1, id: ORDER, children: [{ payload: 2 }] },
      { payload: 1, children: [{ payload: 2 }, { payload: 3, id: ORDER }] },
      { payload: 1, children: [{ payload: 2, children: [{ payload: 3, id: ORDER }] }] },
      { payload: 1, id: ORDER, children: [{ payload: 2, queue: scene.name('b') }] },
    ]) {
      await stage.refused('EMQKIND', () => scene.flows.add(flow));
    }
  });

  it('is refused where the same root was cut short with other children', async () => {
    const scene = new FlowScene(stage, 'differs');
    const id = mint();
    const b = scene.name('b');
    const first = await scene.flows.prepare({
      payload: 1,
      id,
      children: [
        { payload: 2, queue: b },
        { payload: 3, queue: b },
      ],
    });
    // looked for, cleared of marks and held
    await crash(scene, first, 3, 'before');
    const other: Flow = { payload: 1, id, children: [{ payload: 2, queue: b }] };
    await expect(scene.flows.add(other)).rejects.toThrow(
      /EMQSTATE flow children differ: .* add the same flow again, or remove it/,
    );
    expect((await scene.flows.add(first)).outcome).toBe('added');
  });

  it('of whose root an operator got rid while there is more to land stops with a word, and what landed runs', async () => {
    const scene = new FlowScene(stage, 'gone');
    const b = scene.name('b');
    let removed = false;
    const meddling: Wire = {
      run: async (call: Call) => {
        if (call.transition.name === 'flow_landed' && !removed) {
          removed = true;
          expect(await scene.jobs.remove(flow.id)).toBe('removed');
        }
        return stage.connector.run(call);
      },
      runAll: (list) => stage.connector.runAll(list),
    };
    const leaves = [b, scene.name('c')].map((queue) => ({ payload: 2, queue }));
    const flow = await scene.flows.prepare({ payload: 1, children: leaves });
    await expect(new Flows(meddling, scene.queue).add(flow)).rejects.toThrow(/EMQSTATE flow parent gone/);
    const runs = new Map<string, number>();
    await run(scene, runs, true);
    expect([...runs.keys()]).toEqual([flow.root.children[0]?.id]);
    expect(await scene.remains()).toEqual([]);
  });

  it('of whose root an operator got rid while its children were listed lands no child', async () => {
    const scene = new FlowScene(stage, 'gone');
    const meddling: Wire = {
      run: async (call: Call) => {
        if (call.transition.name === 'flow_list') await scene.jobs.remove(flow.id);
        return stage.connector.run(call);
      },
      runAll: (list) => stage.connector.runAll(list),
    };
    const children = Array.from({ length: 600 }, (_, payload) => ({ payload }));
    const flow = await scene.flows.prepare({ payload: 1, children });
    await expect(new Flows(meddling, scene.queue).add(flow)).rejects.toThrow(/EMQSTATE flow parent gone/);
    expect(await scene.remains()).toEqual([]);
  });

  it('a mark that nobody clears, since its flow is over, goes with a later one when it is a day old', async () => {
    const scene = new FlowScene(stage, 'marks');
    const { landed } = scene.at('b').keys;
    const make = (): Flow => ({ payload: 1, children: [{ payload: 2, queue: scene.name('b') }] });
    const left = async (): Promise<string> => {
      const flow = await scene.flows.prepare(make());
      // held and landed, and not a word more
      await crash(scene, flow, 4, 'before');
      await run(scene, new Map(), true);
      expect(await scene.jobs.state(flow.id)).toBe('absent');
      return flow.root.children[0]?.id as string;
    };
    const first = await left();
    const second = await left();
    expect(await stage.raw.zrange(landed, '0', '-1')).toEqual([first, second]);
    const day = 24 * 60 * 60 * 1000;
    await stage.raw.zadd(landed, 'XX', (await stage.now()) - day - 1, first);
    await stage.raw.zadd(landed, 'XX', (await stage.now()) - day + 60_000, second);
    expect((await scene.flows.add(make())).outcome).toBe('added');
    expect(await stage.raw.zrange(landed, '0', '-1')).toEqual([second]);
  });

  it('takes other ids where those it minted are taken, and says so only where they were given', async () => {
    const scene = new FlowScene(stage, 'minted');
    let taken = 0;
    const crowded: Wire = {
      run: async (call: Call) => {
        if (taken++ < 3) await scene.jobs.enqueue('there', { id: String(call.args[1]) });
        return stage.connector.run(call);
      },
      runAll: (list) => stage.connector.runAll(list),
    };
    const added = await new Flows(crowded, scene.queue).add({ payload: 1, children: [{ payload: 2 }] });
    expect(added.outcome).toBe('added');
    expect(taken).toBe(4);
    const before = await snapshot(stage.raw);
    expect((await scene.flows.add({ payload: 1, id: added.id, children: [{ payload: 2 }] })).outcome).toBe('duplicate');
    expect(changedKeys(before, await snapshot(stage.raw))).toEqual([]);
  });

  /** The word of the queue of a leaf, and its id. */
  async function firstLeaf(scene: FlowScene, ids: FlowIds): Promise<readonly [string, string]> {
    const leaves = (one: FlowIds): string[] => (one.children.length === 0 ? [one.id] : one.children.flatMap(leaves));
    for (const id of leaves(ids)) {
      for (const word of ['', 'b', 'c']) if ((await scene.at(word).state(id)) === 'pending') return [word, id];
    }
    throw new Error('no leaf waits');
  }
});
