/**
 * The refusals of all versions of the server, read without one: each is the code that callers switch on, whatever the words,
 * and tells nothing of a place in a script.
 */
import { describe, expect, test } from 'vitest';

import { fromReply, type EmqCode } from '../../src/wire/errors.js';
import { asSeen, asSent, WORDS } from './refusal-words.js';
import { CLUSTER_PROVOCATIONS, NOBODY } from './refusals-cluster.js';
import { PROVOCATIONS } from './refusals.js';

const codes: Readonly<Record<string, { readonly code: EmqCode }>> = {
  ...PROVOCATIONS,
  ...CLUSTER_PROVOCATIONS,
  [NOBODY]: { code: 'CLUSTERDOWN' },
};

test('every refusal that is provoked has its words here', () => {
  expect(Object.keys(WORDS).sort()).toEqual(Object.keys(codes).sort());
});

describe.each(Object.entries(WORDS))('%s', (what, seen) => {
  test.each(Object.entries(seen) as [string, string][])('%s', (_version, words) => {
    const text = asSent(words);
    expect(asSeen(text)).toBe(words);
    const { code, reason } = fromReply(text);
    expect(code).toBe(codes[what]?.code);
    expect(reason).not.toMatch(/user_script|[0-9a-f]{40}/);
  });
});
