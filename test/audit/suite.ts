/**
 * Queues that are broken at random, repaired, and run to their end.
 *
 * The judge is not the audit itself but the invariants of the parity batteries, which look at the whole keyspace and know
 * nothing of it. Does not: choose how much is run (repair.test.ts, repair.ci.test.ts, repair.long.test.ts).
 */
import { expect } from 'vitest';
import { Flows, Jobs, type Connector } from '../../src/index.js';
import { flowViolations } from '../../src/parity/flow-invariants.js';
import { violations } from '../../src/parity/invariants.js';
import { readKeys } from '../../src/parity/keyspace-dump.js';
import { rng } from '../../src/parity/prng.js';
import type { TestNode } from '../parity/nodes.js';
import { BREAKS, decide, makeWorld, type World } from './world.js';

const HOUR = 3_600_000;

/** What the parity batteries find wrong with both queues of a world. */
export async function oracle(w: World): Promise<string[]> {
  const bases = [w.b, `emq:{${w.far}}:`];
  const keys = await readKeys(w.client, `emq:{${w.queue}*`);
  return [...bases.flatMap((base) => violations(keys, base)), ...flowViolations(keys, bases)];
}

/** The payloads of all rows that are hashes, by id. */
async function payloads(w: World): Promise<Map<string, string | null>> {
  const keys = await readKeys(w.client, `${w.b}job:*`);
  const rows = [...keys].flatMap(([key, entry]) => {
    const id = key.slice(`${w.b}job:`.length);
    return entry.type === 'hash' && !id.includes(':') ? [[id, entry.fields.get('payload') ?? null] as const] : [];
  });
  return new Map(rows);
}

/** Repairs it, does what is left to a person, and holds all of it against the oracle. */
export async function repaired(w: World): Promise<void> {
  const before = await payloads(w);
  const told = await w.admin.repair();
  const after = await payloads(w);
  expect([...before].filter(([id, payload]) => after.get(id) !== payload)).toEqual([]);
  expect(told.findings.filter(({ mends }) => mends)).toEqual([]);
  const again = await w.admin.check();
  expect(again.findings).toEqual(told.findings);
  for (let i = 0; i < 3 && (await decide(w)); i++) await w.admin.repair();
  expect((await w.admin.check()).findings).toEqual([]);
  expect(await oracle(w)).toEqual([]);
}

/** Consumers come, and nothing is left but the dead. */
export async function drained(w: World, connector: Connector): Promise<void> {
  const { client, b } = w;
  for (const set of ['active', 'schedule', 'gwait'])
    for (const id of await client.zrange(b + set, '0', '-1')) await client.zadd(b + set, '0', id);
  await client.del(`${b}limiter`, ...w.groups.map((group) => `${b}g:${group}:limiter`));
  const queues = [w.queue, w.far].map((name) => ({
    jobs: new Jobs(connector, name),
    flows: new Flows(connector, name),
  }));
  for (let idle = 0; idle < 3;) {
    let moved = 0;
    for (const { jobs, flows } of queues) {
      moved += (await jobs.reap({ limit: 100 })) + (await jobs.promote({ limit: 100 }));
      for (const job of await jobs.take({ leaseMs: HOUR, count: 50 })) {
        await jobs.complete(job);
        moved += 1;
      }
      moved += (await flows.deliver()).delivered;
    }
    idle = moved === 0 ? idle + 1 : 0;
  }
  for (const { jobs } of queues) {
    const { dead: _dead, completed: _completed, failed: _failed, ...left } = await jobs.counts();
    expect(left).toEqual({ pending: 0, active: 0, scheduled: 0, awaiting_children: 0 });
  }
  expect(await client.keys(`${b}g:*:pending`)).toEqual([]);
  expect((await w.admin.check()).findings).toEqual([]);
}

/** @param runs how many worlds. @param most how many breaks in each at most. */
export async function randomRepairs(
  node: TestNode,
  connector: Connector,
  { seed, runs, most }: { readonly seed: number; readonly runs: number; readonly most: number },
): Promise<void> {
  for (let run = 0; run < runs; run++) {
    const random = rng(seed + run);
    await node.reset();
    const world = await makeWorld(connector, node.client, `q${run}`, random);
    const story: string[] = [];
    try {
      for (let left = 1 + random.below(most); left > 0; left--) {
        const broken = random.pick(BREAKS);
        story.push(broken.name);
        await broken.act(world).catch((error: unknown) => {
          // an earlier break has put a key of another type where this one writes: what it did before that stays
          if (!(error as Error).message.startsWith('WRONGTYPE')) throw error;
        });
      }
      await repaired(world);
      await drained(world, connector);
    } catch (error) {
      throw new Error(`EMQ_SEED=${seed + run}, after ${story.join('; ')}: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }
}
