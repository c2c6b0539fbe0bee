/**
 * The conformance scenarios, once for each executor, through the public API: `Connector`, `Queue` and a raw client that
 * looks at the keys. catalogue.ts says which of the 79 are not here yet and which part brings them.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { REGISTRY_KEY } from '../../src/wire/keyspace.js';
import { batchPlane } from './batch-plane.js';
import { catalogue, missing } from './catalogue.js';
import { controlPlane } from './control-plane.js';
import { flowPlane } from './flow-plane.js';
import { lanePlane } from './lane-plane.js';
import { operatorPlane, readPlane, watchPlane } from './planes.js';
import type { Scenario } from './scenario.js';
import { EXECUTORS, Stage } from './stage.js';
import { stateMachine } from './state-machine.js';
import { workerPlane } from './worker-plane.js';

const PREFIX = 'conformance';

/** What the foundation, the worker, flows, lanes, batches and controls promise. */
const PROMISED = [...span(1, 55), ...span(60, 73)];

const scenarios: readonly Scenario[] = [
  ...[stateMachine, readPlane, operatorPlane, watchPlane, workerPlane, flowPlane].flat(),
  ...[lanePlane, controlPlane, batchPlane].flat(),
].sort((a, b) => a.number - b.number);

describe.each(EXECUTORS)('conformance on %s', (_executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  it.each(scenarios.map((one) => [`${one.number} ${one.name}: ${one.shows}`, one] as const))(
    '%s',
    async (_title, one) => {
      const { name, play } = one;
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
    },
  );
});

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
