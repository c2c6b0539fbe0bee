/**
 * The operator's commands that destroy: what they say first, that they ask, what a dry run leaves, what is left behind, and
 * what is told of one that was cut short.
 */
import { once } from 'node:events';
import { describe, expect, test, vi } from 'vitest';
import { changes } from './doctor-report.js';
import { client, emq, finish, on, start, stateOf } from './emq.js';
import { fill, id, kill, LEASE, onTerminal, TENANT, WIRES, world, type World } from './operate-world.js';

const DESTROYERS: readonly (readonly [string[], string])[] = [
  [['drain', 'mail'], 'takes out 5 jobs that wait in queue mail (3 in no lane, 2 in lanes)'],
  [
    ['drain', 'mail', '--scheduled', '--no-lanes'],
    'takes out 4 jobs that wait in queue mail (3 in no lane, 1 scheduled)',
  ],
  [['drain', 'mail', '--lane', TENANT], `takes out 2 jobs that wait in lane ${TENANT} of queue mail`],
  [['trim', 'mail', '--keep', '1'], 'takes out 1 of 2 dead jobs of queue mail, which is not among the latest 1'],
  [['trim', 'mail', '--older', '1ms'], 'takes out 2 of 2 dead jobs of queue mail, which died 1 ms ago or longer'],
  [['obliterate', 'mail', '--force'], 'takes away queue mail on '],
  [['remove', 'mail', id(1)], `removes 1 job of queue mail with all that belongs to it: ${id(1)} (pending)`],
  [
    ['remove', 'mail', id(1), id(9)],
    `removes 2 jobs of queue mail with all that belongs to them: ${id(1)} (pending), ${id(9)} (active)`,
  ],
  [['reprocess', 'mail', '--all'], 'lets 2 of 2 dead jobs of queue mail run again'],
  [['reprocess', 'mail', '--all', '--name', 'odd'], 'lets 1 of 2 dead jobs of queue mail run again'],
  [['reprocess', 'mail', '--all', '--max', '1'], 'lets 1 of 2 dead jobs of queue mail run again (2 fit)'],
];

test('without a terminal they say what they would do, and do nothing without --yes', async () => {
  const all = await world(6);
  await fill(all);
  await all.admin.pause();
  const before = [await stateOf(all.server), await changes(all.server)];
  for (const [args, plan] of DESTROYERS) {
    const asked = await all.run(...args);
    expect([asked.code, asked.stdout], args.join(' ')).toEqual([2, '']);
    expect(asked.stderr).toContain(plan);
    expect(asked.stderr).toContain('Nobody can be asked here: --yes does it, --dry-run only tells');
    const dry = await all.run(...args, '--dry-run');
    expect([dry.code, dry.stderr]).toEqual([0, '']);
    expect(dry.stdout).toContain(`dry run: ${plan}`);
  }
  const json = await all.run('drain', 'mail', '--json');
  expect([json.code, json.json]).toEqual([2, [{ error: expect.objectContaining({ code: 'EMQ_INPUT', exit: 2 }) }]]);
  expect((await all.run('drain', 'mail', '--dry-run', '--json')).json).toEqual([
    {
      ...{ where: `127.0.0.1:${all.server.port}`, queue: 'mail', dryRun: true },
      plan: { lane: null, scheduled: false, lanes: true, jobs: 5 },
    },
  ]);
  expect([await stateOf(all.server), await changes(all.server)]).toEqual(before);
}, 90_000);

describe.each(WIRES)('with --yes, on wire %i', (wire) => {
  test('drain, trim, obliterate', async () => {
    const all = await world(wire);
    await fill(all);
    const counts = async (): Promise<number[]> => {
      const { pending, active, scheduled, dead } = await all.admin.counts();
      return [pending, active, scheduled, dead];
    };
    const result = async (...args: string[]): Promise<unknown> => {
      const { code, json } = await all.run(...args, '--yes', '--json');
      expect([code, json.length], args.join(' ')).toEqual([0, 1]);
      return json[0];
    };
    expect(await result('drain', 'mail', '--no-lanes')).toMatchObject({ removed: 3, kept: 0 });
    expect([await counts(), await all.lanes.depth(TENANT)]).toEqual([[0, 1, 1, 2], 2]);
    expect(await result('drain', 'mail', '--lane', TENANT)).toMatchObject({ removed: 2, kept: 0 });
    expect(await result('drain', 'mail', '--scheduled')).toMatchObject({ removed: 1 });
    expect(await result('drain', 'mail')).toMatchObject({ removed: 0, plan: { jobs: 0 } });
    await kill(all, 100, 5);
    await on(all.server, (redis) => redis.zadd('emq:{mail}:dead', 1_000, id(5), 2_000, id(100)));
    expect(await result('trim', 'mail', '--older', '1d')).toMatchObject({ removed: 2, plan: { jobs: 2, dead: 7 } });
    expect(await result('trim', 'mail', '--keep', '2')).toMatchObject({ removed: 3, plan: { jobs: 3, dead: 5 } });
    expect(await counts()).toEqual([0, 1, 0, 2]);
    expect((await all.run('trim', 'mail')).stderr).toContain('say which: --older 30d, --keep 10000');
    const early = await all.run('obliterate', 'mail', '--force', '--yes');
    expect([early.code, early.stderr]).toEqual([1, expect.stringContaining('emq pause mail first')]);
    await all.admin.pause();
    const busy = await all.run('obliterate', 'mail', '--yes');
    expect([busy.code, busy.stderr]).toEqual([1, expect.stringContaining('1 job of queue mail is in flight')]);
    expect(await result('obliterate', 'mail', '--force')).toMatchObject({ obliterated: true, delivered: 0 });
    expect(await on(all.server, (redis) => redis.keys('emq:{mail}:*'))).toEqual([]);
  }, 60_000);

  test('reprocess: named ones, and all that fit', async () => {
    const all = await world(wire);
    await kill(all, 1, 6);
    const named = await all.run('reprocess', 'mail', id(1), id(99), '--json');
    expect([named.code, named.json[0].jobs]).toEqual([
      1,
      [
        { id: id(1), outcome: 'pending' },
        { id: id(99), outcome: 'gone' },
      ],
    ]);
    const again = await all.run('reprocess', 'mail', id(1));
    expect([again.code, again.stdout]).toEqual([1, `${id(1)}  not dead\n`]);
    const some = await all.run('reprocess', 'mail', '--all', '--error', 'boom 4', '--yes', '--json');
    expect(some.json).toMatchObject([{ reprocessed: 1, plan: { jobs: 1, fit: 1, dead: 5 } }]);
    expect(await all.mail.state(id(4))).toBe('pending');
    const even = await all.run('reprocess', 'mail', '--all', '--name', 'even', '--max', '1', '--yes');
    expect(even.stdout).toBe('queue mail: 1 job will be tried again\n');
    expect(await all.mail.browse('dead', { order: 'asc' })).toEqual([3, 5, 6].map(id));
    const none = await all.run('reprocess', 'mail', '--all', '--older', '1d', '--yes');
    expect([none.code, none.stdout]).toEqual([0, 'queue mail: none of 3 dead jobs fits\n']);
    // its event is being processed again already
    const dedup = { id: 'event', mode: 'replace' } as const;
    const dead = await all.mail.enqueue(1, { dedup, priority: 0 });
    for (let job = await all.mail.claim(LEASE); job !== null; job = await all.mail.claim(LEASE)) {
      if (job.id === dead.id) await all.mail.fail(job, { delayMs: 0, maxAttempts: 1, error: 'twice' });
    }
    await all.mail.enqueue(1, { dedup });
    const held = await all.run('reprocess', 'mail', '--all', '--error', 'twice', '--yes');
    expect(held.stdout.split('\n')[1]).toMatch(
      /^1 job stays dead: another job has the dedup id; emq dedup mail ID --free/,
    );
    await all.mail.remove(dead.id);
    expect((await all.run('reprocess', 'mail', '--all', '--yes', '--json')).json).toMatchObject([{ reprocessed: 3 }]);
    for (const args of [[], ['--all', id(3)], [id(3), '--name', 'odd'], ['--name', 'odd']]) {
      expect((await all.run('reprocess', 'mail', ...args)).code, args.join(' ')).toBe(2);
    }
  }, 60_000);
});

test('obliterate: a dry run tells what stands in the way; of a queue that is gone nothing is known', async () => {
  const all = await world(6);
  await fill(all);
  const dry = await all.run('obliterate', 'mail', '--dry-run');
  expect([dry.code, dry.stderr]).toEqual([1, '']);
  const [plan, ...obstacles] = dry.stdout.trimEnd().split('\n');
  expect(plan).toContain('9 jobs (3 pending, 1 active, 1 scheduled, 2 dead, 0 awaiting children, 2 in lanes)');
  expect(obstacles).toEqual([
    'in the way: queue mail is not paused: emq pause mail first, so that nobody claims meanwhile',
    'in the way: 1 job of queue mail is in flight: wait until it is settled, or give --force',
  ]);
  await all.admin.pause();
  const none = { dryRun: true, plan: { force: true, jobs: 9 }, obstacles: [] };
  const forced = await all.run('obliterate', 'mail', '--force', '--dry-run', '--json');
  expect([forced.code, forced.json]).toEqual([0, [expect.objectContaining(none)]]);
  expect((await all.admin.counts()).pending).toBe(3);
  expect((await all.run('obliterate', 'mail', '--force', '--yes')).code).toBe(0);
  const again = await all.run('obliterate', 'mail', '--force', '--yes');
  expect([again.code, again.stdout, again.stderr]).toEqual([
    1,
    '',
    expect.stringContaining('nothing is known of queue mail on '),
  ]);
}, 30_000);

describe('on a terminal', () => {
  const answer = async (all: World, words: string, question: string, ...args: string[]): Promise<[number, string]> => {
    const { child, text } = onTerminal(all, ...args);
    const ended = once(child, 'exit');
    await expect.poll(text, { timeout: 15_000 }).toContain(question);
    child.stdin!.write(words);
    return [((await ended) as [number])[0], text()];
  };

  test('y goes on, anything else does not, Ctrl-C ends it', async () => {
    const all = await world(4);
    await fill(all);
    const pending = async (): Promise<number> => (await all.admin.counts()).pending;
    const ask = (words: string): Promise<[number, string]> => answer(all, words, 'Go on? [y/N] ', 'drain', 'mail');
    expect(await ask('\r')).toEqual([4, expect.stringContaining('nothing was done')]);
    expect(await ask('\x04')).toEqual([4, expect.stringContaining('nothing was done')]);
    expect(await ask('\x03')).toEqual([130, expect.stringContaining('ended by SIGINT')]);
    expect(await pending()).toBe(3);
    const [code, text] = await ask('y\r');
    expect([code, text]).toEqual([0, expect.stringContaining('queue mail: 5 jobs taken out')]);
    expect(text).toContain('takes out 5 jobs that wait in queue mail');
    expect(await pending()).toBe(0);
  }, 60_000);

  test('obliterate wants the name of the queue', async () => {
    const all = await world(6);
    await fill(all);
    await all.admin.pause();
    const ask = (words: string): Promise<[number, string]> =>
      answer(all, words, 'Type mail to go on: ', 'obliterate', 'mail', '--force');
    expect(await ask('y\r')).toEqual([4, expect.stringContaining('nothing was done')]);
    expect((await all.admin.counts()).pending).toBe(3);
    expect(await ask('mail\r')).toEqual([0, expect.stringContaining('queue mail is gone')]);
    expect(await on(all.server, (redis) => redis.keys('emq:{mail}:*'))).toEqual([]);
  }, 60_000);
});

test('cut short it says what was done, and goes on when it is called again', async () => {
  const all = await world(4);
  const total = 20_000;
  for (let n = 0; n < total; n += 5_000) {
    await all.mail.enqueueMany(Array.from({ length: 5_000 }, () => ({ payload: 1 })));
  }
  const redis = client(all.server);
  const left = (): Promise<number> => redis.zcard('emq:{mail}:pending');
  const child = start(['drain', 'mail', '--yes', '--url', all.server.url]);
  const ended = finish(child);
  let told = '';
  child.stderr!.on('data', (text: string) => (told += text));
  // held in the middle, so that the signal comes between two steps
  await vi.waitUntil(async () => (await left()) < total, { timeout: 15_000, interval: 1 });
  await redis.call('CLIENT', 'PAUSE', '60000', 'WRITE');
  const held = await left();
  expect(held).toBeGreaterThan(0);
  child.kill('SIGINT');
  await vi.waitUntil(() => told.includes('stopping behind the step in hand'), { timeout: 5_000, interval: 10 });
  await redis.call('CLIENT', 'UNPAUSE');
  const { code, stderr } = await ended;
  const rest = await left();
  expect(code).toBe(130);
  expect(stderr).toContain(`cut short: ${total - rest} removed so far, and that stays; the same command goes on`);
  expect(held - rest).toBeLessThanOrEqual(100);
  const again = await emq('drain', 'mail', '--yes', '--url', all.server.url, '--json');
  expect(again.json).toMatchObject([{ plan: { jobs: rest }, removed: rest }]);
  expect(await left()).toBe(0);
}, 60_000);
