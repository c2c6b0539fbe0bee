/**
 * What a verb adds to an error, and what it refuses to overlook; no server is asked.
 */
import { describe, expect, it } from 'vitest';

import { EmqError, Jobs, mint, type Wire } from '../../src/index.js';

const refusing: Wire = {
  run: () => Promise.reject(new EmqError('EMQSTALE', 'EMQSTALE retry token mismatch')),
  runAll: () => Promise.resolve([]),
};

describe('an error of the server', () => {
  it('says which verb, job and queue met it, and where the verb was called', async () => {
    const jobs = new Jobs(refusing, 'mail');
    const id = mint();
    async function theCaller(): Promise<unknown> {
      const outcome = await jobs.fail({ id, token: 1 }, { delayMs: 0, maxAttempts: 1, error: 'e' });
      return outcome;
    }
    const error = (await theCaller().catch((reason: unknown) => reason)) as EmqError;
    expect(error).toBeInstanceOf(EmqError);
    expect(error.code).toBe('EMQSTALE');
    expect(error.reason).toBe('EMQSTALE retry token mismatch');
    expect(error.message).toBe(`EMQSTALE retry token mismatch (fail ${id} on queue mail)`);
    expect(error.stack).toContain('theCaller');
  });
});

describe('an option that there is not', () => {
  const jobs = new Jobs(refusing, 'mail');
  const job = { id: mint(), token: 1 };
  const odd = { delay: 5 } as object;
  it.each([
    ['enqueue', () => jobs.enqueue({}, odd)],
    ['schedule', () => jobs.schedule({}, { inMs: 5 }, odd)],
    ['an item', () => jobs.enqueueMany([{ payload: {}, ...odd }])],
    ['claim', () => jobs.claim({ leaseMs: 1, ...odd })],
    ['fail', () => jobs.fail(job, { delayMs: 1, maxAttempts: 1, error: 'e', ...odd })],
    ['promote', () => jobs.promote({ ...odd })],
    ['Jobs', () => Promise.resolve().then(() => new Jobs(refusing, 'mail', { ...odd }))],
  ])('is refused by %s, with those that there are', async (what, act) => {
    const error = (await act().catch((reason: unknown) => reason)) as EmqError;
    expect(error.code).toBe('EMQ_INPUT');
    expect(error.message).toContain(`unknown option "delay" of ${what}: it takes `);
  });

  it.each([[{}], [{ inMs: 1, at: 1 }], [{ delay: 5 }]])('a time to run at that is none: %j', async (time) => {
    const error = (await jobs.schedule({}, time as { inMs: number }).catch((reason: unknown) => reason)) as EmqError;
    expect(error.message).toMatch(/must be \{ inMs \}.* or \{ at \}/);
  });
});
