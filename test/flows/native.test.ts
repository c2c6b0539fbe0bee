/**
 * Flows and the native commands: claims are theirs, settles of children are not, and a refusal leaves nothing.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HeldJob } from '../../src/index.js';
import { Stage } from '../conformance/stage.js';
import { DEATH, FlowScene } from './support.js';

describe('on wire 6', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(6);
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  /** What is said to a raw command, error or not. */
  const raw = (command: string, ...args: (string | number)[]): Promise<unknown> =>
    stage.raw.call(command, ...args).catch((error: unknown) => (error as Error).message);

  /** How often a command was called since the last reset, and how often it refused. */
  async function calls(command: string): Promise<readonly [calls: number, failed: number]> {
    const info = await stage.raw.info('commandstats');
    const found = new RegExp(`^cmdstat_${command.replace('.', '\\.')}:calls=(\\d+),.*failed_calls=(\\d+)`, 'm').exec(
      info,
    );
    return [Number(found?.[1] ?? 0), Number(found?.[2] ?? 0)];
  }

  it('children and their parent are claimed by EMQ.CLAIM and EMQ.TAKE, and no script runs for it', async () => {
    const scene = new FlowScene(stage, 'claims');
    const { id, children } = await scene.flows.add({ payload: 1, children: [{ payload: 2 }, { payload: 3 }] });
    await stage.raw.config('RESETSTAT');
    const child = await scene.jobs.claim({ leaseMs: 60_000 });
    const [taken] = await scene.jobs.take({ leaseMs: 60_000, count: 1 });
    expect([child?.id, taken?.id]).toEqual(children.map((one) => one.id));
    expect([await calls('emq.claim'), await calls('emq.take'), await calls('evalsha')]).toEqual([
      [1, 0],
      [1, 0],
      [0, 0],
    ]);
    for (const job of [child, taken]) await scene.jobs.complete(job as HeldJob);
    await stage.raw.config('RESETSTAT');
    expect(await scene.jobs.claim({ leaseMs: 60_000 })).toMatchObject({ id, token: 1 });
    expect([await calls('emq.claim'), await calls('evalsha')]).toEqual([
      [1, 0],
      [0, 0],
    ]);
    // a root settles natively: it is nobody's child
    await stage.raw.config('RESETSTAT');
    expect(await scene.jobs.complete({ id, token: 1 })).toBe('completed');
    expect([await calls('emq.complete'), await calls('evalsha'), await calls('eval')]).toEqual([
      [1, 0],
      [0, 0],
      [0, 0],
    ]);
    expect(await scene.remains()).toEqual([]);
  });

  it('a settle of a child is one refusal, one read of its link and one script', async () => {
    const scene = new FlowScene(stage, 'settles');
    const { children } = await scene.flows.add({
      payload: 1,
      children: [{ payload: 2 }, { payload: 3, onFailure: 'ignore' }, { payload: 4 }],
    });
    const [done, dead] = children.map(({ id }) => id) as [string, string];
    // the scripts are there
    await scene.done(done);
    const other = await scene.take(dead);
    await stage.raw.config('RESETSTAT');
    expect(await scene.jobs.fail(other, DEATH)).toBe('dead');
    expect(await calls('emq.fail')).toEqual([1, 1]);
    expect((await calls('evalsha'))[0] + (await calls('eval'))[0]).toBeLessThanOrEqual(4);
    await stage.raw.config('RESETSTAT');
    await scene.done(children[2]?.id as string);
    expect(await calls('emq.complete')).toEqual([1, 1]);
    expect(await calls('evalsha')).toEqual([2, 0]);
  });

  it.each(['', 'b'])('the words are those of the contract, for a child whose parent is in queue "%s"', async (word) => {
    const scene = new FlowScene(stage, 'words');
    const jobs = scene.at(word);
    const { id, children } = await scene.flows.add({ payload: 1, children: [{ payload: 2, queue: jobs.queue }] });
    const child = await scene.take(children[0]?.id as string, jobs);
    const { active, schedule, dead, base, outbox } = jobs.keys;
    const row = jobs.keys.job(child.id);
    const parent = scene.jobs.keys.job(id);
    const held = [child.id, child.token] as const;
    const COMPLETE = 'EMQSTATE complete flow not native';
    const FAIL = 'EMQSTATE fail flow not native';
    await stage.unchanged(async () => {
      expect(await raw('EMQ.COMPLETE', 2, active, row, ...held, base)).toBe(COMPLETE);
      expect(await raw('EMQ.FAIL', 4, active, schedule, dead, row, ...held, 0, 1, 'no', base)).toBe(FAIL);
      // the flow layouts, whatever the row is
      for (const one of [row, jobs.keys.job('JOB00000000000')]) {
        const here = [5, active, one, `${parent}:dependencies`, `${parent}:processed`, parent] as const;
        expect(await raw('EMQ.COMPLETE', ...here, ...held, base, id, 'result')).toBe(COMPLETE);
        expect(await raw('EMQ.COMPLETE', 3, active, one, outbox, ...held, base, id, 'r', 'xq', scene.queue)).toBe(
          COMPLETE,
        );
        const books = [`${parent}:failed`, `${parent}:unsuccessful`, `${parent}:dependencies`, parent];
        const sets = [active, schedule, dead, one];
        expect(await raw('EMQ.FAIL', 8, ...sets, ...books, ...held, 0, 1, 'no', base, 'sq:fp', id)).toBe(FAIL);
        expect(await raw('EMQ.FAIL', 5, ...sets, outbox, ...held, 0, 1, 'no', base, 'xq:fp', scene.queue, id)).toBe(
          FAIL,
        );
      }
      // another token is that, before it is a child
      expect(await raw('EMQ.COMPLETE', 2, active, row, child.id, 9, base)).toBe('EMQSTALE complete token mismatch');
    });
  });

  it('the native sweep leaves the death entry of each policy', async () => {
    const scene = new FlowScene(stage, 'sweep');
    const policies = ['fail', 'ignore', 'remove', 'continue'] as const;
    const tokens = ['fp', 'id', 'rd', 'cp'];
    for (const word of ['', 'b']) {
      const jobs = scene.at(word);
      const added = await scene.flows.add({
        payload: 1,
        children: policies.map((onFailure) => ({ payload: 2, onFailure, queue: jobs.queue })),
      });
      for (const { id } of added.children) {
        await scene.take(id, jobs);
        await stage.lapse(jobs.keys.active, id);
      }
      await stage.raw.config('RESETSTAT');
      expect((await jobs.stalledCheck({ maxStalled: 1 })).dead).toEqual(added.children.map(({ id }) => id));
      expect(await calls('emq.stalled.check')).toEqual([1, 0]);
      expect((await scene.letters(word)).sort()).toEqual(
        added.children
          .map(({ id }, i) => ['', 'fail', scene.queue, added.id, id, tokens[i], 'stalled'].join('\0'))
          .sort(),
      );
      await scene.deliverAll('b');
    }
  });

  it('the native complete of a parent takes all its books with it', async () => {
    const scene = new FlowScene(stage, 'retire');
    const { id, children } = await scene.flows.add({
      payload: 1,
      children: [{ payload: 2, onFailure: 'ignore' }, { payload: 3 }],
    });
    await scene.dies(children[0]?.id as string);
    await scene.done(children[1]?.id as string);
    // of a client that died in the middle of something
    await stage.raw.hset(`${scene.jobs.keys.job(id)}:children`, children[0]?.id as string, '');
    await stage.raw.hset(`${scene.jobs.keys.job(id)}:failed`, children[0]?.id as string, 'x');
    await scene.take(id);
    await stage.raw.config('RESETSTAT');
    await scene.done(id);
    expect(await calls('emq.complete')).toEqual([1, 0]);
    await scene.jobs.remove(children[0]?.id as string);
    expect(await scene.remains()).toEqual([]);
  });
});
