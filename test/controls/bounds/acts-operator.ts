/**
 * What operators do and ask, each in the ways that could be slow.
 *
 * Invariants: the amounts are those that the clients of this package use by themselves. Does not: take the queue away.
 */
import { transitions as t, type PlaceName } from '../../../src/index.js';
import type { LanePlace } from '../../../src/wire/lane-transitions.js';
import { CROWD, groupOf, idOf, LANES } from './crowd.js';
import { act, HOUR, type Act, type Words, type World } from './world.js';

const MANY = 100;
/** Lanes that are mended in one step. */
const MENDED = 25;
const REPEATS = 10_000;

/** Groups that nothing else knows. */
const others = Array.from({ length: LANES }, (_, i) => groupOf(3_000_000 + i));

const onRing = async (w: World, at = -1): Promise<string> => (await w.raw.lindex(w.k.ring, at)) ?? '';
/** A job that is the only one that waits in its lane, which is the last on the ring. */
async function alone(w: World): Promise<string> {
  const id = idOf(w.fresh());
  await w.run(t.admit, { id, payload: 'x', group: groupOf(w.fresh()) });
  return id;
}

/** The last lanes of the ring are mended, after `change`: by so many is the ring longer then. */
function mended(what: string, by: number, change: (w: World, groups: readonly string[]) => readonly Words[]): Act {
  let length = 0;
  return act(`${MENDED} lanes that ${what}`, t.laneMend, {
    input: async (w) => {
      const groups = await w.raw.lrange(w.k.ring, -MENDED, -1);
      await w.commands(change(w, groups));
      length = await w.raw.llen(w.k.ring);
      return { groups };
    },
    did: async (_, w) => (await w.raw.llen(w.k.ring)) === length + by,
  });
}

const lanes: Act[] = [
  act('a ceiling that takes it off the ring', t.laneSet, {
    input: async (w) => {
      const group = await onRing(w);
      await w.raw.hset(`${w.k.base}gactive`, group, 5);
      return { group, settings: [['limit', 5]] as const };
    },
    did: () => true,
  }),
  act('all of it', t.laneSet, {
    input: async (w) => ({
      group: await onRing(w),
      settings: [
        ['limit', 100],
        ['weight', 5],
        ['max', 5],
        ['duration', HOUR],
      ] as const,
    }),
    did: () => true,
  }),
  act('for all lanes', t.laneSet, {
    input: () => ({ group: '*', settings: [['limit', 1_000]] as const }),
    did: () => true,
  }),
  mended('are as they should be', 0, () => []),
  mended('leave the ring', -MENDED, (w, groups) => [
    ['HSET', `${w.k.base}glimit`, '*', 1_000],
    ...groups.map((g) => ['HSET', `${w.k.base}gactive`, g, 1_000] as const),
  ]),
  mended('come back', MENDED, (w, groups) => [
    ['LTRIM', w.k.ring, 0, -MENDED - 1],
    // they have spent a token of a rate that is no more
    ...groups.map((g) => ['ZADD', `${w.k.base}gwait`, 1, g] as const),
    ...groups.map((g) => ['SET', `${w.k.base}g:${g}:limiter`, 1] as const),
  ]),
  act('the last on the ring', t.lanePause, {
    input: async (w) => ({ group: await onRing(w) }),
    did: (r) => r === 'paused',
  }),
  act('one that was paused', t.laneResume, {
    input: async (w) => {
      const group = await onRing(w, 5_000);
      await w.run(t.lanePause, { group });
      return { group };
    },
    did: (r) => r === 'resumed',
  }),
  act('the last of its lane to a new one', t.reassign, {
    input: async (w) => ({ id: await alone(w), group: groupOf(w.fresh()) }),
    did: (r) => r === 'reassigned',
  }),
  ...(['ring', 'paused', 'gactive', 'gwait', 'glimit', 'gweight', 'gmax'] satisfies LanePlace[]).map((place) =>
    act(place, t.lanes, {
      input: () => ({ place, cursor: '0', count: MANY }),
      did: ({ groups }) => place !== 'ring' || groups.length > 9_000,
    }),
  ),
  act('all lanes wait', t.lanes, {
    input: async (w) => {
      await w.commands(others.map((g, i) => ['ZADD', `${w.k.base}gwait`, i + 1, g]));
      return { place: 'gwait' as const, cursor: '0', count: MANY };
    },
    did: ({ groups }) => groups.length === LANES,
    after: (w) => w.raw.zrem(`${w.k.base}gwait`, ...others),
  }),
  act('a hundred', t.laneInfo, {
    input: async (w) => ({ groups: await w.raw.lrange(w.k.ring, 0, MANY - 1) }),
    did: (r) => r.length === MANY,
  }),
];

const limits: Act[] = [
  act('none', t.consult, { input: () => undefined, did: (r) => r === 'ok' }),
  act('none', t.limits, { input: () => undefined, did: ({ max }) => max === 0 }),
  act('a rate', t.setLimits, {
    input: () => ({ settings: [['max', 5]] as const }),
    did: () => true,
    after: (w) => w.run(t.setLimits, { settings: [['max', null]] }),
  }),
  act('an owner', t.dedup, {
    input: (w) => w.raw.set(w.k.dedup('x'), idOf(1)).then(() => ({ id: 'x' })),
    did: (r) => r?.owner === idOf(1),
  }),
  act('an owner', t.dedupFree, {
    input: (w) => w.raw.set(w.k.dedup('x'), idOf(1)).then(() => ({ id: 'x' })),
    did: (r) => r === 'freed',
  }),
];

const one: Act[] = [
  act('flat', t.remove, { input: (w) => ({ id: idOf(w.next(300_000, 1)[0] ?? 0) }), did: (r) => r === 'removed' }),
  act('the last of its lane', t.remove, { input: async (w) => ({ id: await alone(w) }), did: (r) => r === 'removed' }),
  act('in flight', t.remove, { input: async (w) => ({ id: (await w.one('lanes')).id }), did: (r) => r === 'removed' }),
  act('flat', t.cancel, {
    input: (w) => ({ id: idOf(w.next(300_000, 1)[0] ?? 0), reason: 'why' }),
    did: (r) => r === 'removed',
  }),
  act('the last of its lane', t.cancel, {
    input: async (w) => ({ id: await alone(w), reason: 'why' }),
    did: (r) => r === 'removed',
  }),
  act('in flight', t.cancel, {
    input: async (w) => ({ id: (await w.one('lanes')).id, reason: 'why' }),
    did: (r) => r === 'signalled',
  }),
  act('dead', t.reprocess, {
    input: (w) => ({ id: idOf(w.next(CROWD.dead.from + 100_000, 1)[0] ?? 0) }),
    did: (r) => r === 'pending',
  }),
  act('into its lane', t.promoteNow, {
    input: (w) => ({ id: idOf(w.next(CROWD.schedule.from + 50_000, 1)[0] ?? 0) }),
    did: (r) => r === 'pending',
  }),
  act('the earliest', t.reschedule, {
    input: (w) => ({ id: idOf(w.next(CROWD.schedule.from + 50_000, 1)[0] ?? 0), when: { inMs: HOUR } }),
    did: (r) => r === 'scheduled',
  }),
  act('a row', t.get, { input: () => ({ id: idOf(400_000) }), did: (r) => r !== null }),
  ...[400_000, CROWD.lanes.from + 9_999, CROWD.dead.from + 150_000].map((number) =>
    act('found', t.state, { input: () => ({ id: idOf(number) }), did: (r) => r !== 'absent' }),
  ),
  act('the queue', t.pause, { input: () => undefined, did: () => true, after: (w) => w.run(t.resume, undefined) }),
  act('the queue', t.resume, {
    input: async (w) => void (await w.run(t.pause, undefined)),
    did: () => true,
  }),
];

const DEPTHS = { pending: 590_000, active: 800, scheduled: 90_000, dead: 190_000, awaiting_children: 0 } as const;
const browses: Act[] = (Object.keys(DEPTHS) as (keyof typeof DEPTHS & PlaceName)[]).flatMap((state) =>
  (['asc', 'desc'] as const).flatMap((order) =>
    [0, DEPTHS[state] / 2, DEPTHS[state]].map((offset) =>
      act(`${state} from ${offset}, ${order}`, t.browse, {
        input: () => ({ state, offset, limit: MANY, order, scores: true }),
        did: (r) => state === 'awaiting_children' || r.length === 2 * MANY,
      }),
    ),
  ),
);

const reads: Act[] = [
  ...browses,
  act('a lane', t.browse, {
    input: async (w) => ({ state: 'pending' as const, lane: await onRing(w, 0), offset: 0, limit: MANY }),
    did: (r) => r.length > 0,
  }),
  act('all', t.counts, {
    input: () => ({
      names: ['pending', 'active', 'scheduled', 'dead', 'awaiting_children', 'completed', 'failed'] as const,
    }),
    did: (r) => r.length === 7,
  }),
  act('one', t.metrics, { input: () => ({ outcome: 'completed' as const }), did: (r) => r >= 0 }),
  act('a day', t.metricsRoll, {
    input: async (w) => void (await w.raw.hset(`${w.k.base}metrics:rolled`, 'minute', '1')),
    did: (r) => r > 1_440,
  }),
  act('a day', t.history, {
    input: () => ({ outcome: 'completed' as const, first: 0, count: 1_440 }),
    did: ({ counts }) => counts.length === 1_440,
  }),
];

const purges: Act[] = [
  ...(['pending', 'scheduled', 'dead'] as const).map((place) =>
    act(place, t.purge, {
      input: () => ({ place, reason: 'drained', offset: 0, limit: MANY }),
      did: ({ removed }) => removed === MANY,
    }),
  ),
  act('the oldest dead', t.purge, {
    input: () => ({ place: 'dead' as const, reason: 'trimmed', offset: 0, limit: MANY, ageMs: 1_000, keep: 1_000 }),
    did: ({ removed }) => removed === MANY,
  }),
  act('far behind those that are locked', t.purge, {
    input: () => ({ place: 'pending' as const, reason: 'drained', offset: 400_000, limit: MANY }),
    did: ({ removed }) => removed === MANY,
  }),
  act('a lane', t.purge, {
    input: async (w) => {
      const group = groupOf(w.fresh());
      const ids = Array.from({ length: MANY }, () => idOf(w.fresh()));
      for (const id of ids) await w.run(t.admit, { id, payload: 'x', group });
      return { place: { lane: group }, reason: 'drained', offset: 0, limit: MANY };
    },
    did: ({ removed }) => removed === MANY,
  }),
];

const nameOf = (number: number): string => `repeat-${number}`;
const SPEC = JSON.stringify({ everyMs: 1000 });
async function repeats(w: World): Promise<void> {
  if ((await w.raw.zcard(w.k.repeat)) >= REPEATS) return;
  for (let n = 0; n < REPEATS; n += 1_000) {
    await w.commands(
      Array.from({ length: 1_000 }, (_, i) => nameOf(n + i)).flatMap((name): (readonly [string, ...string[]])[] => [
        ['HSET', `${w.k.base}repeat:${name}`, 'name', name, 'spec', SPEC, 'next', '1', 'count', '0', 'payload', 'x'],
        ['ZADD', w.k.repeat, '1', name],
      ]),
    );
  }
}
const put = (w: World, name: string, first: number) => ({
  ...{ name, spec: `${SPEC}${w.fresh()}`, first, payload: 'x', group: groupOf(w.fresh()) },
});
const again: Act[] = [
  act('a new one', t.repeatPut, {
    input: async (w) => {
      await repeats(w);
      return put(w, `new-${w.fresh()}`, 1);
    },
    did: ({ now }) => now === 'created',
  }),
  act('into a new lane', t.repeatFire, {
    input: async (w) => {
      const name = `fire-${w.fresh()}`;
      await w.run(t.repeatPut, put(w, name, 5));
      return { name, slot: 5, id: idOf(w.fresh()), opts: '', next: 6 };
    },
    did: (r) => r === 'fired',
  }),
  act('one', t.repeatPause, { input: (w) => ({ name: nameOf(w.next(1, 1)[0] ?? 0) }), did: (r) => r === 'paused' }),
  act('one', t.repeatResume, {
    input: async (w) => {
      const name = nameOf(w.next(1_000, 1)[0] ?? 0);
      await w.run(t.repeatPause, { name });
      return { name, next: 1 };
    },
    did: (r) => r === 'resumed',
  }),
  act('one', t.repeatRemove, {
    input: (w) => ({ name: nameOf(w.next(2_000, 1)[0] ?? 0) }),
    did: (r) => r === 'removed',
  }),
  ...(['due', 'all'] as const).flatMap((which) =>
    [0, 9_000].map((offset) =>
      act(`${which} from ${offset}`, t.repeats, {
        input: () => ({ which, offset, limit: MANY }),
        did: ({ records }) => records.length === MANY,
      }),
    ),
  ),
  act('one', t.repeatGet, { input: () => ({ name: nameOf(5_000) }), did: ({ record }) => record !== null }),
  act('one more', t.register, { input: () => ({ mode: 'add' as const }), did: () => true }),
];

export const OPERATOR_ACTS: readonly Act[] = [...lanes, ...limits, ...one, ...reads, ...purges, ...again];
