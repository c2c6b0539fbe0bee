/**
 * A worker process that is stopped for longer than its lease (a frozen machine, a suspended container) and wakes up: another
 * has its job by then, and what it still says of it is refused, whatever that is.
 */
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WIRES, WorkerNode, freshQueue } from '../worker/support/nodes.js';
import { WorkerProgram } from '../worker/support/processes.js';

let program: WorkerProgram;
beforeAll(async () => {
  program = await WorkerProgram.build();
});
afterAll(() => program[Symbol.asyncDispose]());

describe.each(WIRES)('wire %i', (wire) => {
  it.each(['still runs elsewhere', 'was completed elsewhere'] as const)(
    'SIGSTOP past the lease, SIGCONT, and the job %s: the outcome is stale, the token tells the runs apart',
    async (where) => {
      await using node = await WorkerNode.start(wire);
      const queue = await node.queue<object>(freshQueue('stopped'));
      await using worker = await program.start({
        ...{ queue: queue.queue, work: 'hold', connector: { url: node.server.url, wire } },
        options: { leaseMs: 60_000, beatMs: 600_000 },
        tell: ['completed', 'stale', 'lost'],
      });
      const { id } = await queue.enqueue({});
      await worker.told('holding');
      worker.signal('SIGSTOP');
      // its lease lapses, and another one takes the job
      expect(await node.lapse(queue.queue)).toBe(1);
      expect(await queue.reap()).toBe(1);
      let end: () => void = () => {};
      const working = new Promise<void>((resolve) => (end = resolve));
      await using rescuer = queue.consume(() => working, { beatMs: 600_000 });
      const [job] = (await once(rescuer, 'claimed')) as [{ id: string; token: number }];
      expect(job).toMatchObject({ id, token: 2 });
      const completed = once(rescuer, 'completed');
      if (where === 'was completed elsewhere') {
        end();
        await completed;
      }

      // it wakes with its handler in the middle, and does not know
      worker.signal('SIGCONT');
      worker.order({ order: 'go' });
      const [stale] = await worker.told('stale');
      expect(stale).toMatchObject({ id, token: 1, text: expect.stringMatching(/^EMQSTALE/) as string });
      if (where === 'still runs elsewhere') {
        expect(await queue.get(id)).toMatchObject({ state: 'active', attempts: 2 });
        end();
        await completed;
      }
      expect(worker.of('completed')).toEqual([]);
      expect(await queue.metrics('completed')).toEqual({ count: 1 });
    },
  );
});
