/**
 * `emq promote`, `emq reschedule`, `emq cancel` and `emq remove`: what can be done to single jobs.
 *
 * Invariants: each of the named jobs is tried, whatever became of the others, and told of; the exit code is 1 when one was
 * not done. Does not: touch a job in flight, but for the signal of a cancel, and a remove that was confirmed.
 */
import type { Command } from 'commander';

import type { Admin } from '../../queue/admin.js';
import { EmqError, inputError } from '../../wire/errors.js';
import { checkId } from '../../wire/keyspace.js';
import { EXIT, type ExitCode } from '../exit.js';
import type { Run } from '../program.js';
import { confirm } from './confirm.js';
import { addOperation, consentOptions, type Consent, type Work } from './operation.js';
import { adminOf } from './session.js';
import { durationMs, jobs, pointInTime, time } from './words.js';

interface ReschedulingOptions {
  readonly in?: number;
  readonly at?: Date;
}

/** What became of one job. */
export interface Outcome {
  readonly id: string;
  /** `refused`: see `reason`. */
  readonly outcome: string;
  readonly reason?: string;
}

export function addJobCommands(program: Command, run: Run): void {
  addOperation<object>(program, run, {
    usage: 'promote <queue> <id...>',
    about: 'let scheduled jobs wait for a worker now, whatever their time',
    examples: `
Examples:
  emq promote mail JOB0KHTOWnGLuC --url valkey://127.0.0.1:6379`,
    check: checkIds,
    act: async (queue, work) => each(queue, work, (admin, id) => admin.promoteNow(id)),
  });
  addOperation<ReschedulingOptions>(program, run, {
    usage: 'reschedule <queue> <id>',
    about: 'give a scheduled job another time',
    examples: `
Examples:
  emq reschedule mail JOB0KHTOWnGLuC --in 10m --url valkey://127.0.0.1:6379
  emq reschedule mail JOB0KHTOWnGLuC --at 2026-05-01T12:00:00Z`,
    options: (command) =>
      command
        .option('--in <duration>', "from now on the server's clock: 500ms, 30s, 10m, 2h, 7d", durationMs)
        .option('--at <time>', 'a time with its zone: 2026-05-01T12:00:00Z, ...+02:00; or Unix ms', pointInTime),
    check: (words, options) => {
      checkIds(words);
      if ((options.in === undefined) === (options.at === undefined)) {
        throw inputError('give --in 10m or --at 2026-05-01T12:00:00Z, one of the two');
      }
    },
    act: async (queue, work) => {
      const { in: inMs = 0, at } = work.options;
      if (at !== undefined) work.terminal.note(`for ${time(at.getTime())}`);
      return each(queue, work, (admin, id) => admin.reschedule(id, at === undefined ? { inMs } : { at }));
    },
  });
  addOperation<{ reason: string }>(program, run, {
    usage: 'cancel <queue> <id>',
    about: 'cancel a job: one that waits is removed, one that runs is told to stop',
    examples: `
A signal is heard only by a consumer that is connected now, and its handler may ignore it.

Examples:
  emq cancel mail JOB0KHTOWnGLuC --reason "sent by hand" --url valkey://127.0.0.1:6379`,
    options: (command) => command.option('--reason <text>', 'what the handler, and a flow parent, are told', ''),
    check: checkIds,
    act: async (queue, work) =>
      each(queue, work, async (admin, id) => {
        const outcome = await admin.cancel(id, work.options.reason);
        return outcome === 'dead' ? 'dead already' : outcome;
      }),
  });
  addOperation<Consent>(program, run, {
    usage: 'remove <queue> <id...>',
    about: 'take jobs out of a queue, wherever they are',
    examples: `
Payload, logs and errors are lost. A job in flight is taken from under its handler: cancel tells it to stop.

Examples:
  emq remove mail JOB0KHTOWnGLuC --url valkey://127.0.0.1:6379
  emq remove mail JOB0KHTOWnGLuC JOB0KHTOWnGLuD --yes`,
    options: consentOptions,
    check: checkIds,
    act: async (queue, work) => {
      const { session, words, options, terminal } = work;
      const admin = adminOf(session, queue);
      const found = await Promise.all(words.map(async (id) => ({ id, state: (await admin.job(id))?.state ?? 'gone' })));
      const there = found.filter(({ state }) => state !== 'gone');
      if (there.length > 0) {
        const list = there.slice(0, 20).map(({ id, state }) => `${id} (${state})`);
        const more = there.length > list.length ? ` and ${there.length - list.length} more` : '';
        const them = there.length === 1 ? 'it' : 'them';
        const text = `removes ${jobs(there.length)} of queue ${queue} with all that belongs to ${them}: ${list.join(', ')}${more}`;
        if (!(await confirm(terminal, { text }, options))) {
          terminal.emit({ where: session.where, queue, dryRun: true, jobs: found });
          return EXIT.ok;
        }
      }
      return each(queue, work, (one, id) => one.remove(id));
    },
  });
}

function checkIds(words: readonly string[]): void {
  for (const id of words) checkId(id);
}

/** Does it to each of the jobs, and tells what came of it. */
async function each(
  queue: string,
  { session, words, terminal }: Work<object>,
  act: (admin: Admin, id: string) => Promise<string>,
): Promise<ExitCode> {
  const outcomes = await outcomesOf(words, async (id) => act(adminOf(session, queue), id));
  terminal.emit({ where: session.where, queue, jobs: outcomes });
  for (const { id, outcome, reason } of outcomes) terminal.print(`${id}  ${reason ?? outcome}`);
  return outcomes.every(({ outcome }) => !['gone', 'refused', 'dead already'].includes(outcome))
    ? EXIT.ok
    : EXIT.notInOrder;
}

/** A refusal of one job keeps no other from its turn; a lost connection ends it. */
export async function outcomesOf(ids: readonly string[], act: (id: string) => Promise<string>): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const id of ids) {
    try {
      outcomes.push({ id, outcome: await act(id) });
    } catch (error) {
      if (!(error instanceof EmqError) || !['EMQSTATE', 'EMQLOCK'].includes(error.code)) throw error;
      outcomes.push({ id, outcome: 'refused', reason: error.reason.replace(/^EMQ\w+ /, '') });
    }
  }
  return outcomes;
}
