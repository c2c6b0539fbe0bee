/** The whole file of scenario vectors on a version: each of its executors, RESP2 and RESP3. */
import { describe, expect, test } from 'vitest';

import { loadVectors, runVectors } from '../../src/parity/index.js';
import { EXECUTORS, startNode } from '../parity/nodes.js';
import type { Version } from './servers.js';

export function vectorSuite({ wires }: Version): void {
  describe.each(EXECUTORS.filter((one) => wires.includes(one === 'native' ? 6 : 4)))('vectors, %s', (executor) => {
    test.each([2, 3] as const)('every scenario, RESP%i', { timeout: 60_000 }, async (protocol) => {
      const vectors = await loadVectors();
      await using node = await startNode(executor, { protocol });
      const results = await runVectors(node, vectors);
      expect(results.filter(({ outcome }) => outcome !== 'passed')).toEqual([]);
      expect(results.length).toBe(vectors.scenarios.filter(({ executors }) => executors.includes(executor)).length);
      expect(results.length).toBeGreaterThan(500);
    });
  });
}
