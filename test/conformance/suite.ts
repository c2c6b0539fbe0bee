/**
 * The conformance scenarios on one server program, once for each executor, through the public API: `Connector`, `Queue` and a
 * raw client that looks at the keys. For the server of this machine (scenarios.test.ts) and for other versions.
 *
 * Invariants: a scenario that needs what the server has not says so by name, and counts as not run. Does not: choose the server.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { REGISTRY_KEY } from '../../src/wire/keyspace.js';
import { batchPlane } from './batch-plane.js';
import { controlPlane } from './control-plane.js';
import { flowPlane } from './flow-plane.js';
import { lanePlane } from './lane-plane.js';
import { lockPlane } from './lock-plane.js';
import { operatorPlane, readPlane, watchPlane } from './planes.js';
import { NEEDS, type Need, type Scenario } from './scenario.js';
import { EXECUTORS, Stage } from './stage.js';
import { stateMachine } from './state-machine.js';
import { workerPlane } from './worker-plane.js';

const PREFIX = 'conformance';

export const scenarios: readonly Scenario[] = [
  ...[stateMachine, readPlane, operatorPlane, watchPlane, workerPlane, flowPlane].flat(),
  ...[lanePlane, controlPlane, batchPlane, lockPlane].flat(),
].sort((a, b) => a.number - b.number);

/** @param has what this server is known to have: a scenario that needs it is run, and fails where it is missing. */
export function conformanceSuite(executors: readonly (typeof EXECUTORS)[number][] = EXECUTORS, has?: Need): void {
  describe.each(executors)('conformance on %s', (_executor, wire) => {
    let stage: Stage;
    beforeAll(async () => {
      stage = await Stage.start(wire);
    });
    afterAll(() => stage[Symbol.asyncDispose]());

    for (const { number, name, shows, needs, play } of scenarios) {
      it(`${number} ${name}: ${shows}`, async ({ skip }) => {
        if (needs !== undefined && needs !== has && !(await knows(stage, needs))) {
          const why = `not run: conformance ${number} ${name}, this server (${stage.server.version}) has no ${needs}`;
          console.info(why);
          skip(why);
        }
        const jobs = stage.jobs(`${PREFIX}.${name}`);
        await play({ stage, jobs });
        // Whatever was played was played on the scenario's own queue, or on one whose name begins with its name.
        const isOwn = (key: string) =>
          // consumers name their queue
          key === REGISTRY_KEY || key.startsWith(jobs.keys.base) || key.startsWith(`emq:{${jobs.queue}.`);
        const keys = await stage.raw.keys('*');
        expect(keys.filter((key) => !isOwn(key))).toEqual(['{emq}:version']);
        const own = keys.filter(isOwn);
        if (own.length > 0) await stage.raw.del(...own);
      });
    }
  });
}

async function knows({ raw }: Stage, need: Need): Promise<boolean> {
  const [command] = (await raw.call('COMMAND', 'INFO', NEEDS[need])) as [unknown];
  return command !== null;
}
