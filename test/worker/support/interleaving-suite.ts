/**
 * The suite of interleaving.test.ts and interleaving.ci.test.ts: explores scenarios on both executors and counts.
 */
import { describe, expect, it } from 'vitest';
import { startServer } from '../../../src/dev/index.js';
import { Explorer, type Scenario } from './explorer.js';

/** A scenario, how many different orders of its steps there are at least, and whether a beat is ever needed. */
export type Row = readonly [what: string, scenario: Scenario, atLeast: number];

export function interleavingSuite(rows: readonly Row[], wires: readonly (4 | 6)[] = [4, 6]): void {
  describe.each(wires)('woken, or claimed within one beat, on wire %i', (wire) => {
    it.each(rows)('%s', { timeout: 600_000 }, async (what, scenario, atLeast) => {
      await using server = await startServer({ module: wire === 6 });
      await using explorer = await Explorer.start(wire, server.socketPath, scenario.processes.length);
      const { interleavings, steps, beats } = await explorer.explore(scenario);
      console.log(`wire ${wire}, ${what}: ${interleavings} interleavings, ${steps} steps, ${beats} needed a beat`);
      expect(interleavings).toBeGreaterThanOrEqual(atLeast);
      // Only a death loses a token; and where one may die, some order of the steps does lose it.
      if (scenario.deaths === undefined) expect(beats).toBe(0);
      else expect(beats).toBeGreaterThan(0);
    });
  });
}
