/**
 * What the death of a child means for its parent, policy by policy and level by level, however the child dies; and what
 * bringing jobs back does.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { transitions, type FlowChild, type FlowIds, type HeldJob, type OnFailure } from '../../src/index.js';
import { EXECUTORS, MINUTE, Stage } from '../conformance/stage.js';
import { chain, claimAll, DEATH, FlowScene, idsDown, PATIENCE } from './support.js';

const POLICIES: readonly OnFailure[] = ['fail', 'ignore', 'remove', 'continue'];
const NONE = new Map();

/** All that a parent's books say. */
async function books(scene: FlowScene, id: string): Promise<unknown> {
  const { flows } = scene;
  return {
    state: await scene.jobs.state(id),
    count: (await flows.dependencies(id)).count,
    values: await flows.childrenValues(id),
    ignored: await flows.ignoredFailures(id),
    failures: await flows.failures(id),
  };
}

/** What a parent's books must say of one child that died and one that is open. */
const AFTER: Record<OnFailure, (child: string) => unknown> = {
  fail: (child) => ({ state: 'dead', count: 2, values: NONE, ignored: NONE, failures: new Map([[child, 'broken']]) }),
  ignore: (child) => ({
    ...{ state: 'awaiting_children', count: 1, values: NONE },
    ...{ ignored: new Map([[child, 'broken']]), failures: NONE },
  }),
  remove: () => ({ state: 'awaiting_children', count: 1, values: NONE, ignored: NONE, failures: NONE }),
  continue: (child) => ({
    ...{ state: 'pending', count: 0, values: NONE },
    ...{ ignored: new Map([[child, 'broken']]), failures: NONE },
  }),
};

/** How a child may die, and what its parent is told of it. */
const DEATHS: readonly (readonly [string, string, (scene: FlowScene, id: string, word: string) => Promise<unknown>])[] =
  [
    ['by its last failure', 'broken', (scene, id, word) => scene.dies(id, 'broken', scene.at(word))],
    [
      'by a late failure, after a reap',
      'broken',
      async (scene, id, word) => {
        const jobs = scene.at(word);
        await scene.take(id, jobs);
        await scene.stage.lapse(jobs.keys.active, id);
        expect(await jobs.reap()).toBe(1);
        await scene.dies(id, 'broken', jobs);
      },
    ],
    [
      'by the sweep',
      'stalled',
      async (scene, id, word) => {
        const jobs = scene.at(word);
        await scene.take(id, jobs);
        await scene.stage.lapse(jobs.keys.active, id);
        expect((await jobs.stalledCheck({ maxStalled: 1 })).dead).toEqual([id]);
      },
    ],
    [
      'by the quarantine',
      'unreadable: credit is not an integer',
      async (scene, id, word) => {
        const jobs = scene.at(word);
        await scene.stage.raw.hset(jobs.keys.job(id), 'credit', 'x');
        expect((await jobs.quarantine()).map((row) => row.id)).toEqual([id]);
      },
    ],
    ['by its removal', 'removed', async (scene, id, word) => expect(await scene.at(word).remove(id)).toBe('removed')],
    [
      'by its removal while it ran',
      'removed',
      async (scene, id, word) => {
        await scene.take(id, scene.at(word));
        expect(await scene.at(word).remove(id)).toBe('removed');
      },
    ],
    [
      'by its cancel',
      'cancelled: no longer wanted',
      async (scene, id, word) => expect(await scene.at(word).cancel(id, 'no longer wanted')).toBe('removed'),
    ],
  ];

describe.each(EXECUTORS)('deaths on %s', (_executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  const deaths = DEATHS.flatMap(([how, error, die]) =>
    ['', 'b'].flatMap((word) => POLICIES.map((policy) => ({ how, error, die, word, policy }))),
  );
  it.each(deaths)('a child with `$policy` that dies $how in queue "$word"', async ({ error, die, word, policy }) => {
    const scene = new FlowScene(stage, 'death');
    const queue = word === '' ? scene.queue : scene.name(word);
    const added = await scene.flows.add({
      payload: 1,
      children: [{ payload: 2, queue, onFailure: policy }, { payload: 3 }],
    });
    const [child, sibling] = added.children.map(({ id }) => id) as [string, string];
    await die(scene, child, word);
    // told by the job's own step only where it died by that, in its parent's queue
    if (error !== 'broken' || word !== '') {
      expect(await scene.jobs.state(added.id)).toBe('awaiting_children');
    } else {
      expect(await scene.jobs.state(added.id)).toBe(
        { fail: 'dead', continue: 'pending' }[policy as 'fail'] ?? 'awaiting_children',
      );
    }
    await scene.deliverAll(word === '' ? 'none' : word);
    const gone = /^(removed|cancelled)/.test(error);
    const expected = AFTER[policy](child) as {
      count: number;
      ignored: Map<string, string>;
      failures: Map<string, string>;
    };
    // a row that is gone cannot be brought back: nobody waits for it
    if (gone && policy === 'fail') expected.count = 1;
    for (const book of [expected.ignored, expected.failures]) if (book.size > 0) book.set(child, error);
    expect(await books(scene, added.id)).toEqual(expected);
    expect(await scene.letters(word)).toEqual([]);
    // the sibling
    if (policy === 'continue') return;
    await scene.done(sibling, 'fine');
    const state = policy === 'fail' ? 'dead' : 'pending';
    expect(await books(scene, added.id)).toMatchObject({ state, values: new Map([[sibling, 'fine']]) });
    if (policy !== 'fail') await scene.done(added.id);
    else expect([...(await claimAll(scene.jobs)).keys()]).toEqual([]);
  });

  const levels = POLICIES.flatMap((policy) =>
    [1, 2, 3, 4, 5, 6, 7].flatMap((level) => [1, 3].map((queues) => ({ policy, level, queues }))),
  );
  it.each(levels)('`$policy` at level $level of eight, over $queues queues', async ({ policy, level, queues }) => {
    const scene = new FlowScene(stage, 'level');
    const words = queues === 1 ? [''] : ['', 'b', 'c'];
    const at = (place: number) => scene.at(words[place % words.length]);
    const node = (place: number): FlowChild => ({
      payload: place,
      queue: at(place).queue,
      onFailure: place === level ? policy : 'fail',
      children: place === 7 ? [] : [node(place + 1)],
    });
    const ids = idsDown(await scene.flows.add({ payload: 0, children: node(0).children ?? [] }));
    await scene.dies(ids[7] as string, 'broken', at(7));
    if (queues === 3) await scene.deliverAll('b', 'c');
    else expect(await scene.letters()).toEqual([]);
    const states = await Promise.all(ids.map((id, place) => at(place).state(id)));
    const above = policy === 'fail' ? 'dead' : 'awaiting_children';
    expect(states).toEqual(
      ids.map((_, place) => (place >= level ? 'dead' : place === level - 1 && policy !== 'fail' ? 'pending' : above)),
    );
    for (const [place, id] of ids.slice(0, -1).entries()) {
      const { processed, unsuccessful, failed } = await counts(scene, id, at(place).queue);
      const told = place >= level - 1 || policy === 'fail';
      const own = place === level - 1 ? policy : 'fail';
      expect({ processed, unsuccessful, failed }, `level ${place}`).toEqual({
        processed: 0,
        unsuccessful: told && (own === 'ignore' || own === 'continue') ? 1 : 0,
        failed: told && own === 'fail' ? 1 : 0,
      });
    }
    // what was let go climbs on as a completion
    if (policy === 'fail') return;
    for (let place = level - 1; place >= 0; place--) {
      await scene.done(ids[place] as string, place, at(place));
      if (queues === 3) await scene.deliverAll('b', 'c');
      else expect(await scene.letters()).toEqual([]);
    }
    expect(await at(0).state(ids[0] as string)).toBe('absent');
  });

  it('a death climbs seven levels of one queue in its own step, counted and published once each', async () => {
    const scene = new FlowScene(stage, 'climb');
    const listener = await stage.client();
    const heard: unknown[] = [];
    await listener.subscribe(scene.jobs.keys.events);
    listener.on('message', (_channel: string, text: string) => heard.push(JSON.parse(text)));
    const ids = idsDown(await scene.flows.add(chain(8)));
    await scene.dies(ids[7] as string);
    expect(await scene.jobs.counts(['dead', 'failed', 'awaiting_children'])).toEqual({
      ...{ dead: 8, failed: 8, awaiting_children: 0 },
    });
    await vi.waitUntil(() => heard.length === 7, PATIENCE);
    expect(heard).toEqual(
      [6, 5, 4, 3, 2, 1, 0].map((place) => ({
        event: 'failed',
        job: ids[place],
        error: `child ${ids[place + 1]} failed: broken`,
      })),
    );
    const row = await scene.jobs.get(ids[0] as string);
    expect(row?.lastError?.toString()).toBe(`child ${ids[1]} failed: broken`);
  });

  it('completions climb eight levels of one queue, with no letter at any level', async () => {
    const scene = new FlowScene(stage, 'climb');
    const ids = idsDown(await scene.flows.add(chain(8)));
    for (const [i, id] of [...ids].reverse().entries()) {
      expect(await scene.jobs.browse('pending')).toEqual([id]);
      expect(await scene.flows.childrenValues(id)).toEqual(i === 0 ? NONE : new Map([[ids[8 - i], i - 1]]));
      await scene.done(id, i);
    }
    expect(await scene.remains()).toEqual([]);
  });

  it('a failure that is tried again leaves the parent as it is', async () => {
    const scene = new FlowScene(stage, 'retry');
    const { id, children } = await scene.flows.add({
      payload: 1,
      children: [{ payload: 2 }, { payload: 3, queue: scene.name('b') }],
    });
    const before = await books(scene, id);
    for (const [i, word] of ['', 'b'].entries()) {
      const jobs = scene.at(word);
      const job = await scene.take(children[i]?.id as string, jobs);
      expect(await jobs.fail(job, { delayMs: MINUTE, maxAttempts: 2, error: 'not yet' })).toBe('scheduled');
    }
    await scene.deliverAll('b');
    expect(await books(scene, id)).toEqual(before);
  });

  it('of a completion, an ignored and a fatal death each is in a book of its own', async () => {
    const scene = new FlowScene(stage, 'mixed');
    const b = scene.name('b');
    const added = await scene.flows.add({
      payload: 1,
      children: [
        { payload: 1 },
        { payload: 2, queue: b, onFailure: 'ignore' },
        { payload: 3, queue: b },
        { payload: 4 },
      ],
    });
    const [good, ignored, fatal, open] = added.children.map(({ id }) => id) as [string, string, string, string];
    await scene.done(good, 1);
    await scene.dies(ignored, 'so what', scene.at('b'));
    await scene.dies(fatal, 'the end', scene.at('b'));
    await scene.deliverAll('b');
    const told = {
      ...{ state: 'dead', count: 2, values: new Map([[good, 1]]) },
      ...{ ignored: new Map([[ignored, 'so what']]), failures: new Map([[fatal, 'the end']]) },
    };
    expect(await books(scene, added.id)).toEqual(told);
    // what comes after that is written down, and wakes nobody
    await scene.done(open, 4);
    expect(await books(scene, added.id)).toEqual({
      ...{ ...told, count: 1 },
      values: new Map([
        [good, 1],
        [open, 4],
      ]),
    });
    expect(await scene.jobs.browse('pending')).toEqual([]);
  });

  describe('with `continue`', () => {
    it('the others are cancelled: waiting and scheduled ones go, running ones are told; the parent runs at once', async () => {
      const scene = new FlowScene(stage, 'continue');
      const b = scene.at('b');
      const channel = await stage.client();
      const heard: unknown[] = [];
      await channel.subscribe(scene.jobs.keys.cancel, b.keys.cancel);
      channel.on('message', (name: string, text: string) => heard.push([name, JSON.parse(text)]));
      const added = await scene.flows.add({
        payload: 1,
        children: [
          { payload: 'dies', onFailure: 'continue' },
          { payload: 'done' },
          ...['runs', 'waits', 'scheduled'].map((payload) => ({ payload })),
          ...['runs', 'waits', 'scheduled'].map((payload) => ({ payload, queue: b.queue })),
          { payload: 'held', children: [{ payload: 'below' }] },
        ],
      });
      const ids = added.children.map(({ id }) => id);
      const [dies, done, runs, waits, later, runsThere, waitsThere, laterThere, held] = ids as [string, ...string[]];
      const below = added.children[8]?.children[0]?.id as string;
      const all = new Map([...(await claimAll(scene.jobs)), ...(await claimAll(b))]);
      const back = async (jobs: typeof b, id: string | undefined, to: 'waits' | 'scheduled'): Promise<void> => {
        const job = all.get(id as string) as HeldJob;
        if (to === 'waits') await jobs.release(job);
        else await jobs.delay(job, { inMs: MINUTE });
      };
      for (const [jobs, id, to] of [
        [scene.jobs, waits, 'waits'],
        [scene.jobs, later, 'scheduled'],
        [scene.jobs, below, 'waits'],
        [b, waitsThere, 'waits'],
        [b, laterThere, 'scheduled'],
      ] as const) {
        await back(jobs, id, to);
      }
      expect(await scene.jobs.complete(all.get(done as string) as HeldJob, { result: 'kept' })).toBe('completed');
      expect(await scene.jobs.fail(all.get(dies) as HeldJob, DEATH)).toBe('dead');
      expect(await books(scene, added.id)).toEqual({
        ...{ state: 'pending', count: 0, values: new Map([[done, 'kept']]) },
        ...{ ignored: new Map([[dies, 'broken']]), failures: NONE },
      });
      await scene.deliverAll('b');
      const there = async (jobs: typeof b, list: readonly (string | undefined)[]) =>
        Promise.all(list.map((id) => jobs.state(id as string)));
      expect(await there(scene.jobs, [runs, waits, later, held, below])).toEqual([
        ...['active', 'absent', 'absent', 'absent', 'absent'],
      ]);
      expect(await there(b, [runsThere, waitsThere, laterThere])).toEqual(['active', 'absent', 'absent']);
      const why = `its flow parent ${added.id} no longer waits for it: child ${dies} failed`;
      await vi.waitUntil(() => heard.length === 2, PATIENCE);
      expect(heard).toEqual(
        expect.arrayContaining([
          [scene.jobs.keys.cancel, { job: runs, reason: why }],
          [b.keys.cancel, { job: runsThere, reason: why }],
        ]),
      );
      // the running ones may end as they like: nobody waits
      expect(await scene.jobs.complete(all.get(runs as string) as HeldJob)).toBe('completed');
      expect(await b.fail(all.get(runsThere as string) as HeldJob, DEATH)).toBe('dead');
      await scene.deliverAll('b');
      expect(await scene.jobs.counts(['pending', 'dead', 'awaiting_children'])).toEqual({
        ...{ pending: 1, dead: 1, awaiting_children: 0 },
      });
      await scene.done(added.id);
      await scene.jobs.remove(dies);
      await b.remove(runsThere as string);
      await scene.deliverAll('b');
      expect(await scene.remains()).toEqual([]);
    });

    it('two that die at once let the parent go once', async () => {
      const scene = new FlowScene(stage, 'continue');
      const children = [1, 2].map((payload) => ({ payload, queue: scene.name('b'), onFailure: 'continue' as const }));
      const added = await scene.flows.add({ payload: 1, children });
      for (const child of added.children) await scene.dies(child.id, 'broken', scene.at('b'));
      await scene.deliverAll('b');
      await scene.done(added.id);
      expect(await scene.jobs.counts(['pending', 'completed'])).toEqual({ pending: 0, completed: 1 });
    });
  });

  describe('brought back', () => {
    it.each(['', 'b'])('a fatal child in queue "%s", and then its parent: both run to the end', async (word) => {
      const scene = new FlowScene(stage, 'back');
      const jobs = scene.at(word);
      const { id, children } = await scene.flows.add({ payload: 1, children: [{ payload: 2, queue: jobs.queue }] });
      const child = children[0]?.id as string;
      await scene.dies(child, 'broken', jobs);
      await scene.deliverAll('b');
      expect(await jobs.reprocess(child)).toBe('pending');
      expect(await scene.jobs.reprocess(id)).toBe('awaiting_children');
      expect(await scene.jobs.counts(['awaiting_children', 'dead'])).toMatchObject({ awaiting_children: 1 });
      await scene.done(child, 'late', jobs);
      await scene.deliverAll('b');
      expect(await books(scene, id)).toEqual({
        ...{ state: 'pending', count: 0, values: new Map([[child, 'late']]), ignored: NONE, failures: NONE },
      });
      await scene.done(id);
      expect(await scene.remains()).toEqual([]);
    });

    it('the child is done first: the parent that is brought back then waits for nobody', async () => {
      const scene = new FlowScene(stage, 'back');
      const { id, children } = await scene.flows.add({ payload: 1, children: [{ payload: 2 }] });
      const child = children[0]?.id as string;
      await scene.dies(child);
      await scene.jobs.reprocess(child);
      await scene.done(child, 'late');
      expect(await books(scene, id)).toMatchObject({ state: 'dead', count: 0, failures: NONE });
      expect(await scene.jobs.reprocess(id)).toBe('pending');
      await scene.done(id);
      expect(await scene.remains()).toEqual([]);
    });

    it('a child that dies again kills its parent again; removed for good, it lets it go on being dead', async () => {
      const scene = new FlowScene(stage, 'back');
      const { id, children } = await scene.flows.add({ payload: 1, children: [{ payload: 2 }] });
      const child = children[0]?.id as string;
      await scene.dies(child, 'first');
      await scene.jobs.reprocess(id);
      await scene.jobs.reprocess(child);
      await scene.dies(child, 'second');
      expect(await books(scene, id)).toMatchObject({ state: 'dead', count: 1, failures: new Map([[child, 'second']]) });
      expect((await scene.jobs.metrics('failed')).count).toBe(4);
      await scene.jobs.reprocess(id);
      expect(await scene.jobs.remove(child)).toBe('removed');
      await scene.deliverAll();
      // nobody can bring it back any more: its parent is dead, and waits for nobody once it is brought back
      expect(await books(scene, id)).toMatchObject({ state: 'dead', count: 0 });
      expect(await scene.jobs.reprocess(id)).toBe('pending');
      await scene.done(id);
      expect(await scene.remains()).toEqual([]);
    });

    it.each(['ignore', 'continue'] as const)(
      'an `%s` child counts once, and moves to the values',
      async (onFailure) => {
        const scene = new FlowScene(stage, 'back');
        const added = await scene.flows.add({ payload: 1, children: [{ payload: 2, onFailure }, { payload: 3 }] });
        const [child, sibling] = added.children.map(({ id }) => id) as [string, string];
        await scene.dies(child);
        await scene.jobs.reprocess(child);
        await scene.done(child, 'late');
        const open = onFailure === 'ignore' ? 1 : 0;
        expect(await books(scene, added.id)).toEqual({
          // the parent that was let go was claimed with the child
          ...{ state: open === 1 ? 'awaiting_children' : 'active', count: open },
          ...{ values: new Map([[child, 'late']]), ignored: NONE, failures: NONE },
        });
        if (open === 1) await scene.done(sibling);
        else await scene.deliverAll();
        expect(await scene.jobs.counts(['pending', 'awaiting_children'])).toMatchObject({ awaiting_children: 0 });
        await scene.done(added.id);
      },
    );

    it('a removed dependency leaves no trace, alive or dead', async () => {
      const scene = new FlowScene(stage, 'back');
      const added = await scene.flows.add({
        payload: 1,
        children: [{ payload: 2, onFailure: 'remove' }, { payload: 3 }],
      });
      const child = added.children[0]?.id as string;
      await scene.dies(child);
      const after = await books(scene, added.id);
      await scene.jobs.reprocess(child);
      await scene.done(child, 'late');
      expect(await books(scene, added.id)).toEqual(after);
    });

    it('a chain that died of its leaf runs again from below when all of it is brought back, in either order', async () => {
      for (const order of ['down', 'up'] as const) {
        const scene = new FlowScene(stage, 'back');
        const ids = idsDown(await scene.flows.add(chain(4)));
        await scene.dies(ids[3] as string);
        for (const id of order === 'down' ? ids : [...ids].reverse()) {
          expect(await scene.jobs.reprocess(id)).toBe(id === ids[3] ? 'pending' : 'awaiting_children');
        }
        for (const id of [...ids].reverse()) {
          expect(await scene.jobs.browse('pending')).toEqual([id]);
          await scene.done(id);
        }
        expect(await scene.remains()).toEqual([]);
      }
    });
  });

  it('whatever is settled twice counts once', async () => {
    const scene = new FlowScene(stage, 'twice');
    const b = scene.at('b');
    const added: FlowIds = await scene.flows.add({
      payload: 1,
      children: [{ payload: 2 }, { payload: 3, queue: b.queue }, { payload: 4, onFailure: 'ignore' }, { payload: 5 }],
    });
    const [here, there, ignored, open] = added.children.map(({ id }) => id) as [string, string, string, string];
    await scene.take(here);
    await scene.take(there, b);
    const done = [await scene.done(here), await scene.done(there, 1, b)] as const;
    const dead = await scene.dies(ignored);
    await scene.deliverAll('b');
    expect(await stage.unchanged(() => scene.jobs.complete(done[0]))).toBe('gone');
    expect(await stage.unchanged(() => b.complete(done[1]))).toBe('gone');
    await stage.refused('EMQSTALE', () => scene.jobs.fail(done[0], DEATH));
    await stage.refused('EMQSTATE', () => scene.jobs.fail(dead, DEATH));
    await stage.refused('EMQSTATE', () => scene.jobs.complete(dead));
    await stage.refused('EMQSTALE', () => scene.jobs.complete({ id: open, token: 9 }));
    expect((await scene.flows.dependencies(added.id)).count).toBe(1);
  });

  it('a child whose parent is gone settles as it likes, here and elsewhere, and raises nobody', async () => {
    const scene = new FlowScene(stage, 'orphans');
    const b = scene.at('b');
    const children = [0, 1, 2, 3].map((i) => ({ payload: i, queue: i < 2 ? scene.queue : b.queue }));
    const added = await scene.flows.add({ payload: 1, children });
    expect(await scene.jobs.remove(added.id)).toBe('removed');
    for (const [i, { id }] of added.children.entries()) {
      const jobs = i < 2 ? scene.jobs : b;
      if (i % 2 === 0) await scene.done(id, i, jobs);
      else await scene.dies(id, 'broken', jobs);
    }
    await scene.deliverAll('b');
    for (const [i, { id }] of added.children.entries()) await (i < 2 ? scene.jobs : b).remove(id);
    await scene.deliverAll('b');
    expect(await scene.remains()).toEqual([]);
  });

  async function counts(scene: FlowScene, id: string, queue: string) {
    const jobs = stage.jobs(queue);
    const { flow } = transitions;
    const call = { transition: flow, queue, ...flow.layout(jobs.keys, { id }) };
    return flow.read(await scene.stage.connector.run(call));
  }
});
