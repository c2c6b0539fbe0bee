/**
 * The model-based suite of flows: random plays on a node of each executor, every call judged, and everything driven to its end.
 *
 * A play is a list of seeds, one a step; fast-check leaves steps out of a play that failed until none can be spared, and prints
 * what is left. `EMQ_SEED` repeats a run. Does not: choose how much is played (model.test.ts, model.ci.test.ts).
 *
 * Three things are as docs/wire.md has them, and not called wrong. A death letter that is delivered a second time, after its
 * parent was brought back, kills the parent again: the model does the same. One process at a time adds a flow: the next
 * starts when the one before has ended or is dead. And a flow whose root has gone is not added again while there is still
 * something of its first life (play.ts).
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rng } from '../../../src/parity/prng.js';
import { EXECUTORS, startNode, type TestNode } from '../../parity/nodes.js';
import { seed } from '../../parity/seed.js';
import { act } from './acts.js';
import { drain } from './drain.js';
import { Play } from './play.js';

/** How much of it: how many plays for each executor, and the most steps in one. */
export interface Amount {
  readonly plays: number;
  readonly steps: number;
  readonly timeoutMs: number;
}

/** In so many plays all of this happens; fewer need not come upon everything. */
const ENOUGH = 100;
const MUST_SEE = [
  ...['complete_child 1', 'fail_child "dead"', 'fail_child "scheduled"', 'reprocess 2', 'remove 1', 'cancel "removed"'],
  ...['enqueue_flow 0', 'enqueue_flow 1', 'flow_list 0', 'flow_land 0', 'flow_land 1', 'flow_landed 0', 'flow_clear 1'],
  ...['gone', 'known', 'counted', 'released', 'failed'].map((word) => `flow_deliver ${JSON.stringify(word)}`),
  ...['flow_ack 0', 'flow_ack 1', 'flow_cancelled 0'],
];

class RandomStep implements fc.AsyncCommand<object, Play> {
  constructor(readonly seed: number) {}

  check(): boolean {
    return true;
  }

  /** Mostly a call is let through; now and then something is started, more often while little is going on. */
  async run(_: object, play: Play): Promise<void> {
    const draw = rng(this.seed);
    const { busy, brisk } = play.stage;
    if (busy.length > 0 && draw.chance(brisk.length > 5 ? 97 : brisk.length > 0 ? 72 : 20)) await play.let(draw);
    else await act(play, draw);
  }

  toString(): string {
    return `step(${this.seed})`;
  }
}

export function flowSuite({ plays, steps, timeoutMs }: Amount): void {
  describe.each(EXECUTORS)('flows, %s executor', (executor) => {
    let node: TestNode;
    beforeAll(async () => {
      node = await startNode(executor);
    });
    afterAll(() => node[Symbol.asyncDispose]());

    test(
      'random plays are as the model says, and end',
      async () => {
        let played = 0;
        const seen = new Set<string>();
        const step = fc.noShrink(fc.nat(2 ** 32 - 1)).map((drawn) => new RandomStep(drawn));
        const property = fc.asyncProperty(
          fc.commands([step], { maxCommands: steps, size: 'max' }),
          fc.noShrink(fc.nat()),
          async (commands, end) => {
            const play = await Play.open(node);
            await fc.asyncModelRun(() => ({ model: {}, real: play }), commands);
            await drain(play, rng(end));
            played += 1;
            for (const what of play.seen) seen.add(what);
          },
        );
        // time is left for the story of a failure that could be made shorter still
        const limits = { interruptAfterTimeLimit: timeoutMs * 0.8 };
        await fc.assert(property, { seed, numRuns: plays, ...limits });

        expect(played).toBe(plays);
        if (plays >= ENOUGH) expect(MUST_SEE.filter((what) => !seen.has(what))).toEqual([]);
      },
      timeoutMs,
    );
  });
}
