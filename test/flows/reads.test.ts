/**
 * What can be read of a flow: while it lands, while it runs, large and small; reading writes nothing.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Flows } from '../../src/index.js';
import { EXECUTORS, MISSING, Stage } from '../conformance/stage.js';
import { pagesTellOfEach } from './pages.js';
import { claimAll, DEATH, DyingWire, FlowScene } from './support.js';

const NONE = new Map();

describe.each(EXECUTORS)('reads on %s', (_executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  const everything = (flows: Flows<unknown>, id: string) =>
    stage.unchanged(async () => ({
      values: await flows.childrenValues(id),
      ignored: await flows.ignoredFailures(id),
      failures: await flows.failures(id),
      dependencies: await flows.dependencies(id),
      counts: await flows.counts(id),
    }));
  const NOTHING = {
    ...{ values: NONE, ignored: NONE, failures: NONE, dependencies: { count: 0, open: [], next: null } },
    counts: { open: 0, listed: 0, processed: 0, unsuccessful: 0, failed: 0, landing: 0 },
  };

  it('a job that is not there, one that is no parent, and a parent that is done have nothing', async () => {
    const scene = new FlowScene(stage, 'reads');
    const { id } = await scene.jobs.enqueue(1);
    expect(await everything(scene.flows, MISSING)).toEqual(NOTHING);
    expect(await everything(scene.flows, id)).toEqual(NOTHING);
    const added = await scene.flows.add({ payload: 1, children: [{ payload: 2 }] });
    await scene.done(added.children[0]?.id as string);
    await scene.done(added.id);
    expect(await everything(scene.flows, added.id)).toEqual(NOTHING);
  });

  it('a parent says what it has and what it waits for, in the middle of it all', async () => {
    const scene = new FlowScene(stage, 'reads');
    const b = scene.name('b');
    const added = await scene.flows.add({
      payload: 1,
      children: [
        { payload: 'done' },
        { payload: 'ignored', onFailure: 'ignore' },
        { payload: 'here' },
        { payload: 'there', queue: b },
      ],
    });
    const [done, ignored, here, there] = added.children.map(({ id }) => id) as [string, string, string, string];
    await scene.done(done, { n: 1 });
    await scene.dies(ignored, 'so what');
    const open = [
      { id: here, queue: scene.queue, landed: true },
      { id: there, queue: b, landed: true },
    ];
    const told = await everything(scene.flows, added.id);
    expect({ ...told, dependencies: { ...told.dependencies, open: sorted(told.dependencies.open) } }).toEqual({
      values: new Map([[done, { n: 1 }]]),
      ignored: new Map([[ignored, 'so what']]),
      failures: NONE,
      dependencies: { count: 2, open: sorted(open), next: null },
      counts: { open: 2, listed: 2, processed: 1, unsuccessful: 1, failed: 0, landing: 0 },
    });
  });

  it('a flow whose landing was cut short says which children have landed', async () => {
    const scene = new FlowScene(stage, 'reads');
    const b = scene.name('b');
    const flow = await scene.flows.prepare({ payload: 1, children: [{ payload: 2 }, { payload: 3, queue: b }] });
    const [here, there] = flow.root.children.map(({ id }) => id) as [string, string];
    // looked for, cleared of marks, held, landed here, and no more
    await expect(new Flows(new DyingWire(stage.connector, 4, 'before'), scene.queue).add(flow)).rejects.toThrow();
    const { dependencies, counts } = await everything(scene.flows, flow.id);
    expect(sorted(dependencies.open)).toEqual(
      sorted([
        { id: here, queue: scene.queue, landed: true },
        { id: there, queue: b, landed: false },
      ]),
    );
    expect(dependencies.count).toBe(2);
    expect(counts).toMatchObject({ open: 2, landing: 1 });
    await scene.flows.add(flow);
    expect((await scene.flows.dependencies(flow.id)).open.every(({ landed }) => landed)).toBe(true);
  });

  it('the pages of a large flow tell of each, and write nothing', () =>
    pagesTellOfEach(new FlowScene(stage, 'pages'), 700));

  it('errors of any bytes are text', async () => {
    const scene = new FlowScene(stage, 'reads');
    const added = await scene.flows.add({
      payload: 1,
      children: [
        { payload: 2, onFailure: 'ignore' },
        { payload: 3, queue: scene.name('b'), onFailure: 'ignore' },
      ],
    });
    const [here, there] = added.children.map(({ id }) => id) as [string, string];
    const error = Buffer.concat([Buffer.from('a\0☃\n'), Buffer.from([0xff])]);
    await scene.jobs.fail(await scene.take(here), { ...DEATH, error });
    await scene.at('b').fail(await scene.take(there, scene.at('b')), { ...DEATH, error });
    await scene.deliverAll('b');
    expect(await scene.flows.ignoredFailures(added.id)).toEqual(
      new Map([
        [here, 'a\0☃\n\ufffd'],
        [there, 'a\0☃\n\ufffd'],
      ]),
    );
  });

  it('results come as they were given, from here and from elsewhere', async () => {
    const scene = new FlowScene(stage, 'results');
    const b = scene.name('b');
    const bytes = Buffer.from('a\0b\0\0ÿ', 'latin1');
    const results: unknown[] = ['text', '', 7.5, null, { a: [1] }, bytes, Buffer.alloc(0), undefined];
    const children = [scene.queue, b].flatMap((queue) => results.map((_, payload) => ({ payload, queue })));
    const added = await scene.flows.add({ payload: 1, children });
    for (const [i, { id }] of added.children.entries()) {
      await scene.done(id, results[i % results.length], i < results.length ? scene.jobs : scene.at('b'));
    }
    await scene.deliverAll('b');
    const values = await scene.flows.childrenValues(added.id);
    expect(added.children.map(({ id }) => values.get(id))).toEqual([...results, ...results]);
    expect(values.size).toBe(2 * results.length);
  });

  it('a result that has no JSON form is refused with nothing written, whether anybody would hear of it or not', async () => {
    const scene = new FlowScene(stage, 'results');
    const { children } = await scene.flows.add({ payload: 1, children: [{ payload: 2 }] });
    const child = await scene.take(children[0]?.id as string);
    const error = await stage.refused('EMQ_INPUT', () => scene.jobs.complete(child, { result: 1n }));
    expect(error.reason).toMatch(/BigInt/);
    await scene.jobs.complete(child, { result: 1 });
    const { id } = await scene.jobs.enqueue(1);
    const plain = (await claimAll(scene.jobs)).get(id);
    if (plain === undefined) throw new Error('not claimed');
    await stage.refused('EMQ_INPUT', () => scene.jobs.complete(plain, { result: 1n }));
    expect(await scene.jobs.complete(plain, { result: 1 })).toBe('completed');
  });

  function sorted<T extends { readonly id: string }>(list: readonly T[]): T[] {
    return [...list].sort((a, b) => (a.id < b.id ? -1 : 1));
  }
});
