/**
 * What becomes of a thrown value: an Error, and the text that is kept in the row. Whatever was thrown, nothing throws.
 */
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cut, ERROR_BYTES } from '../../src/queue/bounds.js';
import { asError, errorText, partOf } from '../../src/worker/failure.js';
import { ODD_VALUES } from './support/odd-values.js';

describe('asError', () => {
  it.each(ODD_VALUES.map(({ what, make, says }) => [what, make, says] as const))('of %s', (_what, make, says) => {
    const error = asError(make());
    expect(error).toBeInstanceOf(Error);
    const message = partOf(error, 'message');
    expect(says.test(message)).toBe(true);
    expect(errorText(error)).toBeInstanceOf(Buffer);
    // however often it is read
    for (const part of ['message', 'name', 'stack', 'message'] as const)
      expect(partOf(error, part)).toBeTypeOf('string');
    expect(errorText(error).length).toBeLessThanOrEqual(ERROR_BYTES);
  });

  it('is the thrown Error itself when it is a good one', () => {
    const error = new RangeError('too far');
    expect(asError(error)).toBe(error);
  });

  it('keeps message, name, stack and time of an error of another realm', () => {
    const foreign: unknown = runInNewContext(
      `const e = new Error('foreign'); e.name = 'DelayError'; e.stack = 'where'; e.runAt = { inMs: 5 }; e`,
    );
    expect(foreign).not.toBeInstanceOf(Error);
    expect(asError(foreign)).toMatchObject({
      message: 'foreign',
      name: 'DelayError',
      stack: 'where',
      runAt: { inMs: 5 },
    });
  });
});

describe('errorText', () => {
  it('is message, newline, stack', () => {
    const error = new Error('broken');
    expect(errorText(error).toString()).toBe(`broken\n${String(error.stack)}`.slice(0, ERROR_BYTES));
  });

  it('is the message alone where there is no stack', () => {
    const error = new Error('broken');
    delete error.stack;
    expect(errorText(error).toString()).toBe('broken');
  });

  it('has at most 4 KiB', () => {
    expect(ERROR_BYTES).toBe(4096);
    expect(errorText(new Error('x'.repeat(10_000_000)))).toHaveLength(4096);
    // two bytes a character: 4096 would fit, and so they do
    expect(errorText(new Error('é'.repeat(9_000)))).toHaveLength(4096);
    // three bytes a character: 4095 is the most
    expect(errorText(new Error('€'.repeat(9_000)))).toHaveLength(4095);
    // it shows that there was more
    expect(errorText(new Error('€'.repeat(9_000))).toString()).toMatch(/^€{1363} \[cut\]$/);
  });
});

describe('cut', () => {
  it('never leaves half a character, and gives what fits', () => {
    // Letters of every length in UTF-8.
    const letters = fc.array(fc.constantFrom('a', 'é', '€', '𝄞', '\u{10FFFF}'), { maxLength: 40 });
    fc.assert(
      fc.property(letters, fc.integer({ min: 0, max: 60 }), (chars, most) => {
        const bytes = cut(chars.join(''), most);
        expect(bytes.length).toBeLessThanOrEqual(most);
        const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
        expect(chars.join('').startsWith(text)).toBe(true);
        // the next character would not have fitted
        const next = [...chars.join('')][[...text].length];
        if (next !== undefined) expect(bytes.length + Buffer.byteLength(next)).toBeGreaterThan(most);
      }),
    );
  });
});
