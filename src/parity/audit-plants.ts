/**
 * What an audit is for: jobs that lose their place or their state, counts that others write, letters that are gone.
 *
 * Invariants: for dirty batteries about audits only. Does not: send anything.
 */
import type { Bytes } from './keyspace-dump.js';
import { DEDUPS, groupOf } from './lane-steps.js';
import type { Plant } from './lane-plants.js';
import { anyId, command, membersOf, rowsOf, withSubkey, type Scene } from './scene.js';

const SETS: readonly Bytes[] = ['pending', 'active', 'schedule', 'dead', 'flow:held'];
const placesOf = (s: Scene): Bytes[] => [...SETS, `g:${groupOf(s)}:pending`];

/** A job is taken out of its place, and says still that it is there. */
const lose: Plant = (s) => {
  const set = s.rng.pick(placesOf(s));
  const ids = membersOf(s, set);
  return ids.length === 0 ? [] : [command('ZREM', s.base + set, s.rng.pick(ids))];
};

const onRow =
  (words: (s: Scene) => Bytes[]): Plant =>
  (s) => {
    const ids = rowsOf(s);
    return ids.length === 0 ? [] : [command('HSET', `${s.base}job:${s.rng.pick(ids)}`, ...words(s))];
  };

const state = onRow((s) => [
  'state',
  s.rng.pick(['pending', 'active', 'scheduled', 'dead', 'awaiting_children', '', 'lost']),
]);

const number = onRow((s) => [
  s.rng.pick(['attempts', 'stalled', 'credit', 'priority', 'landing', 'last_error']),
  s.rng.pick(['x', '', '0', '3', '01', '2097153', 'unreadable: attempts is not an integer']),
]);

const noField: Plant = (s) => {
  const ids = rowsOf(s);
  if (ids.length === 0) return [];
  return [command('HDEL', `${s.base}job:${s.rng.pick(ids)}`, s.rng.pick(['attempts', 'state', 'group', 'landing']))];
};

/** What hangs on a row that is perhaps not there. */
const subkey: Plant = (s) => {
  const row = `${s.base}job:${anyId(s)}`;
  return [
    s.rng.pick([
      command('RPUSH', `${row}:logs`, 'x'),
      command('SET', `${row}:lock`, 'w'),
      command('SET', `${row}:lock`, 'w', 'PXAT', String(s.now + 9_000_000)),
      command('HSET', `${row}:processed`, anyId(s), 'r'),
      command('DEL', row),
    ]),
  ];
};

/** What a queue has one of, and lanes' numbers. */
const single: Plant = (s) => {
  const text = s.rng.pick(['x', '', '1', '01']);
  return [
    s.rng.pick([
      command('HSET', `${s.base}gactive`, groupOf(s), s.rng.pick(['x', '0', '1', '3'])),
      command('LREM', `${s.base}ring`, '1', groupOf(s)),
      command('RPUSH', `${s.base}wake`, s.rng.pick(['1', 'x'])),
      command('HSET', `${s.base}metrics:rolled`, 'minute', text),
      command('HSET', `${s.base}meta`, s.rng.pick(['letters', 'concurrency', 'max']), text),
      command('HSET', s.base + s.rng.pick(['glimit', 'gmax']), '*', text),
      command('SET', `${s.base}de:${s.rng.pick(DEDUPS)}`, anyId(s)),
      command('LTRIM', `${s.base}flow:outbox`, '1', '-1'),
    ]),
  ];
};

/** A parent forgets how many children are open, or which. */
const books: Plant = (s) => {
  const parents = withSubkey(s, ':dependencies');
  if (parents.length === 0) return [];
  const row = `${s.base}job:${s.rng.pick(parents)}`;
  return [
    s.rng.pick([
      command('SET', `${row}:dependencies`, s.rng.pick(['0', '1', '5', 'x', '-2'])),
      command('DEL', `${row}:dependencies`),
      command('DEL', `${row}:children`),
      command('HSET', `${row}:children`, anyId(s), s.rng.pick(['', '+'])),
    ]),
  ];
};

export const AUDIT_DIRTY: readonly Plant[] = [
  lose,
  lose,
  lose,
  state,
  state,
  number,
  noField,
  subkey,
  single,
  single,
  books,
];
