/**
 * How letters are delivered: by any number of deliverers, past what cannot be delivered now or ever.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { EmqError, Flows, mint, Queue, type Call, type FlowIds, type Wire } from '../../src/index.js';
import { EXECUTORS, Stage } from '../conformance/stage.js';
import { claimAll, FlowScene, PATIENCE } from './support.js';

const letterOf = (...parts: string[]): string => parts.join('\0');

describe.each(EXECUTORS)('delivery on %s', (_executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  /** Flows of one child each in another queue, all of whose letters wait. */
  async function letters(scene: FlowScene, count: number): Promise<FlowIds[]> {
    const b = scene.at('b');
    const flow = { payload: 1, children: [{ payload: 2, queue: b.queue }] };
    const added = await scene.flows.addBulk(Array.from({ length: count }, () => flow));
    const held = [...(await claimAll(b)).values()];
    expect(held).toHaveLength(count);
    await Promise.all(held.map((job) => b.complete(job, { result: 1 })));
    return added;
  }

  /** A wire that refuses some calls. */
  const refusing = (refuse: (call: Call) => EmqError | undefined): Wire => ({
    run: (call) => {
      const error = refuse(call);
      return error === undefined ? stage.connector.run(call) : Promise.reject(error);
    },
    runAll: (calls) => stage.connector.runAll(calls),
  });

  it('ten at once deliver each letter once: every parent is let go, and counted once', async () => {
    const scene = new FlowScene(stage, 'ten');
    const added = await letters(scene, 150);
    const reports = await Promise.all(Array.from({ length: 10 }, () => scene.deliver('b')));
    expect(reports.flatMap(({ errors, poison }) => [...errors, ...poison])).toEqual([]);
    const sum = (of: 'released' | 'left') => reports.reduce((total, report) => total + report[of], 0);
    expect(sum('released')).toBe(150);
    expect(await scene.letters('b')).toEqual([]);
    const held = await claimAll(scene.jobs);
    expect([...held.keys()].sort()).toEqual(added.map(({ id }) => id).sort());
    expect([...held.values()].every(({ token }) => token === 1)).toBe(true);
  });

  it('a deliverer that is gone at any step loses nothing', async () => {
    for (let at = 0; at < 6; at++) {
      for (const when of ['before', 'after']) {
        const scene = new FlowScene(stage, 'dying');
        const added = await letters(scene, 3);
        let calls = 0;
        const dying: Wire = {
          run: async (call) => {
            if (calls > at || (calls === at && when === 'before')) throw new EmqError('EMQ_CLOSED', 'gone');
            calls += 1;
            const reply = await stage.connector.run(call);
            if (calls > at) throw new EmqError('EMQ_CLOSED', 'gone');
            return reply;
          },
          runAll: () => Promise.reject(new EmqError('EMQ_CLOSED', 'gone')),
        };
        const report = await new Flows(dying, scene.name('b')).deliver();
        if (at < 5) expect(report.errors.length).toBeGreaterThan(0);
        await scene.deliverAll('b');
        expect([...(await claimAll(scene.jobs)).keys()].sort()).toEqual(added.map(({ id }) => id).sort());
        expect(await scene.letters('b')).toEqual([]);
      }
    }
  });

  it('letters that nobody can read go aside, newest first, and hold up no other', async () => {
    const scene = new FlowScene(stage, 'poison');
    const { outbox, base } = scene.at('b').keys;
    const bad = ['no letter', letterOf('a b', mint(), mint(), '1'), letterOf(scene.queue, 'JOB1', mint(), '1'), ''];
    const parent = mint();
    await stage.raw.rpush(outbox, ...bad.slice(0, 2));
    const added = await letters(scene, 2);
    await stage.raw.rpush(outbox, ...bad.slice(2), letterOf('', 'cancel', parent));
    const report = await scene.deliver('b');
    expect(report).toMatchObject({ delivered: 2, released: 2, left: 0, errors: [] });
    const whole = [...bad, letterOf('', 'cancel', parent)];
    expect(report.poison.map(({ letter, why }) => [letter.toString(), why])).toEqual([
      [whole[0], 'it is no letter'],
      [whole[1], 'it names no queue'],
      [whole[2], 'its parent is no job id'],
      [whole[3], 'it is no letter'],
      [whole[4], 'it is no letter'],
    ]);
    expect(await stage.raw.lrange(`${base}flow:poison`, 0, -1)).toEqual([...whole].reverse());
    expect(await scene.letters('b')).toEqual([]);
    expect([...(await claimAll(scene.jobs)).keys()].sort()).toEqual(added.map(({ id }) => id).sort());
    expect(await stage.unchanged(() => scene.deliver('b'))).toMatchObject({ delivered: 0, poison: [] });
  });

  it('of those set aside the newest thousand are kept', async () => {
    const scene = new FlowScene(stage, 'poison');
    const { outbox, base } = scene.at('b').keys;
    await stage.raw.rpush(outbox, ...Array.from({ length: 1030 }, (_, i) => `bad ${i}`));
    const first = await scene.deliver('b');
    const second = await scene.deliver('b');
    expect([first.more, first.poison.length + second.poison.length]).toEqual([true, 1030]);
    const kept = await stage.raw.lrange(`${base}flow:poison`, 0, -1);
    expect([kept.length, kept[0], kept.at(-1)]).toEqual([1000, 'bad 1029', 'bad 30']);
  });

  it('a letter for a row that is of another type goes aside, and one for a row that is gone just goes', async () => {
    const scene = new FlowScene(stage, 'odd');
    const [odd, gone] = await letters(scene, 2);
    await stage.raw.del(scene.jobs.keys.job(odd?.id as string));
    await stage.raw.set(scene.jobs.keys.job(odd?.id as string), 'no row');
    await scene.jobs.remove(gone?.id as string);
    const report = await scene.deliver('b');
    expect(report).toMatchObject({ delivered: 1, left: 0, errors: [] });
    expect(report.poison.map(({ why }) => why)).toEqual([expect.stringMatching(/^WRONGTYPE/)]);
    expect(await scene.letters('b')).toEqual([]);
  });

  it.each([
    'OOM',
    'READONLY',
    'MOVED',
    'TRYAGAIN',
    'NOPERM',
    'EMQ_CONNECTION',
    'EMQ_UNKNOWN_OUTCOME',
    'CLUSTERDOWN',
  ] as const)('a letter whose target says %s stays, the others go, and it goes when that has passed', async (code) => {
    const scene = new FlowScene(stage, 'stays');
    const added = await letters(scene, 5);
    const [first, , third] = added;
    const blocked = new Set([first, third].map((one) => one?.id as string));
    const wireOf = refusing((call) =>
      call.transition.name === 'flow_deliver' && blocked.has(String(call.args[0]))
        ? new EmqError(code, `${code} no`)
        : undefined,
    );
    const report = await new Flows(wireOf, scene.name('b')).deliver();
    expect(report).toMatchObject({ delivered: 3, released: 3, left: 2, poison: [], more: false });
    expect(report.errors.map((error) => error.code)).toEqual([code, code]);
    expect(await scene.letters('b')).toHaveLength(2);
    expect(await scene.deliver('b')).toMatchObject({ delivered: 2, released: 2, left: 0 });
  });

  it('many that stay hold up none of those behind them', async () => {
    const scene = new FlowScene(stage, 'stays');
    const blocked = new Set((await letters(scene, 250)).map(({ id }) => id));
    const free = await letters(scene, 120);
    const wireOf = refusing((call) =>
      call.transition.name === 'flow_deliver' && blocked.has(String(call.args[0]))
        ? new EmqError('OOM', 'OOM')
        : undefined,
    );
    const report = await new Flows(wireOf, scene.name('b')).deliver();
    expect(report).toMatchObject({ delivered: 120, released: 120, left: 250 });
    expect([...(await claimAll(scene.jobs)).keys()].sort()).toEqual(free.map(({ id }) => id).sort());
    expect(await scene.letters('b')).toHaveLength(250);
  });

  it('a node that is full takes letters all the same, since they free more than they take', async () => {
    const scene = new FlowScene(stage, 'full');
    await letters(scene, 2);
    await stage.raw.config('SET', 'maxmemory', '1');
    try {
      await expect(scene.jobs.enqueue(1)).rejects.toMatchObject({ code: 'OOM' });
      expect(await scene.deliver('b')).toMatchObject({ delivered: 2, released: 2, errors: [] });
    } finally {
      await stage.raw.config('SET', 'maxmemory', '0');
    }
  });

  it('one pass is bounded and says when there is more', async () => {
    const scene = new FlowScene(stage, 'more');
    await letters(scene, 1200);
    const first = await scene.deliver('b');
    expect(first).toMatchObject({ more: true });
    expect(first.delivered).toBeLessThan(1200);
    const rest = await scene.deliver('b');
    expect(rest).toMatchObject({ more: false, left: 0 });
    expect(first.delivered + rest.delivered).toBe(1200);
  });

  it('an outbox that is no list is an error of the pass, not its end', async () => {
    const scene = new FlowScene(stage, 'list');
    await stage.raw.set(scene.jobs.keys.outbox, 'x');
    const report = await scene.deliver();
    expect(report).toMatchObject({ delivered: 0, left: 0 });
    expect(report.errors.map((error) => error.code)).toEqual(['WRONGTYPE']);
  });

  it('a deliverer that comes late with a letter that was delivered changes nothing', async () => {
    const scene = new FlowScene(stage, 'late');
    const [one] = await letters(scene, 1);
    const [letter] = await scene.letters('b');
    let late: () => void = () => {};
    const wait = new Promise<void>((resolve) => (late = resolve));
    const slow = refusing(() => undefined);
    const wireOf: Wire = {
      ...slow,
      run: async (call) => {
        if (call.transition.name === 'flow_deliver') await wait;
        return stage.connector.run(call);
      },
    };
    const slowly = new Flows(wireOf, scene.name('b')).deliver();
    await scene.deliver('b');
    await scene.done(one?.id as string);
    late();
    expect(await slowly).toMatchObject({ released: 0, failed: 0, errors: [], poison: [] });
    expect(letter).toBeDefined();
    expect(await scene.remains()).toEqual([]);
  });

  describe('by a consumer', () => {
    const options = { beatMs: 20 } as const;

    it('poison is a warning that says so, once, and the letters beside it arrive', async () => {
      const scene = new FlowScene(stage, 'consumer');
      const [one] = await letters(scene, 1);
      await stage.raw.lpush(scene.at('b').keys.outbox, 'no letter');
      await using consumer = new Queue(stage.connector, scene.name('b')).consume(() => {}, options);
      const warnings: EmqError[] = [];
      consumer.on('warning', (error) => warnings.push(error));
      await vi.waitUntil(async () => (await scene.jobs.state(one?.id as string)) === 'pending', PATIENCE);
      await vi.waitUntil(() => warnings.length > 0, PATIENCE);
      expect(warnings.map(({ message }) => message)).toEqual([
        `ERR a letter on flow:outbox of queue ${scene.name('b')} was moved aside to flow:poison: it is no letter`,
      ]);
    });

    it('a letter is delivered right after the settle that left it, not at the next beat', async () => {
      const scene = new FlowScene(stage, 'consumer');
      await using consumer = new Queue(stage.connector, scene.name('b')).consume(() => 'done', { beatMs: 600_000 });
      await vi.waitUntil(() => consumer.stats().state === 'running', PATIENCE);
      const { id } = await scene.flows.add({ payload: 1, children: [{ payload: 2, queue: scene.name('b') }] });
      await vi.waitUntil(async () => (await scene.jobs.state(id)) === 'pending', PATIENCE);
      await vi.waitUntil(async () => (await scene.letters('b')).length === 0, PATIENCE);
    });

    it('what a killed process has left is delivered at a beat', async () => {
      const scene = new FlowScene(stage, 'consumer');
      const added = await letters(scene, 30);
      await using _consumer = new Queue(stage.connector, scene.name('b')).consume(() => {}, options);
      await vi.waitUntil(async () => (await scene.jobs.counts(['pending'])).pending === added.length, PATIENCE);
      await vi.waitUntil(async () => (await scene.letters('b')).length === 0, PATIENCE);
    });

    it('one that cannot be delivered now is a warning, once, and not at every beat', async () => {
      const scene = new FlowScene(stage, 'consumer');
      await letters(scene, 1);
      const connector = await stage.connect();
      const run = connector.run.bind(connector);
      let tries = 0;
      vi.spyOn(connector, 'run').mockImplementation((call) => {
        if (call.transition.name !== 'flow_deliver') return run(call);
        return ++tries < 5 ? Promise.reject(new EmqError('OOM', 'OOM the other node is full')) : run(call);
      });
      await using consumer = new Queue(connector, scene.name('b')).consume(() => {}, options);
      const warnings: string[] = [];
      consumer.on('warning', ({ code }) => warnings.push(code));
      await vi.waitUntil(async () => (await scene.jobs.counts(['pending'])).pending === 1, PATIENCE);
      expect(tries).toBe(5);
      expect(warnings).toEqual(['OOM']);
    });
  });
});
