/**
 * Lanes: conformance scenarios 12-14, 24, 42-46, 60 and 61.
 */
import { expect } from 'vitest';
import { Admin, Lanes, mint, Repeats } from '../../src/index.js';
import type { Scenario, Scene } from './scenario.js';
import { MINUTE } from './stage.js';

const LEASE = { leaseMs: MINUTE };

const lanesOf = ({ stage, jobs }: Scene): Lanes => new Lanes(stage.connector, jobs);
const groups = (many: number): string[] => Array.from({ length: many }, () => mint('PRT'));

async function fill(lanes: Lanes, group: string, many: number): Promise<string[]> {
  const items = Array.from({ length: many }, (_, payload) => ({ group, payload }));
  return (await lanes.enqueueMany(items)).map(({ id }) => id);
}

/** The group of each of the next claims; undefined where there was nothing. */
async function turns(lanes: Lanes, many: number): Promise<(string | undefined)[]> {
  const served: (string | undefined)[] = [];
  for (let i = 0; i < many; i += 1) served.push((await lanes.claim(LEASE))?.group);
  return served;
}

export const lanePlane: readonly Scenario[] = [
  {
    number: 12,
    name: 'rotate',
    shows: 'two lanes with two jobs each are served a, b, a, b',
    async play(scene) {
      const lanes = lanesOf(scene);
      const [a = '', b = ''] = groups(2);
      await fill(lanes, a, 2);
      await fill(lanes, b, 2);
      expect(await turns(lanes, 5)).toEqual([a, b, a, b, undefined]);
    },
  },
  {
    number: 13,
    name: 'pause',
    shows: 'a paused lane is passed over with its jobs untouched; resumed, it is served',
    async play(scene) {
      const lanes = lanesOf(scene);
      const [a = '', b = ''] = groups(2);
      await fill(lanes, a, 2);
      await fill(lanes, b, 1);
      expect(await lanes.pause(a)).toBe('paused');
      expect(await turns(lanes, 2)).toEqual([b, undefined]);
      expect(await lanes.depth(a)).toBe(2);
      expect(await lanes.resume(a)).toBe('resumed');
      expect(await turns(lanes, 3)).toEqual([a, a, undefined]);
    },
  },
  {
    number: 14,
    name: 'limit',
    shows: 'with a limit of 1 the second claim is empty; after the completion the lane is served again',
    async play(scene) {
      const lanes = lanesOf(scene);
      const [a = ''] = groups(1);
      await lanes.setLimit(a, 1);
      await fill(lanes, a, 2);
      const job = await lanes.claim(LEASE);
      if (job === null) throw new Error('nothing was claimed');
      expect(await scene.stage.unchanged(() => lanes.claim(LEASE))).toBeNull();
      expect(await scene.jobs.complete(job)).toBe('completed');
      expect(await lanes.claim(LEASE)).toMatchObject({ group: a });
    },
  },
  {
    number: 24,
    name: 'lane_depth',
    shows: 'each lane tells how many jobs wait in it',
    async play(scene) {
      const lanes = lanesOf(scene);
      const [a = '', b = ''] = groups(2);
      await fill(lanes, a, 2);
      await fill(lanes, b, 1);
      expect([...(await lanes.depths([a, b]))]).toEqual([
        [a, 2],
        [b, 1],
      ]);
      expect(await lanes.depth(mint('PRT'))).toBe(0);
    },
  },
  {
    number: 42,
    name: 'stalled_group',
    shows: 'a lapsed job of a lane goes back to its lane, not to the flat ones; its next token is 2',
    async play(scene) {
      const { stage, jobs } = scene;
      const lanes = lanesOf(scene);
      const [a = ''] = groups(1);
      const [id = ''] = await fill(lanes, a, 1);
      await lanes.claim(LEASE);
      await stage.lapse(jobs.keys.active, id);
      expect(await jobs.stalledCheck()).toEqual({ recovered: [id], dead: [] });
      expect(await jobs.counts(['pending', 'active'])).toEqual({ pending: 0, active: 0 });
      expect(await lanes.info([a])).toMatchObject([{ waiting: 1, active: 0 }]);
      expect(await lanes.claim(LEASE)).toMatchObject({ id, token: 2 });
    },
  },
  {
    number: 43,
    name: 'obliterate_grouped',
    shows: 'a job that waits in a lane leaves no row, no lane and no key',
    async play(scene) {
      const { stage, jobs } = scene;
      const lanes = lanesOf(scene);
      const [a = ''] = groups(1);
      await fill(lanes, a, 1);
      await lanes.setLimit(a, 4);
      const admin = new Admin(stage.connector, jobs.queue);
      await admin.pause();
      await admin.obliterate();
      expect(await stage.raw.keys(`${jobs.keys.base}*`)).toEqual([]);
    },
  },
  {
    number: 44,
    name: 'reassign',
    shows: 'a waiting job changes its lane, once; claim and completion are counted there only',
    async play(scene) {
      const { stage, jobs } = scene;
      const lanes = lanesOf(scene);
      const [a = '', b = ''] = groups(2);
      const [id = ''] = await fill(lanes, a, 1);
      expect(await lanes.reassign(id, b)).toBe('reassigned');
      expect(await stage.raw.exists(jobs.keys.lane(a))).toBe(0);
      expect(await stage.raw.zrange(jobs.keys.lane(b), '0', '-1', 'WITHSCORES')).toEqual([id, '0']);
      expect(await jobs.get(id)).toMatchObject({ group: b });
      expect(await stage.unchanged(() => lanes.reassign(id, b))).toBe('noop');
      const job = await lanes.claim(LEASE);
      expect(await stage.raw.hgetall(`${jobs.keys.base}gactive`)).toEqual({ [b]: '1' });
      await jobs.complete(job ?? { id, token: 1 });
      expect(await stage.raw.exists(`${jobs.keys.base}gactive`)).toBe(0);
    },
  },
  {
    number: 45,
    name: 'lane_drain',
    shows: 'a drained lane loses what waits, logs and all; the job in flight, its sibling and repeats stay',
    async play(scene) {
      const { stage, jobs } = scene;
      const lanes = lanesOf(scene);
      const [a = '', b = ''] = groups(2);
      const ids = await fill(lanes, a, 3);
      const [sibling = ''] = await fill(lanes, b, 1);
      await new Repeats(stage.connector, jobs.queue).upsert('nightly', { everyMs: MINUTE }, { payload: 1 });
      await jobs.addLog(ids[2] ?? '', 'line');
      const held = await lanes.claim(LEASE);
      expect(await lanes.drain(a)).toEqual({ removed: 2, kept: 0 });
      const rows = ids.slice(1).flatMap((id) => [jobs.keys.job(id), jobs.keys.logs(id)]);
      expect(await stage.raw.exists(...rows, jobs.keys.lane(a))).toBe(0);
      expect(await stage.raw.lrange(jobs.keys.ring, 0, -1)).toEqual([b]);
      expect(await lanes.info([a, b])).toMatchObject([
        { waiting: 0, active: 1 },
        { waiting: 1, active: 0 },
      ]);
      expect(await jobs.state(sibling)).toBe('pending');
      expect(await stage.raw.zcard(jobs.keys.repeat)).toBe(1);
      expect(await jobs.complete(held ?? { id: '', token: 1 })).toBe('completed');
      expect(await stage.unchanged(() => lanes.drain(mint('PRT')))).toEqual({ removed: 0, kept: 0 });
    },
  },
  {
    number: 46,
    name: 'reap_group',
    shows: 'only the lapsed job of the named lane goes back to it; the sibling stays active',
    async play(scene) {
      const { stage, jobs } = scene;
      const lanes = lanesOf(scene);
      const [a = '', b = ''] = groups(2);
      const [mine = ''] = await fill(lanes, a, 1);
      const [other = ''] = await fill(lanes, b, 1);
      await turns(lanes, 2);
      for (const id of [mine, other]) await stage.lapse(jobs.keys.active, id);
      expect(await lanes.reap(a)).toBe(1);
      expect(await lanes.info([a, b])).toMatchObject([
        { waiting: 1, active: 0 },
        { waiting: 0, active: 1 },
      ]);
      expect(await jobs.state(other)).toBe('active');
      expect(await lanes.claim(LEASE)).toMatchObject({ id: mine, token: 2 });
      expect(await stage.unchanged(() => lanes.reap(mint('PRT')))).toBe(0);
    },
  },
  {
    number: 60,
    name: 'weighted_proportion',
    shows: 'weights 3 and 1 over 40 turns: the heavy lane gives two to four times what the light one gives',
    async play(scene) {
      const { stage, jobs } = scene;
      const lanes = lanesOf(scene);
      const [heavy = '', light = ''] = groups(2);
      await lanes.setWeight(heavy, 3);
      await fill(lanes, heavy, 60);
      await fill(lanes, light, 60);
      const served = await turns(lanes, 40);
      const share = (group: string) => served.filter((one) => one === group).length;
      expect(share(heavy) + share(light)).toBe(40);
      expect(share(light)).toBeGreaterThan(0);
      expect(share(heavy)).toBeGreaterThanOrEqual(2 * share(light));
      expect(share(heavy)).toBeLessThanOrEqual(4 * share(light));
      expect(await stage.raw.zcard(jobs.keys.active)).toBe(40);
    },
  },
  {
    number: 61,
    name: 'starvation_drill',
    shows: 'beside a heavy lane of 200 both light ones are served within 9 turns, and all is served in the end',
    async play(scene) {
      const lanes = lanesOf(scene);
      const [heavy = '', first = '', second = ''] = groups(3);
      await lanes.setWeight(heavy, 5);
      await fill(lanes, heavy, 200);
      await fill(lanes, first, 6);
      await fill(lanes, second, 6);
      const early = await turns(lanes, 9);
      expect(early).toEqual(expect.arrayContaining([first, second]));
      // Here a turn is one job, in the original up to five: 212 less 9 are left.
      const rest = await turns(lanes, 203);
      expect(rest).not.toContain(undefined);
      expect([...(await lanes.depths([heavy, first, second])).values()]).toEqual([0, 0, 0]);
    },
  },
];
