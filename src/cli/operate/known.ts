/**
 * A queue of which nothing is known is most often a name with a slip of the finger: a command that sets something says so
 * instead of doing it to nobody.
 *
 * Does not: keep anybody from setting up a queue before its first job: `--yes` does it all the same.
 */
import { CliError, EXIT } from '../exit.js';
import { adminOf, type Session } from './session.js';

/** @throws CliError with exit code 1 unless the queue has or had jobs, lanes, repeats, limits, or a consumer. */
export async function demandKnown(session: Session, queue: string, yes: boolean | undefined): Promise<void> {
  if (yes || (await isKnown(session, queue))) return;
  const text = `nothing is known of queue ${queue} on ${session.where}: is its name right (emq queues lists them)? --yes does it all the same`;
  throw new CliError(EXIT.notInOrder, 'EMQSTATE', text);
}

async function isKnown(session: Session, queue: string): Promise<boolean> {
  const admin = adminOf(session, queue);
  const { counts, lanes, limits, paused, recovery } = await admin.stats();
  if (Object.values(counts).some((n) => n > 0) || lanes.count > 0 || paused || recovery !== null) return true;
  if (limits.concurrency !== null || limits.rate !== null) return true;
  for await (const _repeat of admin.repeats.list()) return true;
  return false;
}
