/**
 * The random battery: a seeded bout on two nodes, for who wants a verdict and no shrinking (`emq parity`).
 *
 * Invariants: only nodes of the battery's own are flushed; on others exactly the keys that the bout made are removed.
 * Does not: shrink a failure (the test suite does, with the same steps).
 */
import { Bout, ParityError } from './bout.js';
import { brandNode, loadScripts, need, type ParityNode } from './node.js';
import { rng } from './prng.js';
import type { Mode } from './scene.js';

export interface RandomOptions {
  /** A 32-bit integer; the same seed draws the same steps. */
  readonly seed: number;
  readonly steps: number;
  /** Default `dirty`. */
  readonly mode?: Mode;
  /** Called now and then with the number of steps taken. */
  readonly onProgress?: (taken: number) => void;
}

export interface RandomResult {
  readonly outcome: 'passed' | 'failed';
  readonly seed: number;
  /** How many steps were taken, the failing one included. */
  readonly steps: number;
  /** What was not as it must be, with the steps that led there. */
  readonly detail?: string;
}

/**
 * Takes `steps` random steps on both nodes in lockstep. The nodes are branded for the time of the battery if they had
 * no brand, and no key is left behind. Rejects when a connection fails or a node has a foreign brand.
 */
export async function runRandom(a: ParityNode, b: ParityNode, options: RandomOptions): Promise<RandomResult> {
  const { seed, steps, mode = 'dirty', onProgress } = options;
  const undo: (() => Promise<void>)[] = [];
  const seeds = rng(seed);
  let taken = 0;
  let bout: Bout | undefined;
  try {
    for (const node of [a, b]) {
      if (node.own) await need(node.client, ['FLUSHALL', 'SYNC']);
      await loadScripts(node.client);
      undo.push(await brandNode(node));
    }
    bout = await Bout.open([a, b], { mode });
    while (taken < steps) {
      taken += 1;
      await bout.step(seeds.below(2 ** 32));
      if (taken % 100 === 0) onProgress?.(taken);
    }
    return { outcome: 'passed', seed, steps: taken };
  } catch (error) {
    if (!(error instanceof ParityError)) throw error;
    return { outcome: 'failed', seed, steps: taken, detail: error.message };
  } finally {
    await bout?.close();
    for (const take of undo) await take();
  }
}
