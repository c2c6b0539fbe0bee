/**
 * Checking a queue, and repairing it: `Admin.check`, `Admin.repair` and `emq doctor`.
 *
 * Invariants: a check writes nothing. A repair makes one atomic step for each finding, which looks again before it writes, so
 * it may be run while consumers work, be cut short and run again; it loses no job, and deletes no key that it does not know.
 * Does not: mend what only a person can decide on; it says so.
 */
import { transitions } from '../../wire/transitions.js';
import { deedOf, findingOf, type AuditFinding } from './finding.js';
import { roundOf } from './round.js';
import type { AuditSource, Found, Looked } from './walk.js';

export interface Audit {
  /** What is wrong, the first `most` of it. */
  readonly findings: readonly AuditFinding[];
  /** How much is wrong in all. */
  readonly found: number;
  /** How much was looked at. */
  readonly looked: Readonly<Looked>;
  /** What was not looked at, and why, a line each. */
  readonly skipped: readonly string[];
}

export interface Repair extends Audit {
  /** What was done, a line each, the first `most` of them. With `dryRun` what would be done. */
  readonly done: readonly string[];
  /** How much was done in all. */
  readonly mended: number;
}

export interface CheckOptions {
  /** Ends it; then it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** How many findings are kept, from 1 on. Default 10,000; the others are counted. */
  readonly most?: number | undefined;
  /** Called with each finding as it is made, also with those that are not kept. */
  readonly onFinding?: ((finding: AuditFinding) => void) | undefined;
}

export interface RepairOptions extends CheckOptions {
  /** True to say what would be done, and do nothing. */
  readonly dryRun?: boolean | undefined;
  /** Called with each line as it is done, also with those that are not kept. */
  readonly onDone?: ((line: string, queue: string) => void) | undefined;
}

export const MOST_FINDINGS = 10_000;
/** What one mend leaves may be for another: a lane whose count was wrong, a parent that is free now. */
const MOST_PASSES = 10;

/** @param queue one, or undefined for all of the node. @throws EmqError when the connection is lost or a right is wanting. */
export async function checkQueues(
  source: AuditSource,
  queue: string | undefined,
  options: CheckOptions = {},
): Promise<Audit> {
  const { signal, most = MOST_FINDINGS, onFinding } = options;
  const round = roundOf(source, queue, signal);
  const findings: AuditFinding[] = [];
  let found = 0;
  for await (const one of round.findings) {
    const finding = findingOf(one.queue, one.wrong);
    found += 1;
    onFinding?.(finding);
    if (findings.length < most) findings.push(finding);
  }
  return { findings, found, looked: round.looked, skipped: round.skipped() };
}

/** @throws EmqError as `checkQueues`; what was done stays done. */
export async function repairQueues(
  source: AuditSource,
  queue: string | undefined,
  options: RepairOptions = {},
): Promise<Repair> {
  const { signal, most = MOST_FINDINGS, dryRun = false, onFinding, onDone } = options;
  const done: string[] = [];
  let mended = 0;
  const deed = (name: string, line: string): void => {
    mended += 1;
    onDone?.(line, name);
    if (done.length < most) done.push(line);
  };
  for (let pass = 1; ; pass++) {
    const round = roundOf(source, queue, signal);
    const left: AuditFinding[] = [];
    const before = mended;
    let found = 0;
    for await (const one of round.findings) {
      if (one.wrong.mends && !dryRun) {
        signal?.throwIfAborted();
        for (const line of await mend(source, one)) deed(one.queue, line);
        continue;
      }
      if (one.wrong.mends) deed(one.queue, deedOf(one.queue, one.wrong));
      found += 1;
      if (left.length < most) left.push(findingOf(one.queue, one.wrong));
    }
    if (mended > before && !dryRun && pass < MOST_PASSES) continue;
    for (const finding of left) onFinding?.(finding);
    return { findings: left, found, looked: round.looked, skipped: round.skipped(), done, mended };
  }
}

/** One step, and what it did. */
async function mend(source: AuditSource, { queue, wrong, mend: input, letter }: Found): Promise<string[]> {
  const runs = source.runs(queue);
  if (letter !== undefined) {
    const { edition } = await runs.run(transitions.flowLetters, { offset: 0, limit: 1 });
    const gone = await runs.run(transitions.flowAck, { edition, letters: [{ verdict: 'poison', letter }] });
    return gone > 0 ? [deedOf(queue, wrong)] : [];
  }
  if (input === undefined) return [];
  const all = await runs.run(transitions.mend, input);
  return all.filter(({ mends }) => mends).map((one) => deedOf(queue, one));
}
