/** The text of an event: what is written is read again, and what a stranger wrote is text or nothing. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eventText, readEvent } from '../../src/bus/event.js';

const JOB = 'JOB0KHTOWnGLuC';
const read = (text: string): unknown => readEvent(Buffer.from(text));

it('writes JSON with the name, the job and the extras', () => {
  expect(JSON.parse(eventText('progress', JOB, { progress: '50' }))).toEqual({
    event: 'progress',
    job: JOB,
    progress: '50',
  });
  expect(JSON.parse(eventText('completed', JOB))).toEqual({ event: 'completed', job: JOB });
  // An extra cannot take the place of what an event is about.
  expect(JSON.parse(eventText('completed', JOB, { event: 'failed', job: 'x' }))).toEqual({
    event: 'completed',
    job: JOB,
  });
});

it('reads what it writes, whatever the texts', () => {
  const text = fc.string({ unit: 'binary' });
  fc.assert(
    fc.property(text, text, (job, progress) => {
      expect(readEvent(Buffer.from(eventText('progress', job, { progress })))).toEqual({
        event: 'progress',
        job,
        progress,
      });
    }),
  );
});

describe('an error', () => {
  const errorIn = (error: string): string =>
    (JSON.parse(eventText('failed', JOB, { error })) as { error: string }).error;

  it('of up to 512 bytes stays as it is', () => {
    for (const error of ['', 'no', 'é'.repeat(256), '\ufeffmarked', 'x'.repeat(512)])
      expect(errorIn(error)).toBe(error);
  });

  it('is cut to 512 bytes, at a whole character', () => {
    expect(errorIn('x'.repeat(513))).toBe('x'.repeat(512));
    expect(errorIn(`x${'é'.repeat(300)}`)).toBe(`x${'é'.repeat(255)}`);
    expect(errorIn(`${'x'.repeat(511)}😀`)).toBe('x'.repeat(511));
    const long = fc.string({ unit: 'grapheme', minLength: 100, maxLength: 2_000 });
    fc.assert(
      fc.property(long, (error) => {
        const kept = errorIn(error);
        const next = [...error.slice(kept.length)][0] ?? '';
        expect(error.startsWith(kept)).toBe(true);
        expect(Buffer.byteLength(kept)).toBeLessThanOrEqual(512);
        expect(kept === error || Buffer.byteLength(kept + next) > 512).toBe(true);
      }),
    );
  });
});

it.each([
  '',
  'no json',
  '{"event":"completed","job":"x"',
  '[]',
  '["event","job"]',
  'null',
  '7',
  '{}',
  '{"event":"completed"}',
  '{"job":"x"}',
  '{"event":1,"job":"x"}',
  '{"event":"completed","job":null}',
  '{"event":"completed","job":"x","extra":{"deep":1}}',
  '{"event":"gap","job":"x"}',
])('%j is no event', (text) => {
  expect(read(text)).toBeUndefined();
});

it('takes names that it does not know, and shared objects cannot be changed', () => {
  const event = read('{"event":"error","job":"x","__proto__":"y"}');
  expect(event).toMatchObject({ event: 'error', job: 'x' });
  expect(Object.isFrozen(event)).toBe(true);
  expect(Object.getPrototypeOf(event)).toBe(Object.prototype);
});
