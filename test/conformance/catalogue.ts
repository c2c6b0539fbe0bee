/**
 * The 79 conformance scenarios of the public original, by number and name, and which part of this project covers each.
 *
 * Invariants: all 79 are here, in their order; one without a part is covered by the scenarios of this folder, and
 * scenarios.test.ts holds the two against each other.
 *
 * Not covered yet:
 *
 * | part    | scenarios |
 * |---------|-----------|
 * | pool    | 56, 57    |
 * | streams | 74-79     |
 */
export type Part = 'pool' | 'streams';

export interface Entry {
  readonly number: number;
  readonly name: string;
  /** The later part that will cover it; none: it is covered. */
  readonly later?: Part;
}

const NAMES = `
  fence mint duplicate kind order claim stale complete retry dead reap rotate pause limit schedule repeat backoff
  resubscribe counts state metrics dedup rate lane_depth queue_pause drain obliterate update_data update_progress
  job_logs remove_job reprocess_job lock_extend stalled events telemetry cancel unknown_state rate_consult dedup_release
  extend_locks_batch stalled_group obliterate_grouped reassign lane_drain reap_group flow_add flow_fanin
  flow_children_values flow_cross_queue flow_fail_parent flow_ignore_dep flow_add_bulk flow_grandchild
  flow_grandchild_fail pool_enqueue pool_order native_lock_field native_lock_refuses weighted_proportion
  starvation_drill batch_claim batch_claim_short batch_partial_failure batch_shaping_floor batch_shaping_timeout
  batch_shaping_partial_failure grouped_batch_affinity grouped_batch_ceiling grouped_batch_fairness batch_partition
  batch_delay batch_delay_stale stream_verbs stream_append stream_group stream_retention stream_archived
  stream_time_travel`
  .trim()
  .split(/\s+/);

const LATER: readonly (readonly [Part, readonly number[]])[] = [
  ['pool', [56, 57]],
  ['streams', span(74, 79)],
];

export const catalogue: readonly Entry[] = NAMES.map((name, i) => {
  const number = i + 1;
  const part = LATER.find(([, numbers]) => numbers.includes(number))?.[0];
  return part === undefined ? { number, name } : { number, name, later: part };
});

/** What is missing, a line for each part. */
export function missing(): string {
  const lines = LATER.map(([part, numbers]) => `  ${part}: ${numbers.map((n) => `${n} ${NAMES[n - 1]}`).join(', ')}`);
  const count = LATER.reduce((sum, [, numbers]) => sum + numbers.length, 0);
  return [`conformance: ${NAMES.length - count} of ${NAMES.length} scenarios covered, later:`, ...lines].join('\n');
}

function span(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}
