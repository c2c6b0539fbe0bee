/**
 * A queue or lane of which nothing is known is most often a name with a slip of the finger: a command that sets something
 * says so instead of doing it to nobody, one that looks gives a hint with its zeros.
 *
 * Invariants: reads only, in a few calls: it stops at the first that is there. What cannot be read is there.
 * Does not: keep anybody from setting up a queue before its first job: `--yes` does it all the same.
 */
import type { Runs } from '../../queue/child.js';
import { groupsIn, WITH_JOBS, WITH_SETTINGS } from '../../queue/lane-walk.js';
import { EmqError } from '../../wire/errors.js';
import { COUNT_NAMES, transitions } from '../../wire/transitions.js';
import { CliError, EXIT } from '../exit.js';
import { runsOn } from './history.js';
import { areSet, readSettings } from './lane-settings.js';
import type { Work } from './operation.js';
import type { Session } from './session.js';

const RIGHT = 'is its name right (emq queues lists them)?';
const YES = '--yes does it all the same';

/** @throws CliError with exit code 1 unless the queue has or had jobs, lanes, repeats, limits, or a consumer. */
export async function demandKnown(session: Session, queue: string, yes: boolean | undefined): Promise<void> {
  if (!yes) await demandQueue(session, queue, ` ${YES}`);
}

/** The same where nothing could be done to such a queue. */
export async function demandQueue(session: Session, queue: string, more = ''): Promise<void> {
  if (await isKnown(runsOn(session, queue))) return;
  const text = `nothing is known of queue ${queue} on ${session.where}: ${RIGHT}${more}`;
  throw new CliError(EXIT.notInOrder, 'EMQSTATE', text);
}

/** @throws CliError with exit code 1 unless the lane has jobs or settings, or is paused. */
export async function demandLane(
  session: Session,
  queue: string,
  lane: string,
  yes: boolean | undefined,
): Promise<void> {
  if (yes || (await isKnownLane(runsOn(session, queue), lane))) return;
  const none = 'no job waits or runs in it, it has no settings and is not paused';
  const text = `nothing is known of lane ${lane} of queue ${queue}: ${none}. Is it the right one (emq lanes ${queue} lists them)? ${YES}`;
  throw new CliError(EXIT.notInOrder, 'EMQSTATE', text);
}

/** A line on standard error beside the zeros of a queue of which nothing is known. */
export async function hintUnknown(
  queue: string,
  { session, terminal }: Pick<Work<object>, 'session' | 'terminal'>,
): Promise<void> {
  try {
    if (await isKnown(runsOn(session, queue))) return;
  } catch (error) {
    // a hint that cannot be given takes nothing from what was done
    if (error instanceof EmqError && error.code === 'NOPERM') return;
    throw error;
  }
  terminal.note(`nothing is known of queue ${queue}: is the name right? emq queues lists them`);
}

async function isKnown(runs: Runs): Promise<boolean> {
  try {
    const [counts, limits, agenda, { records }, others] = await Promise.all([
      runs.run(transitions.counts, { names: COUNT_NAMES }),
      runs.run(transitions.limits, undefined),
      runs.run(transitions.agenda, undefined),
      runs.run(transitions.repeats, { which: 'all', offset: 0, limit: 1 }),
      readSettings(runs, '*'),
    ]);
    if (counts.some((n) => n > 0) || records.length > 0 || areSet(others)) return true;
    if (limits.paused || limits.concurrency > 0 || limits.max > 0) return true;
    if (agenda.recovery !== null || agenda.letters !== 0) return true;
    for await (const _groups of groupsIn(runs, [...WITH_JOBS, ...WITH_SETTINGS])) return true;
    return false;
  } catch (error) {
    if (error instanceof EmqError && (error.code === 'WRONGTYPE' || error.code === 'ERR')) return true;
    throw error;
  }
}

async function isKnownLane(runs: Runs, lane: string): Promise<boolean> {
  const [own, others] = await runs.run(transitions.laneInfo, { groups: [lane, '*'] });
  if (own === undefined || others === undefined) return true;
  if (own.waiting > 0 || own.active > 0 || own.paused || own.waitsUntil > 0) return true;
  const settings = ['limit', 'weight', 'max', 'durationMs'] as const;
  if (settings.some((name) => own[name] !== others[name])) return true;
  // of its own, and as `*` has them
  for await (const groups of groupsIn(runs, WITH_SETTINGS)) if (groups.includes(lane)) return true;
  return false;
}
