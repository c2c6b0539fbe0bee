/**
 * What a child gives its parent, as bytes and back.
 */
import { describe, expect, it } from 'vitest';
import { mint } from '../../src/index.js';
import { decodeResult, encodeResult } from '../../src/queue/results.js';

const child = mint();
const back = (value: unknown): unknown => decodeResult(child, Buffer.from(encodeResult(child, value)));

describe('a result comes to the parent as', () => {
  it.each<[string, unknown]>([
    ['text', 'text'],
    ['no text', ''],
    ['text that looks like JSON', '{"a":1}'],
    ['text that is its id', child],
    ['a number', 7.5],
    ['null', null],
    ['false', false],
    ['an object', { a: [1, { b: null }], ключ: '☃' }],
    ['a list', [1, 'two', []]],
  ])('%s', (_what, value) => expect(back(value)).toEqual(value));

  it.each<[string, unknown]>([
    ['undefined', undefined],
    ['a function', () => 1],
    ['a symbol', Symbol('odd')],
  ])('nothing, where it was %s', (_what, value) => {
    expect(encodeResult(child, value)).toBe(child);
    expect(back(value)).toBeUndefined();
  });

  it.each<[string, Uint8Array]>([
    ['none', Buffer.alloc(0)],
    ['with NULs', Buffer.from('a\0b\0\0')],
    ['that are no UTF-8', Buffer.from('c328ff00', 'hex')],
    ['in a window of a larger array', new Uint8Array(Buffer.from('xx\0\x01yy')).subarray(2, 4)],
  ])('bytes %s', (_what, bytes) => {
    const sent = encodeResult(child, bytes);
    expect(Buffer.from(sent).equals(Buffer.from(bytes))).toBe(true);
    expect((back(bytes) as Buffer).equals(Buffer.from(bytes))).toBe(true);
  });

  it('what they say, for bytes that are JSON: on the wire the two are one', () => {
    expect(back(Buffer.from('{"a":1}'))).toEqual({ a: 1 });
  });

  it('what its toJSON makes of it', () => {
    expect(back(new Date(0))).toBe('1970-01-01T00:00:00.000Z');
    expect(back({ toJSON: () => undefined })).toBeUndefined();
    expect(back(new Map([[1, 2]]))).toEqual({});
  });
});

describe('a result without a form', () => {
  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;
  it.each<[string, unknown, RegExp]>([
    ['a cycle', cycle, /circular/i],
    ['a bigint', { sum: 1n }, /BigInt/],
    [
      'one whose toJSON throws',
      {
        toJSON: () => {
          throw new Error('not today');
        },
      },
      /not today/,
    ],
    [
      'one whose toJSON throws no error',
      {
        toJSON: () => {
          // eslint-disable-next-line @typescript-eslint/only-throw-error -- that is what is tested
          throw 'odd';
        },
      },
      /odd/,
    ],
  ])('is refused by a word that says what to give: %s', (_what, value, why) => {
    const refusal = expect.objectContaining({ name: 'EmqError', code: 'EMQ_INPUT' }) as unknown;
    let error: unknown;
    try {
      encodeResult(child, value);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toEqual(refusal);
    expect((error as Error).message).toMatch(why);
    expect((error as Error).message).toMatch(new RegExp(`the result of ${child} .*give bytes or plain data`, 's'));
  });
});
