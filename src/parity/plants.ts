/**
 * What others do to a queue between two transitions: jobs come into lanes and are claimed from them, lanes are parked
 * and limited, leases lapse, consumers take wake tokens; and in a dirty battery rows and counters break.
 *
 * Invariants: a clean plant leaves the queue as the verbs of lanes would (rows, counts and ring agree).
 * Does not: send anything; the commands go to every node alike.
 */
import { AUDIT_DIRTY } from './audit-plants.js';
import type { Bytes } from './keyspace-dump.js';
import { LANE_CLEAN, LANE_DIRTY, mendLanes, own, type Plant } from './lane-plants.js';
import type { RawCommand } from './node.js';
import {
  across,
  anyId,
  command,
  fieldOf,
  fieldsOf,
  GROUPS,
  itemsOf,
  membersOf,
  ODD_GROUPS,
  queueOf,
  rowsOf,
  span,
  withSubkey,
  type Scene,
} from './scene.js';

/** The commands of one random plant; none when it found nothing to act on. */
export function plant(scene: Scene): RawCommand[] {
  const { rng } = scene;
  if (scene.foreignEpochs && rng.chance(15)) return foreignLease(scene);
  if (scene.mode === 'dirty' && scene.about === 'audits' && rng.chance(50)) return rng.pick(AUDIT_DIRTY)(scene);
  if (scene.mode === 'dirty' && rng.chance(45)) return rng.pick(DIRTY)(scene);
  return rng.pick(CLEAN)(scene);
}

const group = (scene: Scene): Bytes =>
  scene.rng.pick(scene.mode === 'dirty' && scene.rng.chance(20) ? ODD_GROUPS : GROUPS);

const lane = (g: Bytes): Bytes => `g:${g}:pending`;

/** Whether a lane with this many waiting and in flight can be served. */
function servable(scene: Scene, g: Bytes, waiting: number, active: number, limit = own(scene, 'glimit', g)): boolean {
  if (membersOf(scene, 'gwait').includes(g)) return false;
  const parked = scene.keys.get(`${scene.base}paused`);
  if (parked?.type === 'set' && parked.members.has(g)) return false;
  return waiting > 0 && (limit === undefined || active < Number(limit));
}

/** Whether the row of an id is there and is no hash. */
const isOdd = ({ keys, base }: Scene, id: Bytes): boolean => (keys.get(`${base}job:${id}`)?.type ?? 'hash') !== 'hash';

const inFlight = (scene: Scene, g: Bytes): number => Number(fieldOf(scene, 'gactive', g) ?? 0);

/** RING as commands. */
function ring(scene: Scene, g: Bytes): RawCommand[] {
  if (itemsOf(scene, 'ring').includes(g)) return [];
  const wake = itemsOf(scene, 'wake').length < 64 ? [command('LPUSH', `${scene.base}wake`, '1')] : [];
  return [command('RPUSH', `${scene.base}ring`, g), ...wake];
}

/** A job comes into a lane. */
const admitToLane: Plant = (s) => {
  const id = anyId(s);
  const taken =
    s.keys.has(`${s.base}job:${id}`) ||
    ['pending', 'active', 'schedule', 'dead', 'flow:held'].some((set) => membersOf(s, set).includes(id));
  if (taken) return [];
  const g = group(s);
  const priority = s.rng.pick(['', '', '4']);
  return [
    command('HSET', `${s.base}job:${id}`, 'state', 'pending', 'attempts', '0', 'payload', 'p', 'group', g),
    ...(priority === '' ? [] : [command('HSET', `${s.base}job:${id}`, 'priority', priority)]),
    command('ZADD', s.base + lane(g), priority || '0', id),
    ...(servable(s, g, membersOf(s, lane(g)).length + 1, inFlight(s, g)) ? ring(s, g) : []),
  ];
};

/** A job is claimed from a lane. */
const claimFromLane: Plant = (s) => {
  const open = GROUPS.filter((g) => servable(s, g, membersOf(s, lane(g)).length, inFlight(s, g)));
  if (open.length === 0) return [];
  const g = s.rng.pick(open);
  const waiting = membersOf(s, lane(g));
  const id = s.rng.pick(waiting);
  if (isOdd(s, id)) return [];
  // a claim from a lane refuses what is no number, as every transition does
  const counters = [fieldOf(s, 'gactive', g), fieldOf(s, `job:${id}`, 'attempts')];
  if (counters.some((text) => text !== undefined && !/^(0|-?[1-9]\d{0,14})$/.test(text))) return [];
  const active = inFlight(s, g) + 1;
  const stays = servable(s, g, waiting.length - 1, active);
  const row = `${s.base}job:${id}`;
  return [
    command('ZREM', s.base + lane(g), id),
    command('HINCRBY', row, 'attempts', '1'),
    command('HSET', row, 'state', 'active'),
    command('ZADD', `${s.base}active`, String(s.now + span(s)), id),
    command('HINCRBY', `${s.base}gactive`, g, '1'),
    ...(stays ? [] : [command('LREM', `${s.base}ring`, '0', g)]),
  ];
};

const parkLane: Plant = (s) => {
  const g = group(s);
  return [command('SADD', `${s.base}paused`, g), command('LREM', `${s.base}ring`, '0', g)];
};

const unparkLane: Plant = (s) => {
  const entry = s.keys.get(`${s.base}paused`);
  if (entry?.type !== 'set') return [];
  const g = s.rng.pick([...entry.members].sort());
  const keys = new Map(s.keys);
  keys.delete(`${s.base}paused`);
  const open = servable({ ...s, keys }, g, membersOf(s, lane(g)).length, inFlight(s, g));
  return [command('SREM', `${s.base}paused`, g), ...(open ? ring(s, g) : [])];
};

const limitLane: Plant = (s) => {
  const g = group(s);
  const limit = s.rng.pick(['1', '2', '3', ...(s.mode === 'dirty' ? ['0'] : [])]);
  const open = servable(s, g, membersOf(s, lane(g)).length, inFlight(s, g), limit);
  return [
    command('HSET', `${s.base}glimit`, g, limit),
    ...(open ? ring(s, g) : [command('LREM', `${s.base}ring`, '0', g)]),
  ];
};

/** Some of the leases lapse, or some of the times come: with equal scores too. */
const lapse =
  (set: 'active' | 'schedule'): Plant =>
  (s) => {
    const ids = membersOf(s, set).filter(() => s.rng.chance(60));
    return ids.map((id) => command('ZADD', s.base + set, String(1000 * s.rng.below(4)), id));
  };

const emptyWake: Plant = (s) => [command('DEL', `${s.base}wake`)];

const fillWake: Plant = (s) => {
  const room = 64 - s.rng.below(2) - itemsOf(s, 'wake').length;
  return room > 0 ? [command('RPUSH', `${s.base}wake`, ...Array<Bytes>(room).fill('1'))] : [];
};

const rowPlant =
  (make: (scene: Scene, row: Bytes, id: Bytes) => RawCommand[]): Plant =>
  (s) => {
    const ids = rowsOf(s);
    if (ids.length === 0) return [];
    const id = s.rng.pick(ids);
    return make(s, `${s.base}job:${id}`, id);
  };

/** Somebody's child, of a parent that need not know it; in a clean battery never one that a parent waits for. */
const flowChild = rowPlant((s, row, id) => {
  if (s.mode === 'clean' && isAwaited(s, id)) return [];
  return [
    command('HSET', row, 'parent', s.rng.pick(['JOB0KHTOWnGLuA', 'JOB0KHTOWnGLzz', ''])),
    ...(s.rng.chance(40) ? [command('HSET', row, 'parent_queue', s.rng.pick(['other', queueOf(s.other)]))] : []),
    ...(s.rng.chance(50)
      ? [command('HSET', row, 'parent_policy', s.rng.pick(['id', 'fp', 'rd', 'cp', 'x', 'ID']))]
      : []),
  ];
});

const noChild = rowPlant((s, row, id) =>
  s.mode === 'clean' && isAwaited(s, id) ? [] : [command('HDEL', row, 'parent', 'parent_queue')],
);

/** Whether a parent in either queue has the id among its open children. */
const isAwaited = (s: Scene, id: Bytes): boolean =>
  [s, across(s)].some((queue) =>
    withSubkey(queue, ':children').some((parent) => fieldOf(queue, `job:${parent}:children`, id) !== undefined),
  );

const hangOn = rowPlant((s, row) => [
  s.rng.pick([
    command('SET', `${row}:lock`, 'w', 'PXAT', String(s.now + 9_000_000)),
    command('DEL', `${row}:lock`),
    command('HSET', row, 'lock', 'w'),
    command('HDEL', row, 'lock'),
    command('HSET', row, 'colour', 'blue\0'),
    command('RPUSH', `${row}:logs`, 'a line'),
  ]),
]);

/** What another client, or a stranger, writes about a parent's children: also where there is no such row. */
const flowKeys: Plant = (s) => {
  const parents = withSubkey(s, ':dependencies');
  const id = parents.length > 0 && s.rng.chance(70) ? s.rng.pick(parents) : anyId(s);
  const row = `${s.base}job:${id}`;
  const known = fieldsOf(s, `job:${id}:children`).map(([child]) => child);
  const child = known.length > 0 && s.rng.chance(70) ? s.rng.pick(known) : anyId(s);
  const book = s.rng.pick([':processed', ':unsuccessful', ':failed']);
  const numbers = ['0', '1', '2', '2', '-1', '-5', 'x', '', '01', '4503599627370496'];
  const isRow = s.keys.get(row)?.type === 'hash';
  return [
    s.rng.pick([
      command('SET', `${row}:dependencies`, s.rng.pick(numbers)),
      command('SET', `${row}:dependencies`, s.rng.pick(['1', '2'])),
      command('DEL', `${row}:dependencies`),
      command('DEL', `${row}:children`),
      command('DEL', row + book),
      command('HSET', `${row}:children`, child, s.rng.pick(['', '+', `+${queueOf(s.other)}`, queueOf(s.other)])),
      command('HDEL', `${row}:children`, child),
      command('HSET', row + book, child, s.rng.pick(['r', '', '\0\xff'])),
      ...(isRow
        ? [
            command('HSET', row, 'landing', s.rng.pick(numbers)),
            command('HDEL', row, 'landing'),
            command('HSET', row, 'state', 'awaiting_children'),
            command('HSET', row, 'group', group(s)),
          ]
        : []),
    ]),
  ];
};

/** The places of a flow that are the queue's own: odd letters, landed children, held parents that are none. */
const flowPlaces: Plant = (s) => {
  const b = s.base;
  const id = anyId(s);
  const far = queueOf(s.other);
  const letter = s.rng.pick([
    'garbage',
    '',
    '\0',
    `${far}\0${id}`,
    `${far}\0${id}\0JOB0KHTOWnGLuB\0r\0\xff`,
    `\0fail\0${queueOf(b)}\0${id}\0JOB0KHTOWnGLuB\0xx\0e`,
    `\0gone\0${far}\0${id}\0JOB0KHTOWnGLuC\0fp\0e`,
    `\0cancel\0${id}\0why`,
  ]);
  return [
    s.rng.pick([
      command('RPUSH', `${b}flow:outbox`, letter, letter),
      command('LPUSH', `${b}flow:outbox`, letter),
      // long ago, or as if the clock had been ahead
      command('ZADD', `${b}flow:landed`, s.rng.pick(['5', '4000000000000']), id),
      command('ZREM', `${b}flow:landed`, id),
      command('ZADD', `${b}flow:held`, s.rng.pick(['0', '4000000000000']), id),
      command('ZREM', `${b}flow:held`, id),
      command('HSET', `${b}flow:cancel:${id}`, 'JOB0KHTOWnGLuD', '', 'JOB0KHTOWnGLuE', far),
    ]),
  ];
};

const CLEAN: readonly Plant[] = [
  ...Array<Plant>(5).fill(admitToLane),
  ...Array<Plant>(6).fill(claimFromLane),
  parkLane,
  unparkLane,
  unparkLane,
  limitLane,
  limitLane,
  ...Array<Plant>(5).fill(lapse('active')),
  ...Array<Plant>(3).fill(lapse('schedule')),
  emptyWake,
  fillWake,
  flowChild,
  noChild,
  noChild,
  ...Array<Plant>(3).fill(hangOn),
  ...LANE_CLEAN,
];

/** A lease from another run of the server. */
const foreignLease: Plant = (s) => {
  const ids = membersOf(s, 'active').filter((id) => s.keys.get(`${s.base}job:${id}`)?.type === 'hash');
  if (ids.length === 0) return [];
  const id = s.rng.pick(ids);
  const epoch = s.rng.pick(['00112233445566778899aabbccddeeff00112233', '', 'x']);
  return [command('HSET', `${s.base}job:${id}`, 'lease_epoch', epoch), command('ZADD', `${s.base}active`, '7', id)];
};

const ghost: Plant = (s) => {
  const score = s.rng.pick(['0', '0', '5']);
  return [
    command('ZADD', s.base + s.rng.pick(['pending', 'active', 'schedule', 'dead', lane(group(s))]), score, anyId(s)),
  ];
};

/** A counter breaks, or is mended. */
const counter: Plant = (s) => {
  const value = s.rng.pick(['x', '', '1.5', '01', '-3', '0', '1', '2', '4503599627370496', '9223372036854775807']);
  const g = group(s);
  const ids = rowsOf(s);
  const row = `${s.base}job:${ids.length > 0 ? s.rng.pick(ids) : anyId(s)}`;
  const [key, field] = s.rng.pick([
    [`${s.base}gactive`, g],
    [`${s.base}glimit`, g],
    [`${s.base}metrics:completed`, 'count'],
    [`${s.base}metrics:failed`, 'count'],
    [`${s.base}meta`, 'letters'],
    [row, 'attempts'],
    [row, 'stalled'],
    [row, 'credit'],
    [row, 'priority'],
  ] as const);
  if (key === row && s.keys.get(row)?.type !== 'hash') return [];
  return [s.rng.chance(50) ? command('HSET', key, field, value) : command('HDEL', key, field)];
};

/** What broke is whole again. */
const mend: Plant = (s) => [
  ...[...s.keys]
    .filter(
      ([key, entry]) =>
        key.startsWith(`${s.base}job:`) && !key.slice(s.base.length + 4).includes(':') && entry.type !== 'hash',
    )
    .map(([key]) => command('DEL', key)),
  command('DEL', ...['gactive', 'glimit', 'metrics:completed', 'metrics:failed'].map((name) => s.base + name)),
  command('HDEL', `${s.base}meta`, 'letters'),
  ...mendLanes(s),
  ...rowsOf(s).flatMap((id) => [
    command('HSET', `${s.base}job:${id}`, 'attempts', '1'),
    command('HDEL', `${s.base}job:${id}`, 'stalled', 'credit'),
  ]),
];

const dropRow = rowPlant((_s, row) => [command('DEL', row)]);

/** A row of another type than a row has. */
const oddRow: Plant = (s) => {
  const row = `${s.base}job:${anyId(s)}`;
  return [command('DEL', row), s.rng.pick([command('SET', row, 'x'), command('RPUSH', row, 'x')])];
};

const bareRow: Plant = (s) => {
  const id = anyId(s);
  return isOdd(s, id) ? [] : [command('HSET', `${s.base}job:${id}`, 'colour', 'red')];
};

const regroup = rowPlant((s, row) => [
  s.rng.chance(50) ? command('HSET', row, 'group', group(s)) : command('HDEL', row, 'group'),
]);

const secondPlace = rowPlant((s, _row, id) => [
  command(
    'ZADD',
    s.base + s.rng.pick(['pending', 'active', 'schedule', 'dead', lane(group(s))]),
    s.rng.pick(['0', '9', '4000000000000']),
    id,
  ),
]);

const ringTwice: Plant = (s) => [command('RPUSH', `${s.base}ring`, group(s))];

const pausedAnyhow: Plant = (s) => [
  s.rng.chance(50)
    ? command('HSET', `${s.base}meta`, 'paused', s.rng.pick(['0', '']))
    : command('HDEL', `${s.base}meta`, 'paused'),
];

const DIRTY: readonly Plant[] = [
  ghost,
  ghost,
  ...Array<Plant>(4).fill(counter),
  ...Array<Plant>(3).fill(mend),
  dropRow,
  oddRow,
  bareRow,
  regroup,
  secondPlace,
  secondPlace,
  ringTwice,
  pausedAnyhow,
  ...LANE_DIRTY,
  ...Array<Plant>(6).fill(flowKeys),
  ...Array<Plant>(3).fill(flowPlaces),
];
