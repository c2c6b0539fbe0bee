/**
 * A queue with something of everything, and the ways in which others break it: for the suites of the audit.
 *
 * Invariants: the world is made by the verbs alone; every break says what an audit must call it. Does not: judge.
 */
import type { Redis } from 'ioredis';
import { Admin, Flows, Jobs, Lanes, mint, type AuditKind, type Connector } from '../../src/index.js';
import type { Rng } from '../../src/parity/prng.js';

const HOUR = 3_600_000;

/** Where a break finds its victims. */
export interface Scene {
  readonly client: Redis;
  readonly rng: Rng;
  /** The base of the queue. */
  readonly b: string;
  /** The lanes that hold jobs; the second has a ceiling. */
  readonly groups: readonly string[];
}

export interface World extends Scene {
  readonly queue: string;
  readonly far: string;
  readonly jobs: Jobs;
  readonly admin: Admin;
  readonly flows: Flows;
}

/** Makes it: jobs in every place, two lanes, two flows, a repeat, a dedup id. */
export async function makeWorld(connector: Connector, client: Redis, queue: string, rng: Rng): Promise<World> {
  const far = `${queue}-far`;
  const jobs = new Jobs(connector, queue);
  const lanes = new Lanes(connector, jobs);
  const flows = new Flows(connector, jobs);
  const admin = new Admin(connector, jobs);
  const groups = [mint('TEN'), mint('TEN'), mint('TEN')];
  const [one = '', two = ''] = groups;
  for (let i = 0; i < 3; i++) await jobs.enqueue({ dies: i });
  for (const job of await jobs.take({ leaseMs: HOUR, count: 3 }))
    await jobs.fail(job, { delayMs: 0, maxAttempts: 1, error: 'it died' });
  for (let i = 0; i < 4; i++) await lanes.enqueue(one, { lane: i });
  for (let i = 0; i < 3; i++) await lanes.enqueue(two, { lane: i });
  await jobs.take({ leaseMs: HOUR, count: 3, source: 'lanes' });
  await lanes.setLimit(two, 1);
  for (let i = 0; i < 3; i++) await jobs.enqueue({ runs: i });
  await jobs.take({ leaseMs: HOUR, count: 3, source: 'flat' });
  for (let i = 0; i < 4; i++) await jobs.enqueue({ waits: i }, { priority: i % 2 });
  for (let i = 0; i < 3; i++) await jobs.schedule({ later: i }, { inMs: HOUR });
  const { id } = await jobs.enqueue({ one: true }, { dedup: { id: 'only-one' } });
  await jobs.addLog(id, 'a line');
  const child = { payload: { child: true } };
  await flows.add({ payload: { parent: 'here' }, children: [child, child, { ...child, onFailure: 'ignore' }] });
  await flows.add({ payload: { parent: 'both' }, children: [child, { ...child, queue: far }] });
  await admin.repeats.upsert('nightly', { everyMs: HOUR }, { payload: { repeat: true } });
  return { client, rng, b: `emq:{${queue}}:`, groups, queue, far, jobs, admin, flows };
}

/** One way to break a queue. */
export interface Break {
  readonly name: string;
  readonly kind: AuditKind;
  /** A person has to decide: a repair only tells of it. */
  readonly left?: true;
  /** Nothing to act on: nothing happens. */
  act(s: Scene): Promise<unknown>;
}

const members = (s: Scene, set: string): Promise<string[]> => s.client.zrange(s.b + set, '0', '-1');
const laneOf = (s: Scene, n = 0): string => `g:${s.groups[n]}:pending`;
const fresh = (): string => mint('JOB');

/** An id of a set that has a row; undefined when there is none. */
async function one(s: Scene, ...sets: string[]): Promise<string | undefined> {
  const ids = (await Promise.all(sets.map((set) => members(s, set)))).flat();
  const rows = await Promise.all(ids.map((id) => s.client.type(`${s.b}job:${id}`)));
  const with_ = ids.filter((_, i) => rows[i] === 'hash');
  return with_.length === 0 ? undefined : s.rng.pick(with_);
}

const onOne =
  (sets: readonly string[] | ((s: Scene) => string[]), act: (s: Scene, id: string) => Promise<unknown>) =>
  async (s: Scene): Promise<unknown> => {
    const id = await one(s, ...(typeof sets === 'function' ? sets(s) : sets));
    return id === undefined ? undefined : act(s, id);
  };

const setRow = (s: Scene, id: string, ...fields: string[]): Promise<number> =>
  s.client.hset(`${s.b}job:${id}`, ...fields);
const ghostIn = (name: string, set: (s: Scene) => string): Break => ({
  name: `an id without a row in ${name}`,
  kind: 'ghost',
  act: (s) => s.client.zadd(s.b + set(s), s.rng.pick([0, 5, 4_000_000_000_000]), fresh()),
});
const lostFrom = (name: string, set: (s: Scene) => string): Break => ({
  name: `a job that left ${name} for nowhere`,
  kind: 'orphan',
  act: onOne(
    (s) => [set(s)],
    (s, id) => s.client.zrem(s.b + set(s), id),
  ),
});
const alsoIn = (from: (s: Scene) => string, to: (s: Scene) => string, name: string): Break => ({
  name: `a job in two places: ${name}`,
  kind: 'places',
  act: onOne(
    (s) => [from(s)],
    (s, id) => s.client.zadd(s.b + to(s), s.rng.pick([0, 4_000_000_000_000]), id),
  ),
});
const field = (name: string, value: string, kind: AuditKind, ...sets: string[]): Break => ({
  name: `${name} ${JSON.stringify(value)} of a job in ${sets.join(' or ')}`,
  kind,
  act: onOne(sets, (s, id) => setRow(s, id, name, value)),
});
const write = (name: string, kind: AuditKind, act: Break['act'], left?: true): Break => ({
  ...{ name, kind, act },
  ...(left === undefined ? {} : { left }),
});

const SETS = ['pending', 'active', 'schedule', 'dead', 'flow:held'];

/** A held parent all of whose children are in its own queue, or any. */
async function parent(s: Scene, isHere: boolean): Promise<string | undefined> {
  for (const id of await members(s, 'flow:held')) {
    const where = await s.client.hvals(`${s.b}job:${id}:children`);
    if (where.length > 0 && (!isHere || where.every((queue) => queue === ''))) return id;
  }
  return undefined;
}
const onParent =
  (act: (s: Scene, key: string, id: string) => Promise<unknown>, isHere = false) =>
  async (s: Scene): Promise<unknown> => {
    const id = await parent(s, isHere);
    return id === undefined ? undefined : act(s, `${s.b}job:${id}`, id);
  };

export const BREAKS: readonly Break[] = [
  ...SETS.map((set) => ghostIn(set, () => set)),
  ghostIn('a lane', laneOf),
  ...SETS.map((set) => lostFrom(set, () => set)),
  lostFrom('a lane', laneOf),
  alsoIn(
    () => 'pending',
    () => 'schedule',
    'pending and schedule',
  ),
  alsoIn(
    () => 'active',
    () => 'pending',
    'active and pending',
  ),
  alsoIn(
    () => 'dead',
    () => 'pending',
    'dead and pending',
  ),
  alsoIn(
    () => 'schedule',
    () => 'active',
    'schedule and active',
  ),
  alsoIn(
    () => 'flow:held',
    () => 'pending',
    'held and pending',
  ),
  alsoIn(laneOf, (s) => laneOf(s, 1), 'two lanes'),
  alsoIn(laneOf, () => 'pending', 'its lane and pending'),
  alsoIn(
    () => 'pending',
    (s) => laneOf(s, 2),
    'pending and a lane that has no other job',
  ),
  write(
    'a job of a lane among the flat ones',
    'places',
    onOne(
      (s) => [laneOf(s)],
      async (s, id) => {
        await s.client.zrem(s.b + laneOf(s), id);
        await s.client.zadd(`${s.b}pending`, 0, id);
      },
    ),
  ),
  write(
    'a row goes',
    'ghost',
    onOne(['pending', 'schedule', 'active'], (s, id) => s.client.del(`${s.b}job:${id}`)),
  ),
  write('log lines of a job that is gone', 'leftovers', (s) => s.client.rpush(`${s.b}job:${fresh()}:logs`, 'x')),
  write('books of a parent that is gone', 'leftovers', (s) =>
    s.client.hset(`${s.b}job:${fresh()}:processed`, 'a', '1'),
  ),
  write('a lock that never lapses', 'leftovers', (s) => s.client.set(`${s.b}job:${fresh()}:lock`, 'w')),
  write(
    'a row that is no hash',
    'row',
    onOne(['pending', 'active', 'schedule'], async (s, id) => {
      await s.client.del(`${s.b}job:${id}`);
      await s.client.set(`${s.b}job:${id}`, 'x');
    }),
    true,
  ),
  field('attempts', 'x', 'unreadable', 'pending', 'active', 'schedule'),
  field('attempts', '01', 'unreadable', 'dead'),
  field('stalled', '1.5', 'field', 'active', 'pending'),
  field('credit', '', 'field', 'active', 'schedule'),
  field('priority', 'high', 'field', 'pending', 'schedule'),
  write(
    'a job without a count of claims',
    'field',
    onOne(['pending'], (s, id) => s.client.hdel(`${s.b}job:${id}`, 'attempts')),
  ),
  write('a row that says nothing', 'orphan', (s) => setRow(s, fresh(), 'colour', 'red')),
  write('a row in no place, of a state that is none', 'orphan', (s) =>
    setRow(s, fresh(), 'state', 'gone', 'attempts', '2', 'payload', '1'),
  ),
  field('state', 'dead', 'state', 'pending', 'active', 'schedule'),
  field('state', 'pending', 'state', 'dead', 'flow:held'),
  field('state', '', 'state', 'active'),
  write(
    'a parent that counts too many children',
    'flow',
    onParent((s, key) => s.client.set(`${key}:dependencies`, '9')),
  ),
  write(
    'a parent that counts none of its children',
    'flow',
    onParent((s, key) => s.client.del(`${key}:dependencies`)),
  ),
  write(
    'a parent whose children are to land',
    'flow',
    onParent((s, key) => s.client.hset(key, 'landing', '3')),
  ),
  write(
    'a parent that waits for nobody',
    'flow',
    onParent(async (s, key) => {
      await s.client.del(`${key}:dependencies`, `${key}:children`);
    }),
  ),
  write(
    'a parent whose count is no number and that has no list',
    'flow',
    onParent(async (s, key) => {
      await s.client.del(`${key}:children`);
      await s.client.set(`${key}:dependencies`, 'x');
    }),
    true,
  ),
  write(
    'a child that is gone without a word',
    'child',
    onParent(async (s, key) => {
      const ids = await s.client.hkeys(`${key}:children`);
      const [id] = ids.sort();
      if (id === undefined) return;
      await s.client.del(`${s.b}job:${id}`);
      for (const set of SETS) await s.client.zrem(s.b + set, id);
    }, true),
    true,
  ),
  write('children to be cancelled, and no order', 'cancel', (s) =>
    s.client.hset(`${s.b}flow:cancel:${fresh()}`, fresh(), ''),
  ),
  write('a letter that is none', 'letter', (s) => s.client.rpush(`${s.b}flow:outbox`, 'garbage')),
  write('an edition that is none', 'letters', (s) => s.client.hset(`${s.b}meta`, 'letters', 'x')),
  write('a lane that counts too many', 'gactive', (s) => s.client.hincrby(`${s.b}gactive`, s.groups[1] ?? '', 2)),
  write('a lane that counts none', 'gactive', (s) => s.client.hdel(`${s.b}gactive`, s.groups[0] ?? '')),
  write('a count that is no number', 'gactive', (s) => s.client.hset(`${s.b}gactive`, s.groups[0] ?? '', 'x')),
  write('a count of a lane that has no job', 'gactive', (s) => s.client.hset(`${s.b}gactive`, mint('TEN'), '3')),
  write('a lane that is not on the ring', 'ring', (s) => s.client.lrem(`${s.b}ring`, 0, s.groups[0] ?? '')),
  write('a lane twice on the ring', 'ring', (s) => s.client.rpush(`${s.b}ring`, s.groups[0] ?? '', s.groups[0] ?? '')),
  write('an empty lane on the ring', 'ring', (s) => s.client.rpush(`${s.b}ring`, mint('TEN'))),
  write('a ceiling that is no number', 'setting', (s) => s.client.hset(`${s.b}glimit`, s.groups[0] ?? '', 'x'), true),
  write('a rate of all lanes that is no number', 'setting', (s) => s.client.hset(`${s.b}gmax`, '*', 'x'), true),
  write(
    'a limit of the queue that is no number',
    'setting',
    (s) => s.client.hset(`${s.b}meta`, 'concurrency', 'x'),
    true,
  ),
  write('a limiter that is no number', 'limiter', (s) => s.client.set(`${s.b}limiter`, 'x')),
  write('a limiter of a lane that is no number', 'limiter', (s) => s.client.set(`${s.b}g:${s.groups[0]}:limiter`, 'x')),
  write('a dedup id of nobody', 'dedup', (s) => s.client.set(`${s.b}de:nobody`, fresh())),
  write(
    'a dedup id of a job that does not hold it',
    'dedup',
    onOne(['pending'], (s, id) => s.client.set(`${s.b}de:other`, id)),
  ),
  write('a repeat without a place', 'repeat', (s) => s.client.zrem(`${s.b}repeat`, 'nightly')),
  write('a repeat in another place', 'repeat', (s) => s.client.zadd(`${s.b}repeat`, '5', 'nightly')),
  write('a repeat without a record', 'repeat', (s) => s.client.zadd(`${s.b}repeat`, '5', 'nobody')),
  write(
    'a repeat whose next slot is no number',
    'repeat',
    (s) => s.client.hset(`${s.b}repeat:nightly`, 'next', 'x'),
    true,
  ),
  write('too many tokens', 'wake', (s) => s.client.rpush(`${s.b}wake`, ...Array<string>(70).fill('1'))),
  write('a token that is none', 'wake', (s) => s.client.lpush(`${s.b}wake`, 'x')),
  write('a count of the completed that is no number', 'metrics', (s) =>
    s.client.hset(`${s.b}metrics:completed`, 'count', 'x'),
  ),
  write('a history that is no number', 'metrics', (s) => s.client.hset(`${s.b}metrics:rolled`, 'minute', 'x')),
  write(
    'log lines that are no list',
    'type',
    onOne(['pending'], async (s, id) => {
      await s.client.del(`${s.b}job:${id}:logs`);
      await s.client.set(`${s.b}job:${id}:logs`, 'x');
    }),
    true,
  ),
  write('a key that nobody knows', 'stray', (s) => s.client.set(`${s.b}notes`, 'x'), true),
];

/** What an operator does about what a repair leaves, as its texts say. False: there was nothing to do. */
export async function decide(w: World): Promise<boolean> {
  const { findings } = await w.admin.check();
  let did = findings.length > 0;
  for (const { kind, subject, text } of findings) {
    const row = `${w.b}job:${subject}`;
    if (kind === 'row') await w.client.del(row);
    if (kind === 'flow') await w.client.set(`${row}:dependencies`, '0');
    if (kind === 'child') await w.admin.remove(subject);
    if (kind === 'type' || kind === 'stray') await w.client.del(w.b + subject);
    if (kind === 'repeat') await w.admin.repeats.remove(subject);
    if (kind !== 'setting') continue;
    if (subject === 'concurrency') await w.admin.setLimits({ concurrency: null });
    else await w.client.hdel(w.b + (text.includes('gmax') ? 'gmax' : 'glimit'), subject);
  }
  // what may be an adding that was cut short is none of the audit's business: emq doctor tells of it
  for (const id of await members(w, 'flow:held')) {
    if ((await w.client.hexists(`${w.b}job:${id}`, 'landing')) === 0) continue;
    await w.admin.remove(id);
    did = true;
  }
  return did;
}
