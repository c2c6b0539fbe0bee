/**
 * The settings that hold for a lane, and those of `*`, which hold for every lane without its own: read, and in words.
 *
 * Invariants: reads only. Does not: tell a lane's own from those of `*`: the server answers what holds.
 */
import type { Runs } from '../../queue/child.js';
import type { Rate } from '../../queue/rate.js';
import { transitions } from '../../wire/transitions.js';
import { rateText } from './words.js';

export interface LaneSettings {
  /** The most jobs in flight; null: no ceiling. */
  readonly limit: number | null;
  readonly weight: number;
  readonly rate: Rate | null;
}

/** `*` is no lane, and has settings all the same. */
export async function readSettings(runs: Runs, lane: string): Promise<LaneSettings & { readonly nextTokenMs: number }> {
  const [info] = await runs.run(transitions.laneInfo, { groups: [lane] });
  const { limit = 0, weight = 1, max = 0, durationMs = 0, nextTokenMs = 0 } = info ?? {};
  return { limit: limit > 0 ? limit : null, weight, rate: max > 0 ? { max, durationMs } : null, nextTokenMs };
}

export function areSet({ limit, weight, rate }: LaneSettings): boolean {
  return limit !== null || weight !== 1 || rate !== null;
}

export function settingsText({ limit, weight, rate }: LaneSettings): string {
  return `limit ${limit ?? 'none'}, weight ${weight}, rate ${rateText(rate)}`;
}

export function nameOfLane(queue: string, lane: string): string {
  return lane === '*' ? `lanes of queue ${queue} without their own` : `lane ${lane} of queue ${queue}`;
}
