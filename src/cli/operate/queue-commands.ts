/**
 * `emq queues` and `emq stats`: which queues there are, and how one of them is.
 *
 * Invariants: read-only. Does not: know who consumes: the server does not.
 */
import type { Command } from 'commander';

import type { QueueStats } from '../../queue/admin-reads.js';
import { listQueues } from '../../queue/registry.js';
import { EmqError } from '../../wire/errors.js';
import { BRANDS } from '../../wire/fence.js';
import { REGISTRY_KEY } from '../../wire/keyspace.js';
import { EXIT, type ExitCode } from '../exit.js';
import type { Run } from '../program.js';
import { readTarget, type TargetOptions } from '../target.js';
import { quoted, type Terminal } from '../terminal.js';
import { readHeads, type Heads } from './heads.js';
import { readHistory, runsOn, serverNow, type History } from './history.js';
import { hintUnknown } from './known.js';
import { areSet, readSettings, settingsText, type LaneSettings } from './lane-settings.js';
import { addOperation, type Work } from './operation.js';
import { adminOf, openSession, type Session } from './session.js';
import { jobs, rateText, span, sparkline, table } from './words.js';

interface QueuesOptions extends TargetOptions {
  readonly wire?: string;
  readonly scan: boolean;
}

interface Line extends Heads {
  readonly queue: string;
  /** Flat and in lanes. */
  readonly waiting: number;
  readonly active: number;
  readonly scheduled: number;
  readonly awaitingChildren: number;
  readonly dead: number;
  readonly paused: boolean;
}

interface RepeatCounts {
  readonly count: number;
  readonly paused: number;
  /** Of those that are not paused, 0 or less: it is due; null: none is to fire. */
  readonly nextInMs: number | null;
}

interface Stats extends QueueStats {
  readonly repeats: RepeatCounts;
  /** What is set for lanes without settings of their own. */
  readonly otherLanes: LaneSettings;
  readonly history: History;
}

const MINUTES = 60;
const BARE = `no key of it is here, only its name is left (ZREM ${REGISTRY_KEY} takes it away)`;

export function addQueueCommands(program: Command, run: Run): void {
  addOperation<QueuesOptions>(program, run, {
    usage: 'queues',
    about: 'list the queues of a node or cluster, and what is in them',
    examples: `
Queues are found by the list in which consumers name theirs, and by a look at all keys, in steps. What is stuck is told by
  oldest   how long ago the oldest job was made of those that are served next, flat or in a lane (of the first 100)
  lapsed   claimed jobs whose worker did not renew its lease, and that nobody has recovered
  due      scheduled jobs whose time has come, and that nobody has promoted
Lapsed and due are 0 again within a second or two where a consumer runs. Who consumes a queue is not known to the server.

Examples:
  emq queues --url valkey://127.0.0.1:6379
  emq queues --no-scan --json | jq -r '.queues[] | select(.waiting > 1000).queue'`,
    options: (command) => command.option('--no-scan', 'only those that consumers have named: no look at the keys'),
    act: async (_queue, work) => queues(work),
  });
  addOperation<object>(program, run, {
    usage: 'stats <queue>',
    about: 'show the state of a queue in numbers, and its last hour',
    examples: `
The history is counted by consumers, once a minute; the running minute is not in it.

Examples:
  emq stats mail --url valkey://127.0.0.1:6379
  emq stats mail --json | jq .stats.counts`,
    act: async (queue, { session, terminal }) => {
      const runs = runsOn(session, queue);
      const [stats, history, repeats, { nextTokenMs: _no, ...others }] = await Promise.all([
        adminOf(session, queue).stats(),
        readHistory(runs, MINUTES),
        readRepeats(session, queue),
        readSettings(runs, '*'),
      ]);
      const all = { ...stats, repeats, otherLanes: others, history };
      terminal.emit({ where: session.where, queue, stats: all });
      terminal.print(drawStats(queue, session.where, all, terminal));
      await hintUnknown(queue, { session, terminal });
      return EXIT.ok;
    },
  });
}

async function queues({ session, options, terminal }: Work<QueuesOptions>): Promise<ExitCode> {
  const names = await listQueues(session.connector, { scan: options.scan });
  const lines: (Line | { queue: string; error: string })[] = [];
  const others: Session[] = [];
  try {
    for (const queue of names) {
      try {
        lines.push(await lineBy(session, queue, options, others, terminal));
      } catch (error) {
        // of one queue: the others may be in good order
        if (!(error instanceof EmqError) || error.code.startsWith('EMQ_')) throw error;
        lines.push({ queue, error: isBare(error) ? BARE : error.reason });
      }
    }
  } finally {
    for (const other of others) await other.connector.close();
  }
  terminal.emit({ where: session.where, queues: lines });
  if (lines.length === 0) terminal.print(`no queue on ${session.where}`);
  else terminal.print(drawQueues(lines).join('\n'));
  return lines.some((line) => 'error' in line && line.error !== BARE) ? EXIT.notInOrder : EXIT.ok;
}

/** In a cluster, where whatever touches a queue brands it: a name of which nothing is left, and nothing out of order. */
function isBare({ code, reason }: EmqError): boolean {
  return code === 'EMQWIRE' && reason.includes(' is unbranded, ');
}

/** In a cluster each queue has a brand: those of the other wire are asked by a connection of their own. */
async function lineBy(
  session: Session,
  queue: string,
  options: QueuesOptions,
  others: Session[],
  { signal }: Terminal,
): Promise<Line> {
  let refusal: EmqError | undefined;
  for (const one of [session, ...others]) {
    try {
      return await lineOf(one, queue);
    } catch (error) {
      if (!(error instanceof EmqError) || error.code !== 'EMQWIRE') throw error;
      refusal ??= error;
    }
  }
  const other = session.connector.wire === 4 ? 6 : 4;
  if (options.wire !== undefined || others.length > 0 || !refusal?.reason.includes(`is ${BRANDS[other]}`)) {
    throw refusal ?? new EmqError('EMQWIRE', `EMQWIRE queue ${queue} was not read`);
  }
  const opened = await openSession({ ...readTarget(options), wire: other, queue: undefined, signal });
  others.push(opened);
  return lineOf(opened, queue);
}

async function lineOf(session: Session, queue: string): Promise<Line> {
  const { counts, lanes, paused } = await adminOf(session, queue).stats();
  const heads = await readHeads(runsOn(session, queue), counts);
  return {
    ...{ queue, waiting: counts.pending + lanes.waiting, active: counts.active, scheduled: counts.scheduled },
    ...{ awaitingChildren: counts.awaiting_children, dead: counts.dead, paused, ...heads },
  };
}

async function readRepeats(session: Session, queue: string): Promise<RepeatCounts> {
  const [runs, slots] = [runsOn(session, queue), [] as number[]];
  let [count, paused] = [0, 0];
  for await (const repeat of adminOf(session, queue).repeats.list()) {
    count += 1;
    if (repeat.paused) paused += 1;
    else if (repeat.next !== null) slots.push(repeat.next);
  }
  const nextInMs = slots.length === 0 ? null : Math.min(...slots) - (await serverNow(runs));
  return { count, paused, nextInMs };
}

function drawQueues(lines: readonly (Line | { queue: string; error: string })[]): string[] {
  const heads = ['queue', 'waiting', 'oldest', 'active', 'lapsed', 'scheduled', 'due', 'with children', 'dead', ''];
  const good = lines.filter((line): line is Line => !('error' in line));
  const bad = lines.filter((line): line is { queue: string; error: string } => 'error' in line);
  const rows = good.map(
    ({ queue, waiting, oldestMs, active, lapsed, scheduled, due, awaitingChildren, dead, paused }) => {
      const oldest = oldestMs === null ? '' : span(oldestMs);
      return [queue, waiting, oldest, active, lapsed, scheduled, due, awaitingChildren, dead, paused ? 'paused' : ''];
    },
  );
  return [...table(heads, rows), ...bad.map(({ queue, error }) => `${queue}: not read: ${quoted(error)}`)];
}

function repeatsText({ count, paused, nextInMs }: RepeatCounts): string {
  const next =
    nextInMs === null ? '' : nextInMs > 0 ? `, the next in ${span(nextInMs)}` : `, overdue ${span(-nextInMs)}`;
  return `${count}${next}${paused === 0 ? '' : `, ${paused} of them paused`}`;
}

function drawStats(
  queue: string,
  where: string,
  { counts, paused, limits, lanes, nextJobAgeMs, dueInMs, letters, recovery, repeats, otherLanes, history }: Stats,
  { style }: Terminal,
): string {
  const row = (label: string, text: string | number): string => `  ${label.padEnd(18)}${text}`;
  const token = limits.nextTokenMs > 0 ? `, the next job in ${span(limits.nextTokenMs)}` : '';
  const oldest = nextJobAgeMs === null ? '' : `, the next one is ${span(nextJobAgeMs)} old`;
  const sum = (numbers: readonly (number | null)[]): number => numbers.reduce<number>((a, n) => a + (n ?? 0), 0);
  const known = history.completed.some((n) => n !== null);
  return [
    `${style('bold', `queue ${queue}`)} on ${where}${paused ? `  ${style('yellow', 'paused')}` : ''}`,
    row('waiting', `${counts.pending}${oldest}`),
    row('in lanes', `${lanes.waiting} in ${lanes.count} lane${lanes.count === 1 ? '' : 's'}`),
    ...(areSet(otherLanes) ? [row('lanes without own', settingsText(otherLanes))] : []),
    row('active', counts.active),
    row('concurrency', limits.concurrency ?? 'none'),
    row('rate', `${rateText(limits.rate)}${token}`),
    row('scheduled', counts.scheduled),
    row('awaiting children', counts.awaiting_children),
    row('dead', counts.dead),
    row('repeats', repeatsText(repeats)),
    row('next due', dueInMs === null ? 'nothing' : dueInMs <= 0 ? 'now' : `in ${span(dueInMs)}`),
    row('flow letters', letters ?? 'cannot be read: emq doctor --queue says more'),
    row('recovery', recovery ?? 'not set: no consumer has run here'),
    row('in all', `${counts.completed} completed, ${counts.failed} died`),
    ...(known
      ? [
          row(`last ${MINUTES} min`, `${jobs(sum(history.completed))} completed, ${sum(history.failed)} died`),
          row('  completed', sparkline(history.completed)),
          row('  died', sparkline(history.failed)),
        ]
      : [row(`last ${MINUTES} min`, 'not counted: no consumer has run here')]),
  ].join('\n');
}
