/**
 * Another client's way of landing a flow, written from docs/wire.md alone: in the smallest steps, in any order, and with lists
 * of children that are not whole at first.
 *
 * Does not: repeat a step whose answer is lost; a process that adds the flow again does.
 */
import type { Rng } from '../../../src/parity/prng.js';
import { all, type PlannedJob, type PreparedFlow } from '../../../src/queue/flow-plan.js';
import type { Wire } from '../../../src/queue/jobs.js';
import { QueueRunner } from '../../../src/queue/runner.js';
import { EmqError } from '../../../src/wire/errors.js';
import { transitions } from '../../../src/wire/transitions.js';

/** @throws EmqError as `flows.add` does. */
export async function landSlowly(wire: Wire, flow: PreparedFlow, draw: Rng): Promise<void> {
  const runner = new QueueRunner(wire);
  let again = false;

  const land = async (job: PlannedJob, above?: PlannedJob): Promise<void> => {
    const listed = job.children.map(({ id, queue }) => ({ id, queue: queue === job.queue ? null : queue }));
    const first = draw.below(listed.length + 1);
    const { word, unlisted, landing } = await runner.run(job.queue, transitions.flowHold, {
      ...job,
      ...(above === undefined
        ? {}
        : { link: { parent: above.id, queue: above.queue === job.queue ? null : above.queue, policy: job.policy } }),
      count: listed.length,
      children: listed.slice(0, first),
    });
    again ||= word !== 'held';
    if (word === 'landed' || word === 'unwanted' || (word === 'exists' && landing === 0)) return;
    if (unlisted > 0) {
      await tooSoon(job);
      for (let i = word === 'held' ? first : 0; i < listed.length; i += 2) {
        const left = await runner.run(job.queue, transitions.flowList, {
          id: job.id,
          children: listed.slice(i, i + 2),
        });
        if (left === 'gone') throw new EmqError('EMQSTATE', 'EMQSTATE flow parent gone');
      }
    }
    const ids = job.children.map(({ id }) => id);
    const unlanded = new Set(await runner.run(job.queue, transitions.flowUnlanded, { id: job.id, children: ids }));
    const todo = job.children.filter(({ id }) => unlanded.has(id));
    while (todo.length > 0) {
      const [child] = todo.splice(draw.below(todo.length), 1);
      if (child === undefined) break;
      const here = child.queue === job.queue;
      if (child.children.length > 0) await land(child, job);
      else {
        const input = { parent: job.id, queue: here ? null : job.queue, children: [child] };
        const made = await runner.run(child.queue, transitions.flowLand, input);
        if (made === 'gone') throw new EmqError('EMQSTATE', 'EMQSTATE flow parent gone');
        if (here) continue;
      }
      const told = await runner.run(job.queue, transitions.flowLanded, { id: job.id, children: [child.id] });
      await runner.run(child.queue, transitions.flowClear, { children: [child.id] });
      if (told === 'gone') throw new EmqError('EMQSTATE', 'EMQSTATE flow parent gone');
    }
  };

  /** A child that lands while others are not yet listed might be the last that the parent waits for. */
  const tooSoon = async (job: PlannedJob): Promise<void> => {
    const child = job.children.find(({ queue, children }) => queue === job.queue && children.length === 0);
    if (child === undefined || !draw.chance(20)) return;
    try {
      const made = await runner.run(job.queue, transitions.flowLand, {
        parent: job.id,
        queue: null,
        children: [child],
      });
      if (made === 'gone') return;
    } catch (error) {
      if (error instanceof EmqError && error.reason === 'EMQSTATE flow children not listed') return;
      throw error;
    }
    throw new EmqError('ERR', `ERR ${child.id} landed before all children of ${job.id} were listed`);
  };

  await land(flow.root);
  if (!again) return;
  for (const job of all(flow.root)) {
    for (const { id, queue, children } of job.children) {
      if (queue !== job.queue || children.length > 0)
        await runner.run(queue, transitions.flowClear, { children: [id] });
    }
  }
}
