/**
 * The situations of the sweeps: promote, reap and stalled_check.
 *
 * Does not: send anything.
 */
import type { Bytes } from '../../../src/parity/keyspace-dump.js';
import type { RawCommand } from '../../../src/parity/node.js';
import {
  active,
  atCeiling,
  cmd,
  lane,
  laneCounters,
  laneTouches,
  parked,
  parkedTouches,
  roomTouches,
  scheduled,
  touch,
  type Cases,
  type Fields,
} from './scene.js';

const sweep = (from: 'schedule' | 'active'): Cases => ({
  numbers: [[0, 'limit', 'positive']],
  situations: (n) => {
    const due = (f: Fields): RawCommand[] => (from === 'active' ? active(n, f, '1') : scheduled(n, f, '1'));
    const call = { keys: [n.b + from, `${n.b}pending`, n.b], args: ['100'] };
    const more = from === 'active' ? touch(n, { meta: 'hash' }) : touch(n, { gwait: 'zset' });
    const own = { ...touch(n, { [from]: 'zset', pending: 'zset', [`job:${n.id}`]: 'hash' }), ...more };
    return [
      { name: 'a due job', setup: due({}), ...call, touches: { ...own, [`${n.b}wake`]: 'list' } },
      {
        name: 'a due job of a lane',
        setup: [...due({ group: n.group }), ...lane(n), cmd('HSET', `${n.b}glimit`, n.group, '2')],
        ...call,
        touches: { ...own, ...laneTouches(n) },
        counters: laneCounters(n),
      },
      ...(from === 'active'
        ? [
            {
              name: 'a due job of a queue at its ceiling',
              setup: [...due({}), ...atCeiling(n)],
              ...call,
              touches: { ...own, ...roomTouches(n) },
            },
          ]
        : [
            {
              name: 'a lane that has waited long enough',
              setup: [...lane(n), cmd('HDEL', `${n.b}glimit`, n.group), cmd('ZADD', `${n.b}gwait`, '5', n.group)],
              ...call,
              touches: { ...touch(n, { schedule: 'zset', pending: 'zset' }), ...laneTouches(n) },
            },
          ]),
    ];
  },
  refusals: () => [],
});

const stalledCheck: Cases = {
  numbers: [
    [1, 'max', 'positive'],
    [2, 'limit', 'positive'],
  ],
  situations: (n) => {
    const call = (max: Bytes) => ({ keys: [`${n.b}active`, `${n.b}pending`, `${n.b}dead`], args: [n.b, max, '100'] });
    const own = touch(n, { active: 'zset', pending: 'zset', dead: 'zset', meta: 'hash', [`job:${n.id}`]: 'hash' });
    const stalls = [`${n.b}job:${n.id}`, 'stalled'] as const;
    const deaths = [`${n.b}metrics:failed`, 'count'] as const;
    const metrics = touch(n, { 'metrics:failed': 'hash' });
    return [
      {
        name: 'a first stall',
        setup: active(n, {}, '1'),
        ...call('2'),
        touches: { ...own, [`${n.b}wake`]: 'list' },
        counters: [stalls],
      },
      {
        name: 'a first stall of a lane',
        setup: [...active(n, { group: n.group }, '1'), ...lane(n)],
        ...call('2'),
        touches: { ...own, ...laneTouches(n) },
        counters: [stalls, ...laneCounters(n)],
      },
      {
        name: 'a death',
        setup: active(n, {}, '1'),
        ...call('1'),
        touches: { ...own, ...metrics },
        counters: [stalls, deaths],
      },
      {
        name: 'a death in a lane',
        setup: [...active(n, { group: n.group }, '1'), ...lane(n)],
        ...call('1'),
        touches: { ...own, ...metrics, ...laneTouches(n) },
        counters: [stalls, deaths, ...laneCounters(n)],
      },
      {
        name: 'the death of a flow child',
        setup: active(n, { parent: 'JOB0KHTOWnGLuA' }, '1'),
        ...call('1'),
        touches: { ...own, ...metrics, [`${n.b}flow:outbox`]: 'list' },
        counters: [stalls, deaths],
      },
      {
        name: 'the death of a job that holds a dedup id',
        setup: [...active(n, { dedup: 'd' }, '1'), parked(n)],
        ...call('1'),
        touches: { ...own, ...metrics, ...parkedTouches(n) },
        counters: [stalls, deaths],
      },
      {
        name: 'a first stall in a queue at its ceiling',
        setup: [...active(n, {}, '1'), ...atCeiling(n)],
        ...call('2'),
        touches: { ...own, ...roomTouches(n) },
        counters: [stalls],
      },
    ];
  },
  refusals: () => [],
};

/** By the name on the wire. */
export const sweepCases: Readonly<Record<string, Cases>> = {
  promote: sweep('schedule'),
  reap: sweep('active'),
  stalled_check: stalledCheck,
};
