/**
 * Payloads: byte for byte through either executor, their limit, codecs and schemas.
 */
import { randomBytes } from 'node:crypto';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bytesCodec, jsonCodec, type Codec, type Job, type Jobs } from '../../src/index.js';
import { claimed, errorOf, EXECUTORS, MINUTE, MISSING, Stage } from './stage.js';

const LEASE = { leaseMs: MINUTE };
const MIB = 1_048_576;

/** A Standard Schema by hand: `{ n: number }`, or where something else was handed in, an issue. */
interface Numbered {
  readonly n: number;
}
type Verdict = StandardSchemaV1.Result<Numbered>;
const judge = (value: unknown): Verdict =>
  typeof (value as Partial<Numbered> | null)?.n === 'number'
    ? { value: { n: (value as Numbered).n } }
    : { issues: [{ message: 'must be a number', path: ['n'] }] };
const schemaOf = (validate: (value: unknown) => Verdict | Promise<Verdict>): StandardSchemaV1<Numbered, Numbered> => ({
  '~standard': { version: 1, vendor: 'by hand', validate },
});

describe.each(EXECUTORS)('payloads on %s', (_executor, wire) => {
  let stage: Stage;
  let queue: string;
  let count = 0;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  beforeEach(() => {
    queue = `payload.${(count += 1)}`;
  });

  describe('bytes', () => {
    const everyByte = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    it.each([
      ['nothing', Buffer.alloc(0)],
      ['every byte', everyByte],
      ['invalid UTF-8', Buffer.from('c328a0a1e228a1f0288cbc80ff', 'hex')],
      ['line ends and NUL', Buffer.from('\r\n$5\r\n\0+OK\r\n')],
      ['random bytes', randomBytes(70_001)],
      [
        'a Uint8Array that is a window of a larger one',
        new Uint8Array(everyByte.buffer, everyByte.byteOffset + 200, 17),
      ],
    ])('%s come back as they were', async (_what, given) => {
      const jobs = stage.jobs(queue);
      const sent = Buffer.from(given);
      for (const admit of [
        () => jobs.enqueue(given),
        () => jobs.enqueueMany([{ payload: given }]),
        async () => {
          const { id } = await jobs.schedule(given, { inMs: -1 });
          await jobs.promote();
          return id;
        },
        async () => jobs.updateData((await jobs.enqueue('other')).id, given),
      ]) {
        await admit();
        const job = (await jobs.claim(LEASE)) as Job<unknown>;
        expect(job.bytes.equals(sent)).toBe(true);
        expect((await jobs.get(job.id))?.bytes.equals(sent)).toBe(true);
        await jobs.complete(job);
      }
      await jobs.enqueue(given);
      const [batched] = await jobs.claimBatch({ ...LEASE, size: 1 });
      expect(batched?.bytes.equals(sent)).toBe(true);
    });

    it('the bytes codec gives Buffers and takes nothing else', async () => {
      const jobs = stage.jobs(queue, { codec: bytesCodec });
      const payload = randomBytes(99);
      expect((await claimed(jobs, payload)).payload).toEqual(payload);
      const error = await stage.refused('EMQ_INPUT', () => jobs.enqueue('text' as unknown as Buffer));
      expect(error.message).toMatch(/bytes codec takes a Buffer/);
    });
  });

  describe('JSON, the default', () => {
    it.each([{ a: [1, 'ä', null] }, 'text', '', 0, false, null, [], 1e21])('%j comes back equal', async (value) => {
      expect((await claimed(stage.jobs(queue), value)).payload).toEqual(value);
    });

    const circular: { self?: unknown } = {};
    circular.self = circular;
    const throwing = {
      toJSON() {
        throw new Error('not me');
      },
    };
    it.each([
      ['undefined', undefined],
      ['a function', () => 1],
      ['a symbol', Symbol('s')],
      ['a BigInt', 5n],
      ['a BigInt inside', { n: 5n }],
      ['a circle', circular],
      ['toJSON that gives nothing', { toJSON: () => undefined }],
      ['toJSON that throws', throwing],
    ])('%s has no JSON form', async (_what, value) => {
      const jobs = stage.jobs(queue);
      const { id } = await jobs.enqueue('there');
      for (const act of [
        () => jobs.enqueue(value),
        () => jobs.enqueueMany([{ payload: 1 }, { payload: value }]),
        () => jobs.schedule(value, { inMs: 1 }),
        () => jobs.updateData(id, value),
      ]) {
        const error = await stage.refused('EMQ_INPUT', act);
        expect(error.message).toMatch(/payload .*(no JSON form|cannot be encoded)/);
      }
    });

    it('a payload that is no JSON can still be settled', async () => {
      const jobs = stage.jobs(queue);
      const secret = Buffer.from('{"password": "hunter2"');
      const job = await claimed(jobs, secret);
      const error = await errorOf(() => job.payload);
      expect(error.code).toBe('EMQ_INPUT');
      expect(error.message).toMatch(new RegExp(`payload of ${job.id} \\(22 bytes\\) cannot be decoded`));
      expect(`${error.message} ${String(error.stack)} ${String(error.cause)}`).not.toContain('hunter2');
      expect(job.bytes.equals(secret)).toBe(true);
      expect(await jobs.complete(job)).toBe('completed');
    });
  });

  describe('the limit', () => {
    it('is 1 MiB unless it is set, and itself legal', async () => {
      const jobs = stage.jobs(queue);
      const most = Buffer.alloc(MIB, 7);
      expect((await claimed(jobs, most)).bytes.equals(most)).toBe(true);
      const { id } = await jobs.enqueue(most);
      expect(await jobs.updateData(id, most)).toBe('updated');
      const over = Buffer.alloc(MIB + 1, 7);
      for (const act of [
        () => jobs.enqueue(over),
        () => jobs.enqueueMany([{ payload: 1 }, { payload: over }]),
        () => jobs.schedule(over, { inMs: 1 }),
        () => jobs.updateData(id, over),
      ]) {
        const error = await stage.refused('EMQ_INPUT', act);
        expect(error.message).toMatch(/1048577 bytes, the limit is 1048576: .* raise maxPayloadBytes/);
      }
    });

    it('counts encoded bytes, not characters', async () => {
      const jobs = stage.jobs(queue, { maxPayloadBytes: 6 });
      expect((await claimed(jobs, 'éé')).bytes).toHaveLength(6);
      const error = await stage.refused('EMQ_INPUT', () => jobs.enqueue('ééa'));
      expect(error.message).toMatch(/7 bytes, the limit is 6/);
    });

    it('an empty payload is legal by any way, and comes back empty', async () => {
      const nothing: Codec<undefined> = { encode: () => '', decode: () => undefined };
      const job = await claimed(stage.jobs<undefined>(queue, { codec: nothing }), undefined);
      expect(job.bytes).toHaveLength(0);
      expect(job.payload).toBeUndefined();
    });
  });

  describe('codecs', () => {
    it('a codec of the caller: text or bytes out, a Buffer in', async () => {
      const dates: Codec<Date> = {
        encode: (value) => String(value.getTime()),
        decode: (bytes) => new Date(Number(bytes)),
      };
      const job = await claimed(stage.jobs<Date>(queue, { codec: dates }), new Date(5));
      expect(job.payload).toEqual(new Date(5));
      // Decoded once, when it is first read.
      expect(job.payload).toBe(job.payload);
    });

    const broken = (): never => {
      throw new Error('encoder broke');
    };
    it.each([
      ['throws', broken, /payload cannot be encoded: encoder broke/],
      ['gives a number', () => 7, /payload/],
      ['gives nothing', () => undefined, /payload/],
      ['gives a list', () => [1], /payload/],
    ])('an encode that %s is typed', async (_how, encode, text) => {
      const codec: Codec<unknown> = { ...jsonCodec(), encode: encode as unknown as () => string };
      const jobs = stage.jobs(queue, { codec });
      for (const act of [
        () => jobs.enqueue(1),
        () => jobs.enqueueMany([{ payload: Buffer.from('fine') }, { payload: 1 }]),
        () => jobs.schedule(1, { inMs: 1 }),
        () => jobs.updateData(MISSING, 1),
      ]) {
        const error = await stage.refused('EMQ_INPUT', act);
        expect(error.message).toMatch(text);
      }
    });

    it('a decode that throws is typed, and the job can be settled', async () => {
      const codec: Codec<string> = {
        encode: (value) => value,
        decode: () => {
          throw new TypeError('decoder broke');
        },
      };
      const jobs = stage.jobs<string>(queue, { codec });
      const job = await claimed(jobs, 'fine');
      expect((await errorOf(() => job.payload)).code).toBe('EMQ_INPUT');
      expect(String(job.bytes)).toBe('fine');
      expect(await jobs.fail(job, { delayMs: 0, maxAttempts: 1, error: 'undecodable' })).toBe('dead');
    });

    it('bytes are sent as they are, whatever the codec', async () => {
      const codec: Codec<string> = { encode: () => 'never', decode: (bytes) => String(bytes) };
      expect((await claimed(stage.jobs<string>(queue, { codec }), Buffer.from('raw'))).payload).toBe('raw');
    });
  });

  describe('schemas', () => {
    const kinds: readonly (readonly [string, StandardSchemaV1<Numbered, Numbered>])[] = [
      ['sync', schemaOf(judge)],
      ['async', schemaOf(async (value) => Promise.resolve(judge(value)))],
    ];
    const admit = (jobs: Jobs<Numbered>, id: string, payload: Numbered) =>
      [
        () => jobs.enqueue(payload),
        () => jobs.enqueueMany([{ payload: { n: 1 } }, { payload }]),
        () => jobs.schedule(payload, { inMs: 1 }),
        () => jobs.updateData(id, payload),
      ] as const;

    it.each(kinds)('%s: what fits goes through, and what the schema makes of it is sent', async (_kind, schema) => {
      const jobs = stage.jobs(queue, { schema });
      const job = await claimed(jobs, { n: 1, more: 'left out' } as Numbered);
      expect(String(job.bytes)).toBe('{"n":1}');
      expect(job.payload.n).toBe(1);
      for (const act of admit(jobs, job.id, { n: 2 })) await act();
      expect(await jobs.counts(['pending', 'scheduled'])).toEqual({ pending: 3, scheduled: 1 });
    });

    it.each(kinds)('%s: what does not fit is refused by every verb that takes a payload', async (_kind, schema) => {
      const jobs = stage.jobs(queue, { schema });
      const { id } = await jobs.enqueue({ n: 1 });
      for (const wrong of [{ n: 'one' }, null, 'text']) {
        for (const act of admit(jobs, id, wrong as unknown as Numbered)) {
          const error = await stage.refused('EMQ_INPUT', act);
          expect(error.message).toBe('EMQ_INPUT the payload does not fit its schema at n: must be a number');
        }
      }
    });

    it.each([
      [
        'throws',
        schemaOf(() => {
          throw new Error('schema broke');
        }),
      ],
      ['rejects', schemaOf(() => Promise.reject(new Error('schema broke')))],
    ])('a schema that %s is typed', async (_how, schema) => {
      const jobs = stage.jobs(queue, { schema });
      const error = await stage.refused('EMQ_INPUT', () => jobs.enqueue({ n: 1 }));
      expect(error.message).toMatch(/schema broke/);
    });

    it('a schema may transform: what it makes of the input is what is sent, and what a claim gives', async () => {
      const schema: StandardSchemaV1<{ readonly n: string }, Numbered> = {
        '~standard': {
          version: 1,
          vendor: 'by hand',
          validate: (value) => ({ value: { n: Number((value as { n: string }).n) } }),
        },
      };
      const jobs = stage.jobs(queue, { schema });
      const job = await claimed(jobs, { n: '17' });
      expect(String(job.bytes)).toBe('{"n":17}');
      expect(job.payload).toEqual({ n: 17 });
    });

    it('an issue with a path of objects, or with none at all, is told', async () => {
      const issue = (path: StandardSchemaV1.Issue['path']): Verdict => ({
        issues: [path === undefined ? { message: 'is wrong' } : { message: 'is wrong', path }],
      });
      const told = async (verdict: Verdict) => {
        const jobs = stage.jobs(queue, { schema: schemaOf(() => verdict) });
        return (await stage.refused('EMQ_INPUT', () => jobs.enqueue({ n: 1 }))).reason;
      };
      expect(await told(issue(undefined))).toBe('the payload does not fit its schema: is wrong');
      const path = [{ key: 'list' }, 3, { key: Symbol('s') }];
      expect(await told(issue(path))).toBe('the payload does not fit its schema at list.3.Symbol(s): is wrong');
      expect(await told({ issues: [] })).toMatch(/does not fit its schema/);
    });

    it('bytes are the caller’s own affair: no schema is asked', async () => {
      const jobs = stage.jobs(queue, { schema: schemaOf(() => ({ issues: [{ message: 'never' }] })) });
      expect(String((await claimed(jobs, Buffer.from('{"n":5}'))).bytes)).toBe('{"n":5}');
    });
  });
});
