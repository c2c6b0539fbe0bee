/**
 * The sandbox as a handler, in threads and in processes: what goes in and comes out, errors and their meaning, what a job
 * may ask, processors of every kind, and how many children there are.
 */
import { describe, expect, it } from 'vitest';
import { EmqError } from '../../../src/wire/errors.js';
import { DelayError, RateLimitError, UnrecoverableError } from '../../../src/worker/handler.js';
import { Sandbox, type SandboxOptions } from '../../../src/worker/sandbox/sandbox.js';
import { KINDS, context, job, processor, rejection, sandbox } from './support.js';

describe.each(KINDS)('a processor in a %s', (kind) => {
  const work = (size = 1): Sandbox => sandbox('work.mjs', { kind, size });

  it('gets all of its job, and its bytes as a Buffer of their own', async () => {
    const whole = Buffer.from('the secrets of others {"do":"job","n":"ü"} and more secrets');
    const bytes = whole.subarray(whole.indexOf('{'), whole.indexOf('}') + 1);
    const more = { id: 'JOB0KHTOWnGLuD', queue: 'mail', name: 'welcome', attempts: 4, token: 4, credit: 1 };
    const rest = {
      maxAttempts: 6,
      group: 'GRP0KHTOWnGLuC',
      opts: { name: 'welcome', own: { deep: [1, 'two', null] } },
    };
    const got = (await work().run(job(bytes, { ...more, ...rest }), context())) as Record<string, unknown>;
    expect(got).toMatchObject({ ...more, ...rest, payload: { do: 'job', n: 'ü' }, isBuffer: true });
    expect(Buffer.from(got.bytes as Uint8Array).equals(bytes)).toBe(true);
    // nothing but its own bytes crossed, and the caller still has them
    expect(got.neighbours).toBe(false);
    expect(whole.toString()).toContain('more secrets');
  });

  it('gives its result as it is', async () => {
    const box = work();
    const result = (what: string): Promise<unknown> => box.run(job({ do: 'results', what }), context());
    const buffer = (await result('buffer')) as Buffer;
    expect([Buffer.isBuffer(buffer), buffer.toString()]).toEqual([true, 'from the pool']);
    const view = (await result('view')) as Buffer;
    expect([Buffer.isBuffer(view), [...view]]).toEqual([true, [2, 3]]);
    expect(await result('map')).toEqual(new Map([['when', new Date(5)]]));
    expect(await result('nothing')).toBeUndefined();
    expect(await box.run(job({ do: 'echo', value: { a: [1, null] } }), context())).toEqual({ a: [1, null] });
    expect(box.stats()).toMatchObject({ children: 1, started: 1, idle: 1, busy: 0 });
  });

  it.each(['function', 'deep'])('fails its job when the result cannot be cloned: %s', async (what) => {
    const box = work();
    const error = await rejection(box.run(job({ do: 'results', what }), context()));
    expect(error.message).toMatch(/^the result of the processor cannot be sent to its consumer: .*could not be cloned/);
    expect(await box.run(job({ do: 'echo', value: 1 }), context())).toBe(1);
    expect(box.stats().started).toBe(1);
  });

  it.each<[string, string, string | RegExp]>([
    ['error', 'TypeError', 'not this way'],
    ['code', 'Error', 'no such file'],
    ['text', 'Error', 'just text'],
    ['null', 'Error', 'null'],
    ['symbol', 'Error', 'Symbol(odd)'],
    ['object', 'Error', "the processor threw { state: 'odd' }"],
    ['unprintable', 'Error', 'the processor threw something that cannot be printed'],
    ['proxy', 'Error', 'the processor threw something that cannot be printed'],
    ['oddName', 'Error', 'named by a number'],
    ['delayNever', 'DelayError', 'some day'],
  ])('that throws %s fails its job with that, and is used again', async (what, name, message) => {
    const box = work();
    const error = await rejection(box.run(job({ do: 'throws', what }), context()));
    expect(error).toBeInstanceOf(Error);
    expect([error.name, error.message]).toEqual([name, message]);
    if (what === 'error') expect(error.stack).toMatch(/^TypeError: not this way\n.*work\.mjs/s);
    if (what === 'code') expect(error.code).toBe('ENOENT');
    expect(await box.run(job({ do: 'echo', value: 1 }), context())).toBe(1);
    expect(box.stats().started).toBe(1);
  });

  it('may throw the errors that have a meaning, of whatever copy of the package', async () => {
    const box = work();
    const thrown = (what: string): Promise<Error> => rejection(box.run(job({ do: 'throws', what }), context()));
    const unrecoverable = await thrown('unrecoverable');
    expect(unrecoverable).toBeInstanceOf(UnrecoverableError);
    expect([unrecoverable.message, unrecoverable.name]).toEqual(['no use', 'UnrecoverableError']);
    for (const [what, message, runAt] of [
      ['delayIn', 'later', { inMs: 5000 }],
      ['delayAt', 'then', { at: 1234 }],
      ['delayDate', 'then', { at: 1234 }],
    ] as const) {
      const delay = (await thrown(what)) as DelayError;
      expect(delay).toBeInstanceOf(DelayError);
      expect([delay.message, delay.runAt]).toEqual([message, runAt]);
      expect(delay.stack).toContain('work.mjs');
    }
    for (const [what, scope] of [
      ['limited', undefined],
      ['limitedAll', 'queue'],
      ['limitedOdd', 'moon'],
    ] as const) {
      const limited = (await thrown(what)) as RateLimitError;
      expect(limited).toBeInstanceOf(RateLimitError);
      expect([limited.message, limited.ms, limited.scope]).toEqual(['too many', 5000, scope]);
    }
  });

  it('may ask all that a handler may', async () => {
    const asker = context();
    const names = await work().run(job({ do: 'asks' }), asker);
    expect(names).toEqual(['children', 'extend', 'log', 'progress', 'signal']);
    expect(asker.asked).toEqual([
      ['progress', 50],
      ['progress', 'half'],
      ['log', 'a line'],
      ['extend', 1000],
    ]);
  });

  it.each(['progress', 'log', 'extend'] as const)('learns why %s was refused', async (what) => {
    const refused = new EmqError('EMQSTALE', 'EMQSTALE extend token mismatch');
    const asker = context({ [what]: () => Promise.reject(refused) });
    const box = work();
    expect(await box.run(job({ do: 'asksInVain', what, value: 1 }), asker)).toEqual({
      name: 'EmqError',
      message: refused.message,
      code: 'EMQSTALE',
      reason: refused.reason,
      stack: refused.stack,
      shown: `EmqError: ${refused.message}`,
      isError: true,
    });
    const again = await rejection(box.run(job({ do: 'asksInVain', what, value: 1, rethrow: true }), asker));
    expect(again).toBeInstanceOf(EmqError);
    expect(again).toMatchObject({ code: 'EMQSTALE', reason: refused.reason, stack: refused.stack });
  });

  it('meets a throw where it asks with what cannot cross', async () => {
    const asker = context();
    const error = await rejection(work().run(job({ do: 'asksOddly' }), asker));
    expect(error.message).toMatch(/could not be cloned/);
    expect(asker.asked).toEqual([]);
  });

  it('cannot ask any more for a job that has ended', async () => {
    const box = work();
    const asker = context();
    await box.run(job({ do: 'asksTooLate' }), asker);
    await expect
      .poll(() => box.run(job({ do: 'late' }), context()), { interval: 5 })
      .toBe('the job has ended: log comes too late');
    expect(asker.asked).toEqual([]);
  });

  it('may send messages of its own', async () => {
    expect(await work().run(job({ do: 'sends' }), context())).toBe('sent');
  });

  it('reads its payload by JSON, when it reads it', async () => {
    const error = await rejection(work().run(job(Buffer.from('no JSON')), context()));
    expect(error).toBeInstanceOf(EmqError);
    expect(error).toMatchObject({
      code: 'EMQ_INPUT',
      reason: 'the payload of JOB0KHTOWnGLuC (7 bytes) cannot be decoded; read job.bytes or export a codec',
    });
  });

  it('may have a codec, or be CommonJS', async () => {
    const run = (name: string, payload: unknown): Promise<unknown> =>
      sandbox(name, { kind, size: 1 }).run(job(payload), context());
    expect(await run('with-codec.mjs', Buffer.from('one|two'))).toEqual(['one', 'two']);
    expect(await run('common.cjs', { value: 1 })).toBe('common 1');
    expect(await run('compiled.cjs', { value: 2 })).toBe('compiled 2');
  });

  it('runs as many jobs at once as there are children, first come first served', async () => {
    const box = work(2);
    const pairs: number[][] = [[]];
    let full: () => void;
    let pair = new Promise<void>((resolve) => (full = resolve));
    const one = async (n: number): Promise<void> => {
      // each waits in its processor until there is another
      const log = async (): Promise<void> => {
        if (pairs.at(-1)?.push(n) === 1) return pair;
        full();
        pair = new Promise<void>((resolve) => (full = resolve));
        pairs.push([]);
      };
      await box.run(job({ do: 'asksInVain', what: 'log', value: '' }), context({ log })).catch(() => {});
    };
    const all = Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map(one));
    expect(box.stats()).toEqual({ children: 2, busy: 2, idle: 0, waiting: 6, started: 2 });
    await all;
    expect(pairs.map((two) => two.sort())).toEqual([[0, 1], [2, 3], [4, 5], [6, 7], []]);
    expect(box.stats()).toEqual({ children: 2, busy: 0, idle: 2, waiting: 0, started: 2 });
  });

  it('is given to the same child again while that is free', async () => {
    const box = work(3);
    const first = await box.run(job({ do: 'who' }), context());
    expect(first).not.toBe(process.pid);
    for (let i = 0; i < 3; i++) expect(await box.run(job({ do: 'who' }), context())).toBe(first);
    expect(box.stats()).toMatchObject({ children: 1, started: 1 });
  });
});

describe('the options', () => {
  const good: SandboxOptions = { kind: 'thread', size: 1 };
  it.each<[unknown, object, string]>([
    [
      './work.js',
      {},
      `a processor must be the URL of a file, such as new URL('./work.js', import.meta.url), got "./work.js"`,
    ],
    [new URL('https://example.org/work.js'), {}, 'got "https://example.org/work.js"'],
    [undefined, {}, 'got undefined'],
    [processor('work.mjs'), { kind: 'fiber' }, 'kind must be thread or process, got "fiber"'],
    [processor('work.mjs'), { size: 0 }, 'size must be an integer from 1'],
    [processor('work.mjs'), { killAfterMs: 0 }, 'killAfterMs must be'],
    [processor('work.mjs'), { idleMs: 1.5 }, 'idleMs must be'],
    [processor('work.mjs'), { concurrency: 2 }, 'unknown option "concurrency" of Sandbox'],
  ])('%s %j', (url, options, reason) => {
    expect(() => new Sandbox(url as URL, { ...good, ...options })).toThrow(
      expect.objectContaining({ code: 'EMQ_INPUT', reason: expect.stringContaining(reason) }),
    );
  });
});
