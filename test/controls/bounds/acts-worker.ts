/**
 * What producers and workers do, each in the ways that could be slow.
 *
 * Invariants: the amounts are those that the clients of this package use by themselves. Does not: hold operators' acts.
 */
import { transitions as t } from '../../../src/index.js';
import { CROWD, groupOf, idOf } from './crowd.js';
import { act, HOUR, type Act, type World } from './world.js';

const LEASE = { leaseMs: HOUR };
const MANY = 100;
const BULK = 1_000;
/** Jobs of each place that a quarantine looks at. */
const LOOKED = 50;

/** What an admission of this world needs, anew each time. */
const fresh = (w: World) => ({ id: idOf(w.fresh()), payload: 'x'.repeat(1_000) });
const dedup = { id: 'once', mode: 'replace', ttlMs: HOUR, keep: false } as const;

const admissions: Act[] = [
  act('flat', t.enqueue, { input: fresh, did: (r) => r === 'enqueued' }),
  act('behind all', t.enqueue, { input: (w) => ({ ...fresh(w), priority: 2_097_152 }), did: (r) => r === 'enqueued' }),
  act('the earliest', t.schedule, {
    input: (w) => ({ ...fresh(w), when: { inMs: HOUR } }),
    did: (r) => r === 'scheduled',
  }),
  act('into a lane on the ring', t.admit, {
    input: (w) => ({ ...fresh(w), group: groupOf(9_999) }),
    did: ({ outcome }) => outcome === 'enqueued',
  }),
  act('into a lane that is new', t.admit, {
    input: (w) => ({ ...fresh(w), group: groupOf(w.fresh()) }),
    did: ({ outcome }) => outcome === 'enqueued',
  }),
  act('with a dedup id, for a time', t.admit, {
    input: async (w) => {
      await w.run(t.dedupFree, { id: dedup.id });
      return { ...fresh(w), group: groupOf(w.fresh()), when: { inMs: HOUR }, dedup };
    },
    did: ({ outcome }) => outcome === 'scheduled',
  }),
  act('replaces the owner', t.admit, {
    input: (w) => ({ ...fresh(w), when: { inMs: HOUR }, dedup }),
    did: ({ outcome }) => outcome === 'replaced',
  }),
];

/** A queue and all its lanes have a rate while it is played, and every lane that gives has then spent it. */
const RATED = { max: 1, duration: HOUR };
async function rated(w: World): Promise<void> {
  await w.commands([
    ['HSET', `${w.k.base}gmax`, '*', RATED.max],
    ['HSET', `${w.k.base}gduration`, '*', RATED.duration],
    ['HSET', w.k.meta, 'concurrency', 100_000, 'max', 1_000_000],
  ]);
}
async function unrated(w: World): Promise<void> {
  await w.commands([
    ['DEL', `${w.k.base}gmax`, `${w.k.base}gduration`, w.k.limiter],
    ['HDEL', w.k.meta, 'concurrency', 'max'],
  ]);
  const waits = await w.raw.zrange(`${w.k.base}gwait`, '0', '-1');
  if (waits.length > 0) await w.run(t.laneMend, { groups: waits });
}

const claims: Act[] = [
  act('the first', t.claim, { input: () => LEASE, did: (r) => r !== null }),
  act('a hundred', t.claimBatch, { input: () => ({ ...LEASE, size: MANY }), did: (r) => r.length === MANY }),
  ...(['flat', 'lanes', 'both'] as const).flatMap((source) =>
    [1, MANY].map((count) =>
      act(`${count} of ${source}`, t.take, {
        input: () => ({ ...LEASE, count, source }),
        did: (r) => r.length === count,
      }),
    ),
  ),
  act('a hundred of lanes, of which each has spent its rate then', t.take, {
    input: async (w) => {
      await rated(w);
      return { ...LEASE, count: MANY, source: 'lanes' as const };
    },
    did: (r) => r.length === MANY && new Set(r.map(({ group }) => group)).size === MANY,
    after: unrated,
  }),
  // as when a ceiling was set for all lanes, and they have not been mended yet
  act('one of lanes, behind a thousand that cannot be served', t.take, {
    input: async (w) => {
      const heads = await w.raw.lrange(w.k.ring, 0, BULK - 1);
      await w.commands([
        ['DEL', `${w.k.base}glimit`],
        ...heads.map((g) => ['HSET', `${w.k.base}gactive`, g, 5] as const),
        ['HSET', `${w.k.base}glimit`, '*', 5],
      ]);
      return { ...LEASE, count: 1, source: 'lanes' as const };
    },
    // it gives up in between, and wakes somebody who goes on
    did: (r) => r.length === 0,
    after: async (w) => {
      await w.commands([['DEL', `${w.k.base}glimit`]]);
      const groups = (await w.raw.hkeys(`${w.k.base}gactive`)).slice(0, 5_000);
      for (let i = 0; i < groups.length; i += MANY) await w.run(t.laneMend, { groups: groups.slice(i, i + MANY) });
    },
  }),
  act('a hundred, flat', t.takeBatch, {
    input: () => ({ ...LEASE, size: MANY, min: MANY, source: 'flat' as const }),
    did: (r) => r.length === MANY,
  }),
  act('a lane', t.takeBatch, {
    input: () => ({ ...LEASE, size: MANY, min: 1, source: 'lanes' as const }),
    did: (r) => r.length > 1,
  }),
  act('no lane has so many', t.takeBatch, {
    input: () => ({ ...LEASE, size: MANY, min: MANY, source: 'lanes' as const }),
    did: (r) => r.length === 0,
  }),
];

const settles: Act[] = (['flat', 'lanes'] as const).flatMap((source) => {
  const one = (w: World) => w.one(source);
  const fail = async (w: World, maxAttempts: number) => ({
    ...(await w.one(source)),
    ...{ delayMs: HOUR, maxAttempts, error: 'x'.repeat(4_096) },
  });
  return [
    act(source, t.complete, { input: one, did: (r) => r === 'completed' }),
    act(source, t.release, { input: one, did: (r) => r === 'released' }),
    act(`${source}, again`, t.fail, { input: (w) => fail(w, 100), did: (r) => r === 'scheduled' }),
    act(`${source}, for good`, t.fail, { input: (w) => fail(w, 1), did: (r) => r === 'dead' }),
    act(source, t.delay, {
      input: async (w) => ({ ...(await one(w)), when: { inMs: HOUR } }),
      did: (r) => r === 'scheduled',
    }),
    act(source, t.extend, { input: async (w) => ({ ...(await one(w)), ...LEASE }), did: (r) => r === 'extended' }),
    act(source, t.backOff, {
      input: async (w) => ({ ...(await one(w)), ms: 50, scope: 'own' as const }),
      did: (r) => r === 'released',
      after: async (w) => {
        await w.raw.del(w.k.limiter);
        await w.commands(
          (await w.raw.zrange(`${w.k.base}gwait`, '0', '-1')).map((g) => ['ZADD', `${w.k.base}gwait`, 1, g]),
        );
        await w.run(t.promote, { limit: 100 });
      },
    }),
  ];
});

/** `count` lanes leave the ring and wait, and their time has come. */
async function rested(w: World, count: number): Promise<void> {
  const groups = await w.raw.lrange(w.k.ring, -count, -1);
  await w.commands([
    ['LTRIM', w.k.ring, 0, -count - 1],
    ...groups.map((g) => ['ZADD', `${w.k.base}gwait`, 1, g] as const),
  ]);
}

const sweeps: Act[] = [
  act('a thousand jobs', t.extendMany, {
    input: async (w) => ({
      ...LEASE,
      held: (await w.hold('both', BULK)).map(({ id, attempts }) => ({ id, token: attempts })),
    }),
    did: (r) => r.length === 0,
  }),
  act('a hundred jobs of as many lanes', t.promote, {
    input: async (w) => {
      await w.lapse(w.k.schedule, w.next(CROWD.schedule.from, MANY));
      return { limit: MANY };
    },
    did: (r) => r === MANY,
  }),
  act('a hundred jobs of as many lanes, and a hundred lanes that have waited', t.promote, {
    input: async (w) => {
      await w.lapse(w.k.schedule, w.next(CROWD.schedule.from, MANY));
      await rested(w, MANY);
      return { limit: MANY };
    },
    did: (r) => r === MANY,
  }),
  act('a hundred jobs of as many lanes that are on the ring', t.reap, {
    input: async (w) => {
      await w.lapse(w.k.active, await w.inFlight(MANY, 'ring'));
      return { limit: MANY };
    },
    did: (r) => r === MANY,
  }),
  act('a hundred jobs of as many lanes that are not on the ring', t.reap, {
    input: async (w) => {
      await w.lapse(w.k.active, await w.inFlight(MANY, 'new'));
      return { limit: MANY };
    },
    did: (r) => r === MANY,
  }),
  ...([3, 1] as const).flatMap((maxStalled) => [
    act(`a hundred jobs of as many lanes that are on the ring, of ${maxStalled} times`, t.stalledCheck, {
      input: async (w) => {
        await w.lapse(w.k.active, await w.inFlight(MANY, 'ring'));
        return { maxStalled, limit: MANY };
      },
      did: ({ recovered, dead }) => (maxStalled === 1 ? dead : recovered).length === MANY,
    }),
    act(`a hundred jobs of as many lanes that are not, of ${maxStalled} times`, t.stalledCheck, {
      input: async (w) => {
        await w.lapse(w.k.active, await w.inFlight(MANY, 'new'));
        return { maxStalled, limit: MANY };
      },
      did: ({ recovered, dead }) => (maxStalled === 1 ? dead : recovered).length === MANY,
    }),
  ]),
  act('a hundred that have lapsed, of which some are of the lane', t.reapGroup, {
    input: async (w) => {
      const numbers = await w.inFlight(MANY, 'new');
      await w.lapse(w.k.active, numbers);
      return { group: groupOf(numbers[0] ?? 0), limit: MANY, offset: 0 };
    },
    did: ({ recovered }) => recovered === 1,
    after: (w) => w.run(t.reap, { limit: MANY }),
  }),
  act('nothing is unreadable', t.quarantine, {
    input: async (w) => {
      await w.lapse(w.k.schedule, w.next(CROWD.schedule.from, MANY));
      await w.lapse(w.k.active, await w.inFlight(MANY, 'new'));
      return { limit: LOOKED };
    },
    did: (r) => r.length === 0,
    after: async (w) => {
      await w.run(t.reap, { limit: MANY });
      await w.run(t.promote, { limit: MANY });
    },
  }),
  act('everything that it sees is unreadable', t.quarantine, {
    input: async (w) => {
      const [due, lapsed] = [w.next(CROWD.schedule.from, MANY), await w.inFlight(MANY, 'new')];
      await w.lapse(w.k.schedule, due);
      await w.lapse(w.k.active, lapsed);
      const flat = await w.raw.zrange(w.k.pending, '0', String(MANY - 1));
      const ids = [...flat, ...[...due, ...lapsed].map(idOf)];
      for (const g of await w.raw.lrange(w.k.ring, 0, MANY - 1)) {
        const [first] = await w.raw.zrange(w.k.lane(g), '0', '0');
        if (first !== undefined) ids.push(first);
      }
      await w.commands(ids.map((id) => ['HSET', w.k.job(id), 'attempts', 'x']));
      return { limit: LOOKED };
    },
    // of each lane it sees one that can be read too
    did: (r) => r.length >= 3.5 * LOOKED,
  }),
];

const said: Act[] = [
  act('when something is due', t.agenda, { input: () => undefined, did: ({ dueInMs }) => dueInMs !== null }),
  act('a leg', t.recovery, { input: () => ({ leg: 'reap', mode: 'keep' }) as const, did: (r) => r === 'reap' }),
  act('a token', t.wake, { input: (w) => void w.raw.del(w.k.wake), did: (r) => r === 'pushed' }),
  act('a thousand messages', t.publish, {
    input: () => ({ messages: Array.from({ length: BULK }, (_, i) => `{"event":"completed","job":"${idOf(i)}"}`) }),
    did: (r) => r === BULK,
  }),
  act('a payload', t.updateData, {
    input: (w) => ({ id: idOf(CROWD.pending.from + 500_000), payload: fresh(w).payload }),
    did: (r) => r === 'updated',
  }),
  act('progress', t.updateProgress, {
    input: () => ({ id: idOf(CROWD.pending.from + 500_000), progress: '50' }),
    did: (r) => r === 'updated',
  }),
  act('a line', t.addLog, {
    input: () => ({ id: idOf(CROWD.pending.from + 500_000), line: 'x'.repeat(1_000), keep: MANY }),
    did: (r) => Number(r) >= 1,
  }),
  act('a hundred lines', t.logs, {
    input: async (w) => {
      const id = idOf(CROWD.pending.from + 500_001);
      await w.raw.rpush(w.k.logs(id), ...Array.from({ length: MANY }, () => 'x'.repeat(1_000)));
      return { id, first: -MANY, last: -1 };
    },
    did: (r) => r.length === MANY,
  }),
];

export const WORKER_ACTS: readonly Act[] = [...admissions, ...claims, ...settles, ...sweeps, ...said];
