/**
 * Holds what is on a node against the model, key by key.
 *
 * Times: what is due has exactly the score that the play gave it; what is not is as many hours from the beginning as the model
 * says, give or take what the play has taken. Invariants: every key but `wake` is expected with exactly this content; of
 * rows `lease_epoch` is left out. Does not: judge what the model says.
 */
import type { Keyspace } from '../../../src/index.js';
import type { Dump, Value } from '../../flows/model/dump.js';
import { SETTINGS, type Job, type Model, type Setting } from './model.js';

const HOUR = 3_600_000;
/** Far less than the hours of which all times are made, far more than a play takes. */
const GRACE = HOUR / 4;
const STATES = { flat: 'pending', lane: 'pending', active: 'active', scheduled: 'scheduled', dead: 'dead' } as const;

/** What differs, a line each. `since` is the server's clock when the play began, Unix ms. */
export function differences(model: Model, keys: Dump, k: Keyspace, since: number): string[] {
  const expected = expectations(model, k);
  const wrong: string[] = [];
  for (const [key, value] of keys) {
    if (key === k.wake) continue;
    const text = shown(value, since, key === k.limiter || key.endsWith(':limiter'), key === k.dead);
    const should = expected.get(key);
    expected.delete(key);
    if (text !== should) wrong.push(`${key} is ${text}, the model says ${should ?? 'there is no such key'}`);
  }
  for (const [key, should] of expected) wrong.push(`${key} is not there, the model says ${should}`);
  return wrong;
}

/** A time as the play knows it: one of the past as it is, one to come in hours from the beginning. */
function time(ms: number, since: number): string {
  if (ms < 1e9) return String(ms);
  const hours = Math.round((ms - since) / HOUR);
  const off = ms - since - hours * HOUR;
  return off < 0 || off > GRACE ? `${ms}, no number of hours from ${since}` : `+${hours}h`;
}

function shown(value: Value, since: number, isBucket: boolean, isDead: boolean): string {
  switch (value.type) {
    case 'string':
      return isBucket ? time(Number(value.text) / 1000, since) : value.text;
    case 'zset':
      return pairs([...value.fields].map(([id, score]) => [id, isDead ? '' : time(Number(score), since)]));
    case 'hash':
      return pairs([...value.fields].filter(([name]) => name !== 'lease_epoch'));
    case 'set':
      return JSON.stringify([...value.items].sort());
    case 'list':
      return JSON.stringify(value.items);
  }
}

const pairs = (fields: Iterable<readonly [string, string]>): string =>
  JSON.stringify([...fields].sort(([a], [b]) => (a < b ? -1 : 1)));

function expectations(model: Model, k: Keyspace): Map<string, string> {
  const expected = new Map<string, string>();
  const put = (key: string, fields: readonly (readonly [string, string])[]): void => {
    if (fields.length > 0) expected.set(key, pairs(fields));
  };
  const soon = (job: Job): [string, string] => [job.id, job.due === undefined ? '+1h' : String(job.due)];
  const ranked = (job: Job): [string, string] => [job.id, String(job.priority)];
  put(k.pending, model.waiting().map(ranked));
  put(k.active, model.in('active').map(soon));
  put(k.schedule, model.in('scheduled').map(soon));
  put(
    k.dead,
    model.in('dead').map(({ id }) => [id, '']),
  );
  const groups = [...new Set([...model.jobs.values()].flatMap(({ group }) => group ?? []))];
  for (const group of groups) put(k.lane(group), model.waiting(group).map(ranked));
  put(
    `${k.base}gactive`,
    groups.flatMap((group) => {
      const count = model.active(group);
      return count > 0 ? [[group, String(count)]] : [];
    }),
  );
  for (const job of model.jobs.values()) put(k.job(job.id), row(job));
  for (const [name, hash] of Object.entries(SETTINGS)) {
    const unit = name === 'duration' ? HOUR : 1;
    put(
      k.base + hash,
      [...model.settings[name as Setting]].map(([group, value]) => [group, String(value * unit)]),
    );
  }
  put(
    `${k.base}gwait`,
    [...model.waits].map(([group, wait]) => [group, 'due' in wait ? String(wait.due) : `+${wait.hours}h`]),
  );
  for (const [group, hours] of model.missing) {
    expected.set(group === '' ? k.limiter : `${k.base}g:${group}:limiter`, `+${hours}h`);
  }
  if (model.ring.length > 0) expected.set(k.ring, JSON.stringify(model.ring));
  if (model.pausedLanes.size > 0) expected.set(k.paused, JSON.stringify([...model.pausedLanes].sort()));
  put(k.meta, [
    ...(model.paused ? ([['paused', '1']] as const) : []),
    ...(model.concurrency > 0 ? ([['concurrency', String(model.concurrency)]] as const) : []),
    ...(model.max > 0 ? ([['max', String(model.max)]] as const) : []),
    ...(model.hours > 0 ? ([['duration', String(model.hours * HOUR)]] as const) : []),
    ...(model.turn === undefined
      ? []
      : ([
          ['turn', model.turn.group],
          ['given', String(model.turn.given)],
        ] as const)),
  ]);
  for (const outcome of ['completed', 'failed'] as const) {
    if (model[outcome] > 0) put(k.metrics(outcome), [['count', String(model[outcome])]]);
  }
  return expected;
}

function row(job: Job): [string, string][] {
  const { attempts, priority, group, credit, stalled, lastError } = job;
  const optional = { group, last_error: lastError, credit: credit || undefined, stalled: stalled || undefined };
  return [
    ...([
      ['state', STATES[job.place]],
      ['attempts', String(attempts)],
      ['payload', 'p'],
    ] as [string, string][]),
    ...(priority > 0 ? ([['priority', String(priority)]] as [string, string][]) : []),
    ...Object.entries(optional).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, String(value)]],
    ),
  ];
}
