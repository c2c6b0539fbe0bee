/**
 * Random steps on a version and on Valkey 8.0 in lockstep, both by scripts: the same answers, keyspaces and keyspace events,
 * judged by the reference model too. So what a script reads of a server (times, scores, empty replies, errors) is the same on all.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { Step } from '../../src/parity/steps.js';
import { EVENTS, EventTap } from '../parity/events.js';
import { play, type Amount } from '../parity/model-suite.js';
import { startNode, type TestNode } from '../parity/nodes.js';
import { runs } from '../parity/seed.js';
import { mustHave, VERSIONS, withServer, type Version } from './servers.js';

/** What is drawn of each kind of bout within the time of CI. */
export const BOUNDED: Amount = { runs: runs(6), steps: 100, timeoutMs: 120_000 };

export function bouts(version: Version, amount: Amount = BOUNDED): void {
  const other = VERSIONS.valkey80;
  if (version === other) return;
  describe.each(['all', 'flows', 'lanes'] as const)(`in lockstep with ${other.name}, %s`, (about) => {
    let nodes: TestNode[] = [];
    let taps: EventTap[] = [];
    beforeAll(async () => {
      for (const one of [version, other]) {
        const path = await mustHave(one);
        nodes.push(await withServer(path, () => startNode('script', { args: EVENTS })));
      }
      taps = await Promise.all(nodes.map((node) => EventTap.open(node)));
    });
    afterAll(async () => {
      await Promise.all(nodes.map((node) => node[Symbol.asyncDispose]()));
      nodes = [];
    });

    const begin = async (): Promise<void> => void (await Promise.all(taps.map((tap) => tap.take())));
    const observe = async (_step: Step): Promise<void> => {
      const [here, there] = (await Promise.all(taps.map((tap) => tap.take()))).map((events) => events.join('\n'));
      if (here !== there) throw new Error(`${version.name} sent\n${here}\n${other.name}\n${there}`);
    };

    test.each(['clean', 'dirty'] as const)('random steps, %s', { timeout: amount.timeoutMs }, async (mode) => {
      expect(nodes.map(({ server }) => server.version)).toEqual([version, other].map(matchingVersion));
      const taken = await play(nodes, { mode, about, begin, observe }, amount);
      expect(taken).toBeGreaterThan(amount.runs);
    });
  });
}

const matchingVersion = ({ number }: Version): unknown => expect.stringMatching(number);
