/**
 * The drawing of repeats and of the operator's steps.
 *
 * Invariants: slots are at least 60 s away from now; in a clean battery no letter is dropped unheard, so nothing is
 * obliterated by force. Does not: send anything.
 */
import type { Bytes } from './keyspace-dump.js';
import { groupOf } from './lane-steps.js';
import { anyId, fieldOf, GROUPS, scoreOf, span, type Scene } from './scene.js';
import { BYTES, call, idOf, small, timeUntil, type Make } from './step-parts.js';

const NAMES = ['r', 's', 'Tue.9-am'];

/** A slot: past or future. */
const slotOf = (s: Scene): Bytes => String(s.now + Number(timeUntil(s)));

const repeatPut: Make = (s) => {
  const bounds = [s.rng.pick(['', '', '1', '2']), s.rng.pick(['', '', '4000000000000', '1000'])];
  const job = [s.rng.pick(BYTES), s.rng.pick(['', '3']), s.rng.pick(['', '{"name":"x"}'])];
  const group = s.rng.chance(50) ? groupOf(s) : '';
  const args = [s.rng.pick(NAMES), s.rng.pick(['every', 'cron']), slotOf(s), ...bounds, ...job, group];
  if (s.mode === 'dirty' && s.rng.chance(3)) args.push('x');
  return call('repeat_put', [s.base], args);
};

const repeatFire: Make = (s) => {
  const name = s.rng.pick(NAMES);
  const score = scoreOf(s, 'repeat', name);
  const slot = score !== undefined && Number.isFinite(score) && s.rng.chance(85) ? score : Number(slotOf(s));
  const next = s.rng.chance(80) ? String(Math.max(slot, s.now) + Number(span(s)) * (s.rng.chance(90) ? 1 : -1)) : '';
  const args = [name, String(slot), anyId(s), s.rng.pick(['', '{"repeat":"r"}']), next];
  return call('repeat_fire', [s.base], args);
};

const onName =
  (transition: string): Make =>
  (s) =>
    call(transition, [s.base], [s.rng.pick(NAMES)]);

const repeatResume: Make = (s) =>
  call('repeat_resume', [s.base], [s.rng.pick(NAMES), s.rng.chance(85) ? slotOf(s) : '']);

const repeats: Make = (s) => {
  const which = s.rng.pick(['due', 'all', ...(s.mode === 'dirty' && s.rng.chance(20) ? ['both'] : [])]);
  return call('repeats', [s.base], [which, s.rng.pick(['0', '0', '1']), small(s.rng)]);
};

const purge: Make = (s) => {
  const lane = `g:${s.rng.pick(GROUPS)}:pending`;
  const odd = s.mode === 'dirty' && s.rng.chance(10) ? ['active', 'flow:held', ''] : [];
  const set = s.rng.pick(['pending', 'schedule', 'dead', 'dead', lane, ...odd]);
  const age = s.rng.pick(['', '', '0', '30000']);
  const args = [s.rng.pick(BYTES), s.rng.pick(['0', '0', '1']), small(s.rng), age, s.rng.pick(['', '', '1', '2'])];
  if (s.mode === 'dirty' && s.rng.chance(3)) args.pop();
  return call('purge', [s.base + set, s.base], args);
};

const obliterate: Make = (s) => {
  if (fieldOf(s, 'meta', 'paused') === undefined && s.rng.chance(60)) return call('pause', [`${s.base}meta`], []);
  const force = s.mode === 'dirty' && s.rng.chance(50) ? 'force' : '';
  return call('obliterate', [`${s.base}meta`, s.base], [force, '1000']);
};

const promoteNow: Make = (s) => {
  const id = idOf(s, 'schedule', 'schedule', 'rows');
  return call('promote_now', [...[`job:${id}`, 'schedule', 'pending', ''].map((name) => s.base + name)], [id]);
};

const reschedule: Make = (s) => {
  const id = idOf(s, 'schedule', 'schedule', 'rows');
  const time = s.rng.chance(70) ? ['in', timeUntil(s)] : ['at', s.rng.pick(['0', '1000', '4000000000000'])];
  return call('reschedule', [...[`job:${id}`, 'schedule', 'wake'].map((name) => s.base + name)], [id, ...time]);
};

const history: Make = (s) =>
  call(
    'history',
    [`${s.base}metrics:${s.rng.pick(['completed', 'failed'])}:data`, s.base],
    [s.rng.pick(['0', '1']), small(s.rng)],
  );

/** How often each is drawn, and how its call is made. */
export const CONTROL_MAKES: Readonly<Record<string, readonly [number, Make]>> = {
  repeat_put: [4, repeatPut],
  repeat_fire: [6, repeatFire],
  repeat_pause: [1, onName('repeat_pause')],
  repeat_resume: [2, repeatResume],
  repeat_remove: [1, onName('repeat_remove')],
  repeats: [1, repeats],
  repeat_get: [1, onName('repeat_get')],
  purge: [4, purge],
  obliterate: [2, obliterate],
  promote_now: [2, promoteNow],
  reschedule: [2, reschedule],
  metrics_roll: [2, (s) => call('metrics_roll', [s.base], [])],
  history: [1, history],
  // a list of queues of the battery's own: the real one is the node's
  register: [
    1,
    (s) => {
      const modes = ['add', 'remove', ...(s.mode === 'dirty' ? ['', 'ADD'] : [])];
      return call('register', [`${s.base}queues`], [s.rng.pick(NAMES), s.rng.pick(modes)]);
    },
  ],
};
