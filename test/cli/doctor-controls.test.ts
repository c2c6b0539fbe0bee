/** `emq doctor --queue`: limits, lanes, repeats and dead; each mend that it names is tried, and it writes nothing. */
import { expect, onTestFinished, test } from 'vitest';
import { Admin, Connector, encodeId, EPOCH_MS, Jobs, Lanes, Repeats } from '../../src/index.js';
import type { EmbeddedServer } from '../../src/dev/index.js';
import { changes, doctor, good, type Report } from './doctor-report.js';
import { emq, on, stateOf } from './emq.js';
import { LEASE, OTHER, TENANT } from './operate-world.js';

const base = 'emq:{mail}:';

interface Queue {
  readonly server: EmbeddedServer;
  readonly connector: Connector;
  readonly mail: Jobs;
  /** What the doctor finds besides what is ok, and that it writes nothing. */
  readonly look: () => Promise<Report & { readonly odd: readonly string[] }>;
  /** Runs an `emq` command that a mend names, or sends one to the server. */
  readonly mend: (text: string) => Promise<void>;
}

async function queue(): Promise<Queue> {
  const server = await good();
  const connector = await Connector.connect({ url: server.url, wire: 6 });
  onTestFinished(() => connector.close());
  return {
    ...{ server, connector, mail: new Jobs(connector, 'mail') },
    look: async () => {
      const before = [await stateOf(server), await changes(server)];
      const report = await doctor(server.url, '--queue', 'mail');
      expect([await stateOf(server), await changes(server)]).toEqual(before);
      const odd = report.findings.flatMap(({ level, check }) => (level === 'ok' ? [] : [`${level} ${check}`]));
      return { ...report, odd };
    },
    mend: async (text) => {
      const [command = '', ...args] = text.split(' ');
      if (command === 'emq') expect((await emq(...args, '--url', server.url)).code, text).toBe(0);
      else await on(server, (redis) => redis.call(command, ...args));
    },
  };
}

test('a queue at its ceiling, with jobs that wait', async () => {
  const { mail, connector, look, mend } = await queue();
  await new Admin(connector, 'mail').setLimits({ concurrency: 1 });
  await mail.enqueue(1);
  await mail.claim(LEASE);
  expect((await look()).odd).toEqual([]);
  await mail.enqueue(2);
  const report = await look();
  expect(report.odd).toEqual(['warn ceiling']);
  expect(report.of('ceiling').text).toContain(
    '1 job in flight of at most 1: those that wait are not claimed until one ends',
  );
  await mend('emq limits mail --concurrency none');
  expect((await look()).odd).toEqual([]);
});

test('a rate without a token for long, and a queue that was told to back off', async () => {
  const { server, mail, connector, look, mend } = await queue();
  await new Admin(connector, 'mail').setLimits({ rate: { max: 2, durationMs: 600_000 } });
  for (const n of [1, 2, 3]) await mail.enqueue(n);
  expect((await look()).odd).toEqual([]);
  await mail.claimBatch({ ...LEASE, size: 2 });
  const report = await look();
  expect(report.odd).toEqual(['warn rate']);
  expect(report.of('rate').text).toMatch(/the rate has no token: the next job is claimed in [45] min/);
  expect((await mail.claim(LEASE))?.id).toBeUndefined();
  await mend(/DEL \S+/.exec(report.of('rate').mend ?? '')?.[0] ?? '');
  expect((await look()).odd).toEqual([]);
  expect((await mail.claim(LEASE))?.id).toBeDefined();
  await mail.enqueue(3);
  await new Admin(connector, 'mail').setLimits({ rate: null });
  await on(server, (redis) => redis.set(`${base}limiter`, String((Date.now() + 600_000) * 1_000)));
  expect((await look()).of('rate').text).toContain('a handler told the queue to back off');
});

test('settings that are no numbers: every claim is refused, and the mend helps', async () => {
  const { server, mail, look, mend } = await queue();
  await mail.enqueue(1);
  for (const field of ['concurrency', 'max']) {
    await on(server, (redis) => redis.hset(`${base}meta`, field, '5 or so'));
    await expect(mail.claim(LEASE)).rejects.toThrow('is not an integer');
    const report = await look();
    expect(report.odd).toEqual(['bad limits']);
    expect(report.of('limits').text).toBe(
      `the field ${field} of ${base}meta is "5 or so" and no whole number: every claim is refused`,
    );
    await mend((report.of('limits').mend ?? '').split(';')[0] ?? '');
    await mail.enqueue(1);
    expect(await mail.claim(LEASE)).not.toBeNull();
  }
  await on(server, (redis) => redis.set(`${base}limiter`, 'soon'));
  const report = await look();
  expect(report.odd).toEqual(['bad limits']);
  await mend(report.of('limits').mend ?? '');
  expect((await look()).odd).toEqual([]);
});

test('lanes: paused ones with jobs, and numbers that are none', async () => {
  const { server, connector, look, mend } = await queue();
  const lanes = new Lanes(connector, 'mail');
  await lanes.pause(OTHER);
  await lanes.enqueue(TENANT, 1);
  expect((await look()).odd).toEqual([]);
  await lanes.pause(TENANT);
  const paused = await look();
  expect(paused.odd).toEqual(['warn paused lanes']);
  expect(paused.of('paused lanes').text).toBe(`1 lane with jobs is paused, 1 waiting: ${TENANT}`);
  await mend(/emq resume \S+ --lane \S+/.exec(paused.of('paused lanes').mend ?? '')?.[0] ?? '');
  expect((await look()).odd).toEqual([]);
  for (const name of ['gactive', 'glimit', 'gmax']) {
    await on(server, (redis) => redis.hset(`${base}${name}`, TENANT, '1.5'));
    await expect(lanes.claim(LEASE), name).rejects.toThrow('is not an integer');
    const report = await look();
    expect(report.odd).toEqual(['bad lanes']);
    expect(report.of('lanes').text).toContain(`${base}${name} has no whole number for 1 lane`);
    expect(report.of('lanes').text).toContain(TENANT);
    await on(server, (redis) => redis.hdel(`${base}${name}`, TENANT));
    expect((await look()).odd).toEqual([]);
  }
}, 30_000);

test('repeats that nobody fires', async () => {
  const { server, connector, look } = await queue();
  const repeats = new Repeats(connector, 'mail');
  await repeats.upsert('tick', { everyMs: 60_000 }, { payload: 1 });
  expect((await look()).odd).toEqual([]);
  await on(server, async (redis) => {
    const late = Date.now() - 7_300_000;
    await redis.zadd(`${base}repeat`, late, 'tick');
    await redis.hset(`${base}repeat:tick`, 'next', late);
  });
  const report = await look();
  expect(report.odd).toEqual(['warn repeats']);
  expect(report.of('repeats').text).toContain('1 repeat should have fired, tick since 2 h');
  expect(await repeats.fire()).toMatchObject({ fired: 1 });
  expect((await look()).odd).toEqual([]);
});

test('a repeat that is paused, and one that is late by seconds', async () => {
  const { server, connector, look, mend } = await queue();
  const repeats = new Repeats(connector, 'mail');
  for (const name of ['tick', 'nightly', 'over']) await repeats.upsert(name, { everyMs: 60_000 }, { payload: 1 });
  await repeats.pause('nightly');
  await on(server, async (redis) => {
    // one that has come to its end stands as far away as a paused one
    await redis.zadd(`${base}repeat`, 'inf', 'over');
    await redis.zadd(`${base}repeat`, Date.now() - 30_000, 'tick');
  });
  const report = await look();
  expect(report.odd).toEqual(['warn repeats', 'warn paused repeats']);
  expect(report.of('repeats').text).toMatch(
    /1 repeat should have fired, tick since [34]\d s: no consumer of this queue/,
  );
  expect(report.of('paused repeats').text).toBe('1 repeat is paused: nightly');
  await mend(/emq resume \S+ --repeat \S+/.exec(report.of('paused repeats').mend ?? '')?.[0] ?? '');
  expect((await look()).odd).toEqual(['warn repeats']);
});

test('the dead are told of, and are no problem by themselves', async () => {
  const { server, look } = await queue();
  await on(server, (redis) => redis.zadd(`${base}dead`, Date.now(), 'JOB00000000001'));
  const report = await look();
  expect(report.odd).toEqual([]);
  expect(report.of('dead')).toMatchObject({
    level: 'ok',
    text: '1 job is dead: emq jobs mail --state dead shows it, emq reprocess mail ID lets it run again',
  });
});

test('jobs that nobody claims, flat and in a lane; those in flight say that somebody does', async () => {
  const { mail, connector, look } = await queue();
  await mail.enqueue(1);
  expect((await look()).odd).toEqual([]);
  const old = encodeId('JOB', BigInt(Date.now() - 3_600_000 - EPOCH_MS) << 22n);
  await mail.enqueue(1, { id: old });
  expect((await look()).odd).toEqual(['warn consumers']);
  expect((await look()).of('consumers').text).toContain('the next one was made 60 min ago, and none is in flight');
  const held = await mail.claim(LEASE);
  expect((await look()).odd).toEqual([]);
  await mail.complete(held!);
  expect((await look()).odd).toEqual([]);
  await new Lanes(connector, 'mail').enqueue(TENANT, 1, { id: old });
  expect((await look()).odd).toEqual(['warn consumers']);
  await mail.pause();
  expect((await look()).odd).toEqual(['warn paused']);
}, 30_000);

test('more dead than consumers leave', async () => {
  const { server, look, mend } = await queue();
  const dead = Array.from({ length: 10_000 }, (_, i) => [i, `JOB0${String(i).padStart(10, '0')}`]).flat();
  await on(server, (redis) => redis.zadd(`${base}dead`, ...dead));
  expect((await look()).odd).toEqual([]);
  await on(server, (redis) => redis.zadd(`${base}dead`, 10_000, 'JOB00000010000'));
  const report = await look();
  expect(report.odd).toEqual(['warn dead']);
  await mend(`${/emq trim \S+ --keep \d+/.exec(report.of('dead').mend ?? '')?.[0]} --yes`);
  expect((await look()).odd).toEqual([]);
}, 30_000);
