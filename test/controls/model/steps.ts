/**
 * The reference model of lanes, transition by transition (docs/wire.md, section 6): what a call does to the model, and what it
 * answers.
 *
 * Invariants: a refusal changes nothing. Does not: know calls that this suite does not make; one of those is an error.
 */
import type { Job, Model, Place, Rate, Setting } from './model.js';
import { claim, claimBatch, take, takeBatch } from './turns.js';

/** What a call answers; a refusal is its text. */
export type Answer = number | string | null | readonly Answer[] | Refusal;
export interface Refusal {
  readonly error: string;
}

type Step = (model: Model, args: readonly string[], keys: readonly string[]) => Answer;

const refuse = (error: string): Refusal => ({ error });
export const HOUR = 3_600_000;

/** Performs a call on the model. @throws Error for a call that the model does not know. */
export function perform(model: Model, name: string, keys: readonly string[], args: readonly string[]): Answer {
  const step = STEPS[name];
  if (step === undefined) throw new Error(`the model does not know ${name}`);
  return step(model, args, keys);
}

/** READY. */
function ready(model: Model, job: Job): void {
  job.due = undefined;
  job.place = job.group === undefined ? 'flat' : 'lane';
  if (job.group !== undefined) model.putOnRing(job.group);
}

/** Out of its place: LEAVE, RING, and off the ring when the lane is empty. */
function leave(model: Model, job: Job, to: Place): void {
  job.place = to;
  job.due = undefined;
  if (job.group === undefined) return;
  model.putOnRing(job.group);
  model.leaveIfEmpty(job.group);
}

function expel(model: Model, job: Job): void {
  leave(model, job, 'dead');
  model.jobs.delete(job.id);
}

type Found = { readonly job: Job } | Refusal;

/** TOKEN, and the job that it fences. */
function fenced(model: Model, verb: string, id: string, token: string, places: readonly Place[]): Found {
  const job = model.jobs.get(id);
  if (job === undefined) return refuse('EMQSTALE job gone');
  if (job.attempts === 0 || String(job.attempts) !== token) return refuse(`EMQSTALE ${verb} token mismatch`);
  if (!places.includes(job.place)) return refuse(`EMQSTATE ${verb} not active`);
  return { job };
}

/** A late settle of a job that waits again counts. */
const HELD: readonly Place[] = ['active', 'flat', 'lane'];

const group = (text: string | undefined): string | undefined => (text === '' ? undefined : text);

function admit(model: Model, args: readonly string[]): Answer {
  const [id = '', , priority = '', , mode, , lane] = args;
  if (model.jobs.has(id)) return ['duplicate', id];
  const job: Job = {
    ...{ id, place: 'scheduled', group: group(lane), priority: Number(priority || '0') },
    ...{ attempts: 0, credit: 0, stalled: 0, lastError: undefined, due: undefined },
  };
  model.jobs.set(id, job);
  if (mode === 'now') ready(model, job);
  return [mode === 'now' ? 'enqueued' : 'scheduled', id];
}

function backOff(model: Model, [id = '', token = '', ms, scope]: readonly string[]): Answer {
  const found = fenced(model, 'back_off', id, token, ['active']);
  if ('error' in found) return found;
  const { job } = found;
  const hours = Number(ms) / HOUR;
  job.credit += 1;
  job.place = job.group === undefined ? 'flat' : 'lane';
  job.due = undefined;
  if (scope === 'own' && job.group !== undefined) {
    const was = model.waits.get(job.group);
    let until = Math.max(hours, was !== undefined && 'hours' in was ? was.hours : 0);
    const pace = model.rateOf(job.group);
    if (pace !== undefined) {
      model.setMissing(job.group, Math.max(model.missingOf(job.group), until + pace.step * (pace.max - 1)));
      until = Math.max(until, model.nextToken(job.group));
    }
    model.waits.set(job.group, { hours: until });
    model.offRing(job.group);
    return 1;
  }
  const rate = model.rateOf('');
  const rest = rate === undefined ? 0 : rate.step * (rate.max - 1);
  model.setMissing('', Math.max(model.missingOf(''), hours + rest));
  if (job.group !== undefined) model.putOnRing(job.group);
  return 1;
}

function stalledCheck(model: Model, [, max, limit]: readonly string[]): Answer {
  const [recovered, dead]: [string[], string[]] = [[], []];
  for (const job of model.due('active').slice(0, Number(limit))) {
    job.stalled += 1;
    if (job.stalled < Number(max)) {
      ready(model, job);
      recovered.push(job.id);
      continue;
    }
    job.lastError = 'stalled';
    // nothing of the lane's waiting jobs changes
    job.place = 'dead';
    job.due = undefined;
    if (job.group !== undefined) model.putOnRing(job.group);
    model.failed += 1;
    dead.push(job.id);
  }
  return [recovered, dead];
}

function promote(model: Model, [limit]: readonly string[]): Answer {
  const jobs = model.due('scheduled').slice(0, Number(limit));
  for (const job of jobs) ready(model, job);
  const rested = [...model.waits]
    .flatMap(([name, wait]) => ('due' in wait ? [{ name, due: wait.due }] : []))
    .sort((a, b) => a.due - b.due || (a.name < b.name ? -1 : 1))
    .slice(0, Number(limit));
  for (const { name } of rested) {
    model.waits.delete(name);
    model.putOnRing(name);
  }
  return jobs.length;
}

function reapGroup(model: Model, [name, limit, offset]: readonly string[]): Answer {
  const lapsed = model.due('active');
  const looked = lapsed.slice(Number(offset), Number(offset) + Number(limit));
  const back = looked.filter((job) => job.group === name);
  for (const job of back) ready(model, job);
  const next = looked.length === Number(limit) ? Number(offset) + looked.length - back.length : -1;
  return [back.length, next];
}

/** The pairs of a call that sets something, and what was of each before. */
function* pairs(args: readonly string[], from: number): Generator<[string, number | undefined]> {
  for (let i = from; i < args.length; i += 2) {
    const [name = '', value = ''] = [args[i], args[i + 1]];
    yield [name, value === '' ? undefined : Number(value) / (name === 'duration' ? HOUR : 1)];
  }
}

/** The rate of a lane, or of the queue, has become another, or not. */
function newRate(model: Model, name: string, was: Rate | undefined): void {
  const is = model.rateOf(name);
  if (was?.max === is?.max && was?.step === is?.step) return;
  // a lane without a rate waits in gwait alone
  const lost = name !== '' && (was === undefined || is === undefined);
  model.setMissing(name, lost ? 0 : model.refilled(model.missingOf(name), was, is));
}

function setLimits(model: Model, args: readonly string[]): Answer {
  const was = model.rateOf('');
  for (const [name, value = 0] of pairs(args, 0)) {
    if (name === 'concurrency') model.concurrency = value;
    else if (name === 'max') model.max = value;
    else model.hours = value;
  }
  newRate(model, '', was);
  return 1;
}

/**
 * MEND. `spent`: a lane that waits and has not spent a token was told to back off, and goes on waiting; `backsOff`: until when
 * one does whose rate has gone.
 */
function mend(model: Model, name: string, spent = model.missing.has(name), backsOff?: number): void {
  if (model.waits.has(name) && spent) {
    model.waits.delete(name);
    if (model.tokens(name) < 1) model.waits.set(name, { hours: model.nextToken(name) });
    else if (model.rateOf(name) === undefined && backsOff !== undefined) model.waits.set(name, { hours: backsOff });
  }
  if (!model.servable(name)) model.offRing(name);
  model.putOnRing(name);
}

function laneSet(model: Model, args: readonly string[]): Answer {
  const [name = ''] = args;
  const was = model.rateOf(name);
  const spent = model.missing.has(name);
  const backsOff = was === undefined ? undefined : model.backsOff(model.missingOf(name), was);
  for (const [setting, value] of pairs(args, 1)) {
    const hash = model.settings[setting as Setting];
    if (value === undefined) hash.delete(name);
    else hash.set(name, value);
  }
  if (name === '*') return 1;
  newRate(model, name, was);
  mend(model, name, spent, backsOff);
  return 1;
}

function reassign(model: Model, [id = '', to = '']: readonly string[]): Answer {
  const job = model.jobs.get(id);
  if (job?.group === undefined) return -1;
  const from = job.group;
  if (from === to) return 0;
  if (job.place !== 'lane') return -2;
  job.group = to;
  model.leaveIfEmpty(from);
  model.putOnRing(to);
  return 1;
}

function consult(model: Model): Answer {
  if (model.concurrency >= 1 && model.in('active').length >= model.concurrency) {
    return refuse('EMQRATE at concurrency ceiling');
  }
  const open = model.max >= 1 ? model.tokens('') >= 1 : model.missingOf('') === 0;
  return open ? 1 : refuse('EMQRATE at rate ceiling');
}

const STEPS: Readonly<Record<string, Step>> = {
  admit,
  claim,
  claim_batch: claimBatch,
  take,
  take_batch: takeBatch,
  complete: (model, [id = '', token = '']) => {
    if (!model.jobs.has(id)) return 0;
    const found = fenced(model, 'complete', id, token, HELD);
    if ('error' in found) return found;
    expel(model, found.job);
    model.completed += 1;
    return 1;
  },
  fail: (model, [id = '', token = '', , max, error]) => {
    const found = fenced(model, 'retry', id, token, HELD);
    if ('error' in found) return found;
    const dies = found.job.attempts >= Number(max);
    leave(model, found.job, dies ? 'dead' : 'scheduled');
    found.job.lastError = error;
    if (dies) model.failed += 1;
    return dies ? 'dead' : 'scheduled';
  },
  delay: (model, [id = '', token = '']) => {
    const found = fenced(model, 'delay', id, token, ['active']);
    if ('error' in found) return found;
    leave(model, found.job, 'scheduled');
    found.job.credit += 1;
    return 1;
  },
  release: (model, [id = '', token = '']) => {
    const found = fenced(model, 'release', id, token, ['active']);
    if ('error' in found) return found;
    found.job.credit += 1;
    ready(model, found.job);
    return 1;
  },
  back_off: backOff,
  promote,
  reap: (model, [limit]) => {
    const lapsed = model.due('active').slice(0, Number(limit));
    for (const job of lapsed) ready(model, job);
    return lapsed.length;
  },
  reap_group: reapGroup,
  stalled_check: stalledCheck,
  remove: (model, [id = '']) => {
    const job = model.jobs.get(id);
    if (job === undefined) return -1;
    expel(model, job);
    return 1;
  },
  cancel: (model, [id = '']) => {
    const job = model.jobs.get(id);
    if (job === undefined) return 'gone';
    if (job.place === 'active') return 'signalled';
    if (job.place === 'dead') return 'dead';
    expel(model, job);
    return 'removed';
  },
  reprocess: (model, [id = '']) => {
    const job = model.jobs.get(id);
    if (job === undefined) return -1;
    if (job.place !== 'dead') return refuse('EMQSTATE not dead');
    job.lastError = undefined;
    job.stalled = 0;
    job.credit = job.attempts;
    ready(model, job);
    return 1;
  },
  promote_now: (model, [id = '']) => {
    const job = model.jobs.get(id);
    if (job === undefined) return -1;
    if (job.place !== 'scheduled') return refuse('EMQSTATE not scheduled');
    ready(model, job);
    return 1;
  },
  purge: (model, [, offset, limit], [key = '']) => {
    const [, name = ''] = /:g:(.*):pending$/.exec(key) ?? [];
    const jobs = model.waiting(name).slice(Number(offset), Number(offset) + Number(limit));
    for (const job of jobs) model.jobs.delete(job.id);
    model.leaveIfEmpty(name);
    return [jobs.length, 0];
  },
  reassign,
  pause: (model) => {
    model.paused = true;
    return 1;
  },
  resume: (model) => {
    const was = model.paused;
    model.paused = false;
    return was ? 1 : 0;
  },
  lane_pause: (model, [name = '']) => {
    const was = model.pausedLanes.has(name);
    model.pausedLanes.add(name);
    model.offRing(name);
    return was ? 0 : 1;
  },
  lane_resume: (model, [name = '']) => {
    const was = model.pausedLanes.delete(name);
    model.putOnRing(name);
    return was ? 1 : 0;
  },
  set_limits: setLimits,
  lane_set: laneSet,
  lane_mend: (model, groups) => {
    for (const name of new Set(groups)) mend(model, name);
    return 1;
  },
  consult,
};
