/**
 * `emq drain`, `emq trim`, `emq obliterate` and `emq reprocess`: what is done to many jobs.
 *
 * Invariants: what will be done, and to how many, is said first; it goes in steps of 100, and cut short by a Ctrl-C or a lost
 * connection it says what was done, and the same command goes on. Jobs that come or go meanwhile make the number a near one.
 */
import type { Command } from 'commander';

import { Lanes } from '../../queue/lanes.js';
import { inputError } from '../../wire/errors.js';
import { checkGroup } from '../../wire/keyspace.js';
import { CliError, EXIT, scrub, type ExitCode } from '../exit.js';
import { wholeNumber, type Run } from '../program.js';
import { confirm } from './confirm.js';
import { countUntil } from './heads.js';
import { runsOn, serverNow } from './history.js';
import { demandQueue, hintUnknown } from './known.js';
import { addOperation, consentOptions, type Consent, type Work } from './operation.js';
import { addReprocess } from './reprocess-command.js';
import { adminOf, type Session } from './session.js';
import { durationMs, jobs, span } from './words.js';

interface DrainOptions extends Consent {
  readonly scheduled?: true;
  readonly lanes: boolean;
  readonly lane?: string;
}

interface TrimOptions extends Consent {
  readonly older?: number;
  readonly keep?: number;
}

interface ObliterateOptions extends Consent {
  readonly force?: true;
}

export function addBulkCommands(program: Command, run: Run): void {
  addReprocess(program, run);
  addOperation<DrainOptions>(program, run, {
    usage: 'drain <queue>',
    about: 'take out all jobs that wait',
    examples: `
Payloads are lost. Jobs in flight, the dead, flow parents that wait for children, and repeats stay; so does a job that a
worker has locked. Jobs that are added meanwhile go too: pause whoever adds them first.

Examples:
  emq drain mail --dry-run --url valkey://127.0.0.1:6379
  emq drain mail --scheduled --yes
  emq drain mail --lane TEN0KHTOWnGLuC`,
    options: (command) =>
      consentOptions(
        command
          .option('--scheduled', 'also those that wait for a time')
          .option('--no-lanes', 'not those that wait in lanes')
          .option('--lane <group>', 'only those that wait in this lane'),
      ),
    check: (_words, { lane, lanes, scheduled }) => {
      if (lane === undefined) return;
      checkGroup(scrub(lane));
      if (scheduled || !lanes) throw inputError('--lane is of one lane only: leave out --scheduled and --no-lanes');
    },
    act: async (queue, work) => drain(queue, work),
  });
  addOperation<TrimOptions>(program, run, {
    usage: 'trim <queue>',
    about: 'take out dead jobs by age or number',
    examples: `
Payloads and errors are lost. With both, a job goes if either says so. Consumers do it by themselves, to 10 000 jobs and
30 days unless they were told otherwise (deadLetter).

Examples:
  emq trim mail --older 7d --url valkey://127.0.0.1:6379
  emq trim mail --keep 1000 --yes
  emq trim mail --keep 0          all of the dead`,
    options: (command) =>
      consentOptions(
        command
          .option('--older <duration>', 'those that died so long ago: 12h, 30d', durationMs)
          .option('--keep <n>', 'all but the latest n', wholeNumber('keep', 0, 2 ** 32)),
      ),
    check: (_words, { older, keep }) => {
      if (older === undefined && keep === undefined) throw inputError('say which: --older 30d, --keep 10000, or both');
    },
    act: async (queue, work) => trim(queue, work),
  });
  addOperation<ObliterateOptions>(program, run, {
    usage: 'obliterate <queue>',
    about: 'take a whole queue away: jobs, lanes, limits, repeats, counters',
    examples: `
The queue must be paused, always. With --force jobs in flight go too: their handlers run on, and their settles find nothing.
What its jobs have to say to flow parents in other queues is delivered first; with --force what cannot be is thrown away. A
queue that somebody adds to or consumes is there again. --dry-run also tells what stands in the way, and then ends with 1.

Examples:
  emq obliterate mail --dry-run --url valkey://127.0.0.1:6379
  emq pause mail && emq obliterate mail`,
    options: (command) =>
      consentOptions(command.option('--force', 'also jobs in flight, and letters that cannot be delivered')),
    act: async (queue, work) => obliterate(queue, work),
  });
}

async function drain(queue: string, { session, options, terminal }: Work<DrainOptions>): Promise<ExitCode> {
  const { scheduled = false, lanes, lane } = options;
  const admin = adminOf(session, queue);
  const single = new Lanes(session.runner, queue);
  let total: number;
  let what: string;
  if (lane !== undefined) {
    total = await single.depth(lane);
    what = `${jobs(total, 'waits', 'wait')} in lane ${lane} of queue ${queue}`;
  } else {
    const stats = await admin.stats();
    const parts = [
      `${stats.counts.pending} in no lane`,
      ...(lanes ? [`${stats.lanes.waiting} in lanes`] : []),
      ...(scheduled ? [`${stats.counts.scheduled} scheduled`] : []),
    ];
    total = stats.counts.pending + (lanes ? stats.lanes.waiting : 0) + (scheduled ? stats.counts.scheduled : 0);
    what = `${jobs(total, 'waits', 'wait')} in queue ${queue} (${parts.join(', ')})`;
  }
  const plan = { lane: lane ?? null, scheduled, lanes, jobs: total };
  if (total === 0) return nothing(queue, { session, terminal }, plan, `queue ${queue}: no such job waits`);
  if (!(await confirm(terminal, { text: `takes out ${what}; payloads are lost` }, options))) {
    return dry(queue, session, plan, terminal);
  }
  const { removed, kept } = lane === undefined ? await admin.drain({ scheduled, lanes }) : await single.drain(lane);
  return gone(queue, { session, terminal }, plan, removed, kept);
}

async function trim(queue: string, { session, options, terminal }: Work<TrimOptions>): Promise<ExitCode> {
  const { older, keep } = options;
  const admin = adminOf(session, queue);
  const { dead } = await admin.counts();
  const [old, surplus] = [
    older === undefined ? 0 : await diedBefore(session, queue, dead, older),
    keep === undefined ? 0 : Math.max(0, dead - keep),
  ];
  const total = Math.max(old, surplus);
  const plan = { olderThanMs: older ?? null, keep: keep ?? null, jobs: total, dead };
  if (total === 0)
    return nothing(queue, { session, terminal }, plan, `queue ${queue}: none of ${dead} dead jobs is to go`);
  const which = [
    ...(older === undefined ? [] : [`died ${span(older)} ago or longer`]),
    ...(keep === undefined ? [] : [`${total === 1 ? 'is' : 'are'} not among the latest ${keep}`]),
  ];
  const text = `takes out ${total} of ${dead} dead jobs of queue ${queue}, which ${which.join(' or ')}; payloads and errors are lost`;
  if (!(await confirm(terminal, { text }, options))) return dry(queue, session, plan, terminal);
  const bounds = { ...(older === undefined ? {} : { olderThanMs: older }), ...(keep === undefined ? {} : { keep }) };
  const { removed, kept } = await admin.trimDead(bounds);
  return gone(queue, { session, terminal }, plan, removed, kept);
}

async function diedBefore(session: Session, queue: string, dead: number, ageMs: number): Promise<number> {
  const runs = runsOn(session, queue);
  return countUntil(runs, { state: 'dead', total: dead, until: (await serverNow(runs)) - ageMs });
}

async function obliterate(queue: string, { session, options, terminal }: Work<ObliterateOptions>): Promise<ExitCode> {
  const force = options.force === true;
  const admin = adminOf(session, queue);
  const { counts, lanes, paused } = await admin.stats();
  const left = ['pending', 'active', 'scheduled', 'dead', 'awaiting_children'] as const;
  const total = left.reduce((sum, state) => sum + counts[state], lanes.waiting);
  if (!paused && total === 0) await demandQueue(session, queue);
  const obstacles = [
    ...(paused ? [] : [`queue ${queue} is not paused: emq pause ${queue} first, so that nobody claims meanwhile`]),
    ...(force || counts.active === 0 ? [] : [inFlight(queue, counts.active)]),
  ];
  const parts = left.map((state) => `${counts[state]} ${state.replace('_', ' ')}`);
  const text = `takes away queue ${queue} on ${session.where}: ${jobs(total)} (${parts.join(', ')}, ${lanes.waiting} in lanes), its lanes, limits, repeats and counters`;
  const plan = { force, jobs: total };
  if (obstacles.length > 0 && !options.dryRun) throw new CliError(EXIT.notInOrder, 'EMQSTATE', obstacles.join('; '));
  if (!(await confirm(terminal, { text, word: queue }, options))) {
    for (const obstacle of obstacles) terminal.print(`in the way: ${obstacle}`);
    terminal.emit({ where: session.where, queue, dryRun: true, plan, obstacles });
    return obstacles.length === 0 ? EXIT.ok : EXIT.notInOrder;
  }
  const { delivered } = await admin.obliterate({ force });
  terminal.emit({ where: session.where, queue, dryRun: false, plan, obliterated: true, delivered });
  const letters =
    delivered === 1
      ? '1 letter to a flow parent in another queue was'
      : `${delivered} letters to flow parents in other queues were`;
  const told = delivered === 0 ? '' : `; ${letters} delivered first`;
  terminal.print(`queue ${queue} is gone${told}`);
  return EXIT.ok;
}

function inFlight(queue: string, active: number): string {
  const [are, they] = active === 1 ? ['is', 'it is'] : ['are', 'they are'];
  return `${jobs(active)} of queue ${queue} ${are} in flight: wait until ${they} settled, or give --force`;
}

type Where = Pick<Work<object>, 'session' | 'terminal'>;

function dry(queue: string, { where }: Session, plan: object, terminal: Where['terminal']): ExitCode {
  terminal.emit({ where, queue, dryRun: true, plan });
  return EXIT.ok;
}

async function nothing(queue: string, { session, terminal }: Where, plan: object, text: string): Promise<ExitCode> {
  terminal.emit({ where: session.where, queue, dryRun: false, plan, removed: 0, kept: 0 });
  terminal.print(text);
  await hintUnknown(queue, { session, terminal });
  return EXIT.ok;
}

function gone(queue: string, { session, terminal }: Where, plan: object, removed: number, kept: number): ExitCode {
  terminal.emit({ where: session.where, queue, dryRun: false, plan, removed, kept });
  const locked =
    kept === 0
      ? ''
      : `; ${kept === 1 ? '1 stays' : `${kept} stay`}, since a worker has locked ${kept === 1 ? 'it' : 'them'}`;
  terminal.print(`queue ${queue}: ${jobs(removed)} taken out${locked}`);
  return EXIT.ok;
}
