/**
 * The rights of a connector: the documented rules are enough for every verb, none of them can be spared, another queue
 * is out of reach, and what a missing right leaves behind is known.
 *
 * A script that may not run a command stops there. What it wrote before stays: that is the server's (wire contract, 6).
 * So here, from what each script really runs: it is refused without a trace if the command comes before its first write,
 * and half-way if it comes after. The native commands check first, and never leave anything.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { listQueues, transitions, type Connector } from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { acts, FLOWS, titleOf, type Act } from './acts.js';
import { isRead, isWrite, Monitor, type Run } from './monitor.js';
import {
  LANE_PRODUCER,
  LISTS,
  MAY_BRAND,
  NAMED,
  NATIVE_VERBS,
  PRODUCER,
  PRODUCER_6,
  QUIET,
  WIRE_4,
  WIRE_6,
} from './rules.js';
import { SECRET, USER, Users, type Verdict } from './users.js';

const titled = acts.map((verb) => [titleOf(verb), verb] as const);
const NATIVE: ReadonlySet<string> = new Set(NATIVE_VERBS.map(([verb]) => verb));
/** The rights without which a script can stop half-way: every write that is not the first of its script. */
const HALF_WAY = [
  ...['+decr', '+del', '+hdel', '+hincrby', '+hset', '+lpush', '+lrem', '+ltrim', '+pexpireat', '+rename', '+rpush'],
  ...['+set', '+zadd', '+zpopmin', '+zrem', '+zremrangebyscore'],
];
const without = (rules: readonly string[], rule: string) => rules.filter((one) => one !== rule);

describe.each(EXECUTORS)('the rights of a connector, %s', (_executor, wire) => {
  const rules = wire === 6 ? WIRE_6 : WIRE_4;
  let users: Users;
  let connector: Connector;

  beforeAll(async () => {
    users = await Users.start(wire);
    await users.grant(rules);
    connector = await users.connect();
  });
  afterAll(() => users[Symbol.asyncDispose]());

  describe('every verb', () => {
    beforeAll(() => users.grant(rules));

    it.each(titled)('%s: done on queue a, refused on queue b', async (_title, verb) => {
      expect(await users.judge(verb, 'a', connector)).toBe('done');
      expect(await users.judge(verb, 'b', connector)).toBe('refused');
    });
  });

  describe('every rule', () => {
    const runs = new Map<Act, Run>();

    beforeAll(async () => {
      using monitor = await Monitor.start(users.stage.raw);
      await users.grant(rules);
      for (const verb of acts) {
        const act = await users.scene(verb, 'a');
        runs.set(verb, await monitor.watch(() => act(users.stage.jobs('a'))));
      }
    });

    it('is about what the scripts run: no read comes after a first write', () => {
      for (const [verb, run] of runs) {
        // enqueueMany is several scripts, one after the other.
        if (verb.verb === 'enqueueMany') continue;
        const first = run.findIndex((command) => !isRead(command));
        const late = first < 0 ? [] : run.slice(first).filter(isRead);
        expect({ verb: titleOf(verb), late }).toEqual({ verb: titleOf(verb), late: [] });
      }
      const native = acts.filter(({ verb }) => wire === 6 && NATIVE.has(verb));
      for (const verb of native) expect(runs.get(verb)).toEqual([]);
    });

    /** What becomes of a verb without the right to one command. */
    function foretell(verb: Act, command: string): Verdict {
      const run = runs.get(verb) ?? [];
      const at = run.indexOf(command);
      if (at < 0) return 'done';
      const half = run.slice(0, at).some(isWrite);
      // what a dying flow parent says of itself is a courtesy
      if (half && command === 'publish' && FLOWS.has(verb.verb)) return 'done';
      return half ? 'half' : 'refused';
    }

    it.each(rules)('%s is needed', async (rule) => {
      await users.grant(without(rules, rule));
      let refusals = (await users.connects()) ? 0 : 1;
      const half: string[] = [];
      for (const verb of acts) {
        const verdict = await users.judge(verb, 'a', connector);
        if (verdict !== 'done') refusals += 1;
        if (verdict === 'half') half.push(titleOf(verb));
        const command = /^\+([a-z]+)$/.exec(rule)?.[1];
        if (command === undefined || ['evalsha', 'eval'].includes(command)) continue;
        expect({ verb: titleOf(verb), verdict }).toEqual({ verb: titleOf(verb), verdict: foretell(verb, command) });
        if (wire === 6 && NATIVE.has(verb.verb)) expect(verdict).not.toBe('half');
      }
      // A node that has forgotten its scripts is told them again.
      await users.stage.raw.script('FLUSH');
      const [enqueue] = acts;
      if (enqueue === undefined) throw new Error('no verb');
      if ((await users.judge(enqueue, 'a', connector)) !== 'done') refusals += 1;
      expect(refusals).toBeGreaterThan(0);
      expect({ rule, half: half.length > 0 && !HALF_WAY.includes(rule) ? half : [] }).toEqual({ rule, half: [] });
      expect(half.length > 0).toBe(HALF_WAY.includes(rule));
    });
  });

  describe('branding', () => {
    it('a node without a brand needs two rights, and each of them', async () => {
      // SET is among the commands of the scripts, so a producer is the one that lacks both
      const own = wire === 6 ? PRODUCER_6 : PRODUCER;
      await users.brand(false);
      for (const granted of [own, rules, [...own, '+set'], [...own, '%RW~{emq}:version']]) {
        await users.grant(granted);
        expect((await users.stage.refused('NOPERM', () => users.connect())).message).not.toMatch(/EMQWIRE/);
      }
      await users.grant([...own, ...MAY_BRAND]);
      await (await users.connect()).close();
      await users.brand(false);
      await users.grant([...rules, ...MAY_BRAND]);
      await (await users.connect()).close();
      expect(await users.stage.raw.get('{emq}:version')).toBe(`echomq:${wire}.0.0`);
    });

    it('a branded one needs neither, and cannot be branded anew', async () => {
      await users.brand(true);
      await users.grant(rules);
      await (await users.connect()).close();
      await (await users.connect({ claim: false })).close();
    });
  });

  it('a database other than 0 needs SELECT', async () => {
    const redis = { path: users.stage.server.socketPath, username: USER, password: SECRET, db: 1 };
    await users.grant([...rules, ...MAY_BRAND]);
    await users.stage.refused('NOPERM', () => users.connect({ redis }));
    await users.grant([...rules, ...MAY_BRAND, '+select']);
    await (await users.connect({ redis })).close();
    await users.stage.raw.select(1);
    expect(await users.stage.raw.get('{emq}:version')).toBe(`echomq:${wire}.0.0`);
    await users.stage.raw.select(0);
  });

  it('the quiet rules are not needed, and keep the ACL LOG empty', async () => {
    const log = async () => {
      const entries = (await users.stage.raw.call('ACL', 'LOG')) as string[][];
      return new Set(entries.map((entry) => String(entry[entry.indexOf('object') + 1])));
    };
    const silent = { heartbeatMs: 20, heartbeatDeadlineMs: 2_000 };
    const [enqueue] = acts;
    if (enqueue === undefined) throw new Error('no verb');
    // The refusal of a PING is a sign of life like any other.
    await users.grant(rules);
    await users.stage.raw.call('ACL', 'LOG', 'RESET');
    const other = await users.connect(silent);
    await users.stage.raw.script('FLUSH');
    expect(await users.judge(enqueue, 'a', other)).toBe('done');
    await vi.waitUntil(async () => (await log()).has('ping'), { timeout: 20_000 });
    expect([...(await log())].sort()).toEqual(['client|setinfo', 'info', 'ping', 'script|load']);
    expect(await users.judge(enqueue, 'a', other)).toBe('done');
    expect(other.stats()).toMatchObject({ state: 'up', reconnects: 0 });
    await other.close();

    await users.grant([...rules, ...QUIET]);
    await users.stage.raw.call('ACL', 'LOG', 'RESET');
    await users.stage.raw.script('FLUSH');
    const quiet = await users.connect(silent);
    expect(await users.judge(enqueue, 'a', quiet)).toBe('done');
    const pings = async () =>
      Number(/cmdstat_ping:calls=(\d+)/.exec(await users.stage.raw.info('commandstats'))?.[1] ?? 0);
    const before = await pings();
    await vi.waitUntil(async () => (await pings()) > before, { timeout: 20_000 });
    expect(await log()).toEqual(new Set());
    await quiet.close();
  });
});

describe.each(EXECUTORS)('the rights of a producer, %s', (_executor, wire) => {
  const rules = wire === 6 ? PRODUCER_6 : PRODUCER;
  // The last two come with it: they use no command and no key that the others do not.
  const plain = ['enqueue', 'enqueueMany', 'schedule', 'updateData', 'browse'];
  // what is of lanes and dedup ids is not for this user
  const mayCall = ({ verb, variant }: Act) => plain.includes(verb) && !/lane|dedup|replacing/.test(variant);
  let users: Users;
  let connector: Connector;

  beforeAll(async () => {
    users = await Users.start(wire);
    await users.grant(rules);
    connector = await users.connect();
  });
  afterAll(() => users[Symbol.asyncDispose]());

  it.each(titled)('%s', async (_title, verb) => {
    await users.grant(rules);
    expect(await users.judge(verb, 'a', connector)).toBe(mayCall(verb) ? 'done' : 'refused');
    expect(await users.judge(verb, 'b', connector)).toBe('refused');
  });

  it.each(rules)('%s is needed', async (rule) => {
    await users.grant(without(rules, rule));
    let refusals = (await users.connects()) ? 0 : 1;
    await users.stage.raw.script('FLUSH');
    for (const verb of acts.filter(mayCall)) {
      const verdict = await users.judge(verb, 'a', connector);
      if (verdict !== 'done') refusals += 1;
      if (verdict === 'half') expect(HALF_WAY).toContain(rule);
    }
    expect(refusals).toBeGreaterThan(0);
  });
});

describe.each(EXECUTORS)('the rights of a producer for lanes, %s', (_executor, wire) => {
  const rules = wire === 6 ? [...LANE_PRODUCER, '+command|info'] : LANE_PRODUCER;
  const verbs = ['enqueue', 'enqueueMany', 'schedule', 'updateData', 'browse', 'admit', 'reschedule', 'dedupOwner'];
  const own = titled.filter(([, { verb }]) => verbs.includes(verb));
  let users: Users;
  let connector: Connector;

  beforeAll(async () => {
    users = await Users.start(wire);
    await users.grant(rules);
    connector = await users.connect();
  });
  afterAll(() => users[Symbol.asyncDispose]());

  it.each(own)('%s', async (_title, verb) => {
    await users.grant(rules);
    expect(await users.judge(verb, 'a', connector)).toBe('done');
    expect(await users.judge(verb, 'b', connector)).toBe('refused');
  });

  it.each(rules)('%s is needed', async (rule) => {
    await users.grant(without(rules, rule));
    let refusals = (await users.connects()) ? 0 : 1;
    await users.stage.raw.script('FLUSH');
    for (const [, verb] of own) {
      const verdict = await users.judge(verb, 'a', connector);
      if (verdict !== 'done') refusals += 1;
      if (verdict === 'half') expect(HALF_WAY).toContain(rule);
    }
    expect(refusals).toBeGreaterThan(0);
  });
});

describe.each(EXECUTORS)('the list of queues, %s', (_executor, wire) => {
  const rules = wire === 6 ? WIRE_6 : WIRE_4;
  let users: Users;
  beforeAll(async () => {
    users = await Users.start(wire);
  });
  afterAll(() => users[Symbol.asyncDispose]());

  const register = (connector: Connector) =>
    connector.run({ transition: transitions.register, queue: 'a', keys: ['{emq}:queues'], args: ['a', 'add'] });

  it('a queue is named by whoever may write the list, and by nobody else', async () => {
    await users.grant(rules);
    const connector = await users.connect();
    await users.stage.refused('NOPERM', () => register(connector));
    expect(await users.stage.raw.exists('{emq}:queues')).toBe(0);
    await users.grant([...rules, ...NAMED]);
    await register(connector);
    expect(await users.stage.raw.zrange('{emq}:queues', '0', '-1')).toEqual(['a']);
    await connector.close();
  });

  it('who may read it and look for keys lists all; without the list those with keys, without the look neither', async () => {
    const connect = ['+get', '%R~{emq}:version', ...(wire === 6 ? ['+command|info'] : [])];
    await users.stage.raw.zadd('{emq}:queues', '5', 'named');
    await users.stage.raw.set('emq:{keyed}:wake', 'x');
    await users.grant([...connect, ...LISTS]);
    const connector = await users.connect();
    expect(await listQueues(connector)).toEqual(expect.arrayContaining(['keyed', 'named']));
    for (const rule of ['+zrange', '%R~{emq}:queues']) {
      await users.grant([...connect, ...without(LISTS, rule)]);
      const found = await listQueues(connector);
      expect(found).toContain('keyed');
      expect(found).not.toContain('named');
    }
    await users.grant([...connect, ...without(LISTS, '+scan')]);
    await users.stage.refused('NOPERM', () => listQueues(connector));
    expect(await listQueues(connector, { scan: false })).toContain('named');
    await connector.close();
  });
});
