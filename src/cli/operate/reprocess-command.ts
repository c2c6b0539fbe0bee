/**
 * `emq reprocess`: dead jobs wait again, some that are named, or all that fit a filter.
 *
 * Invariants: `--all` says first how many fit, and asks; jobs that die meanwhile are not looked at. Nothing is lost but the
 * last error and the stall count of what is brought back.
 */
import type { Command } from 'commander';

import type { DeadFilter } from '../../queue/reprocess.js';
import { judgeOf } from '../../queue/reprocess.js';
import { inputError } from '../../wire/errors.js';
import { checkGroup, checkId } from '../../wire/keyspace.js';
import { EXIT, scrub, type ExitCode } from '../exit.js';
import { wholeNumber, type Run } from '../program.js';
import { confirm } from './confirm.js';
import { runsOn, serverNow } from './history.js';
import { outcomesOf } from './job-commands.js';
import { hintUnknown } from './known.js';
import { addOperation, consentOptions, type Consent, type Work } from './operation.js';
import { adminOf, type Session } from './session.js';
import { durationMs, jobs } from './words.js';

interface ReprocessOptions extends Consent {
  readonly all?: true;
  readonly error?: string;
  readonly name?: string;
  readonly lane?: string;
  readonly older?: number;
  readonly newer?: number;
  readonly max?: number;
}

const PAGE = 100;

export function addReprocess(program: Command, run: Run): void {
  addOperation<ReprocessOptions>(program, run, {
    usage: 'reprocess <queue> [id...]',
    about: 'let dead jobs wait again: those that are named, or all that fit',
    examples: `
They are tried as often as new ones. Their last error and stall count are forgotten; those that died first come first.

Examples:
  emq reprocess mail JOB0KHTOWnGLuC --url valkey://127.0.0.1:6379
  emq reprocess mail --all --error ECONNREFUSED --newer 2h --dry-run
  emq reprocess mail --all --max 100 --yes`,
    options: (command) =>
      consentOptions(
        command
          .option('--all', 'all of the dead that fit')
          .option('--error <text>', 'with --all: whose last error has this text in it; upper and lower case differ')
          .option('--name <name>', 'with --all: of this name')
          .option('--lane <group>', 'with --all: of this lane')
          .option('--older <duration>', 'with --all: that died at least so long ago', durationMs)
          .option('--newer <duration>', 'with --all: that died at most so long ago', durationMs)
          .option('--max <n>', 'with --all: no more than so many', wholeNumber('max', 1, 2 ** 32)),
      ),
    check: (ids, { all, error, name, lane, older, newer, max }) => {
      for (const id of ids) checkId(id);
      if (all && ids.length > 0) throw inputError('name jobs or give --all, not both');
      if (!all && ids.length === 0) {
        throw inputError(
          'name the jobs, or give --all for all of the dead (--error, --name, --older choose among them)',
        );
      }
      if (!all && [error, name, lane, older, newer, max].some((value) => value !== undefined)) {
        throw inputError('--error, --name, --lane, --older, --newer and --max go with --all');
      }
      if (lane !== undefined) checkGroup(scrub(lane));
    },
    act: async (queue, work) => (work.options.all ? all(queue, work) : named(queue, work)),
  });
}

async function named(queue: string, { session, words, options, terminal }: Work<ReprocessOptions>): Promise<ExitCode> {
  const admin = adminOf(session, queue);
  if (options.dryRun) {
    const found = await Promise.all(words.map(async (id) => ({ id, state: (await admin.job(id))?.state ?? 'gone' })));
    terminal.emit({ where: session.where, queue, dryRun: true, jobs: found });
    for (const { id, state } of found) terminal.print(`${id}  ${state}`);
    return found.every(({ state }) => state === 'dead') ? EXIT.ok : EXIT.notInOrder;
  }
  const outcomes = await outcomesOf(words, async (id) => admin.reprocess(id));
  terminal.emit({ where: session.where, queue, jobs: outcomes });
  for (const { id, outcome, reason } of outcomes) terminal.print(`${id}  ${reason ?? outcome}`);
  return outcomes.every(({ outcome }) => outcome !== 'gone' && outcome !== 'refused') ? EXIT.ok : EXIT.notInOrder;
}

async function all(queue: string, { session, options, terminal }: Work<ReprocessOptions>): Promise<ExitCode> {
  const { error, name, lane, older, newer, max = Infinity } = options;
  const filter: DeadFilter = {
    ...(error === undefined ? {} : { error }),
    ...(name === undefined ? {} : { name }),
    ...(lane === undefined ? {} : { group: lane }),
    ...(older === undefined ? {} : { olderThanMs: older }),
    ...(newer === undefined ? {} : { newerThanMs: newer }),
  };
  const admin = adminOf(session, queue);
  const { dead } = await admin.counts();
  const fit = Object.keys(filter).length === 0 ? dead : await fitting(session, queue, filter);
  const total = Math.min(fit, max);
  const plan = { jobs: total, fit, dead };
  if (total === 0) {
    terminal.emit({ where: session.where, queue, dryRun: false, plan, reprocessed: 0, held: 0 });
    terminal.print(`queue ${queue}: none of ${dead} dead jobs fits`);
    await hintUnknown(queue, { session, terminal });
    return EXIT.ok;
  }
  const text = `lets ${total} of ${dead} dead jobs of queue ${queue} run again${total < fit ? ` (${fit} fit)` : ''}`;
  if (!(await confirm(terminal, { text }, options))) {
    terminal.emit({ where: session.where, queue, dryRun: true, plan });
    return EXIT.ok;
  }
  const limit = max === Infinity ? {} : { limit: max };
  const { reprocessed, held } = await admin.reprocessAll({ filter, ...limit });
  terminal.emit({ where: session.where, queue, dryRun: false, plan, reprocessed, held });
  terminal.print(`queue ${queue}: ${jobs(reprocessed)} will be tried again`);
  if (held > 0) {
    terminal.print(
      `${jobs(held)} stay${held === 1 ? 's' : ''} dead: another job has the dedup id; emq dedup ${queue} ID --free lets it go`,
    );
  }
  return EXIT.ok;
}

/** How many of the dead a filter lets pass, page by page. */
async function fitting(session: Session, queue: string, filter: DeadFilter): Promise<number> {
  const fits = judgeOf(filter);
  const admin = adminOf(session, queue);
  const now = await serverNow(runsOn(session, queue));
  let found = 0;
  const { dead } = await admin.counts();
  for (let offset = 0; offset < dead; offset += PAGE) {
    const page = await admin.jobs({ state: 'dead', order: 'asc', offset, limit: PAGE });
    found += page.filter((row) => fits(row, row.score, now)).length;
  }
  return found;
}
