/**
 * Flows: conformance scenarios 47-55.
 *
 * Where the original needs a sweep for each hop of a death, here it climbs in the step in which the child dies, as far as
 * its queue goes (contract 9, row 10).
 */
import { expect } from 'vitest';
import { Flows, type Jobs } from '../../src/index.js';
import { chain, claimAll, DEATH, idsDown } from '../flows/support.js';
import type { Scenario, Scene } from './scenario.js';
import { ORDER, type Stage } from './stage.js';

const flowsOf = ({ stage, jobs }: Scene): Flows<unknown> => new Flows(stage.connector, jobs.queue);

/** Another queue of the scenario. */
const beside = ({ stage, jobs }: Scene, word: string): Jobs<unknown> => stage.jobs(`${jobs.queue}.${word}`);

const sweep = (stage: Stage, jobs: Jobs<unknown>) => new Flows(stage.connector, jobs.queue).deliver();

/** Claims the one job that waits, which must be that, and completes it. */
async function completes(jobs: Jobs<unknown>, id: string | undefined, result?: unknown): Promise<void> {
  const held = await claimAll(jobs);
  expect([...held.keys()]).toEqual([id]);
  for (const job of held.values()) expect(await jobs.complete(job, { result })).toBe('completed');
}

/** The same, but it dies. */
async function dies(jobs: Jobs<unknown>, id: string | undefined, error: string): Promise<void> {
  const held = await claimAll(jobs);
  expect([...held.keys()]).toEqual([id]);
  for (const job of held.values()) expect(await jobs.fail(job, { ...DEATH, error })).toBe('dead');
}

export const flowPlane: readonly Scenario[] = [
  {
    number: 47,
    name: 'flow_add',
    shows: 'three ids; the counter is 2; the parent is held and in no set; both children can be claimed',
    async play(scene) {
      const { stage, jobs } = scene;
      const { raw } = stage;
      const added = await flowsOf(scene).add({ payload: 'p', children: [{ payload: 'a' }, { payload: 'b' }] });
      const [a, b] = added.children.map(({ id }) => id);
      expect(added.outcome).toBe('added');
      expect(new Set([added.id, a, b]).size).toBe(3);
      const row = jobs.keys.job(added.id);
      expect(await raw.get(`${row}:dependencies`)).toBe('2');
      expect(await raw.hgetall(row)).toEqual({ state: 'awaiting_children', attempts: '0', payload: '"p"' });
      expect(await jobs.state(added.id)).toBe('awaiting_children');
      for (const set of ['pending', 'active', 'schedule', 'dead'] as const) {
        expect(await raw.zscore(jobs.keys[set], added.id)).toBeNull();
      }
      // Row 8: the policy is written in the step in which the child lands.
      const child = { state: 'pending', attempts: '0', parent: added.id, parent_policy: 'fp' };
      expect(await raw.hgetall(jobs.keys.job(a as string))).toEqual({ ...child, payload: '"a"' });
      expect([...(await claimAll(jobs)).keys()]).toEqual([a, b]);
    },
  },
  {
    number: 48,
    name: 'flow_fanin',
    shows: 'the parent can be claimed after the last child, not before; a child that is done again counts for nothing',
    async play(scene) {
      const { stage, jobs } = scene;
      const flows = flowsOf(scene);
      const { id, children } = await flows.add({ payload: 'p', children: [{ payload: 1 }, { payload: 2 }] });
      const held = await claimAll(jobs);
      const [first, second] = children.map((child) => held.get(child.id));
      if (first === undefined || second === undefined) throw new Error('two children were to be claimed');
      expect(await jobs.complete(first)).toBe('completed');
      expect(await jobs.claim({ leaseMs: 1 })).toBeNull();
      expect(await stage.unchanged(() => jobs.complete(first))).toBe('gone');
      expect((await flows.dependencies(id)).count).toBe(1);
      expect(await jobs.complete(second)).toBe('completed');
      expect([...(await flows.childrenValues(id)).keys()]).toEqual([first.id, second.id]);
      await completes(jobs, id);
    },
  },
  {
    number: 49,
    name: 'flow_children_values',
    shows: 'results by child; the count goes 2, 1, 0; reading changes nothing',
    async play(scene) {
      const { stage, jobs } = scene;
      const flows = flowsOf(scene);
      const { id, children } = await flows.add({ payload: 'p', children: [{ payload: 1 }, { payload: 2 }] });
      const read = () =>
        stage.unchanged(async () => [(await flows.dependencies(id)).count, await flows.childrenValues(id)]);
      expect(await read()).toEqual([2, new Map()]);
      const held = await claimAll(jobs);
      const values = new Map<string, unknown>();
      for (const [i, child] of children.entries()) {
        await jobs.complete(held.get(child.id) as { id: string; token: number }, { result: { part: i } });
        values.set(child.id, { part: i });
        expect(await read()).toEqual([1 - i, values]);
      }
    },
  },
  {
    number: 50,
    name: 'flow_cross_queue',
    shows: 'a child of another queue completes into its own outbox; the sweep releases the parent, once',
    async play(scene) {
      const { stage, jobs } = scene;
      const other = beside(scene, 'children');
      const { id, children } = await flowsOf(scene).add({
        payload: 'p',
        children: [{ payload: 'c', queue: other.queue }],
      });
      const child = children[0]?.id as string;
      expect(await stage.raw.hmget(other.keys.job(child), 'parent', 'parent_queue')).toEqual([id, jobs.queue]);
      await completes(other, child, 'done');
      const letter = [jobs.queue, id, child, '"done"'].join('\0');
      expect(await stage.raw.lrange(other.keys.outbox, 0, -1)).toEqual([letter]);
      expect(await jobs.state(id)).toBe('awaiting_children');
      expect(await sweep(stage, other)).toMatchObject({ delivered: 1, released: 1, left: 0 });
      expect(await jobs.state(id)).toBe('pending');
      // The same letter once more, as after a crash between delivery and removal.
      await stage.raw.rpush(other.keys.outbox, letter);
      const before = await stage.raw.hgetall(jobs.keys.job(id));
      expect(await sweep(stage, other)).toMatchObject({ delivered: 1, released: 0 });
      expect(await stage.raw.hgetall(jobs.keys.job(id))).toEqual(before);
      expect(await stage.raw.exists(other.keys.outbox)).toBe(0);
      await completes(jobs, id);
      expect(await jobs.counts(['pending', 'active', 'completed'])).toEqual({ pending: 0, active: 0, completed: 1 });
    },
  },
  {
    number: 51,
    name: 'flow_fail_parent',
    shows: 'the death of a child is the death of its parent: here at once, elsewhere on the sweep, and once',
    async play(scene) {
      const { stage, jobs } = scene;
      const flows = flowsOf(scene);
      const here = await flows.add({ payload: 'p', children: [{ payload: 1 }] });
      const near = here.children[0]?.id as string;
      await dies(jobs, near, 'broken');
      expect(await jobs.state(here.id)).toBe('dead');
      expect(await flows.failures(here.id)).toEqual(new Map([[near, 'broken']]));

      const other = beside(scene, 'children');
      const there = await flows.add({ payload: 'p', children: [{ payload: 1, queue: other.queue }] });
      const far = there.children[0]?.id as string;
      await dies(other, far, 'broken far away');
      const letters = await stage.raw.lrange(other.keys.outbox, 0, -1);
      expect(letters).toEqual([['', 'fail', jobs.queue, there.id, far, 'fp', 'broken far away'].join('\0')]);
      expect(await jobs.state(there.id)).toBe('awaiting_children');
      expect(await sweep(stage, other)).toMatchObject({ delivered: 1, failed: 1 });
      expect(await jobs.state(there.id)).toBe('dead');
      expect(await flows.failures(there.id)).toEqual(new Map([[far, 'broken far away']]));
      expect((await jobs.metrics('failed')).count).toBe(3);
      await stage.raw.rpush(other.keys.outbox, ...letters);
      expect(await sweep(stage, other)).toMatchObject({ delivered: 1, failed: 0 });
      expect((await jobs.metrics('failed')).count).toBe(3);
      expect(await flows.failures(there.id)).toEqual(new Map([[far, 'broken far away']]));
    },
  },
  {
    number: 52,
    name: 'flow_ignore_dep',
    shows: 'a dead child that is to be ignored counts, is listed as such and nowhere else; the parent runs',
    async play(scene) {
      const { stage, jobs } = scene;
      const flows = flowsOf(scene);
      const { id, children } = await flows.add({
        payload: 'p',
        children: [{ payload: 1, onFailure: 'ignore' }, { payload: 2 }],
      });
      const [ignored, good] = children.map((child) => child.id) as [string, string];
      const held = await claimAll(jobs);
      await jobs.fail(held.get(ignored) as { id: string; token: number }, DEATH);
      expect((await flows.dependencies(id)).count).toBe(1);
      await jobs.complete(held.get(good) as { id: string; token: number }, { result: 2 });
      await stage.unchanged(async () => {
        expect(await flows.ignoredFailures(id)).toEqual(new Map([[ignored, 'broken']]));
        expect(await flows.childrenValues(id)).toEqual(new Map([[good, 2]]));
        expect(await flows.failures(id)).toEqual(new Map());
      });
      await completes(jobs, id);
    },
  },
  {
    number: 53,
    name: 'flow_add_bulk',
    shows: 'two good flows land, in order; one with a child of the wrong kind leaves its parent held and stops nobody',
    async play(scene) {
      const { jobs } = scene;
      const other = beside(scene, 'children');
      const results = await flowsOf(scene).addBulk([
        { payload: 'first', children: [{ payload: 1 }] },
        {
          payload: 'poison',
          children: [
            { payload: 2, queue: other.queue },
            { payload: 3, queue: other.queue, id: ORDER },
          ],
        },
        { payload: 'last', children: [{ payload: 4 }, { payload: 5 }] },
      ]);
      expect(results.map(({ outcome }) => outcome)).toEqual(['added', 'failed', 'added']);
      const [first, poison, last] = results;
      if (first === undefined || poison?.outcome !== 'failed' || last === undefined) throw new Error('three results');
      expect(poison.error.code).toBe('EMQKIND');
      expect(await jobs.state(poison.id)).toBe('awaiting_children');
      const landed = [...first.children, ...last.children].map(({ id }) => id);
      expect([...(await claimAll(jobs)).keys()]).toEqual(landed);
      expect(await other.state(ORDER)).toBe('absent');
      expect(await jobs.counts(['awaiting_children'])).toEqual({ awaiting_children: 3 });
    },
  },
  {
    number: 54,
    name: 'flow_grandchild',
    shows:
      'three levels complete upwards, in one queue and across three; the one in the middle is a job like any other',
    async play(scene) {
      const { stage, jobs } = scene;
      const [root, middle, leaf] = idsDown(await flowsOf(scene).add(chain(3)));
      await completes(jobs, leaf, 'leaf');
      expect(await flowsOf(scene).childrenValues(middle as string)).toEqual(new Map([[leaf, 'leaf']]));
      await completes(jobs, middle, 'middle');
      await completes(jobs, root);

      const [second, third] = [beside(scene, 'second'), beside(scene, 'third')];
      const over = [jobs.queue, second.queue, third.queue];
      const [top, node, end] = idsDown(await flowsOf(scene).add(chain(3, over)));
      await completes(third, end, 'leaf');
      expect(await second.state(node as string)).toBe('awaiting_children');
      expect(await sweep(stage, third)).toMatchObject({ released: 1 });
      await completes(second, node, 'middle');
      expect(await jobs.state(top as string)).toBe('awaiting_children');
      expect(await sweep(stage, second)).toMatchObject({ released: 1 });
      expect(await flowsOf(scene).childrenValues(top as string)).toEqual(new Map([[node, 'middle']]));
      await completes(jobs, top);
    },
  },
  {
    number: 55,
    name: 'flow_grandchild_fail',
    shows: 'death climbs all levels, here in one step, elsewhere a sweep each; an ignored hop lets the root run',
    async play(scene) {
      const { stage, jobs } = scene;
      const flows = flowsOf(scene);
      // Contract 9, row 10: no sweep at all for three levels, and none for four, where the original needs one and two.
      for (const depth of [3, 4]) {
        const ids = idsDown(await flows.add(chain(depth)));
        await dies(jobs, ids.at(-1), 'broken');
        for (const id of ids) expect(await jobs.state(id)).toBe('dead');
        for (const [i, id] of ids.slice(0, -1).entries()) {
          expect(await flows.failures(id)).toEqual(new Map([[ids[i + 1], 'broken']]));
        }
        expect(await stage.raw.exists(jobs.keys.outbox)).toBe(0);
      }

      const [second, third] = [beside(scene, 'second'), beside(scene, 'third')];
      const [root, node, leaf] = idsDown(await flows.add(chain(3, [jobs.queue, second.queue, third.queue])));
      await dies(third, leaf, 'broken');
      expect(await second.state(node as string)).toBe('awaiting_children');
      expect(await sweep(stage, third)).toMatchObject({ failed: 1 });
      expect([await second.state(node as string), await jobs.state(root as string)]).toEqual([
        'dead',
        'awaiting_children',
      ]);
      const letters = await stage.raw.lrange(second.keys.outbox, 0, -1);
      expect(await sweep(stage, second)).toMatchObject({ failed: 1 });
      expect(await jobs.state(root as string)).toBe('dead');
      const { count } = await jobs.metrics('failed');
      await stage.raw.rpush(second.keys.outbox, ...letters);
      expect(await sweep(stage, second)).toMatchObject({ delivered: 1, failed: 0 });
      expect(await jobs.metrics('failed')).toEqual({ count });

      const over = { payload: 2, children: [{ payload: 3 }], onFailure: 'ignore' } as const;
      const proceeds = await flows.add({ payload: 1, children: [over] });
      const [top, ignored, end] = idsDown(proceeds);
      await dies(jobs, end, 'broken');
      expect(await jobs.state(ignored as string)).toBe('dead');
      expect(await flows.ignoredFailures(top as string)).toEqual(new Map([[ignored, 'broken']]));
      expect(await flows.failures(top as string)).toEqual(new Map());
      await completes(jobs, top);
    },
  },
];
