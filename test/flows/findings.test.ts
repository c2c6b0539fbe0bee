/**
 * What first users and breakers of flows have found, kept from coming back: codecs of children, connectors, results that
 * are too large, errors that name their job, parents let go while they land, a flow's second life, bringing a flow back.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Connector, Flows, mint, Queue, type Call, type Codec, type Wire } from '../../src/index.js';
import { EXECUTORS, Stage } from '../conformance/stage.js';
import { chain, FlowScene, idsDown, PATIENCE } from './support.js';

const dates: Codec<Date> = {
  encode: (date) => JSON.stringify({ at: date.getTime() }),
  decode: (bytes) => new Date((JSON.parse(bytes.toString()) as { at: number }).at),
};

describe.each(EXECUTORS)('flows, as found, on %s', (_executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  it.each(['no queue', 'its name'])(
    'a child with %s has the codec and the limit of its parent’s queue',
    async (how) => {
      const { queue: name } = new FlowScene(stage, 'codec');
      const queue = new Queue<Date>(stage.connector, name, { codec: dates, maxPayloadBytes: 100 });
      const flows = new Flows(stage.connector, queue);
      const where = how === 'no queue' ? {} : { queue: name };
      const grandchild = { payload: new Date(7), ...where };
      await flows.add({ payload: new Date(0), children: [{ payload: new Date(5), ...where, children: [grandchild] }] });
      expect((await queue.claim({ leaseMs: 60_000 }))?.payload).toEqual(new Date(7));
      const large = { payload: Buffer.alloc(101), ...where };
      await expect(flows.add({ payload: new Date(0), children: [large] })).rejects.toThrow(/child 0: .* 101 bytes/);
    },
  );

  it('errors name the flow and the child', async () => {
    const { flows } = new FlowScene(stage, 'names');
    const good = { payload: 1, children: [{ payload: 1 }] };
    const bad = { payload: 1, children: [{ payload: 1 }, { payload: 1, children: [{ payload: 1n }] }] };
    await expect(flows.addBulk([good, bad])).rejects.toThrow(
      /EMQ_INPUT flow 1: child 1\.0: the payload cannot be encoded/,
    );
    await expect(flows.addBulk([good, , good] as (typeof good)[])).rejects.toMatchObject({ code: 'EMQ_INPUT' });
    expect(() => new Flows(stage.connector, {} as string)).toThrow(/of a NamedQueue its \.queue/);
  });

  it('queues of another connector are refused', async () => {
    await using other = await Connector.connect({ redis: { path: stage.server.socketPath }, wire });
    const scene = new FlowScene(stage, 'far');
    const far = new Queue(other, scene.name('far'));
    const child = { queue: far, payload: 1 };
    await expect(stage.unchanged(() => scene.flows.add({ payload: 1, children: [child] }))).rejects.toThrow(
      /EMQ_INPUT queue .* of child 0 is on another connector/,
    );
    expect(() => new Flows(stage.connector, far)).toThrow(/on another connector/);
  });

  it('a result of more than 1 MiB fails its job’s try, and says so', async () => {
    const scene = new FlowScene(stage, 'large');
    const { children } = await scene.flows.add({ payload: 1, children: [{ payload: 2 }] });
    const queue = new Queue(stage.connector, scene.queue);
    const consumer = queue.consume(() => Buffer.alloc(1_048_577), { maxAttempts: 1 });
    await expect.poll(() => queue.state(children[0]?.id ?? ''), PATIENCE).toBe('dead');
    await consumer.close();
    expect((await queue.get(children[0]?.id ?? ''))?.lastError?.toString()).toMatch(/has 1048577 bytes, the limit is/);
  });

  it('a parent that a child lets go while it lands is added, and what has landed too late is cancelled', async () => {
    const scene = new FlowScene(stage, 'letgo');
    const words = ['a', 'b', 'c'];
    let landed = 0;
    // the first child dies, and its parent has run, before the parent's queue is told that the second has landed
    const meddling: Wire = {
      run: async (call: Call) => {
        if (call.transition.name === 'flow_landed' && ++landed === 2) {
          const first = scene.at('a');
          const job = await first.claim({ leaseMs: 60_000 });
          if (job !== null) await first.fail(job, { delayMs: 0, maxAttempts: 1, error: 'broken' });
          await scene.deliver('a');
          const parent = await scene.jobs.claim({ leaseMs: 60_000 });
          if (parent !== null) await scene.jobs.complete(parent);
        }
        return stage.connector.run(call);
      },
      runAll: (calls) => stage.connector.runAll(calls),
    };
    const children = words.map((word) => ({ queue: scene.name(word), payload: word, onFailure: 'continue' as const }));
    const added = await new Flows(meddling, scene.queue).add({ payload: 1, children });
    expect(added.outcome).toBe('added');
    expect(await scene.jobs.state(added.id)).toBe('absent');
    await scene.deliverAll(...words);
    const states = words.slice(1).map((word, i) => scene.at(word).state(added.children[i + 1]?.id ?? ''));
    expect(await Promise.all(states)).toEqual(['absent', 'absent']);
  });

  it('a flow whose dead child lies in the morgue is not taken up a second time', async () => {
    const scene = new FlowScene(stage, 'second');
    const b = scene.name('b');
    const flow = await scene.flows.prepare({
      payload: 1,
      children: [
        { queue: b, payload: 'die', onFailure: 'ignore' },
        { queue: b, payload: 'ok' },
      ],
    });
    const [first, second] = flow.root.children.map(({ id }) => id);
    await scene.flows.add(flow);
    await scene.dies(first ?? '', 'broken', scene.at('b'));
    await scene.done(second ?? '', 1, scene.at('b'));
    await scene.deliverAll('b');
    await scene.done(flow.id);
    await expect(scene.flows.add(flow)).rejects.toThrow(
      new RegExp(`EMQSTATE flow child exists .*adding flow ${flow.id} on queue ${scene.queue}`),
    );
    expect(await scene.jobs.cancel(flow.id)).toBe('removed');
    await scene.deliverAll('b');
    expect(await scene.at('b').remove(first ?? '')).toBe('removed');
    await scene.deliverAll('b');
    expect(await scene.remains()).toEqual([]);
  });

  it.each([
    ['one queue', ['']],
    ['three queues', ['', 'b', 'c']],
  ])('reprocess brings a dead flow back, all of it, in %s', async (_what, words) => {
    const scene = new FlowScene(stage, 'back');
    const names = words.map((word) => (word === '' ? scene.queue : scene.name(word)));
    const ids = idsDown(await scene.flows.add(chain(4, names)));
    const at = (level: number) => scene.at(words[level % words.length]);
    await scene.dies(ids[3] ?? '', 'broken', at(3));
    await scene.deliverAll('b', 'c');
    const brought = await scene.flows.reprocess(ids[0] ?? '');
    expect(brought).toEqual(ids.map((id, level) => ({ id, queue: names[level % names.length] })));
    expect(await scene.flows.reprocess(ids[0] ?? '')).toEqual([]);
    for (const level of [3, 2, 1, 0]) {
      await scene.done(ids[level] ?? '', level, at(level));
      await scene.deliverAll('b', 'c');
    }
    expect(await scene.remains()).toEqual([]);
    expect(await scene.flows.reprocess(mint())).toEqual([]);
  });
});
