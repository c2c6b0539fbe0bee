/**
 * The end of a play: all limits are lifted, every lane is served in its turn, everything is settled, and then the queue goes.
 *
 * Invariants: no job is lost or served without a claim, and no key is left. Does not: judge single calls (play.ts does).
 */
import { transitions as t } from '../../../src/index.js';
import type { Rng } from '../../../src/parity/prng.js';
import { dump } from '../../flows/model/dump.js';
import { GROUPS } from './acts.js';
import type { Play } from './play.js';
import { HOUR } from './steps.js';

const LEASE = { leaseMs: HOUR };
const ALL = 1_000;

export async function drain(play: Play, draw: Rng): Promise<void> {
  const { model } = play;
  await lift(play);
  // everybody who held a job is gone
  play.hands.length = 0;
  for (const job of [...model.in('active'), ...model.in('scheduled')]) if (job.due === undefined) await play.pass(job);
  for (const group of model.waits.keys()) await play.rested(group);
  for (const group of model.missing.keys()) await play.refill(group, ALL);
  await play.call(t.promote, { limit: ALL });
  await play.call(t.reap, { limit: ALL });
  for (const job of model.in('dead')) await play.call(t.reprocess, { id: job.id });
  for (const group of GROUPS) {
    if (draw.chance(50)) await play.call(t.laneSet, { group, settings: [['weight', 1 + draw.below(3)]] });
  }
  await serve(play);
  const left = [...model.jobs.keys()];
  play.judge(
    'everything has been served',
    left.map((id) => `${id} is left`),
  );
  await empty(play);
}

/** No limit, no pause and no wait is left. */
async function lift(play: Play): Promise<void> {
  const { model } = play;
  if (model.paused) await play.call(t.resume, undefined);
  await play.call(t.setLimits, {
    settings: [
      ['concurrency', null],
      ['max', null],
    ],
  });
  for (const group of GROUPS) play.mending.add(group);
  for (const group of ['*', ...GROUPS]) {
    await play.call(t.laneSet, {
      group,
      settings: [['limit', null], ['max', null], ...(group === '*' ? [] : [['duration', null] as const])],
    });
    if (group !== '*') play.mending.delete(group);
  }
  for (const group of [...model.pausedLanes]) await play.call(t.laneResume, { group });
}

/** Takes of one job, each completed: a lane on the ring gives one within as many as the weights of the ring say. */
async function serve(play: Play): Promise<void> {
  const { model } = play;
  const waited = new Map(model.ring.map((group) => [group, 0]));
  const weights = model.ring.reduce((sum, group) => sum + (model.own('weight', group) ?? 1), 0);
  while (model.ring.length > 0) {
    const [job] = (await play.call(t.take, { ...LEASE, count: 1, source: 'lanes' })) ?? [];
    if (job === undefined) return play.judge('a lane can be served', ['and nothing is given']);
    for (const [group, takes] of waited) {
      if (group === job.group) waited.set(group, 0);
      else if (model.ring.includes(group)) {
        waited.set(group, takes + 1);
        if (takes + 1 >= weights) play.judge('lanes take turns', [`${group} has waited for ${takes + 1} takes`]);
      }
    }
    await play.call(t.complete, { id: job.id, token: job.attempts });
  }
  for (let jobs = await play.call(t.claimBatch, { ...LEASE, size: 5 }); jobs && jobs.length > 0;) {
    for (const { id, attempts } of jobs) await play.call(t.complete, { id, token: attempts });
    jobs = await play.call(t.claimBatch, { ...LEASE, size: 5 });
  }
}

/** Nothing is there but what is configured and counted; and after obliterate nothing at all. */
async function empty(play: Play): Promise<void> {
  const { k, node } = play;
  const settings = ['meta', 'gweight', 'gduration', 'wake', 'metrics:completed', 'metrics:failed'];
  const buckets = [k.limiter, ...GROUPS.map((group) => `${k.base}g:${group}:limiter`)];
  const rest = [...(await dump(node.client)).keys()].filter(
    (key) => !settings.includes(key.slice(k.base.length)) && !buckets.includes(key),
  );
  play.judge(
    'everything is settled',
    rest.map((key) => `${key} is left`),
  );
  await play.obliterate();
  const keys = [...(await dump(node.client)).keys()];
  play.judge(
    'the queue is obliterated',
    keys.map((key) => `${key} is left`),
  );
}
