/**
 * Fires what is due: one pass over the repeats of a queue.
 *
 * Invariants: the server's clock says what is due, and each slot is fired by one step that names it, so it fires once,
 * whoever else makes a pass or dies in one; a pass makes so many jobs at most and says when more are due; a record that
 * cannot be read is reported and keeps no other from firing.
 * Does not: come by itself (a consumer's metronome makes it come).
 */
import { mint } from '../ids/mint.js';
import { EmqError } from '../wire/errors.js';
import type { RepeatRecord } from '../wire/repeat-transitions.js';
import { transitions } from '../wire/transitions.js';
import type { Runs } from './child.js';
import { readOpts } from './opts.js';
import { latestSlot, readSpec, slotAfter } from './repeat-spec.js';

/** What a pass did. */
export interface FiredRepeats {
  /** Jobs that it made. */
  readonly fired: number;
  /** It ended at its limit: more are due. */
  readonly more: boolean;
  /** One for each repeat that could not be fired. */
  readonly errors: readonly EmqError[];
}

/** What a job of a repeat has as `opts.repeat`. */
export interface RepeatRun {
  /** The name of the repeat. */
  readonly name: string;
  /** The slot that it is for, Unix ms. */
  readonly slot: number;
  /** How many jobs the repeat has made, this one included. */
  readonly count: number;
  /** The first of the slots that were missed, where it stands for several. */
  readonly missedFrom?: number;
}

interface Step {
  readonly name: string;
  readonly slot: number;
  readonly next: number | null;
  readonly opts: string;
}

/** So many jobs come of one pass at most. */
export const MOST_A_PASS = 100;
const MINT_TRIES = 8;

/** @throws EmqError when the server cannot be asked; what is wrong with one repeat is in `errors`. */
export async function fireDue(runs: Runs, limit = MOST_A_PASS): Promise<FiredRepeats> {
  const errors: EmqError[] = [];
  let [fired, offset, left] = [0, 0, limit];
  let more = false;
  while (left > 0) {
    const page = Math.min(left, MOST_A_PASS);
    const { now, records } = await runs.run(transitions.repeats, { which: 'due', offset, limit: page });
    // one that catches up must not keep the others waiting
    const share = Math.max(1, Math.floor(page / Math.max(1, records.length)));
    const steps: Step[] = [];
    for (const record of records) {
      try {
        const own = stepsOf(record, now, share);
        more ||= (own.at(-1)?.next ?? Infinity) <= now;
        steps.push(...own);
      } catch (error) {
        // it stays where it is, before others that can be fired
        offset++;
        errors.push((error as EmqError).during(`repeat ${record.name}`));
      }
    }
    // in one turn, so that they leave together and in this order
    const words = await Promise.allSettled(steps.map((step) => fire(runs, step)));
    for (const [i, word] of words.entries()) {
      if (word.status === 'fulfilled') fired += word.value === 'fired' ? 1 : 0;
      else errors.push((word.reason as EmqError).during(`repeat ${steps[i]?.name}`));
    }
    left -= steps.length;
    if (records.length < page) return { fired, more, errors };
  }
  return { fired, more: true, errors };
}

/** When the first repeat is due behind so many that are due and cannot be fired, in ms from now; infinite: none is. */
export async function dueBehind(runs: Runs, broken: number): Promise<number> {
  const { now, records } = await runs.run(transitions.repeats, { which: 'all', offset: broken, limit: 1 });
  return (records[0]?.score ?? Infinity) - now;
}

/** The slots of one record that are to be fired, at most so many. @throws EmqError `EMQ_INPUT`. */
function stepsOf({ name, score, fields }: RepeatRecord, now: number, most: number): Step[] {
  const text = (field: string): string | undefined => fields.get(field)?.toString();
  // a member without a record: the step takes it away
  if (fields.size === 0) return [{ name, slot: score, next: null, opts: '' }];
  const spec = readSpec(text('spec') ?? '');
  const own = readOpts(fields.get('opts') ?? null).all;
  const count = Number(text('count') ?? 0);
  const steps: Step[] = [];
  let slot: number | null = score;
  while (slot !== null && slot <= now && steps.length < most) {
    const latest: number = spec.missed === 'skip' ? latestSlot(spec, slot, now) : slot;
    const run: RepeatRun = {
      ...{ name, slot: latest, count: count + steps.length + 1 },
      ...(latest === slot ? {} : { missedFrom: slot }),
    };
    const after = slotAfter(spec, latest);
    const over = run.count >= (spec.limit ?? Infinity) || (after ?? Infinity) > (spec.endAt ?? Infinity);
    const next = over ? null : after;
    steps.push({ name, slot, next, opts: JSON.stringify({ ...own, repeat: run }) });
    slot = next;
  }
  return steps;
}

async function fire(runs: Runs, step: Step): Promise<'fired' | 'gone' | 'moved' | 'early'> {
  for (let tries = 1; ; tries++) {
    const word = await runs.run(transitions.repeatFire, { ...step, id: mint() });
    if (word !== 'duplicate') return word;
    if (tries === MINT_TRIES) {
      const text = `${MINT_TRIES} ids minted here were all taken: another producer mints with the same node id; give each its own`;
      throw new EmqError('EMQ_INPUT', text);
    }
  }
}
