/**
 * The model-based suite: random sequences of steps on a wire 4 node and a wire 6 node, judged after each step by the
 * reference model and by each other, with the invariants and the keyspace events.
 *
 * A sequence is a list of seeds, one a step; fast-check leaves steps out of a sequence that failed until none can be
 * spared, and prints what is left. Does not: choose how much is run (model.test.ts, model.ci.test.ts).
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Bout, type BoutOptions } from '../../src/parity/bout.js';
import type { Step } from '../../src/parity/steps.js';
import { EVENTS, EventTap } from './events.js';
import { startNode, type TestNode } from './nodes.js';
import { seed } from './seed.js';

/** How much of it: how many sequences each property draws, and the most steps in one. */
export interface Amount {
  readonly runs: number;
  readonly steps: number;
  readonly timeoutMs: number;
}

class RandomStep implements fc.AsyncCommand<object, Bout> {
  constructor(readonly seed: number) {}

  check(): boolean {
    return true;
  }

  async run(_model: object, bout: Bout): Promise<void> {
    await bout.step(this.seed);
  }

  toString(): string {
    return `step(${this.seed})`;
  }
}

/** Draws sequences and plays them on the nodes. Rejects with the shortest sequence that failed. */
export async function play(nodes: readonly TestNode[], options: BoutOptions, { runs, steps }: Amount): Promise<number> {
  let taken = 0;
  const step = fc.noShrink(fc.nat(2 ** 32 - 1)).map((drawn) => new RandomStep(drawn));
  const property = fc.asyncProperty(
    fc.commands([step], { maxCommands: steps, size: 'max' }),
    async (commands: Iterable<fc.AsyncCommand<object, Bout>>) => {
      await Promise.all(nodes.map((node) => node.reset()));
      const bout = await Bout.open(nodes, {
        ...options,
        observe: async (one) => {
          taken += 1;
          await options.observe?.(one);
        },
      });
      await fc.asyncModelRun(() => ({ model: {}, real: bout }), commands);
      // what a bout leaves on a node of its own is flushed with the next
    },
  );
  await fc.assert(property, { seed, numRuns: runs, endOnFailure: false });
  return taken;
}

export function modelSuite(amount: Amount): void {
  for (const protocol of [2, 3] as const) {
    describe(`both executors in lockstep, RESP${protocol}`, () => {
      let nodes: TestNode[];
      let taps: EventTap[];
      beforeAll(async () => {
        nodes = await Promise.all([
          startNode('script', { protocol, args: EVENTS }),
          startNode('native', { protocol, args: EVENTS }),
        ]);
        taps = await Promise.all(nodes.map((node) => EventTap.open(node)));
      });
      afterAll(() => Promise.all(nodes.map((node) => node[Symbol.asyncDispose]())));

      // making times equal sends events of its own
      const begin = async (): Promise<void> => void (await Promise.all(taps.map((tap) => tap.take())));
      const observe = async (step: Step): Promise<void> => {
        const events = await Promise.all(taps.map((tap) => tap.take()));
        const [script, native] = events.map((list) => comparable(step, list).join('\n'));
        if (native !== script) throw new Error(`the script sent\n${script}\nthe command\n${native}`);
      };

      for (const mode of ['clean', 'dirty'] as const) {
        test(
          `random transitions, ${mode}: replies, keyspaces and events`,
          async () => {
            const taken = await play(nodes, { mode, begin, observe }, amount);

            expect(taken).toBeGreaterThan(amount.runs);
          },
          amount.timeoutMs,
        );
      }
    });
  }

  describe.each(['flows', 'lanes'] as const)('both executors in lockstep, %s', (about) => {
    let nodes: TestNode[];
    beforeAll(async () => {
      nodes = await Promise.all([startNode('script'), startNode('native')]);
    });
    afterAll(() => Promise.all(nodes.map((node) => node[Symbol.asyncDispose]())));

    for (const mode of ['clean', 'dirty'] as const) {
      test(
        `random ${about} over two queues, ${mode}`,
        async () => {
          const taken = await play(nodes, { mode, about }, amount);

          expect(taken).toBeGreaterThan(amount.runs);
        },
        amount.timeoutMs,
      );
    }
  });

  describe('the native executor by itself', () => {
    let node: TestNode;
    beforeAll(async () => {
      node = await startNode('native');
    });
    afterAll(() => node[Symbol.asyncDispose]());

    for (const mode of ['clean', 'dirty'] as const) {
      test(
        `random transitions with leases of another run of the server, ${mode}`,
        async () => {
          const taken = await play([node], { mode, foreignEpochs: true }, amount);

          expect(taken).toBeGreaterThan(amount.runs);
        },
        amount.timeoutMs,
      );
    }
  });
}

/**
 * The events of a step that both executors must send. A claim or take by script removes `lease_epoch` from a row that a native
 * one left it on: that one event is the only one that may be on one side alone.
 */
function comparable(step: Step, events: readonly string[]): readonly string[] {
  if (step.kind !== 'call' || !/^(claim|take)/.test(step.call.transition)) return events;
  return events.filter((event) => !/^keyspace \S+:job:[^]* hdel$|^keyevent hdel \S+:job:/.test(event));
}
