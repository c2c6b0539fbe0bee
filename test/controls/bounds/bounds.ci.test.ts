/**
 * A queue of a million jobs in ten thousand lanes: no call holds the server up for 10 ms, of whatever transition, at the amounts
 * that the clients of this package use by themselves.
 *
 * What is slow is slow every time: an act that was over the bound is played again, and its best counts. Flows have bounds
 * of their own (test/flows). Does not: judge how long a call takes on the way.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { transitions } from '../../../src/index.js';
import { flowTransitions } from '../../../src/wire/flow-transitions.js';
import { EXECUTORS, Stage } from '../../conformance/stage.js';
import { OPERATOR_ACTS } from './acts-operator.js';
import { WORKER_ACTS } from './acts-worker.js';
import { JOBS, populate } from './crowd.js';
import { World } from './world.js';

const LIMIT_MICROSECONDS = 10_000;
/** From here on it is told. */
const NEAR_MICROSECONDS = 5_000;
const NEAR_TRIES = 3;
/** On a machine that has much else to do a call is slow most of the time, but not each time. */
const TRIES = 20;
const LONG = 600_000;
const ACTS = [...WORKER_ACTS, ...OPERATOR_ACTS];
const STEP = 100;

const ms = (us: number): string => `${(us / 1000).toFixed(1)} ms`;

/** Measured elsewhere: `obliterate` below, the others by test/audit/large.ci.test.ts, whose queue is broken. */
const ELSEWHERE = ['obliterate', 'audit', 'mend'];

it('every transition is among what is measured, but flows and those of other suites', () => {
  const names = (table: object): string[] => Object.values(table).map(({ name }: { name: string }) => name);
  const flows = new Set(names(flowTransitions));
  const missing = names(transitions).filter((name) => !flows.has(name) && !ACTS.some((act) => act.name === name));
  expect(missing).toEqual(ELSEWHERE);
});

describe.each(EXECUTORS)('a million jobs on %s', (executor, wire) => {
  let stage: Stage;
  let world: World;
  beforeAll(async () => {
    stage = await Stage.start(wire);
    world = await World.on(stage, 'crowd');
    await populate(stage.raw, world.k);
  }, LONG);
  afterAll(() => stage[Symbol.asyncDispose]());

  it(
    'no call takes 10 ms',
    async () => {
      expect(await stage.raw.dbsize()).toBeGreaterThan(JOBS);
      const best = new Map<string, number>();
      for (const act of ACTS) {
        let us = await act.play(world);
        for (
          let tries = 1;
          us >= NEAR_MICROSECONDS && tries < (us < LIMIT_MICROSECONDS ? NEAR_TRIES : TRIES);
          tries++
        ) {
          us = Math.min(us, await act.play(world));
        }
        best.set(act.what, us);
      }
      const sorted = [...best].sort(([, a], [, b]) => b - a);
      const near = sorted.filter(([, us], i) => us >= NEAR_MICROSECONDS || i < 10);
      console.info(`${executor}, the slowest: ${near.map(([what, us]) => `${what} ${ms(us)}`).join('; ')}`);
      expect(sorted.filter(([, us]) => us >= LIMIT_MICROSECONDS).map(([what, us]) => `${what} ${ms(us)}`)).toEqual([]);
    },
    LONG,
  );

  it(
    'goes in steps of which none takes 10 ms, and leaves nothing',
    async () => {
      const { k, raw, meter } = world;
      const call = () => {
        const { obliterate: transition } = transitions;
        return { transition, queue: k.queue, ...transition.layout(k, { force: true, limit: STEP }) };
      };
      await world.run(transitions.pause, undefined);
      const took: number[] = [];
      for (let now: string = 'more'; now !== 'done';) {
        const { reply, us } = await meter.run(call());
        now = transitions.obliterate.read(reply);
        took.push(us);
      }
      took.sort((a, b) => b - a);
      console.info(`${executor}: ${took.length} steps, the slowest ${took.slice(0, 5).map(ms).join(', ')}`);
      expect(took.length).toBeGreaterThan((JOBS / STEP) * 0.9);
      // one in a thousand may have met with a chore of the server's or the machine's
      expect(took.filter((us) => us >= LIMIT_MICROSECONDS).length).toBeLessThan(took.length / 1000);
      const left = await raw.keys(`${k.base}*`);
      expect(left.sort().slice(0, 20)).toEqual([]);
    },
    LONG,
  );
});
