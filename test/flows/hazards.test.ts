/**
 * The hazards of the public original (fact sheet, sections 2.14 and 17), each a story that ends well here. Every story is
 * told once more on the original's logic (logics.ts), where it must end badly: a story that could not tell the two apart
 * would show nothing.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mint, type HeldJob } from '../../src/index.js';
import { EXECUTORS, Stage } from '../conformance/stage.js';
import { CRASH, Original, Ours, type Logic, type Tree } from './logics.js';
import { claimAll, FlowScene } from './support.js';

/** Ends with what is to be compared: `well` is what it must be, `badly` what the original's logic makes of it. */
interface Story {
  readonly name: string;
  readonly well: unknown;
  readonly badly: unknown;
  readonly tell: (logic: Logic, scene: FlowScene) => Promise<unknown>;
}

/** What an attempt comes to that may be refused. */
const attempt = (act: Promise<void>): Promise<void> => act.catch(() => {});

async function first(scene: FlowScene, word = ''): Promise<HeldJob> {
  const [job] = (await claimAll(scene.at(word))).values();
  if (job === undefined) throw new Error('nothing can be claimed');
  return job;
}

const leaf = (queue: string, onFailure?: Tree['onFailure']): Tree => ({
  id: mint(),
  queue,
  ...(onFailure && { onFailure }),
});
const parent = (queue: string, ...children: Tree[]): Tree => ({ id: mint(), queue, children });

/** The parent's count, its state, and in which sets it is. */
async function outcome(scene: FlowScene, id: string, word = ''): Promise<unknown> {
  const { raw } = scene.stage;
  const { keys } = scene.at(word);
  const sets: string[] = [];
  for (const set of ['pending', 'active', 'schedule', 'dead'] as const) {
    if ((await raw.zscore(keys[set], id)) !== null) sets.push(set);
  }
  const state = await raw.hget(keys.job(id), 'state');
  return { state, sets, open: Number(await raw.get(`${keys.job(id)}:dependencies`)) };
}

const RELEASED = { state: 'pending', sets: ['pending'], open: 0 };
const HELD = (open: number) => ({ state: 'awaiting_children', sets: [], open });
const DEAD = (open: number) => ({ state: 'dead', sets: ['dead'], open });
/** A row with a state and nothing else, in `pending`. */
const STUB = ['', ':dependencies', ':processed', ':pending'].map((end) =>
  expect.stringMatching(new RegExp(end === ':pending' ? `\\}${end}$` : `:job:\\w{14}${end}$`)),
);

const stories: readonly Story[] = [
  {
    // The original decrements only when the settle took the child out of `active`. After a reap it is in `pending`: the
    // row is deleted all the same, and nobody is left who could decrement.
    name: 'H1: a completion that comes after a reap counts',
    well: RELEASED,
    badly: HELD(1),
    async tell(logic, scene) {
      const tree = parent(scene.queue, leaf(scene.queue));
      await logic.add(tree);
      const job = await first(scene);
      await scene.stage.lapse(scene.jobs.keys.active, job.id);
      expect(await scene.jobs.reap()).toBe(1);
      await logic.complete(scene.queue, job);
      return outcome(scene, tree.id);
    },
  },
  {
    // The same gate is before the outbox: no letter is left.
    name: 'H1: a completion that comes after a reap counts in another queue too',
    well: RELEASED,
    badly: HELD(1),
    async tell(logic, scene) {
      const tree = parent(scene.queue, leaf(scene.name('b')));
      await logic.add(tree);
      const job = await first(scene, 'b');
      await scene.stage.lapse(scene.at('b').keys.active, job.id);
      expect(await scene.at('b').reap()).toBe(1);
      await logic.complete(scene.name('b'), job);
      await logic.pump(scene.name('b'));
      return outcome(scene, tree.id);
    },
  },
  {
    // The original compares the token and not the state: a dead row keeps its token, so the step is made again, with the
    // metric and the decrement.
    name: 'H2: a failure that is sent again, since its reply was lost, counts once',
    well: { parent: HELD(1), failed: 1 },
    badly: { parent: RELEASED, failed: 2 },
    async tell(logic, scene) {
      const tree = parent(scene.queue, leaf(scene.queue, 'ignore'), leaf(scene.queue));
      await logic.add(tree);
      const job = await first(scene);
      await logic.die(scene.queue, job);
      await attempt(logic.die(scene.queue, job));
      return { parent: await outcome(scene, tree.id), failed: (await scene.jobs.metrics('failed')).count };
    },
  },
  {
    // The original's add writes its rows and the counter over what is there.
    name: 'H3: a flow that is added again keeps its count, and what is done stays done',
    well: { parent: HELD(1), again: [] },
    badly: { parent: HELD(2), again: [expect.any(String), expect.any(String)] },
    async tell(logic, scene) {
      const tree = parent(scene.queue, leaf(scene.queue), leaf(scene.queue));
      await logic.add(tree);
      await logic.complete(scene.queue, await first(scene));
      await attempt(logic.add(tree));
      return { parent: await outcome(scene, tree.id), again: await scene.jobs.browse('pending') };
    },
  },
  {
    // Over queues the original's children that are made again run again, and their second word is refused as known: the
    // counter, set anew, never gets to 0.
    name: 'H3: a flow over queues that is added again is done when its children are',
    well: { parent: RELEASED, runs: 2 },
    badly: { parent: HELD(1), runs: 3 },
    async tell(logic, scene) {
      const queue = scene.name('b');
      const tree = parent(scene.queue, leaf(queue), leaf(queue));
      await logic.add(tree);
      let runs = 0;
      const held = [...(await claimAll(scene.at('b'))).values()];
      const run = async (job: HeldJob): Promise<void> => {
        await logic.complete(queue, job);
        runs += 1;
      };
      await run(held[0] as HeldJob);
      await logic.pump(queue);
      await attempt(logic.add(tree));
      // the other one, and whatever has come back
      for (const job of (await claimAll(scene.at('b'))).values()) await run(job);
      await attempt(run(held[1] as HeldJob));
      await logic.pump(queue);
      return { parent: await outcome(scene, tree.id), runs };
    },
  },
  {
    // The original takes away as many letters from the head as it has delivered: two pumps that read the same head take
    // away twice as many, and what came meanwhile is lost.
    name: 'H4: a letter that comes while two pumps deliver is not lost',
    well: RELEASED,
    badly: HELD(1),
    async tell(logic, scene) {
      const queue = scene.name('b');
      const tree = parent(scene.queue, leaf(queue), leaf(queue));
      await logic.add(tree);
      const [one, two] = [...(await claimAll(scene.at('b'))).values()] as [HeldJob, HeldJob];
      await logic.complete(queue, one);
      let arrived = 0;
      let proceed: () => void = () => {};
      const both = new Promise<void>((resolve) => (proceed = resolve));
      const meeting = async (): Promise<void> => {
        if (++arrived === 2) {
          await logic.complete(queue, two);
          proceed();
        }
        await both;
      };
      await Promise.all([logic.pump(queue, meeting), logic.pump(queue, meeting)]);
      await logic.pump(queue);
      return outcome(scene, tree.id);
    },
  },
  {
    // In the original the child's step kills its parent, and the process that settles then tells the grandparent. If that
    // is gone in between nobody does: the parent is dead already, so nothing is told again.
    name: 'H5: the death of a grandchild reaches the root though the process is gone right after it',
    well: [DEAD(1), DEAD(1)],
    badly: [DEAD(1), HELD(1)],
    async tell(logic, scene) {
      const node = { ...parent(scene.queue, leaf(scene.queue)) };
      const tree = parent(scene.queue, node);
      await logic.add(tree);
      await logic.die(scene.queue, await first(scene), 'crash');
      for (let i = 0; i < 3; i++) await logic.pump(scene.queue);
      return [await outcome(scene, node.id), await outcome(scene, tree.id)];
    },
  },
  {
    // The same between a delivery and what follows from it: delivered again, the letter finds the parent dead.
    name: 'H5: the death of a grandchild elsewhere reaches the root though a pump is gone in the middle',
    well: [DEAD(1), DEAD(1)],
    badly: [DEAD(1), HELD(1)],
    async tell(logic, scene) {
      const node = parent(scene.name('b'), leaf(scene.name('c')));
      const tree = parent(scene.queue, node);
      await logic.add(tree);
      await logic.die(scene.name('c'), await first(scene, 'c'));
      await logic.pump(scene.name('c'), () => Promise.reject(CRASH));
      for (const word of ['c', 'b', 'c', 'b']) await logic.pump(scene.name(word));
      return [await outcome(scene, node.id, 'b'), await outcome(scene, tree.id)];
    },
  },
  {
    // The original's pump tells the grandparent whenever the parent was not dead before, not when it is dead now: an
    // ignored death makes it report one that is alive.
    name: 'H6: an ignored death kills nobody above',
    well: [HELD(1), HELD(1)],
    badly: [HELD(1), DEAD(1)],
    async tell(logic, scene) {
      const node = parent(scene.queue, leaf(scene.name('b'), 'ignore'), leaf(scene.name('b')));
      const tree = parent(scene.queue, node);
      await logic.add(tree);
      await logic.die(scene.name('b'), await first(scene, 'b'));
      await logic.pump(scene.name('b'));
      await logic.pump(scene.queue);
      return [await outcome(scene, node.id), await outcome(scene, tree.id)];
    },
  },
  {
    // The original's counted sweep knows nothing of parents.
    name: 'H7: a child that the sweep kills is told of',
    well: DEAD(1),
    badly: HELD(1),
    async tell(logic, scene) {
      const tree = parent(scene.queue, leaf(scene.queue));
      await logic.add(tree);
      await scene.stage.lapse(scene.jobs.keys.active, (await first(scene)).id);
      await logic.sweep(scene.queue);
      await logic.pump(scene.queue);
      return outcome(scene, tree.id);
    },
  },
  {
    // Nor does its removal; the row that had the link is gone.
    name: 'H8: a child that an operator removes is told of',
    well: [DEAD(0), RELEASED],
    badly: [HELD(1), HELD(1)],
    async tell(logic, scene) {
      const [fails, goesOn] = [leaf(scene.name('b')), leaf(scene.name('b'), 'ignore')];
      const [one, two] = [parent(scene.queue, fails), parent(scene.queue, goesOn)];
      for (const tree of [one, two]) await logic.add(tree);
      for (const child of [fails, goesOn]) await logic.remove(scene.name('b'), child.id);
      await logic.pump(scene.name('b'));
      return [await outcome(scene, one.id), await outcome(scene, two.id)];
    },
  },
  {
    // The original's fan-in asks for the count only: when it gets to 0 the parent is put into `pending`, dead or not.
    name: 'H9: a dead child that is brought back and completes does not raise its dead parent',
    well: DEAD(0),
    badly: { state: 'pending', sets: ['pending', 'dead'], open: 0 },
    async tell(logic, scene) {
      const child = leaf(scene.queue);
      const tree = parent(scene.queue, child);
      await logic.add(tree);
      await logic.die(scene.queue, await first(scene));
      await logic.reprocess(scene.queue, child.id);
      await logic.complete(scene.queue, await first(scene));
      return outcome(scene, tree.id);
    },
  },
  {
    // An ignored child was counted when it died. The original counts it again when it completes.
    name: 'H9: an ignored child that is brought back and completes is not counted twice',
    well: { parent: HELD(1), value: 'late', ignored: null },
    badly: { parent: RELEASED, value: 'late', ignored: 'broken' },
    async tell(logic, scene) {
      const child = leaf(scene.queue, 'ignore');
      const tree = parent(scene.queue, child, leaf(scene.queue));
      await logic.add(tree);
      await logic.die(scene.queue, await first(scene));
      await logic.reprocess(scene.queue, child.id);
      await logic.complete(scene.queue, await first(scene), 'late');
      const { raw } = scene.stage;
      const row = scene.jobs.keys.job(tree.id);
      return {
        parent: await outcome(scene, tree.id),
        value: await raw.hget(`${row}:processed`, child.id),
        ignored: await raw.hget(`${row}:unsuccessful`, child.id),
      };
    },
  },
  {
    // And when the parent is done and gone by then, the original makes a row of it that has a state and nothing else.
    name: 'H9: an ignored child that is brought back when its parent is gone raises nobody',
    well: [],
    badly: STUB,
    async tell(logic, scene) {
      const child = leaf(scene.queue, 'ignore');
      const tree = parent(scene.queue, child);
      await logic.add(tree);
      await logic.die(scene.queue, await first(scene));
      expect(await scene.jobs.complete(await first(scene))).toBe('completed');
      await logic.reprocess(scene.queue, child.id);
      await logic.complete(scene.queue, await first(scene));
      return scene.remains();
    },
  },
  {
    // The original's delivery writes without a look at the parent's row: it makes a stub, and a ghost in `pending`.
    name: 'H10: a letter for a parent that is gone makes nothing',
    well: [],
    badly: STUB,
    async tell(logic, scene) {
      const tree = parent(scene.queue, leaf(scene.name('b')));
      await logic.add(tree);
      const job = await first(scene, 'b');
      expect(await scene.jobs.remove(tree.id)).toBe('removed');
      await logic.complete(scene.name('b'), job);
      await logic.pump(scene.name('b'));
      return scene.remains();
    },
  },
  {
    // The original brings every dead job back to `pending`, a parent with open children too.
    name: 'H11: a dead parent that is brought back waits for its children again',
    well: [HELD(1), RELEASED],
    badly: [
      { state: 'pending', sets: ['pending'], open: 1 },
      { state: 'pending', sets: ['pending', 'active'], open: 0 },
    ],
    async tell(logic, scene) {
      const child = leaf(scene.queue);
      const tree = parent(scene.queue, child);
      await logic.add(tree);
      await logic.die(scene.queue, await first(scene));
      await logic.reprocess(scene.queue, tree.id);
      const back = await outcome(scene, tree.id);
      await logic.reprocess(scene.queue, child.id);
      const held = await claimAll(scene.jobs);
      await logic.complete(scene.queue, held.get(child.id) as HeldJob);
      return [back, await outcome(scene, tree.id)];
    },
  },
  {
    // Rank 9. The original stops at the first letter that it cannot read, at every beat again.
    name: 'a letter that nobody can read holds up no other',
    well: { parent: RELEASED, left: 0 },
    badly: { parent: HELD(1), left: 3 },
    async tell(logic, scene) {
      const tree = parent(scene.queue, leaf(scene.name('b')));
      await logic.add(tree);
      const { outbox } = scene.at('b').keys;
      await scene.stage.raw.rpush(outbox, 'no letter at all', [scene.queue, 'no id', mint(), '1'].join('\0'));
      await logic.complete(scene.name('b'), await first(scene, 'b'));
      for (let i = 0; i < 2; i++) await logic.pump(scene.name('b'));
      return { parent: await outcome(scene, tree.id), left: await scene.stage.raw.llen(outbox) };
    },
  },
  {
    // Rank 10. The original deletes the row of a parent, and what its children left stays for ever.
    name: 'a parent that is done leaves nothing',
    well: [],
    badly: [':dependencies', ':processed', ':unsuccessful'].map((end) => expect.stringMatching(new RegExp(`${end}$`))),
    async tell(logic, scene) {
      const tree = parent(scene.queue, leaf(scene.queue), leaf(scene.name('b'), 'ignore'));
      await logic.add(tree);
      await logic.complete(scene.queue, await first(scene));
      await logic.die(scene.name('b'), await first(scene, 'b'));
      await logic.pump(scene.name('b'));
      await logic.complete(scene.queue, await first(scene));
      for (const child of await scene.at('b').browse('dead')) await logic.remove(scene.name('b'), child);
      return scene.remains();
    },
  },
  // Rank 11. The original counts what it is given: of no child, of one that comes twice, of one that is its own parent,
  // there is never a last one.
  {
    name: 'a flow without children is refused',
    well: null,
    badly: 'awaiting_children',
    async tell(logic, scene) {
      const tree = parent(scene.queue);
      await attempt(logic.add(tree));
      return scene.stage.raw.hget(scene.jobs.keys.job(tree.id), 'state');
    },
  },
  {
    name: 'a flow with a child that comes twice is refused',
    well: null,
    badly: 'awaiting_children',
    async tell(logic, scene) {
      const child = leaf(scene.queue);
      const tree = parent(scene.queue, child, child);
      await attempt(logic.add(tree));
      for (const job of (await claimAll(scene.jobs)).values()) await logic.complete(scene.queue, job);
      return scene.stage.raw.hget(scene.jobs.keys.job(tree.id), 'state');
    },
  },
  {
    name: 'a flow with a child that is its own parent is refused',
    well: null,
    badly: 'pending',
    async tell(logic, scene) {
      const id = mint();
      const tree = { id, queue: scene.queue, children: [{ id, queue: scene.queue }] };
      await attempt(logic.add(tree));
      return scene.stage.raw.hget(scene.jobs.keys.job(id), 'state');
    },
  },
];

describe.each(EXECUTORS)('hazards on %s', (_executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  it.each(stories.map((story) => [story.name, story] as const))('%s', async (_name, { well, tell }) => {
    const scene = new FlowScene(stage, 'hazard');
    expect(await tell(new Ours(stage), scene)).toEqual(well);
  });

  it.each(stories.map((story) => [story.name, story] as const))(
    "and the original's logic fails it: %s",
    async (_name, { badly, tell }) => {
      const scene = new FlowScene(stage, 'original');
      expect(await tell(new Original(stage), scene)).toEqual(badly);
    },
  );
});
