/**
 * A primary is lost under load, round after round: what was confirmed is kept, no stall is counted where that is promised,
 * clients are back in time, and the keyspace is sound. The amounts are the caller's.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { expect, it, vi } from 'vitest';
import { Admin, Connector, Jobs, Keyspace, transitions, type Call, type Durability } from '../../src/index.js';
import { rng } from '../../src/parity/prng.js';
import { evalFrame, executorOf } from '../../src/wire/executor.js';
import type { Wire } from '../worker/support/nodes.js';
import { FailoverLoad, mostStalls } from './failover-load.js';
import type { Place } from './failover-places.js';

/** From the moment at which the new primary is there to the first call that goes well, at most. */
const BACK_MS = 5_000;

export interface FailoverSettings {
  readonly wire: Wire;
  readonly rounds: number;
  readonly durability: Durability;
  readonly seed: number;
}

/** @param name of the place, for the title */
export function failoverSuite(name: string, open: (wire: Wire) => Promise<Place>, settings: FailoverSettings): void {
  const { wire, rounds, durability, seed } = settings;
  it(
    `${name}, ${rounds} times under load: nothing that was confirmed is lost, clients are back`,
    async () => {
      const draw = rng(seed);
      await using place = await open(wire);
      await using load = await FailoverLoad.start(wire, place.options, place.queues, durability, draw);
      await using looker = await Connector.connect({ ...place.options, wire, waitMs: 10_000 });
      let swept = 0;
      const back: number[] = [];
      for (let round = 0; round < rounds; round++) {
        const about = `seed ${seed}, round ${round}`;
        await vi.waitUntil(() => load.count(({ runs }) => runs > 0) > round * 20, { timeout: 30_000 });
        // The moment at which the primary is lost is what this test draws.
        await pause(300 + draw.below(700));
        const { at, queue } = await place.strike(round);
        const coming = load.back(at);
        coming.catch(() => {}); // it is waited for below
        swept += await sweep(place.admin(queue), wire, new Keyspace(queue));
        const { enqueued, done } = await coming;
        back.push(enqueued, done);
        expect({ enqueued: enqueued < BACK_MS, done: done < BACK_MS }, `${about}: ${enqueued} ${done} ms`).toEqual({
          enqueued: true,
          done: true,
        });
        await place.mend();
        const mended = performance.now();
        await vi.waitUntil(() => load.lastConfirmed > mended, { timeout: 30_000, interval: 5 });
        for (const queue of place.queues) await sound(looker, place.admin(queue), wire, queue, about);
        expect(load.wrong, about).toEqual([]);
      }
      await load.finish();
      await drained(looker, place.queues);
      const about = `seed ${seed}, told ${JSON.stringify([...load.told])}`;
      for (const queue of place.queues) await sound(looker, place.admin(queue), wire, queue, about);
      expect(load.wrong, about).toEqual([]);
      expect(load.unrun(true), `${about}: confirmed with ${JSON.stringify(durability)}`).toEqual([]);
      const lost = load.unrun(false);
      // the fault is one: without durability jobs are lost where they can be
      if (place.plain === 'kept') expect(lost, about).toEqual([]);
      else expect(lost.length, about).toBeGreaterThan(0);
      expect(swept, 'leases from before had lapsed').toBeGreaterThan(0);
      const [durable, plain] = [true, false].map((kind) => load.count((one) => one.durable === kind && one.confirmed));
      expect(durable).toBeGreaterThan(rounds * 10);
      const again = load.count(({ runs }) => runs > 1);
      console.log(
        `wire ${wire}, ${name}: ${rounds} times; confirmed ${durable} durable jobs, 0 lost, and ${plain} others, ${lost.length} lost; ` +
          `${again} ran again, ${swept} leases had lapsed; back after at most ${Math.round(Math.max(...back))} ms`,
      );
    },
    60_000 + rounds * 30_000,
  );
}

/**
 * Lets the leases lapse that the old primary gave, as they do where an outage is long, and recovers the jobs at once, as a
 * process would that holds none. By the rows of wire 6: on wire 4 a lease does not know who gave it, and it is counted.
 */
async function sweep(admin: Redis, wire: Wire, keys: Keyspace): Promise<number> {
  const self = /run_id:(\w+)/.exec(await admin.info('server'))?.[1];
  for (const id of await admin.zrange(keys.active, '0', '-1')) {
    const epoch = await admin.hget(keys.job(id), 'lease_epoch');
    if (wire === 4 || (epoch !== null && epoch !== self)) await admin.zadd(keys.active, 'XX', 1, id);
  }
  const transition = transitions.stalledCheck;
  const laid = transition.layout(keys, { maxStalled: mostStalls(wire), limit: 1_000 });
  const call: Call = { transition, queue: keys.queue, ...laid };
  const { command, args } = wire === 6 ? executorOf(6)(call) : evalFrame(call);
  const [recovered = [], dead = []] = (await admin.call(command, ...args)) as string[][];
  expect(dead, `queue ${keys.queue}: a failover is no stall`).toEqual([]);
  return recovered.length;
}

/** Each job in one place, and no stall counted on wire 6, for which there would have been reason enough. */
async function sound(looker: Connector, admin: Redis, wire: Wire, queue: string, about: string): Promise<void> {
  // a connector that was idle while a cluster changed has to look again
  const { findings } = await vi.waitFor(
    async () => {
      await new Jobs(looker, queue).counts();
      return new Admin(looker, queue).check();
    },
    { timeout: 10_000, interval: 50 },
  );
  expect(findings, `${about}, queue ${queue}`).toEqual([]);
  const keys = new Keyspace(queue);
  expect(await admin.zcard(keys.dead), `${about}, queue ${queue}: dead`).toBe(0);
  if (mostStalls(wire) > 1) return;
  for (const place of [keys.pending, keys.active, keys.schedule]) {
    const ids = await admin.zrange(place, '0', '-1');
    const stalls = await Promise.all(ids.map((id) => admin.hget(keys.job(id), 'stalled')));
    expect(
      stalls.filter((stalled) => stalled !== null),
      `${about}, queue ${queue}: stalls`,
    ).toEqual([]);
  }
}

/** Until nothing waits or runs. Claims whose replies were lost end with their leases. */
async function drained(looker: Connector, queues: readonly string[]): Promise<void> {
  const left = async (): Promise<number> => {
    const counts = await Promise.all(queues.map((queue) => new Jobs(looker, queue).counts()));
    return counts.reduce((sum, { pending, active, scheduled }) => sum + pending + active + scheduled, 0);
  };
  await expect.poll(left, { timeout: 60_000, interval: 50 }).toBe(0);
}
