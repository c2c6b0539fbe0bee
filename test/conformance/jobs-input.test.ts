/**
 * Wrong input to `Jobs`: each is a typed error that says what was given and what to give, and nothing is written.
 *
 * Most is refused by the client before the wire. What the client would refuse is also handed to the server itself, as
 * another client might: there each executor has to refuse it alike.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Jobs, mint, transitions, type Arg, type Transition } from '../../src/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { errorOf, EXECUTORS, MINUTE, MISSING, Stage } from './stage.js';

const LEASE = { leaseMs: MINUTE };
const RETRY = { delayMs: 0, maxAttempts: 1, error: 'no' };
const HELD = { id: MISSING, token: 1 };

/** Hands in what the types forbid, as a caller without types does. */
const untyped = <T>(value: unknown): T => value as T;

const BAD_IDS: readonly (readonly [string, unknown])[] = [
  ['empty', ''],
  ['too short', 'JOB0KHTOWnGLu'],
  ['too long', 'JOB0KHTOWnGLuCC'],
  ['a lower-case namespace', 'job0KHTOWnGLuC'],
  ['a digit outside base62', 'JOB0KHTOWnGL-C'],
  ['out of range by one', 'JOBAzL8n0Y58m8'],
  ['14 characters that are more bytes', 'JOB0KHTOWnGLué'],
  ['a colon, which would name another key', 'JOB00000000:lo'],
  ['braces, which would move it to another slot', 'JOB{0KHTOWnGL}'],
  ['NUL bytes', `JOB${'\0'.repeat(11)}`],
  ['binary, as text', Buffer.from('4a4f42ff80fe8100c328a0a1e228', 'hex').toString('latin1')],
  ['binary, as bytes', Buffer.from('4a4f42ff80fe8100c328a0a1e228', 'hex')],
  ['the right bytes, but as bytes', Buffer.from('JOB0KHTOWnGLuC')],
  ['a number', 274557032793636864],
  ['null', null],
  ['an object that pretends', { toString: () => 'JOB0KHTOWnGLuC', length: 14 }],
];

const BAD_POSITIVES: readonly unknown[] = [0, -0, -5, 1.5, 'x', '60000', 2 ** 63, 2 ** 53, 2 ** 52 + 1, NaN, Infinity];
const BAD_INTEGERS: readonly unknown[] = [1.5, 'x', '', 2 ** 63, -(2 ** 52) - 1, NaN, -Infinity, null, undefined, 5n];

describe('queue names', () => {
  const wire = { run: () => Promise.reject(new Error('sent')), runAll: () => Promise.reject(new Error('sent')) };

  it.each([
    '',
    'emq',
    'a b',
    'a:b',
    '{a}',
    'a}b',
    'ä',
    'a\0',
    'a\n',
    'q/1',
    'x'.repeat(129),
    null,
    7,
    Buffer.from('q'),
  ])('%j is refused', async (name) => {
    const error = await errorOf(() => new Jobs(wire, untyped<string>(name)));
    expect(error.code).toBe('EMQ_INPUT');
    expect(error.message).toMatch(/queue name .* must be 1 to 128 of A-Z a-z 0-9 \. _ -/);
  });

  it.each(['a', 'A.b_c-9', 'EMQ', 'emq.1', '-', 'x'.repeat(128)])('%j is legal', (name) => {
    expect(new Jobs(wire, name).keys.base).toBe(`emq:{${name}}:`);
  });
});

describe.each(EXECUTORS)('wrong input on %s', (_executor, wire) => {
  let stage: Stage;
  let jobs: Jobs<unknown>;
  let count = 0;
  let before: Awaited<ReturnType<typeof snapshot>>;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  beforeEach(async () => {
    jobs = stage.jobs(`input.${(count += 1)}`);
    // So that a call that went through by mistake would find something to change.
    await jobs.enqueueMany([{ payload: 1 }, { payload: 2 }]);
    await jobs.claim(LEASE);
    before = await snapshot(stage.raw);
  });
  // Nothing of what is handed in below may leave a trace: the whole keyspace is what it was.
  afterEach(async () => {
    expect(changedKeys(before, await snapshot(stage.raw))).toEqual([]);
    await stage.raw.del(...(await stage.raw.keys(`${jobs.keys.base}*`)));
  });

  /** Refused by the client: the text says what is wrong, and no call was sent at all. */
  async function refusedByClient(act: () => unknown, text: RegExp): Promise<void> {
    const { calls } = stage.connector.stats();
    const error = await errorOf(act);
    expect(error.code).toBe('EMQ_INPUT');
    expect(error.message).toMatch(text);
    expect(error.message.length).toBeLessThan(300);
    expect(stage.connector.stats().calls).toBe(calls);
  }

  const byId: readonly (readonly [string, (id: string) => unknown])[] = [
    ['enqueue', (id) => jobs.enqueue(1, { id })],
    ['enqueueMany', (id) => jobs.enqueueMany([{ payload: 1 }, { payload: 2, id }])],
    ['schedule', (id) => jobs.schedule(1, { inMs: 1 }, { id })],
    ['complete', (id) => jobs.complete({ id, token: 1 })],
    ['fail', (id) => jobs.fail({ id, token: 1 }, RETRY)],
    ['delay', (id) => jobs.delay({ id, token: 1 }, { inMs: 1 })],
    ['extend', (id) => jobs.extend({ id, token: 1 }, LEASE)],
    ['extendMany', (id) => jobs.extendMany([HELD, { id, token: 1 }], LEASE)],
    ['updateData', (id) => jobs.updateData(id, 1)],
    ['updateProgress', (id) => jobs.updateProgress(id, 1)],
    ['addLog', (id) => jobs.addLog(id, 'x')],
    ['logs', (id) => jobs.logs(id)],
    ['remove', (id) => jobs.remove(id)],
    ['reprocess', (id) => jobs.reprocess(id)],
    ['get', (id) => jobs.get(id)],
    ['state', (id) => jobs.state(id)],
  ];

  it.each(BAD_IDS)('an id that is ill-formed: %s', async (_what, id) => {
    for (const [, act] of byId) await refusedByClient(() => act(untyped(id)), /id .* must be a branded id/);
  });

  const positives: readonly (readonly [string, string, (value: number) => unknown])[] = [
    ['claim', 'leaseMs', (leaseMs) => jobs.claim({ leaseMs })],
    ['claimBatch', 'leaseMs', (leaseMs) => jobs.claimBatch({ leaseMs, size: 1 })],
    ['claimBatch', 'size', (size) => jobs.claimBatch({ ...LEASE, size })],
    ['extend', 'leaseMs', (leaseMs) => jobs.extend(HELD, { leaseMs })],
    ['extendMany', 'leaseMs', (leaseMs) => jobs.extendMany([HELD], { leaseMs })],
    ['fail', 'maxAttempts', (maxAttempts) => jobs.fail(HELD, { ...RETRY, maxAttempts })],
    ['promote', 'limit', (limit) => jobs.promote({ limit })],
    ['reap', 'limit', (limit) => jobs.reap({ limit })],
    ['stalledCheck', 'limit', (limit) => jobs.stalledCheck({ limit })],
    ['stalledCheck', 'maxStalled', (maxStalled) => jobs.stalledCheck({ maxStalled })],
    ['browse', 'limit', (limit) => jobs.browse('pending', { limit })],
    ['complete', 'token', (token) => jobs.complete({ ...HELD, token })],
    ['fail', 'token', (token) => jobs.fail({ ...HELD, token }, RETRY)],
    ['delay', 'token', (token) => jobs.delay({ ...HELD, token }, { inMs: 1 })],
    ['extend', 'token', (token) => jobs.extend({ ...HELD, token }, LEASE)],
    ['extendMany', 'token', (token) => jobs.extendMany([{ ...HELD, token }], LEASE)],
    ['new Jobs', 'maxPayloadBytes', (maxPayloadBytes) => stage.jobs('input.other', { maxPayloadBytes })],
  ];
  it.each(positives)('%s: %s must be a positive integer', async (_verb, name, act) => {
    const text = new RegExp(`${name} must be an integer from 1 to 2\\^52, got `);
    for (const value of BAD_POSITIVES) await refusedByClient(() => act(untyped(value)), text);
  });

  const integers: readonly (readonly [string, string, (value: number) => unknown])[] = [
    ['schedule', 'inMs', (inMs) => jobs.schedule(1, { inMs })],
    ['schedule', 'at', (at) => jobs.schedule(1, { at })],
    ['delay', 'inMs', (inMs) => jobs.delay(HELD, { inMs })],
    ['delay', 'at', (at) => jobs.delay(HELD, { at })],
    ['fail', 'delayMs', (delayMs) => jobs.fail(HELD, { ...RETRY, delayMs })],
  ];
  it.each(integers)('%s: %s must be an integer', async (_verb, name, act) => {
    const text = new RegExp(`${name} must be an integer from -2\\^52 to 2\\^52, got `);
    for (const value of BAD_INTEGERS) await refusedByClient(() => act(untyped(value)), text);
  });

  it('a place must be an integer, an offset and a keep at least 0', async () => {
    for (const value of [1.5, 'x', NaN, 2 ** 63].map(untyped<number>)) {
      await refusedByClient(() => jobs.logs(MISSING, { first: value }), /first must be an integer/);
      await refusedByClient(() => jobs.logs(MISSING, { last: value }), /last must be an integer/);
      await refusedByClient(() => jobs.browse('dead', { offset: value }), /offset must be an integer from 0/);
      await refusedByClient(() => jobs.addLog(MISSING, 'x', { keep: value }), /keep must be an integer from 0/);
    }
    await refusedByClient(() => jobs.browse('dead', { offset: -1 }), /offset must be an integer from 0/);
    await refusedByClient(() => jobs.addLog(MISSING, 'x', { keep: -1 }), /keep must be an integer from 0/);
  });

  it('an invalid Date is no time', async () => {
    await refusedByClient(() => jobs.schedule(1, { at: new Date(NaN) }), /at must be an integer .* got NaN/);
  });

  it.each([-1, 1.5, 2_097_153, NaN, '1', null])('priority %j', async (value) => {
    const priority = untyped<number>(value);
    const text = /priority must be an integer from 0 \(first\) to 2097152 \(last\), got /;
    await refusedByClient(() => jobs.enqueue(1, { priority }), text);
    await refusedByClient(() => jobs.schedule(1, { inMs: 1 }, { priority }), text);
    await refusedByClient(() => jobs.enqueueMany([{ payload: 1 }, { payload: 1, priority }]), text);
  });

  it.each([7, 'text', null, ['a list'], Buffer.from('{}'), { n: 1n }, { toJSON: (): undefined => undefined }])(
    'opts that are no plain JSON object (case %#)',
    async (opts) => {
      await refusedByClient(() => jobs.enqueue(1, { opts: untyped(opts) }), /opts must be a plain object|encoded|JSON/);
    },
  );

  it.each(['wait', 'schedule', 'toString', '__proto__', '', 7, null])('state %j is unknown', async (name) => {
    const state = untyped<'pending'>(name);
    await refusedByClient(() => jobs.counts([state]), /unknown state .*pending, active, scheduled/);
    await refusedByClient(() => jobs.browse(state), /unknown state .*pending, active, scheduled/);
  });

  it.each(['wait', 'toString', '', null])('metrics of %j are unknown', async (name) => {
    await refusedByClient(() => jobs.metrics(untyped<'failed'>(name)), /completed.*failed/);
  });

  it.each(['', 'a b', 'a:b', 'x'.repeat(256), 7])('dedup id %j', async (dedupId) => {
    await refusedByClient(() => jobs.remove(MISSING, { dedupId: untyped(dedupId) }), /dedup id .* must be 1 to 255/);
  });

  it.each([7, null, undefined, {}, new Uint16Array(2)])(
    'an error or a line that is no text and no bytes',
    async (value) => {
      await refusedByClient(
        () => jobs.fail(HELD, { ...RETRY, error: untyped(value) }),
        /error must be a string or bytes/,
      );
      await refusedByClient(() => jobs.addLog(MISSING, untyped(value)), /line must be a string or bytes/);
    },
  );

  it.each([null, undefined, {}, Buffer.from('5')])('progress that is no text and no number', async (value) => {
    await refusedByClient(() => jobs.updateProgress(MISSING, untyped(value)), /progress must be text or a number/);
  });

  describe('arguments that are not there, from a caller without types', () => {
    const calls: readonly (readonly [string, (j: Record<string, (...args: unknown[]) => unknown>) => unknown])[] = [
      ['claim()', (j) => j['claim']?.()],
      ['claim(null)', (j) => j['claim']?.(null)],
      ['claim(60000)', (j) => j['claim']?.(MINUTE)],
      ['claimBatch()', (j) => j['claimBatch']?.()],
      ['complete()', (j) => j['complete']?.()],
      ['complete(id)', (j) => j['complete']?.(MISSING)],
      ['fail(job)', (j) => j['fail']?.(HELD)],
      ['delay(job)', (j) => j['delay']?.(HELD)],
      ['extend(job)', (j) => j['extend']?.(HELD)],
      ['extendMany()', (j) => j['extendMany']?.()],
      ['extendMany([null])', (j) => j['extendMany']?.([null], LEASE)],
      ['schedule(payload)', (j) => j['schedule']?.(1)],
      ['schedule(payload, 60000)', (j) => j['schedule']?.(1, MINUTE)],
      ['enqueue(payload, null)', (j) => j['enqueue']?.(1, null)],
      ['enqueueMany()', (j) => j['enqueueMany']?.()],
      ['enqueueMany([null])', (j) => j['enqueueMany']?.([null])],
      ['counts("pending")', (j) => j['counts']?.('pending')],
      ['promote(null)', (j) => j['promote']?.(null)],
      ['remove(id, null)', (j) => j['remove']?.(MISSING, null)],
    ];
    it.each(calls)('%s', async (_call, act) => {
      await refusedByClient(() => act(untyped(jobs)), /./);
    });
  });

  describe('the same by the server itself', () => {
    /** A call as another client might send it. */
    const send = <I, R>(transition: Transition<I, R>, keys: readonly Arg[], args: readonly Arg[]) =>
      stage.connector.run({ transition, queue: jobs.queue, keys, args });

    const bad = [
      '0',
      '-5',
      'x',
      '9223372036854775808',
      'NaN',
      '',
      '+5',
      '007',
      '1e3',
      '1.5',
      ' 1',
      '-0',
      '4503599627370497',
    ];

    it.each(bad)('a lease, a size, a limit or a cap of %j', async (value) => {
      const { pending, active, schedule, dead, base } = jobs.keys;
      const row = jobs.keys.job(MISSING);
      const refusals: readonly (readonly [string, () => Promise<unknown>])[] = [
        ['lease', () => send(transitions.claim, [pending, active, base], [value])],
        ['lease', () => send(transitions.claimBatch, [pending, active, base], [value, '1'])],
        ['size', () => send(transitions.claimBatch, [pending, active, base], ['1', value])],
        ['lease', () => send(transitions.extend, [active, row], [MISSING, '1', value])],
        ['lease', () => send(transitions.extendMany, [active, base], [value, MISSING, '1'])],
        ['max', () => send(transitions.fail, [active, schedule, dead, row], [MISSING, '1', '0', value, 'no', base])],
        ['limit', () => send(transitions.promote, [schedule, pending, base], [value])],
        ['limit', () => send(transitions.reap, [active, pending, base], [value])],
        ['max', () => send(transitions.stalledCheck, [active, pending, dead], [base, value, '1'])],
        ['limit', () => send(transitions.stalledCheck, [active, pending, dead], [base, '1', value])],
      ];
      for (const [what, act] of refusals) {
        const error = await errorOf(act);
        expect(error.code).toBe('ERR');
        expect(error.reason).toBe(`ERR ${what} must be a positive integer`);
      }
    });

    it.each([
      ['bytes that are no text', Buffer.from('ff80fe8100c328a0a1e2281122aa', 'hex')],
      ['a NUL', 'JO\0B0KHTOWnGLu'],
      ['nothing', ''],
    ])('an id of %s is not of the JOB namespace', async (_what, id) => {
      const row = Buffer.concat([Buffer.from(`${jobs.keys.base}job:`), Buffer.from(id)]);
      const { pending, schedule, wake } = jobs.keys;
      for (const act of [
        () => send(transitions.enqueue, [row, pending, wake], [id, '1']),
        () => send(transitions.schedule, [row, schedule, wake], [id, '1', 'in', '5']),
      ]) {
        expect((await errorOf(act)).reason).toBe('EMQKIND job id must be JOB-namespaced');
      }
    });
  });

  it('an error repeats no more than a piece of what was given', async () => {
    const long = 'x'.repeat(100_000);
    for (const act of [
      () => stage.jobs(long),
      () => jobs.get(long),
      () => jobs.claim({ leaseMs: untyped(long) }),
      () => jobs.remove(mint(), { dedupId: long }),
      () => jobs.browse(untyped(long)),
      () => jobs.counts([untyped<'dead'>(long)]),
    ]) {
      const error = await errorOf(act);
      expect(error.message.length).toBeLessThan(300);
    }
  });

  it('runAll of what is no list', async () => {
    await refusedByClient(() => stage.connector.runAll(untyped<never[]>('calls')), /list of calls/);
  });
});
