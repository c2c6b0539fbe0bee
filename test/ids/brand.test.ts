/**
 * Branded ids: the vectors of the contract, the refusals and which of them wins, and the laws of order and round trip.
 * The model is the definition itself, digit by digit over bigints; the code under test works on two halves.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EPOCH_MS, SNOWFLAKE_MAX, encodeId, isBranded, parseId, spell } from '../../src/ids/brand.js';
import { EmqError } from '../../src/wire/errors.js';
import { printSeed, seed } from './seed.js';

printSeed('ids/brand');
const runs = { seed, numRuns: 5_000 };

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const namespace = fc.stringMatching(/^[A-Z]{3}$/);
const snowflake = fc.bigInt({ min: 0n, max: SNOWFLAKE_MAX });

/** The definition: base62, most significant digit first, padded to 11. */
function model(name: string, value: bigint): string {
  let digits = '';
  for (let left = value; digits.length < 11; left /= 62n) digits = ALPHABET.charAt(Number(left % 62n)) + digits;
  return name + digits;
}

function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    expect(error).toBeInstanceOf(EmqError);
    expect((error as EmqError).code).toBe('EMQ_INPUT');
    return (error as EmqError).reason;
  }
  throw new Error('not refused');
}

describe('vectors', () => {
  it.each([
    ['JOB0KHTOWnGLuC', 274_557_032_793_636_864n, '2026-01-27T15:11:37.641Z', 0, 0],
    ['USR0KHTOWnGLuC', 274_557_032_793_636_864n, '2026-01-27T15:11:37.641Z', 0, 0],
    ['USR0NgWEfAEJfs', 320_636_799_581_945_856n, '2026-06-03T18:56:10.164Z', 0, 0],
    ['EVT000xY9Wvvcd', 209_715_201_620_567n, '2024-01-01T13:53:20.000Z', 395, 2647],
    ['JOB00000000000', 0n, '2024-01-01T00:00:00.000Z', 0, 0],
    ['JOBAzL8n0Y58m7', 2n ** 63n - 1n, '2093-09-06T15:47:35.551Z', 1023, 4095],
  ])('%s', (id, value, instant, node, sequence) => {
    expect(isBranded(id)).toBe(true);
    const unixMs = Date.parse(instant);
    expect(parseId(id)).toEqual({ namespace: id.slice(0, 3), snowflake: value, unixMs, node, sequence });
    expect(encodeId(id.slice(0, 3), value)).toBe(id);
    expect(model(id.slice(0, 3), value)).toBe(id);
  });

  it('counts from 2024-01-01', () => {
    expect(EPOCH_MS).toBe(Date.parse('2024-01-01T00:00:00Z'));
  });
});

describe('refusals', () => {
  it.each([
    ['JOB0KHTOWnGLu', /wrong length: .*14 bytes, not 13/],
    ['JOB0KHTOWnGLuCC', /wrong length: .*not 15/],
    ['', /wrong length: .*not 0/],
    ['JOB0KHTOWnGLué', /wrong length: .*not 15/],
    ['\0'.repeat(300), /wrong length: .*not 300/],
    ['job0KHTOWnGLuC', /wrong namespace/],
    ['J0B0KHTOWnGLuC', /wrong namespace/],
    ['éJ0KHTOWnGLuC', /wrong namespace/],
    ['JOB0KHTOWnGLu_', /charset/],
    ['JOB0KHTOWnGLu\n', /charset/],
    ['JOB0KHT\u0000WnGLuC', /charset/],
    ['JOB0KHTOWnGLé', /charset/],
    ['JOBAzL8n0Y58m8', /out of range/],
    ['JOBB0000000000', /out of range/],
    ['JOBzzzzzzzzzzz', /out of range/],
  ])('%j: %s', (id, text) => {
    expect(isBranded(id)).toBe(false);
    expect(refusal(() => parseId(id))).toMatch(text);
  });

  it.each([
    ['job_________', /length/],
    ['job0KHTOWnGLu_', /namespace/],
    ['JOBzzzzzzzzzz_', /charset/],
  ])('tests length, namespace, charset, range in this order: %s', (id, text) => {
    expect(refusal(() => parseId(id))).toMatch(text);
  });

  it.each([undefined, null, 1, 1n, {}, [], Buffer.from('JOB0KHTOWnGLuC'), ['JOB0KHTOWnGLuC']])(
    'refuses what is not text',
    (value) => {
      expect(isBranded(value)).toBe(false);
      expect(refusal(() => parseId(value as string))).toMatch(/must be text/);
    },
  );

  it('keeps the text of a refusal short whatever it is given', () => {
    expect(refusal(() => parseId('x'.repeat(100_000))).length).toBeLessThan(200);
  });

  it.each([-1n, SNOWFLAKE_MAX + 1n, 5 as unknown as bigint, '5' as unknown as bigint])('encodes no %s', (value) => {
    expect(refusal(() => encodeId('JOB', value))).toMatch(/range/);
  });

  it.each(['', 'JO', 'JOBS', 'job', 'J0B', 'JO\n', 'ÄÖÜ', 5 as unknown as string])('takes no namespace %j', (name) => {
    expect(refusal(() => encodeId(name, 0n))).toMatch(/namespace/);
    expect(refusal(() => spell(name, 0, 0))).toMatch(/namespace/);
  });
});

describe('laws', () => {
  it('encodes as the definition says, and decodes to the same number and fields', () => {
    fc.assert(
      fc.property(namespace, snowflake, (name, value) => {
        const id = encodeId(name, value);
        expect(id).toBe(model(name, value));
        expect(isBranded(id)).toBe(true);
        const parts = parseId(id);
        expect(parts.namespace).toBe(name);
        expect(parts.snowflake).toBe(value);
        const ms = BigInt(parts.unixMs - EPOCH_MS);
        expect((ms << 22n) | (BigInt(parts.node) << 12n) | BigInt(parts.sequence)).toBe(value);
      }),
      runs,
    );
  });

  it('orders bytes as numbers inside a namespace', () => {
    // Neighbours and numbers that share most digits are the hard cases; a uniform draw hardly ever gives them.
    const pair = fc
      .tuple(snowflake, fc.oneof(fc.bigInt({ min: -70n, max: 70n }), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n })))
      .map(([a, step]) => [a, a + step] as const)
      .filter(([, b]) => b >= 0n && b <= SNOWFLAKE_MAX);
    fc.assert(
      fc.property(namespace, pair, (name, [a, b]) => {
        const order = Buffer.compare(Buffer.from(encodeId(name, a)), Buffer.from(encodeId(name, b)));
        expect(order).toBe(a < b ? -1 : a > b ? 1 : 0);
        expect(encodeId(name, a) < encodeId(name, b)).toBe(a < b);
      }),
      runs,
    );
  });

  it('accepts exactly the ids of the definition', () => {
    const near = fc
      .tuple(
        namespace,
        fc.string({
          unit: fc.constantFrom(...ALPHABET, '_', '@', '[', '`', '{', '/', ':', 'é'),
          minLength: 10,
          maxLength: 12,
        }),
      )
      .map(([name, digits]) => name + digits);
    // Around the last id: a digit of it changed.
    const edge = fc
      .tuple(fc.nat({ max: 10 }), fc.constantFrom(...ALPHABET))
      .map(([at, digit]) => `JOBAzL8n0Y58m7`.slice(0, 3 + at) + digit + 'AzL8n0Y58m7'.slice(at + 1));
    fc.assert(
      fc.property(fc.oneof(near, edge, fc.string({ minLength: 14, maxLength: 14 })), (text) => {
        const wellFormed = /^[A-Z]{3}[0-9A-Za-z]{11}$/.test(text);
        const value = wellFormed
          ? [...text.slice(3)].reduce((sum, d) => sum * 62n + BigInt(ALPHABET.indexOf(d)), 0n)
          : -1n;
        const valid = wellFormed && value <= SNOWFLAKE_MAX;
        expect(isBranded(text)).toBe(valid);
        if (valid) expect(parseId(text).snowflake).toBe(value);
        else refusal(() => parseId(text));
      }),
      runs,
    );
  });
});
