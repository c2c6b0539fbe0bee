/**
 * Random flows: trees to a depth of 8 over several queues, with ids of their own and policies as they come.
 *
 * Invariants: the same draws give the same tree. Does not: add one.
 */
import type { Rng } from '../../../src/parity/prng.js';
import type { Flow, FlowChild, OnFailure } from '../../../src/queue/flow-plan.js';

const POLICIES: readonly OnFailure[] = ['fail', 'fail', 'ignore', 'remove', 'continue', 'ignore'];
const DEEPEST = 8;

/** The n-th id of a play. */
export const idOf = (n: number): string => `JOB${String(n).padStart(11, '0')}`;

/** @param mint gives the next id, @param queues the first is the root's */
export function tree(draw: Rng, mint: () => string, queues: readonly string[]): Flow {
  // few flows are of one queue only by chance
  const spread = draw.pick([0, 30, 60]);
  const deep = draw.chance(25);
  let budget = 2 + draw.below(deep ? 10 : 8);
  const common = (): { id: string; payload: unknown; priority?: number } => {
    const id = mint();
    return { id, payload: { id }, ...(draw.chance(20) ? { priority: draw.below(3) } : {}) };
  };
  const children = (level: number): FlowChild[] => {
    const found: FlowChild[] = [];
    const wide = deep ? 1 + draw.below(2) : 1 + draw.below(4);
    while (found.length < wide && (budget > 0 || found.length === 0)) {
      budget -= 1;
      const more = level < DEEPEST && budget > 0 && draw.chance(deep ? 90 : 35);
      found.push({
        ...common(),
        ...(draw.chance(spread) ? { queue: draw.pick(queues) } : {}),
        onFailure: draw.pick(POLICIES),
        ...(more ? { children: children(level + 1) } : {}),
      });
    }
    return found;
  };
  return { ...common(), children: children(2) };
}
