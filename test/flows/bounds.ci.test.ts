/**
 * Flows of ten thousand children: nothing that is done with them holds the server up for 10 ms, and every child is told of.
 *
 * What counts is the time that the server's own thread was at work for a call, so that a machine that is busy with other
 * things changes nothing: calls go one by one, and the server is asked for its time in between. The slow log is wall time:
 * it has to be empty too where the machine is not overloaded.
 */
import { availableParallelism, loadavg } from 'node:os';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Flows, Jobs, type Call, type Outcome, type Reply, type Wire } from '../../src/index.js';
import { BRANDS } from '../../src/wire/fence.js';
import { EXECUTORS, Stage } from '../conformance/stage.js';
import { pagesTellOfEach } from './pages.js';
import { DEATH, FlowScene } from './support.js';

const SIZE = 10_000;
const LIMIT_MICROSECONDS = 10_000;
const LONG = 400_000;

/** One call at a time, each with the time that the server's main thread took for it. */
class Metered implements Wire {
  /** The most of each transition, in microseconds. */
  readonly most = new Map<string, number>();
  readonly #stage: Stage;
  #last: Promise<unknown> = Promise.resolve();

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  run(call: Call): Promise<Reply> {
    const next = this.#last.then(async () => {
      const before = await this.#busy();
      try {
        return await this.#stage.connector.run(call);
      } finally {
        const { name } = call.transition;
        this.most.set(name, Math.max(this.most.get(name) ?? 0, (await this.#busy()) - before));
      }
    });
    this.#last = next.catch(() => {});
    return next;
  }

  runAll(calls: readonly Call[]): Promise<Outcome[]> {
    return Promise.all(calls.map(async (call) => ({ ok: true, reply: await this.run(call) }) as const));
  }

  async #busy(): Promise<number> {
    const info = await this.#stage.raw.info('cpu');
    const times = [...info.matchAll(/^used_cpu_(?:sys|user)_main_thread:([\d.]+)/gm)];
    if (times.length !== 2) throw new Error('the server does not tell the time of its main thread');
    return Math.round(times.reduce((sum, [, seconds]) => sum + Number(seconds) * 1e6, 0));
  }
}

describe.each(EXECUTORS)('ten thousand children on %s', (executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
    await stage.raw.config('SET', 'slowlog-log-slower-than', String(LIMIT_MICROSECONDS), 'slowlog-max-len', '1000');
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  afterEach(async () => {
    await stage.raw.flushdb('ASYNC');
    await stage.raw.set('{emq}:version', BRANDS[wire]);
  });

  interface Play {
    readonly scene: FlowScene;
    readonly flows: Flows<unknown>;
    readonly at: (queue: string) => Jobs<unknown>;
    readonly metered: Metered;
  }

  /** What is played is within the bound, call by call. What was over it is played again: what is slow is slow every time. */
  async function quickly(what: string, play: (play: Play) => Promise<void>): Promise<void> {
    const found: string[][] = [];
    for (let tries = 0; tries < 3; tries++) {
      const over = await measured(what, play);
      if (over.length === 0) return;
      found.push(over);
    }
    expect(found).toEqual([]);
  }

  /** What was over the bound. */
  async function measured(what: string, play: (play: Play) => Promise<void>): Promise<string[]> {
    const scene = new FlowScene(stage, 'bound');
    const metered = new Metered(stage);
    await stage.raw.slowlog('RESET');
    await play({ scene, metered, flows: new Flows(metered, scene.queue), at: (queue) => new Jobs(metered, queue) });
    const log = (await stage.raw.slowlog('GET', -1)) as [number, number, number, string[]][];
    const told = [...metered.most].map(([name, us]) => `${name} ${(us / 1000).toFixed(1)}`);
    console.info(`${executor}, ${what}: at most, in ms: ${told.join(', ')}`);
    const over = [...metered.most].filter(([, us]) => us >= LIMIT_MICROSECONDS).map(([name, us]) => `${name} ${us} us`);
    if ((loadavg()[0] ?? 0) >= availableParallelism()) return over;
    const slow = log.filter(([, , , [command]]) => /^(evalsha|eval|emq\..*)$/i.test(command ?? ''));
    return [...over, ...slow.map(([, , us, [command, sha]]) => `slow log: ${command} ${sha} ${us} us`)];
  }

  const leaves = (size: number, queues: readonly string[]) =>
    Array.from({ length: size }, (_, payload) => ({ payload, queue: queues[payload % queues.length] }));

  it.each([[1], [3]])(
    'over %i queues are added, run, and come up to their parent',
    (count) =>
      quickly(`run over ${count} queues`, async ({ scene, flows, at, metered }) => {
        const queues = [scene.queue, scene.name('b'), scene.name('c')].slice(0, count);
        const { id, outcome } = await flows.add({ payload: 'root', children: leaves(SIZE, queues) });
        expect(outcome).toBe('added');
        expect(await flows.counts(id)).toMatchObject({ open: SIZE, listed: SIZE, landing: 0 });
        for (const queue of queues) {
          await settleSome(at(queue), SIZE);
          await deliver(metered, queue);
        }
        expect(await flows.counts(id)).toMatchObject({ open: 0, processed: SIZE });
        const numbers = [...(await flows.childrenValues(id)).values()].map(Number).sort((a, b) => a - b);
        expect(numbers).toEqual(Array.from({ length: SIZE }, (_, i) => i));
        await settleSome(at(scene.queue), 1);
        expect(await scene.remains()).toEqual([]);
      }),
    LONG,
  );

  it.each([[1], [3]])(
    'over %i queues go with their parent when it is cancelled',
    (count) =>
      quickly(`cancelled over ${count} queues`, async ({ scene, flows, at, metered }) => {
        const queues = [scene.queue, scene.name('b'), scene.name('c')].slice(0, count);
        const { id } = await flows.add({ payload: 'root', children: leaves(SIZE, queues) });
        await settleSome(at(scene.queue), 500);
        expect(await at(scene.queue).cancel(id, 'no more')).toBe('removed');
        for (const queue of queues) await deliver(metered, queue);
        expect(await scene.remains()).toEqual([]);
      }),
    LONG,
  );

  it(
    'are cancelled when one dies and the parent goes on at once',
    () =>
      quickly('continue', async ({ scene, flows, at, metered }) => {
        const jobs = at(scene.queue);
        const children = leaves(SIZE, [scene.queue]).map((leaf) => ({ ...leaf, onFailure: 'continue' as const }));
        const { id } = await flows.add({ payload: 'root', children });
        await settleSome(jobs, 500);
        const [job] = await jobs.claimBatch({ leaseMs: 60_000, size: 1 });
        if (job === undefined) throw new Error('nothing can be claimed');
        expect(await jobs.fail(job, DEATH)).toBe('dead');
        expect(await jobs.state(id)).toBe('pending');
        await deliver(metered, scene.queue);
        expect(await jobs.counts(['pending', 'active', 'dead'])).toEqual({ pending: 1, active: 0, dead: 1 });
      }),
    LONG,
  );

  it(
    'are left alone when their parent is removed, and so is the server',
    () =>
      quickly('removed', async ({ scene, flows, at }) => {
        const jobs = at(scene.queue);
        const { id } = await flows.add({ payload: 'root', children: leaves(SIZE, [scene.queue]) });
        await settleSome(jobs, SIZE / 2);
        expect(await jobs.remove(id)).toBe('removed');
        expect(await flows.counts(id)).toMatchObject({ open: 0, listed: 0, processed: 0 });
        expect(await jobs.counts(['pending', 'awaiting_children'])).toEqual({
          ...{ pending: SIZE / 2, awaiting_children: 0 },
        });
      }),
    LONG,
  );

  it(
    'in flows of a hundred each, and flows of 500 and of large payloads, are added within the bound',
    () =>
      quickly('bulk', async ({ scene, flows }) => {
        const flow = { payload: 'root', children: leaves(100, [scene.queue]) };
        const results = await flows.addBulk(Array.from({ length: 100 }, () => flow));
        expect(results.every(({ outcome }) => outcome === 'added')).toBe(true);
        await flows.add({ payload: 'root', children: leaves(500, [scene.queue]) });
        const payload = Buffer.alloc(500_000, 'x');
        const children = Array.from({ length: 20 }, () => ({ payload }));
        // not measured: for the first of that size the server asks the system for memory
        await scene.flows.add({ payload: 'root', children: children.slice(0, 7) });
        await flows.add({ payload: 'root', children });
        await flows.addBulk([1, 2, 3].map(() => ({ payload: 'root', children: children.slice(0, 7) })));
      }),
    LONG,
  );

  it('are told of page by page', () => pagesTellOfEach(new FlowScene(stage, 'pages'), SIZE), LONG);

  /** Completes so many, a hundred at a time; fewer where no more wait. */
  async function settleSome(jobs: Jobs<unknown>, count: number): Promise<void> {
    for (let done = 0; done < count; done += 100) {
      const batch = await jobs.claimBatch({ leaseMs: 60_000, size: Math.min(100, count - done) });
      if (batch.length === 0) return;
      await Promise.all(batch.map((job) => jobs.complete(job, { result: job.payload })));
    }
  }

  /** Until nothing is left. */
  async function deliver(metered: Metered, queue: string): Promise<void> {
    for (;;) {
      const { delivered, left, errors } = await new Flows(metered, queue).deliver();
      expect(errors).toEqual([]);
      if (delivered + left === 0) return;
    }
  }
});
