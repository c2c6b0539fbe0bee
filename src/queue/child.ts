/**
 * Settling a job that may be a flow child: the plain settle first, which refuses a flow child and writes nothing; then its
 * link to its parent is read, and it is settled with the parent's keys (contract, section 9, row 2).
 *
 * Invariants: an ordinary job costs one call; the first call is made in the turn in which it is asked for.
 * Does not: repeat a call whose reply was lost.
 */
import type { Arg, Transition } from '../wire/call.js';
import { EmqError } from '../wire/errors.js';
import { transitions } from '../wire/transitions.js';

/** Runs transitions on one queue. Rejects with `EmqError`. */
export interface Runs {
  run<I extends object | void, R>(transition: Transition<I, R>, input: I): Promise<R>;
}

interface Held {
  readonly id: string;
  readonly token: number;
}

/** What became of it, and whether a letter for another queue's parent was left. */
export interface Settled<Word> {
  readonly now: Word;
  readonly letter: boolean;
}

const REFUSED = /^EMQSTATE (complete|retry|fail) flow (keys|not native)$/;

/** @param result what the parent is to have; only called for a flow child. */
export async function complete(runs: Runs, held: Held, result: () => Arg): Promise<Settled<'completed' | 'gone'>> {
  try {
    return { now: await runs.run(transitions.complete, held), letter: false };
  } catch (error) {
    if (!isFlowRefusal(error)) throw error;
  }
  const link = await runs.run(transitions.flowLink, { id: held.id });
  if (link === null) return { now: 'gone', letter: false };
  const now = await runs.run(transitions.completeChild, { ...held, ...link, result: result() });
  return { now, letter: link.queue !== null && now === 'completed' };
}

export async function fail(
  runs: Runs,
  failure: Held & { readonly delayMs: number; readonly maxAttempts: number; readonly error: Arg },
): Promise<Settled<'scheduled' | 'dead'>> {
  let refusal: unknown;
  try {
    return { now: await runs.run(transitions.fail, failure), letter: false };
  } catch (error) {
    if (!isFlowRefusal(error)) throw error;
    refusal = error;
  }
  const link = await runs.run(transitions.flowLink, { id: failure.id });
  if (link === null) throw new EmqError('EMQSTALE', 'EMQSTALE job gone', { cause: refusal });
  const now = await runs.run(transitions.failChild, { ...failure, ...link });
  // a parent in this queue may have died of it, and its own parent be in another
  return { now, letter: now === 'dead' };
}

function isFlowRefusal(error: unknown): boolean {
  return error instanceof EmqError && error.code === 'EMQSTATE' && REFUSED.test(error.reason);
}
