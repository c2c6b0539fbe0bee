/**
 * Takes an outcome to the server and does not let go of it until there is an answer.
 *
 * Invariants: an outcome is sent again while the server or the way to it is not ready; one whose reply was lost is looked
 * up before it is sent again, so that it takes effect once; a refusal (another run has the job) is an answer, never
 * thrown away. The first try is sent in the turn in which it is made.
 * Does not: renew the lease meanwhile (lease-keeper.ts does), or free the slot.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { EmqError } from '../wire/errors.js';
import { transitions, type When } from '../wire/transitions.js';
import { complete, fail, type Runs } from '../queue/child.js';
import { encodeResult } from '../queue/results.js';
import { mayPass, type Runner } from './calls.js';
import { errorText } from './failure.js';

/** What is to become of a job. */
export type Outcome =
  | { readonly kind: 'complete'; readonly result: unknown }
  | { readonly kind: 'fail'; readonly error: Error; readonly delayMs: number; readonly maxAttempts: number }
  | { readonly kind: 'delay'; readonly when: When }
  | { readonly kind: 'backOff'; readonly ms: number; readonly scope: 'own' | 'queue' }
  | { readonly kind: 'release' };

/** What became of it. */
export type Answer =
  | { readonly now: 'completed' | 'scheduled' | 'dead' | 'delayed' | 'backed off' | 'released' }
  /** The job is no longer this run's. */
  | { readonly now: 'stale'; readonly error: EmqError }
  /** No answer: the job comes back when its lease has lapsed. */
  | { readonly now: 'unsettled'; readonly error: EmqError };

export interface SettleOptions {
  /** Aborted when no more tries are to be made. */
  readonly giveUp: AbortSignal;
  /** Called at the first try that failed: the outcome is on hold. */
  readonly onHold: () => void;
  /** Called when a letter was left that somebody has to deliver. */
  readonly onLetter: () => void;
  /** What is to become of a flow child whose result has no form in which it can travel to its parent. */
  readonly unsendable: (error: EmqError) => Outcome;
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;

interface Held {
  readonly id: string;
  readonly token: number;
}

/** Never rejects. */
export async function settle(runner: Runner, job: Held, outcome: Outcome, options: SettleOptions): Promise<Answer> {
  const held = { id: job.id, token: job.token };
  let sentBefore = false;
  for (let tries = 0; ; tries++) {
    try {
      return await send(runner, held, outcome, sentBefore, options.onLetter);
    } catch (error) {
      if (error instanceof Unsendable) return settle(runner, job, options.unsendable(error.why), options);
      const failure = error as EmqError;
      if (failure.code === 'EMQSTALE' || failure.code === 'EMQSTATE') return { now: 'stale', error: failure };
      if (failure.code === 'EMQ_UNKNOWN_OUTCOME' && outcome.kind === 'complete') sentBefore = true;
      else if (failure.code === 'EMQ_UNKNOWN_OUTCOME') {
        const landed = await lookUp(runner, held, outcome, options, failure);
        if (landed !== undefined) return landed;
      } else if (!mayPass(failure)) {
        return { now: 'unsettled', error: failure };
      }
      if (tries === 0) options.onHold();
      if (!(await again(tries, options.giveUp))) return { now: 'unsettled', error: failure };
    }
  }
}

/** Not a refusal of the server's: a result that cannot be sent. */
class Unsendable extends Error {
  readonly why: EmqError;

  constructor(why: EmqError) {
    super(why.message);
    this.why = why;
  }
}

async function send(
  runner: Runner,
  held: Held,
  outcome: Outcome,
  sentBefore: boolean,
  onLetter: () => void,
): Promise<Answer> {
  switch (outcome.kind) {
    case 'complete': {
      // Not for the connector to repeat: only who knows that a reply was lost can tell a row that is gone by this very
      // completion from one that is gone by another's.
      const once: Runs = { run: (transition, input) => runner.runOnce(transition, input) };
      const { now, letter } = await complete(once, held, () => {
        try {
          return encodeResult(held.id, outcome.result);
        } catch (error) {
          throw new Unsendable(error as EmqError);
        }
      });
      if (letter) onLetter();
      if (now === 'completed' || sentBefore) return { now: 'completed' };
      return { now: 'stale', error: new EmqError('EMQSTALE', `EMQSTALE job gone (complete ${held.id})`) };
    }
    case 'fail': {
      const { delayMs, maxAttempts, error } = outcome;
      const { now, letter } = await fail(runner, { ...held, delayMs, maxAttempts, error: errorText(error) });
      if (letter) onLetter();
      return { now };
    }
    case 'delay':
      await runner.run(transitions.delay, { ...held, when: outcome.when });
      return { now: 'delayed' };
    case 'backOff':
      await runner.run(transitions.backOff, { ...held, ms: outcome.ms, scope: outcome.scope });
      return { now: 'backed off' };
    case 'release':
      await runner.run(transitions.release, held);
      return { now: 'released' };
  }
}

/** Whether an outcome whose reply was lost has landed: the row tells. Undefined: it has not, or it does no harm twice. */
async function lookUp(
  runner: Runner,
  held: Held,
  outcome: Outcome,
  options: SettleOptions,
  lost: EmqError,
): Promise<Answer | undefined> {
  options.onHold();
  for (let tries = 0; ; tries++) {
    try {
      const row = await runner.run(transitions.get, { id: held.id });
      const state = row?.get('state')?.toString();
      if (row?.get('attempts')?.toString() !== String(held.token)) return { now: 'stale', error: lost };
      if (state === 'dead') return { now: 'dead' };
      if (state === 'scheduled') return { now: outcome.kind === 'delay' ? 'delayed' : 'scheduled' };
      if (state === 'pending' && outcome.kind === 'release') return { now: 'released' };
      if (state === 'pending' && outcome.kind === 'backOff') return { now: 'backed off' };
      return undefined;
    } catch (error) {
      if (!mayPass(error as EmqError) || !(await again(tries, options.giveUp)))
        return { now: 'unsettled', error: lost };
    }
  }
}

/** Waits before the next try; false when there is to be none. */
async function again(tries: number, giveUp: AbortSignal): Promise<boolean> {
  if (giveUp.aborted) return false;
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries, 10));
  await pause(longest * (0.5 + Math.random() / 2), undefined, { signal: giveUp }).catch(() => {});
  return !giveUp.aborted;
}
