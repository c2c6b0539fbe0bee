/**
 * What producers, workers and operators of a play do, drawn at random.
 *
 * Invariants: a draw that finds nothing to act on does nothing; workers die with what they hold, lose answers, and settle what
 * is no longer theirs. Does not: judge.
 */
import { transitions as t, type Source } from '../../../src/index.js';
import type { Rng } from '../../../src/parity/prng.js';
import type { Hand, Play } from './play.js';
import { HOUR } from './steps.js';

export const GROUPS: readonly string[] = ['TEN0000000000A', 'TEN0000000000B', 'ORD0000000000C', 'TEN0000000000D'];
const LEASE = { leaseMs: HOUR };
/** Few enough that lanes run dry, and many enough that they fill. */
const MOST_JOBS = 24;
const SOURCES: readonly Source[] = ['lanes', 'lanes', 'both', 'flat'];

type Act = (play: Play, draw: Rng) => Promise<unknown> | undefined;

const anyId = (play: Play, draw: Rng): string | undefined => {
  const ids = [...play.model.jobs.keys()];
  return ids.length === 0 ? undefined : draw.pick(ids);
};

/** Workers hear of what they were given, or do not. */
function taken(play: Play, draw: Rng, jobs: readonly { readonly id: string; readonly attempts: number }[] = []): void {
  if (draw.chance(8)) {
    play.note('    the answer is lost');
    return;
  }
  for (const { id, attempts } of jobs) play.hands.push({ id, token: attempts });
}

/** A job in hand is settled; it stays in hand when the answer is lost, and sometimes for no reason. */
async function settle(play: Play, draw: Rng, how: (hand: Hand) => Promise<unknown>): Promise<void> {
  if (play.hands.length === 0) return;
  const at = draw.below(play.hands.length);
  const [hand] = play.hands.slice(at, at + 1);
  if (hand === undefined) return;
  if (!draw.chance(12)) play.hands.splice(at, 1);
  await how(hand);
}

/** Another producer may have minted an id before, which comes now. */
const mint = (draw: Rng): string => `JOB0${String(draw.below(1_000_000)).padStart(10, '0')}`;

const admit: Act = async (play, draw) => {
  const count = draw.chance(20) ? 1 + draw.below(5) : 1;
  for (let n = 0; n < count && play.model.jobs.size < MOST_JOBS; n += 1) {
    const input = {
      ...{ id: mint(draw), payload: 'p', priority: draw.pick([null, null, 1, 2]) ?? undefined },
      group: draw.chance(80) ? draw.pick(GROUPS) : undefined,
      when: draw.chance(15) ? { inMs: HOUR } : undefined,
    };
    await play.call(t.admit, input);
    // an answer that was lost: the producer sends it again
    if (draw.chance(5)) await play.call(t.admit, input);
  }
};

const take: Act = async (play, draw) => {
  const input = { ...LEASE, count: 1 + draw.below(5), source: draw.pick(SOURCES) };
  taken(play, draw, await play.call(t.take, input));
};

const takeBatch: Act = async (play, draw) => {
  const size = 1 + draw.below(5);
  const source = draw.chance(80) ? ('lanes' as const) : ('flat' as const);
  taken(play, draw, await play.call(t.takeBatch, { ...LEASE, size, min: 1 + draw.below(size), source }));
};

const claim: Act = async (play, draw) => {
  if (draw.chance(50)) {
    const job = await play.call(t.claim, LEASE);
    taken(play, draw, job ? [job] : []);
  } else taken(play, draw, await play.call(t.claimBatch, { ...LEASE, size: 1 + draw.below(4) }));
};

const complete: Act = (play, draw) =>
  settle(play, draw, async (hand) => {
    await play.call(t.complete, hand);
    if (draw.chance(10)) await play.call(t.complete, hand);
  });
const fail: Act = (play, draw) =>
  settle(play, draw, (hand) =>
    play.call(t.fail, { ...hand, delayMs: HOUR, maxAttempts: 1 + draw.below(6), error: 'broken' }),
  );
const delay: Act = (play, draw) => settle(play, draw, (hand) => play.call(t.delay, { ...hand, when: { inMs: HOUR } }));
const release: Act = (play, draw) => settle(play, draw, (hand) => play.call(t.release, hand));
const backOff: Act = (play, draw) =>
  settle(play, draw, (hand) =>
    play.call(t.backOff, {
      ...{ ...hand, ms: (1 + draw.below(3)) * HOUR },
      scope: draw.chance(80) ? ('own' as const) : ('queue' as const),
    }),
  );

/** A worker is gone with all that it holds, and some of its leases lapse. */
const kill: Act = async (play, draw) => {
  const lost = play.hands.splice(0, draw.below(play.hands.length + 1));
  for (const { id } of lost) {
    const job = play.model.jobs.get(id);
    if (job?.place === 'active' && draw.chance(80)) await play.pass(job);
  }
};

/** Leases lapse under their workers' hands, times come, lanes have waited, buckets fill. */
const time: Act = async (play, draw) => {
  const { model } = play;
  const jobs = [...model.in('active'), ...model.in('scheduled')].filter(({ due }) => due === undefined);
  for (let n = draw.below(3); n > 0 && jobs.length > 0; n -= 1) {
    await play.pass(draw.pick(jobs));
  }
  const waiting = [...model.waits.keys()];
  if (waiting.length > 0 && draw.chance(60)) await play.rested(draw.pick(waiting));
  const buckets = [...model.missing.keys()];
  if (buckets.length > 0 && draw.chance(70)) await play.refill(draw.pick(buckets), 1 + draw.below(6));
};

const sweep: Act = async (play, draw) => {
  const limit = 1 + draw.below(5);
  const group = draw.pick(GROUPS);
  switch (draw.below(8)) {
    case 0:
    case 1:
      return play.call(t.reap, { limit });
    case 2:
      // most of the time a lane that has something lapsed, and often no more than is looked at
      return play.call(t.reapGroup, {
        group: (draw.chance(60) ? play.model.due('active')[0]?.group : undefined) ?? group,
        limit: draw.chance(40) ? 1 : limit,
        offset: draw.pick([0, 0, 1, 2]),
      });
    case 3:
    case 4:
      return play.call(t.stalledCheck, { limit, maxStalled: 1 + draw.below(3) });
    default:
      return play.call(t.promote, { limit });
  }
};

const operate: Act = async (play, draw) => {
  const [id, group] = [anyId(play, draw), draw.pick(GROUPS)];
  if (draw.chance(25)) {
    const lane = play.model.ring.length > 0 ? draw.pick(play.model.ring) : group;
    const [offset, limit] = [draw.chance(80) ? 0 : 1, 1 + draw.below(6)];
    return play.call(t.purge, { place: { lane }, reason: 'purged', offset, limit });
  }
  if (id === undefined) return;
  const dead = play.model.in('dead');
  switch (draw.below(6)) {
    case 0:
      return play.call(t.remove, { id });
    case 1:
      return play.call(t.cancel, { id, reason: 'why' });
    case 2:
      return play.call(t.reprocess, { id: dead.length > 0 ? draw.pick(dead).id : id });
    case 3:
      return play.call(t.promoteNow, { id });
    default:
      return play.call(t.reassign, { id, group });
  }
};

const pauses: Act = async (play, draw) => {
  const group = draw.pick(GROUPS);
  switch (draw.below(7)) {
    case 0:
      return play.call(t.pause, undefined);
    case 1:
    case 2:
      return play.call(t.resume, undefined);
    case 3:
    case 4:
      return play.call(t.lanePause, { group });
    default:
      return play.call(t.laneResume, { group });
  }
};

const MAX = [1, 2, 3, 6, null];
const limits: Act = async (play, draw) => {
  const [kind, value] = [draw.below(5), draw.pick([1, 2, 3, null])];
  switch (kind) {
    case 0:
      return play.call(t.setLimits, { settings: [['concurrency', value === null ? null : value + 1]] });
    case 1:
      return play.call(t.setLimits, { settings: [['max', draw.pick(MAX)]] });
    case 2:
      return play.call(t.setLimits, { settings: [['duration', draw.pick([6, 12]) * HOUR]] });
    case 3:
      return play.call(t.setLimits, {
        settings: [
          ['max', null],
          ['concurrency', null],
        ],
      });
    default:
      return play.call(t.consult, undefined);
  }
};

const lanes: Act = async (play, draw) => {
  const group = draw.chance(20) ? '*' : draw.pick(GROUPS);
  const value = draw.pick([1, 2, 3, null]);
  const setting = draw.pick([
    ['limit', value],
    ['limit', value],
    ['weight', value],
    ['weight', value],
    ['max', draw.pick(MAX)],
    // what holds for all lanes is always there
    ['duration', group === '*' || draw.chance(70) ? draw.pick([6, 12]) * HOUR : null],
  ] as const);
  // for a time some lanes are not as they should be
  if (group === '*') for (const one of GROUPS) play.mending.add(one);
  await play.call(t.laneSet, { group, settings: [setting] });
};

/** Lanes are mended, some or all, as whoever sets something for all of them does. */
export const mend: Act = async (play, draw) => {
  const groups = [...play.mending].filter(() => draw.chance(70));
  if (groups.length === 0) return;
  for (const group of groups) play.mending.delete(group);
  await play.call(t.laneMend, { groups });
};

const sleep: Act = (play) => play.sleep();

const ACTS: readonly (readonly [number, Act])[] = [
  [20, admit],
  [22, take],
  [8, takeBatch],
  [4, claim],
  [9, complete],
  [5, fail],
  [3, delay],
  [5, release],
  [4, backOff],
  [2, kill],
  [14, time],
  [14, sweep],
  [8, operate],
  [6, pauses],
  [5, limits],
  [8, lanes],
  [6, mend],
  [10, sleep],
];
const TOTAL = ACTS.reduce((sum, [weight]) => sum + weight, 0);

/** Does one thing. */
export async function act(play: Play, draw: Rng): Promise<void> {
  let drawn = draw.below(TOTAL);
  for (const [weight, one] of ACTS) {
    drawn -= weight;
    if (drawn < 0) {
      await one(play, draw);
      return;
    }
  }
}
