/** The operator's commands that set something: what changes, what is said, how they end, on both executors. */
import { describe, expect, test } from 'vitest';
import { Jobs } from '../../src/index.js';
import { changes } from './doctor-report.js';
import { on, stateOf } from './emq.js';
import { fill, id, LEASE, OTHER, TENANT, WIRES, world, type World } from './operate-world.js';

const json = async (all: World, ...args: string[]): Promise<{ code: number | null; [field: string]: unknown }> => {
  const ran = await all.run(...args, '--json');
  expect([ran.json.length, ran.stderr], args.join(' ')).toEqual([1, '']);
  return { code: ran.code, ...ran.json[0] };
};

describe.each(WIRES)('on wire %i', (wire) => {
  test('pause and resume: the queue, a lane, a repeat', async () => {
    const all = await world(wire);
    await fill(all);
    expect(await json(all, 'pause', 'mail')).toMatchObject({ code: 0, lane: null, repeat: null, outcome: 'paused' });
    expect(await all.mail.claim(LEASE)).toBeNull();
    expect((await all.run('resume', 'mail')).stdout).toBe('queue mail: resumed\n');
    expect((await all.mail.claim(LEASE))?.id).toBe(id(1));
    const lane = ['mail', '--lane', TENANT];
    expect(await json(all, 'pause', ...lane)).toMatchObject({ code: 0, lane: TENANT, outcome: 'paused' });
    expect(await all.lanes.claim(LEASE)).toBeNull();
    expect((await all.run('pause', ...lane)).stdout).toBe(`lane ${TENANT} of queue mail: was paused\n`);
    await all.run('resume', ...lane);
    expect((await all.lanes.claim(LEASE))?.id).toBe(id(7));
    expect(await json(all, 'pause', 'mail', '--repeat', 'tick')).toMatchObject({ repeat: 'tick', outcome: 'paused' });
    expect((await all.repeats.get('tick'))?.paused).toBe(true);
    expect((await all.run('resume', 'mail', '--repeat', 'tick')).stdout).toBe('repeat tick of queue mail: resumed\n');
    const none = await all.run('pause', 'mail', '--repeat', 'nope');
    expect([none.code, none.stderr]).toEqual([
      1,
      expect.stringContaining('has no repeat nope: emq repeats mail lists'),
    ]);
    expect((await all.run('pause', ...lane, '--repeat', 'tick')).code).toBe(2);
  }, 60_000);

  test('limits: of the queue, of a lane, of all lanes', async () => {
    const all = await world(wire);
    await fill(all);
    const rate = { max: 100, durationMs: 1_000 };
    expect(await json(all, 'limits', 'mail', '--concurrency', '1', '--rate', '100/1s')).toMatchObject({
      code: 0,
      changed: true,
      limits: { concurrency: 1, rate },
    });
    // one is in flight already
    expect(await all.mail.claim(LEASE)).toBeNull();
    expect(await json(all, 'limits', 'mail', '--concurrency', 'none')).toMatchObject({
      limits: { concurrency: null, rate },
    });
    expect((await all.mail.claim(LEASE))?.id).toBe(id(1));
    const lane = ['limits', 'mail', '--lane', TENANT];
    const own = { limit: 1, weight: 3, rate: { max: 5, durationMs: 600_000 } };
    expect(await json(all, ...lane, '--limit', '1', '--weight', '3', '--rate', '5/10m')).toMatchObject({ limits: own });
    expect(await all.lanes.info([TENANT])).toMatchObject([own]);
    expect(await json(all, ...lane)).toMatchObject({ changed: false, limits: own });
    await all.run('limits', 'mail', '--lane', '*', '--limit', '4');
    expect((await all.run('limits', 'mail', '--lane', '*')).stdout).toBe(
      'lanes of queue mail without their own: limit 4, weight 1, rate none\n',
    );
    expect(await all.lanes.info([OTHER])).toMatchObject([{ limit: 4 }]);
    await all.run(...lane, '--limit', 'none', '--weight', 'none', '--rate', 'none');
    expect(await all.lanes.info([TENANT])).toMatchObject([{ limit: 4, weight: 1, rate: null }]);
    for (const args of [
      ['--limit', '1'],
      ['--lane', TENANT, '--concurrency', '1'],
      ['--rate', '5'],
      ['--rate', '0/1s'],
    ]) {
      expect((await all.run('limits', 'mail', ...args)).code, args.join(' ')).toBe(2);
    }
  }, 60_000);

  test('single jobs: promote, reschedule, cancel, remove, move', async () => {
    const all = await world(wire);
    await fill(all);
    const runAt = async (): Promise<number> =>
      Number(await on(all.server, (redis) => redis.zscore('emq:{mail}:schedule', id(4))));
    expect(await json(all, 'reschedule', 'mail', id(4), '--in', '2h')).toMatchObject({
      jobs: [{ id: id(4), outcome: 'scheduled' }],
    });
    expect(Math.abs((await runAt()) - Date.now() - 7_200_000)).toBeLessThan(60_000);
    const at = await all.run('reschedule', 'mail', id(4), '--at', '2027-05-01T12:00:00+02:00');
    expect([at.code, at.stderr, at.stdout]).toEqual([0, 'for 2027-05-01T10:00:00.000Z\n', `${id(4)}  scheduled\n`]);
    expect(await runAt()).toBe(Date.parse('2027-05-01T10:00:00Z'));
    expect(await json(all, 'promote', 'mail', id(4), id(1), id(99))).toMatchObject({
      code: 1,
      jobs: [
        { id: id(4), outcome: 'pending' },
        { id: id(1), outcome: 'refused', reason: 'not scheduled' },
        { id: id(99), outcome: 'gone' },
      ],
    });
    expect(await all.mail.state(id(4))).toBe('pending');
    expect(await json(all, 'cancel', 'mail', id(1))).toMatchObject({ code: 0, jobs: [{ outcome: 'removed' }] });
    expect((await all.run('cancel', 'mail', id(5))).stdout).toBe(`${id(5)}  dead already\n`);
    expect(await json(all, 'cancel', 'mail', id(9), '--reason', 'by hand')).toMatchObject({
      code: 0,
      jobs: [{ outcome: 'signalled' }],
    });
    await on(all.server, (redis) => redis.set(`emq:{mail}:job:${id(2)}:lock`, 'x'));
    expect(await json(all, 'remove', 'mail', id(2), id(3), '--yes')).toMatchObject({
      code: 1,
      jobs: [{ outcome: 'refused' }, { outcome: 'removed' }],
    });
    expect(await all.mail.state(id(3))).toBe('absent');
    expect(await json(all, 'move', 'mail', id(7), '--lane', OTHER)).toMatchObject({ code: 0, outcome: 'reassigned' });
    expect(await all.mail.browse('pending', { lane: OTHER })).toEqual([id(7)]);
    expect((await all.run('move', 'mail', id(7), '--lane', OTHER)).stdout).toContain('already');
    for (const [n, text] of [
      [4, 'is in no lane'],
      [99, `has no job ${id(99)}`],
    ] as const) {
      const { code, stdout, stderr } = await all.run('move', 'mail', id(n), '--lane', OTHER);
      expect([code, stdout + stderr]).toEqual([1, expect.stringContaining(text)]);
    }
  }, 60_000);

  test('a dedup id: who holds it, and freeing it', async () => {
    const all = await world(wire);
    await all.mail.enqueue(1, { id: id(1), dedup: { id: 'welcome-42' } });
    await all.mail.enqueue(1, { id: id(2), dedup: { id: 'once', mode: 'throttle', ttlMs: 7_200_000 } });
    expect((await all.run('dedup', 'mail', 'welcome-42')).stdout).toBe(`${id(1)} holds welcome-42 until it is done\n`);
    expect(await json(all, 'dedup', 'mail', 'once')).toMatchObject({
      owner: id(2),
      ttlMs: expect.any(Number),
      freed: false,
    });
    expect((await all.run('dedup', 'mail', 'none')).stdout).toBe('nobody holds none\n');
    const asked = await all.run('dedup', 'mail', 'welcome-42', '--free');
    expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining('freed, another job with it is taken in')]);
    expect((await all.mail.dedupOwner('welcome-42'))?.id).toBe(id(1));
    expect(await json(all, 'dedup', 'mail', 'welcome-42', '--free', '--dry-run')).toMatchObject({ freed: false });
    expect(await json(all, 'dedup', 'mail', 'welcome-42', '--free', '--yes')).toMatchObject({ code: 0, freed: true });
    expect(await all.mail.dedupOwner('welcome-42')).toBeNull();
    expect((await all.run('dedup', 'mail', 'once', '--yes')).code).toBe(2);
  }, 60_000);
});

test('a queue of which nothing is known is most often a slip: nothing is set unless --yes is given', async () => {
  const all = await world(4);
  await fill(all);
  const before = [await stateOf(all.server), await changes(all.server)];
  for (const args of [
    ['pause', 'mali'],
    ['resume', 'mali'],
    ['limits', 'mali', '--concurrency', '3'],
  ]) {
    const { code, stderr } = await all.run(...args);
    expect([code, stderr]).toEqual([1, expect.stringContaining('nothing is known of queue mali')]);
  }
  expect([await stateOf(all.server), await changes(all.server)]).toEqual(before);
  expect((await all.run('limits', 'mali', '--concurrency', '3', '--yes')).stdout).toContain('concurrency 3');
  // from now on it is known
  expect((await all.run('pause', 'mali')).code).toBe(0);
  expect(await new Jobs(all.connector, 'mali').claim(LEASE)).toBeNull();
}, 30_000);

test('a lane of which nothing is known is not paused either, unless --yes is given', async () => {
  const all = await world(4);
  await fill(all);
  const empty = 'TEN00000000003';
  await all.lanes.setLimit('*', 2);
  // as `*` has it: its settings alone tell that it is known
  await all.lanes.setLimit(empty, 2);
  const before = [await stateOf(all.server), await changes(all.server)];
  for (const verb of ['pause', 'resume']) {
    const { code, stderr } = await all.run(verb, 'mail', '--lane', OTHER);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`nothing is known of lane ${OTHER} of queue mail`)]);
  }
  expect([await stateOf(all.server), await changes(all.server)]).toEqual(before);
  expect(await json(all, 'pause', 'mail', '--lane', OTHER, '--yes')).toMatchObject({ code: 0, outcome: 'paused' });
  // a pause is known
  expect(await json(all, 'resume', 'mail', '--lane', OTHER)).toMatchObject({ code: 0, outcome: 'resumed' });
  expect(await json(all, 'pause', 'mail', '--lane', empty)).toMatchObject({ code: 0, outcome: 'paused' });
}, 30_000);
