/**
 * The conformance scenarios on the server of this machine (suite.ts), and the catalogue. catalogue.ts says which of the 79 are
 * not here yet and which part brings them.
 */
import { describe, expect, it } from 'vitest';
import { catalogue, missing } from './catalogue.js';
import { conformanceSuite, scenarios } from './suite.js';

/** What the foundation, the worker, flows, lanes, batches, controls and the matrix of versions promise. */
const PROMISED = [...span(1, 55), ...span(58, 73)];

conformanceSuite();

describe('the catalogue', () => {
  it('covers exactly what was promised, and knows all 79', () => {
    console.info(missing());
    expect(catalogue).toHaveLength(79);
    expect(new Set(catalogue.map(({ name }) => name)).size).toBe(79);
    const covered = catalogue.filter(({ later }) => later === undefined);
    expect(covered.map(({ number }) => number)).toEqual(PROMISED);
    expect(scenarios.map(({ number, name }) => ({ number, name }))).toEqual(covered);
  });
});

function span(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}
