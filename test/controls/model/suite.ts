/**
 * The model-based suite of lanes and limits: random plays on a node of each executor, every call judged, and everything served
 * at the end.
 *
 * A play is a list of seeds, one a step; fast-check leaves steps out of a play that failed until none can be spared, and prints
 * what is left. `EMQ_SEED` repeats a run. Does not: choose how much is played (model.test.ts, model.ci.test.ts).
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
const MUST_SEE: readonly string[] = [
  ...[
    'admit of 2',
    'claim of 3',
    'claim_batch of 4',
    'complete 1',
    'complete 0',
    'fail dead',
    'fail scheduled',
    'delay 1',
  ],
  ...['release 1', 'back_off 1', 'back_off EMQSTALE back_off token mismatch', 'back_off EMQSTATE back_off not active'],
  ...['', 'of 1', 'of 2', 'of 3', 'of 4', 'of 5'].flatMap((jobs) => [`take ${jobs}`, `take_batch ${jobs}`]),
  ...['consult 1', 'consult EMQRATE at concurrency ceiling', 'consult EMQRATE at rate ceiling', 'pause 1', 'resume 1'],
  ...['promote 4', 'promote_now 1', 'reap 4', 'reap_group 1 0', 'reap_group 1 -1', 'stalled_check of 2', 'reprocess 1'],
  ...['reassign 1', 'reassign 0', 'reassign -1', 'reassign -2', 'remove 1', 'cancel removed', 'cancel signalled'],
  ...['purge 3 0', 'lane_pause 1', 'lane_resume 1', 'lane_set 1', 'lane_mend 1', 'set_limits 1'],
];

class RandomStep implements fc.AsyncCommand<object, Play> {
  constructor(readonly seed: number) {}

  check(): boolean {
    return true;
  }

  run(_: object, play: Play): Promise<void> {
    return act(play, rng(this.seed));
  }

  toString(): string {
    return `step(${this.seed})`;
  }
}

export function laneSuite({ plays, steps, timeoutMs }: Amount): void {
  describe.each(EXECUTORS)('lanes, %s executor', (executor) => {
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
