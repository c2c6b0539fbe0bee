/**
 * A slot that moves all at once (Valkey 9: CLUSTER MIGRATESLOTS): no call meets half a queue, and none has to wait for long.
 * Needs a Valkey 9; elsewhere it says so by name and is not run.
 */
import { describe, expect, it } from 'vitest';
import { take, VERSIONS } from '../versions/servers.js';
import { moveUnderLoad } from './moving.js';
import { Nodes } from './nodes.js';

const server = await take(VERSIONS.valkey9);

describe.runIf(server !== undefined)('Valkey 9, atomic slot migration', () => {
  it.each([4, 6] as const)(
    'wire %i: to and fro under load: nothing is lost, nothing runs twice',
    async (wire) => {
      await using nodes = await Nodes.start({ server });
      const before = await nodes.said('TRYAGAIN');
      await moveUnderLoad(nodes, wire, 6, { atomic: true });
      expect(await nodes.said('TRYAGAIN')).toBe(before);
    },
    90_000,
  );
});
