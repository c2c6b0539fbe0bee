/**
 * What was completed and what died, minute by minute, as far as it has been counted.
 *
 * Invariants: reads only: unlike `Admin.metrics` it closes no minute, consumers do. A minute that nobody has closed yet is
 * null. Does not: draw.
 */
import { QueueRunner } from '../../queue/runner.js';
import type { Runs } from '../../queue/child.js';
import { transitions } from '../../wire/transitions.js';
import type { Session } from './session.js';

export interface History {
  /** When the first of these minutes began, Unix ms. */
  readonly from: number;
  /** One number a minute, oldest first; the last is the minute before the one that is running. */
  readonly completed: readonly (number | null)[];
  readonly failed: readonly (number | null)[];
}

const MINUTE_MS = 60_000;

/** Runs transitions on a queue of the session. */
export function runsOn({ runner }: Session, queue: string): Runs {
  return new QueueRunner(runner).on(queue);
}

/** The server's clock, Unix ms. */
export async function serverNow(runs: Runs): Promise<number> {
  return (await runs.run(transitions.repeats, { which: 'due', offset: 0, limit: 1 })).now;
}

export async function readHistory(runs: Runs, minutes: number): Promise<History> {
  const read = async (outcome: 'completed' | 'failed') =>
    runs.run(transitions.history, { outcome, first: 0, count: minutes });
  const [now, completed, failed] = await Promise.all([serverNow(runs), read('completed'), read('failed')]);
  const running = Math.floor(now / MINUTE_MS);
  // the newest number is of the minute before the open one; those behind it nobody has closed
  const line = ({ minute, counts }: { minute: number | null; counts: number[] }): (number | null)[] =>
    Array.from({ length: minutes }, (_, i) => {
      const back = (minute ?? running) - (running - minutes + i) - 1;
      return back < 0 || minute === null ? null : (counts[back] ?? 0);
    });
  return { from: (running - minutes) * MINUTE_MS, completed: line(completed), failed: line(failed) };
}
