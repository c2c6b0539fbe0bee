/**
 * A flood of calls that are all wrong, beside good ones: tokens that nobody holds, ids that are nobody's, jobs in another
 * state, numbers that are none, keys of another queue, keys of the wrong type, names outside the grammar.
 *
 * Each is answered as its kind should be; the keys, the server's memory and this process's are what they were, and a good
 * call takes as long as before. The amount is given by the test files beside this one.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EmqError, Jobs, Lanes, mint, transitions, type Arg, type Transition } from '../../src/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import type { EXECUTORS } from '../conformance/stage.js';
import { MISSING, ORDER, Stage } from '../conformance/stage.js';

/** So many are in flight at once. */
const BURST = 500;
const MIB = 1_048_576;

/** What a call came to: the code of its refusal, or what it answered. */
type Fate = string;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

export function flood(executors: readonly (typeof EXECUTORS)[number][], calls: number): void {
  describe.each(executors)('a flood of bad calls, %s', (_executor, wire) => {
    let stage: Stage;
    beforeEach(async () => {
      stage = await Stage.start(wire);
    });
    afterEach(() => stage[Symbol.asyncDispose]());

    /** The bad calls, each with what has to become of it. */
    async function badCalls(): Promise<readonly (readonly [Fate, () => Promise<unknown>])[]> {
      const jobs = new Jobs<number>(stage.connector, 'flooded');
      const lanes = new Lanes(stage.connector, jobs);
      await jobs.enqueueMany(Array.from({ length: 3 }, (_, i) => ({ payload: i })));
      const [held] = await jobs.claimBatch({ leaseMs: 600_000, size: 1 });
      const [waits] = await jobs.browse('pending');
      const stale = { id: held!.id, token: 99 };
      const gone = { id: MISSING, token: 1 };
      const retry = { delayMs: 0, maxAttempts: 1, error: 'x' };
      // keys of the wrong type, in a queue of their own
      const broken = new Jobs(stage.connector, 'broken');
      await stage.raw.mset(broken.keys.pending, 'text', broken.keys.active, 'text', broken.keys.ring, 'text');
      const send = <I, R>(transition: Transition<I, R>, keys: readonly Arg[], args: readonly Arg[]) =>
        stage.connector.run({ transition, queue: jobs.queue, keys, args });
      const { pending, active, schedule, dead, base } = jobs.keys;
      const row = jobs.keys.job(MISSING);
      const foreign = new Jobs(stage.connector, 'foreign').keys;
      return [
        ['EMQSTALE', () => jobs.complete(stale)],
        ['EMQSTALE', () => jobs.fail(stale, retry)],
        ['EMQSTALE', () => jobs.extend(stale, { leaseMs: 5 })],
        ['EMQSTALE', () => jobs.delay(stale, { inMs: 5 })],
        ['EMQSTALE', () => jobs.release(stale)],
        [JSON.stringify([stale.id]), () => jobs.extendMany([stale], { leaseMs: 5 })],
        ['"gone"', () => jobs.complete(gone)],
        ['"gone"', () => jobs.extend(gone, { leaseMs: 5 })],
        ['EMQSTALE', () => jobs.fail(gone, retry)],
        ['null', () => jobs.get(MISSING)],
        ['"absent"', () => jobs.state(MISSING)],
        ['"gone"', () => jobs.remove(MISSING)],
        ['"gone"', () => jobs.cancel(MISSING, 'no')],
        ['"gone"', () => jobs.addLog(MISSING, 'x')],
        ['"gone"', () => jobs.updateData(MISSING, 1)],
        ['"absent"', () => jobs.freeDedup(mint())],
        ['"not found"', () => lanes.reassign(MISSING, mint('TEN'))],
        ['"not paused"', () => lanes.resume(mint('TEN'))],
        ['EMQSTATE', () => jobs.reprocess(waits!)],
        ['EMQSTATE', () => jobs.promoteNow(waits!)],
        ['EMQKIND', () => jobs.enqueue(1, { id: ORDER })],
        ['"duplicate"', async () => (await jobs.enqueue(1, { id: waits! })).outcome],
        ['EMQ_INPUT', () => jobs.enqueue(1, { id: 'nobody' })],
        ['EMQ_INPUT', async () => new Jobs(stage.connector, '{x}').pause()],
        ['ERR', () => send(transitions.claim, [pending, active, base], ['x'])],
        ['ERR', () => send(transitions.take, [pending, active, base], ['5', '0', 'flat'])],
        ['ERR', () => send(transitions.fail, [active, schedule, dead, row], [MISSING, '1', '0', '+5', 'no', base])],
        // a script is told its keys by its caller; a native command refuses those of two queues
        [
          wire === 6 ? 'ERR' : '0',
          () => send(transitions.complete, [active, foreign.job(MISSING)], [MISSING, '1', base]),
        ],
        ['WRONGTYPE', () => broken.claimBatch({ leaseMs: 5, size: 1 })],
        ['WRONGTYPE', () => broken.take({ leaseMs: 5, count: 1 })],
      ];
    }

    /** In bursts, each kind in its turn; what became of them must be what has to. */
    async function pour(bad: Awaited<ReturnType<typeof badCalls>>, amount: number): Promise<void> {
      for (let sent = 0; sent < amount; sent += BURST) {
        await Promise.all(
          Array.from({ length: BURST }, async (_, i) => {
            const [fate, act] = bad[(sent + i) % bad.length]!;
            const met = await act().then(
              (answer) => JSON.stringify(answer),
              (error: unknown) => (error instanceof EmqError ? error.code : String(error)),
            );
            if (met !== fate) throw new Error(`call ${(sent + i) % bad.length} came to ${met}, not ${fate}`);
          }),
        );
      }
    }

    /**
     * The median of good calls, a job in and out of an empty queue, in the time that as many PINGs take just then: what else
     * the machine does weighs on both.
     */
    async function goodCall(): Promise<number> {
      const jobs = new Jobs<number>(stage.connector, 'good');
      const times: number[] = [];
      for (let i = 0; i < 200; i += 1) {
        const pinged = performance.now();
        for (let n = 0; n < 3; n += 1) await stage.raw.ping();
        const begun = performance.now();
        await jobs.enqueue(i);
        const job = await jobs.claim({ leaseMs: 60_000 });
        expect(await jobs.complete(job!)).toBe('completed');
        times.push((performance.now() - begun) / (begun - pinged));
      }
      return times.sort((a, b) => a - b)[100]!;
    }

    /** What the server holds, bytes, but for the buffers of clients. */
    async function serverMemory(): Promise<number> {
      const info = await stage.raw.info('memory');
      const field = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1]);
      return field('used_memory') - field('mem_clients_normal');
    }
    const ownMemory = (): number => {
      collect();
      return process.memoryUsage().heapUsed;
    };

    it('leaves keys, memory and the time of a good call as they were', { timeout: 120_000 }, async () => {
      const bad = await badCalls();
      // scripts are loaded, tables have their size
      await pour(bad, 4 * BURST);
      await goodCall();
      const times = [await goodCall(), await goodCall()];
      const before = { keys: await snapshot(stage.raw), server: await serverMemory(), own: ownMemory() };
      let over = false;
      const beside = (async () => {
        let done = 0;
        for (const jobs = new Jobs<number>(stage.connector, 'beside'); !over; done += 1) {
          await jobs.enqueue(1);
          const job = await jobs.claim({ leaseMs: 60_000 });
          expect(await jobs.complete(job!)).toBe('completed');
        }
        return done;
      })();
      await pour(bad, calls).finally(() => (over = true));
      expect(await beside).toBeGreaterThan(0);

      await stage.raw.del('emq:{beside}:metrics:completed', 'emq:{beside}:wake');
      expect(changedKeys(before.keys, await snapshot(stage.raw))).toEqual([]);
      expect((await serverMemory()) - before.server).toBeLessThan(MIB / 4);
      expect(ownMemory() - before.own).toBeLessThan(4 * MIB);
      // the server counts errors by their first word: no call may add words of its own
      const errors = (await stage.raw.info('errorstats')).match(/^errorstat_/gm) ?? [];
      expect(errors.length).toBeLessThan(10);
      const { pending, waiting, unknownOutcomes, reconnects } = stage.connector.stats();
      expect({ pending, waiting, unknownOutcomes, reconnects }).toEqual({
        ...{ pending: 0, waiting: 0, unknownOutcomes: 0, reconnects: 0 },
      });
      // the better of a few: others use this machine too
      const after = [await goodCall(), await goodCall(), await goodCall()];
      expect(Math.min(...after) / Math.max(...times)).toBeLessThan(3);
    });
  });
}
