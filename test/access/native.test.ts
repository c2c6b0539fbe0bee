/**
 * A raw caller of the native commands: `+@emq` and the queue's keys, nothing else. Every key that a command touches, named
 * by the caller or derived by the module, is asked for: taken away one by one, each is NOPERM with nothing written.
 */
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Jobs, type Wire } from '../../src/index.js';
import { fromReply } from '../../src/wire/errors.js';
import { native } from '../../src/wire/executor.js';
import { ask } from '../../src/parity/node.js';
import { verbs } from '../conformance/verbs.js';
import { jobCases } from '../parity/situations/jobs.js';
import { laneCases } from '../parity/situations/lanes.js';
import { workerCases } from '../parity/situations/worker.js';
import { actsOf, titleOf, type Act } from './acts.js';
import { NATIVE_VERBS, RAW_NATIVE } from './rules.js';
import { SECRET, USER, Users } from './users.js';

/** The verbs' calls as plain commands of a plain client: no connector, so no fence of its own and no healing. */
function bare(client: Redis): Wire {
  return {
    async run(call) {
      const { command, args } = native(call);
      const answer = await ask(client, [command, ...args]);
      if (!answer.ok) throw fromReply(answer.text);
      return answer.reply;
    },
    async runAll(calls) {
      const one = (call: (typeof calls)[number]) =>
        this.run(call).then(
          (reply) => ({ ok: true as const, reply }),
          (error: unknown) => ({ ok: false as const, error: error as ReturnType<typeof fromReply> }),
        );
      return Promise.all(calls.map(one));
    },
  };
}

const NATIVE: ReadonlySet<string> = new Set(NATIVE_VERBS.map(([verb]) => verb));

/** What limits do to the calls: situations of the refusal suite that are about them. */
const limited = [
  ...['claim', 'complete'].flatMap((name) => actsOf(name, jobCases[name]!)),
  ...['take', 'release'].flatMap((name) => actsOf(name, workerCases[name]!)),
].filter(({ variant }) => /limits|a rate|token|turn|ceiling/.test(variant));
const batches = actsOf('take_batch', laneCases['take_batch']!, 'takeBatch');
const natives = [...verbs.filter(({ verb }) => NATIVE.has(verb)), ...limited, ...batches].map(
  (act) => [titleOf(act), act] as const,
);
const others = verbs.filter(({ verb }) => !NATIVE.has(verb)).map((verb) => [titleOf(verb), verb] as const);

/** Every key of a queue that a native command may touch, as its part behind the base. The empty one is the base itself. */
const ROW = `job:${'?'.repeat(14)}`;
const SUBKEYS = [':logs', ':lock', ':dependencies', ':children', ':processed', ':unsuccessful', ':failed'].map(
  (key) => `job:*${key}`,
);
const LANE = ['g:*:pending', 'gactive', 'glimit', 'gwait', 'paused', 'ring'];
const METRICS = ['metrics:completed', 'metrics:failed'];
const KEYS = [
  '',
  'pending',
  'active',
  'schedule',
  'dead',
  ROW,
  'meta',
  'wake',
  'flow:outbox',
  ...METRICS,
  ...LANE,
  ...['limiter', 'gmax', 'gweight', 'gduration', 'g:*:limiter', 'de:*'],
  ...SUBKEYS,
];
/** Where it is enough to read, but for `WRITTEN`. */
const READ_ONLY = ['meta', 'limiter', 'glimit', 'gwait', 'gmax', 'gduration', 'gweight', 'paused'];

/** What each call needs: the keys that it declares, and the derived ones that it touches in that scene. */
const CLAIM = ['', 'pending', 'active', 'meta', 'limiter', ROW];
const TAKE = [...CLAIM, 'ring'];
const TAKEN_LANE = ['g:*:pending', 'gactive', 'glimit', 'gwait', 'gmax', 'gweight', 'paused'];
const RATE = ['gduration', 'g:*:limiter'];
const RELEASE = ['active', 'pending', 'meta', ROW];
const COMPLETE = ['active', 'meta', ROW, 'metrics:completed', ...SUBKEYS];
const FAIL = ['active', 'schedule', 'dead', 'meta', ROW];
const SWEEP = ['active', 'pending', 'dead', 'meta', ROW];
const NEEDS: Readonly<Record<string, readonly string[]>> = {
  claim: CLAIM,
  'claim (a lease of another executor)': CLAIM,
  'claim (a ghost)': CLAIM,
  claimBatch: CLAIM,
  complete: COMPLETE,
  'complete (late, after a reap)': [...COMPLETE, 'pending'],
  'complete (in a lane)': [...COMPLETE, ...LANE, 'wake'],
  'complete (last in flight of its lane)': [...COMPLETE, ...LANE, 'wake'],
  'complete (late, last in its lane)': [...COMPLETE, ...LANE],
  fail: [...FAIL, 'wake'],
  'fail (at its cap)': [...FAIL, 'metrics:failed'],
  'fail (late, after a reap)': [...FAIL, 'pending', 'wake'],
  'fail (in a lane)': [...FAIL, ...LANE, 'wake'],
  'fail (late, last in its lane)': [...FAIL, ...LANE, 'wake'],
  stalledCheck: [...SWEEP, 'wake'],
  'stalledCheck (a lane)': [...SWEEP, ...LANE, 'wake'],
  'stalledCheck (a flow child dies)': [...SWEEP, 'metrics:failed', 'flow:outbox'],
  take: TAKE,
  'take (a lease of another executor)': TAKE,
  'take (a ghost)': TAKE,
  'take (and more wait)': [...TAKE, 'wake'],
  'take (from a lane, and more wait)': [...TAKE, ...TAKEN_LANE, 'wake'],
  'take (the last of a lane)': [...TAKE, ...TAKEN_LANE],
  release: [...RELEASE, 'wake'],
  'release (in a lane)': [...RELEASE, ...LANE, 'wake'],
  'complete (freeing its dedup id)': [...COMPLETE, 'de:*'],
  'fail (at its cap, freeing its dedup id)': [...FAIL, 'metrics:failed', 'de:*'],
  'stalledCheck (a death that frees its dedup id)': [...SWEEP, 'metrics:failed', 'de:*'],
  'claim (a job waits, and the queue has limits)': CLAIM,
  'complete (an active job of a queue at its ceiling)': [...COMPLETE, 'pending', 'wake'],
  'take (one of two flat jobs, and the queue has limits)': [...TAKE, 'wake'],
  'take (one of two jobs of a lane that has a rate)': [...TAKE, ...TAKEN_LANE, ...RATE, 'wake'],
  'take (the last token of a lane)': [...TAKE, ...TAKEN_LANE, ...RATE],
  'take (the first of three in the turn of a lane)': [...TAKE, ...TAKEN_LANE, 'wake'],
  'release (an active job of a queue at its ceiling)': [...RELEASE, 'wake'],
  'takeBatch (one of two flat jobs)': [...TAKE, 'wake'],
  'takeBatch (both jobs of a lane that has a rate)': [...TAKE, ...TAKEN_LANE, ...RATE],
  'takeBatch (a lane with too few is passed over)': [...TAKE, ...TAKEN_LANE, 'wake'],
};
/** Keys that a scene writes, or only reads, where most do the other. */
const WRITTEN: Readonly<Record<string, readonly string[]>> = {
  'claim (a job waits, and the queue has limits)': ['limiter'],
  'take (one of two flat jobs, and the queue has limits)': ['limiter'],
  'takeBatch (one of two flat jobs)': ['limiter'],
  'take (the last token of a lane)': ['gwait'],
  'take (the first of three in the turn of a lane)': ['meta'],
};
const READ: Readonly<Record<string, readonly string[]>> = {
  'complete (an active job of a queue at its ceiling)': ['pending'],
};
const isReadOnly = (title: string, key: string): boolean =>
  (READ_ONLY.includes(key) && !(WRITTEN[title] ?? []).includes(key)) || (READ[title] ?? []).includes(key);
const rule = (key: string, mode = '~') => `${mode}emq:{a}:${key}`;

describe('a raw native caller', () => {
  let users: Users;
  let wire: Wire;

  beforeAll(async () => {
    users = await Users.start(6);
    await users.grant(RAW_NATIVE);
    wire = bare(await users.stage.client({ username: USER, password: SECRET }));
  });
  afterAll(() => users[Symbol.asyncDispose]());

  it.each(natives)('%s: done on queue a, refused on queue b', async (_title, verb) => {
    await users.grant(RAW_NATIVE);
    expect(await users.judge(verb, 'a', wire)).toBe('done');
    expect(await users.judge(verb, 'b', wire)).toBe('refused');
  });

  it.each(others)('%s is a script, and not for this user', async (_title, verb) => {
    await users.grant(RAW_NATIVE);
    expect(await users.judge(verb, 'a', wire)).toBe('refused');
  });

  it.each(RAW_NATIVE)('%s is needed', async (one) => {
    await users.grant(RAW_NATIVE.filter((other) => other !== one));
    for (const [, verb] of natives) expect(await users.judge(verb, 'a', wire)).toBe('refused');
  });

  it('each command alone can be given', async () => {
    for (const [name, command] of NATIVE_VERBS) {
      await users.grant(['~emq:{a}:*', `+${command.toLowerCase()}`]);
      for (const [, verb] of natives) {
        expect(await users.judge(verb, 'a', wire)).toBe(verb.verb === name ? 'done' : 'refused');
      }
    }
  });

  it('has its needs listed for every scene', () => {
    expect(Object.keys(NEEDS)).toEqual(natives.map(([title]) => title));
  });

  describe('key by key', () => {
    const needed = (verb: Act) => NEEDS[titleOf(verb)] ?? [];

    it.each(natives)('%s: what it needs is enough', async (_title, verb) => {
      await users.grant(['+@emq', ...needed(verb).map((key) => rule(key))]);
      expect(await users.judge(verb, 'a', wire)).toBe('done');
    });

    it.each(natives)('%s: each key that it needs, taken away, is NOPERM and no other is', async (_title, verb) => {
      const refused: string[] = [];
      for (const key of KEYS) {
        await users.grant(['+@emq', ...KEYS.filter((other) => other !== key).map((other) => rule(other))]);
        const verdict = await users.judge(verb, 'a', wire);
        expect(verdict).not.toBe('half');
        if (verdict === 'refused') refused.push(key);
      }
      expect(refused.sort()).toEqual([...needed(verb)].sort());
    });

    it.each(natives)('%s: reading is enough for the keys that it only reads', async (title, verb) => {
      for (const key of needed(verb)) {
        await users.grant(['+@emq', ...KEYS.map((other) => rule(other, other === key ? '%R~' : '~'))]);
        const verdict = await users.judge(verb, 'a', wire);
        expect({ key, verdict }).toEqual({ key, verdict: isReadOnly(title, key) ? 'done' : 'refused' });
      }
    });

    it.each(natives)('%s: writing is not enough where it reads', async (_title, verb) => {
      for (const key of needed(verb)) {
        await users.grant(['+@emq', ...KEYS.map((other) => rule(other, other === key ? '%W~' : '~'))]);
        expect({ key, verdict: await users.judge(verb, 'a', wire) }).toEqual({ key, verdict: 'refused' });
      }
    });
  });

  it('the fence asks nothing of the caller, and holds', async () => {
    const [claim] = natives;
    if (claim === undefined) throw new Error('no native verb');
    await users.grant(RAW_NATIVE);
    const act = await users.scene(claim[1], 'a');
    await users.stage.raw.set('{emq}:version', 'echomq:4.0.0');
    const error = await users.stage.refused('EMQWIRE', () => act(new Jobs(wire, 'a')));
    expect(error.reason).toBe('EMQWIRE node is echomq:4.0.0, needs echomq:6.0.0');
    await users.brand(true);
    expect(await act(new Jobs(wire, 'a'))).not.toBeNull();
  });

  it('a refused derived key is in the ACL LOG, with the name of the key', async () => {
    const [claim] = natives;
    if (claim === undefined) throw new Error('no native verb');
    await users.grant(['+@emq', ...CLAIM.filter((key) => key !== 'meta').map((key) => rule(key))]);
    await users.stage.raw.call('ACL', 'LOG', 'RESET');
    expect(await users.judge(claim[1], 'a', wire)).toBe('refused');
    const [entry = []] = (await users.stage.raw.call('ACL', 'LOG')) as string[][];
    expect(entry[entry.indexOf('object') + 1]).toBe('emq:{a}:meta');
    expect(entry[entry.indexOf('username') + 1]).toBe(USER);
  });
});
