/**
 * `emq jobs` and `emq job`: a page of jobs, and one job whole.
 *
 * Invariants: read-only; payloads are shown only when asked for, and whatever came from a server is escaped and cut on a
 * terminal. Does not: decode a payload: its codec is the queue's.
 */
import { Option, type Command } from 'commander';

import type { JobDetails, ListedJob } from '../../queue/admin-reads.js';
import type { Order } from '../../queue/job-controls.js';
import { readOpts } from '../../queue/opts.js';
import { isBranded, parseId } from '../../ids/brand.js';
import { checkGroup, checkId } from '../../wire/keyspace.js';
import type { PlaceName } from '../../wire/transitions.js';
import { CliError, EXIT, scrub } from '../exit.js';
import { wholeNumber, type Run } from '../program.js';
import { linesOf, quoted, word } from '../terminal.js';
import { runsOn, serverNow } from './history.js';
import { hintUnknown } from './known.js';
import { addOperation } from './operation.js';
import { adminOf } from './session.js';
import { span, table, time } from './words.js';

const STATES: readonly PlaceName[] = ['pending', 'active', 'scheduled', 'dead', 'awaiting_children'];
const LONGEST_PAYLOAD = 4_000;
const LONGEST_ERROR = 80;

interface JobsOptions {
  readonly state: PlaceName;
  readonly lane?: string;
  readonly asc?: true;
  readonly offset: number;
  readonly limit: number;
}

export function addReadCommands(program: Command, run: Run): void {
  addOperation<JobsOptions>(program, run, {
    usage: 'jobs <queue>',
    about: 'list the jobs of a queue in one state, page by page',
    examples: `
The last to be served, to lapse, to come due, or the latest dead come first; with --asc the first.

Examples:
  emq jobs mail --state dead --url valkey://127.0.0.1:6379
  emq jobs mail --lane TEN0KHTOWnGLuC --asc --limit 10
  emq jobs mail --state dead --json | jq -r '.jobs[].id'`,
    options: (command) =>
      command
        .addOption(new Option('--state <state>', 'which jobs').choices(STATES).default('pending'))
        .option('--lane <group>', 'the waiting jobs of this lane (default: those in no lane)')
        .option('--asc', 'the other way round')
        .option('--offset <n>', 'how many to pass over', wholeNumber('offset', 0, 2 ** 32), 0)
        .option('--limit <n>', 'how many to show', wholeNumber('limit', 1, 1000), 50),
    check: (_words, { lane, state }) => {
      if (lane !== undefined) checkGroup(scrub(lane));
      if (lane !== undefined && state !== 'pending') {
        throw new CliError(EXIT.input, 'EMQ_INPUT', 'only jobs that wait are in a lane: leave out --state or --lane');
      }
    },
    act: async (queue, { session, options, terminal }) => {
      const { state, lane, offset, limit, asc } = options;
      const order: Order = asc ? 'asc' : 'desc';
      const page = { state, order, offset, limit, ...(lane === undefined ? {} : { lane }) };
      const [found, now] = await Promise.all([
        adminOf(session, queue).jobs(page),
        // not this machine's clock: leases and times are the server's
        serverNow(runsOn(session, queue)),
      ]);
      terminal.emit({ where: session.where, queue, state, lane: lane ?? null, offset, jobs: found.map(listedJson) });
      if (found.length === 0) terminal.print(`no ${state} job${offset === 0 ? '' : ` from place ${offset} on`}`);
      else terminal.print(drawJobs(found, state, now).join('\n'));
      if (found.length === 0) await hintUnknown(queue, { session, terminal });
      if (found.length === limit) terminal.note(`perhaps more: --offset ${offset + limit}`);
      return EXIT.ok;
    },
  });
  addOperation<{ payload?: true }>(program, run, {
    usage: 'job <queue> <id>',
    about: 'show one job: where it is, its last error, its logs',
    examples: `
The payload may hold what nobody else should see: it is shown only with --payload.

Examples:
  emq job mail JOB0KHTOWnGLuC --url valkey://127.0.0.1:6379
  emq job mail JOB0KHTOWnGLuC --payload --json | jq .job.payload`,
    options: (command) =>
      command.option('--payload', 'the payload too; on a terminal escaped, and cut when it is long'),
    check: ([id = '']) => void checkId(id),
    act: async (queue, { session, words: [id = ''], options, terminal }) => {
      const details = await adminOf(session, queue).job(id);
      if (details === null) throw noJob(session.where, queue, id);
      terminal.emit({ where: session.where, queue, job: jobJson(details, options.payload === true) });
      terminal.print(drawJob(details, options.payload === true).join('\n'));
      return EXIT.ok;
    },
  });
}

export function noJob(where: string, queue: string, id: string): CliError {
  const why = 'it has completed or was removed, or it is in another queue or on another node (--url)';
  return new CliError(EXIT.notInOrder, 'EMQSTATE', `queue ${queue} on ${where} has no job ${id}: ${why}`);
}

/** How long ago an id was minted; null for an id of another kind. */
function mintedAt(id: string): number | null {
  return isBranded(id) ? parseId(id).unixMs : null;
}

function listedJson(job: ListedJob): object {
  const { id, state, score, attempts, credit, stalled, priority, group, lastError, progress, bytes } = job;
  return {
    ...{ id, state, score, mintedAt: mintedAt(id), attempts, credit, stalled, priority },
    name: readOpts(job.fields.get('opts') ?? null).name ?? null,
    lane: group ?? null,
    progress: progress === undefined ? null : textOf(progress),
    error: lastError === undefined ? null : textOf(lastError),
    payloadBytes: bytes.length,
  };
}

const WHEN: Readonly<Record<PlaceName, string>> = {
  pending: 'age',
  active: 'lease',
  scheduled: 'due',
  dead: 'died ago',
  awaiting_children: 'since',
};

function drawJobs(found: readonly ListedJob[], state: PlaceName, now: number): string[] {
  const when = ({ id, score }: ListedJob): string => {
    if (state === 'pending') return ageOf(id, now);
    if (state === 'active') return score > now ? `ends in ${span(score - now)}` : `lapsed ${span(now - score)} ago`;
    if (state === 'scheduled') return score > now ? `in ${span(score - now)}` : `overdue ${span(now - score)}`;
    return span(Math.max(0, now - score));
  };
  const rows = found.map((job) => {
    const { name } = readOpts(job.fields.get('opts') ?? null);
    const error = job.lastError === undefined ? '' : firstLine(job.lastError);
    const cells = [word(job.id), name === undefined ? '' : word(name, 40), job.priority, job.attempts, when(job)];
    return [...cells, job.group === undefined ? '' : word(job.group), error];
  });
  return table(['id', 'name', 'priority', 'attempts', WHEN[state], 'lane', 'last error'], rows);
}

function ageOf(id: string, now: number): string {
  const at = mintedAt(id);
  return at === null ? '' : span(Math.max(0, now - at));
}

function jobJson({ id, state, row, own, mintedAt: minted, logs, flow }: JobDetails, payload: boolean): object {
  const text = (field: string): string | null => {
    const bytes = row.fields.get(field);
    return bytes === undefined ? null : textOf(bytes);
  };
  const { attempts, credit, stalled, priority, group, lastError, progress, bytes } = row;
  const isText = Buffer.from(bytes.toString('utf8')).equals(bytes);
  return {
    ...{ id, state, mintedAt: minted, attempts, credit, stalled, priority, lane: group ?? null },
    ...{ name: own.name ?? null, maxAttempts: own.maxAttempts ?? null, timeoutMs: own.timeoutMs ?? null },
    ...{ dedup: text('dedup'), parent: text('parent'), parentQueue: text('parent_queue') },
    progress: progress === undefined ? null : textOf(progress),
    error: lastError === undefined ? null : textOf(lastError),
    logs: logs.map(textOf),
    ...{ flow, payloadBytes: bytes.length },
    ...(payload ? (isText ? { payload: bytes.toString('utf8') } : { payloadBase64: bytes.toString('base64') }) : {}),
  };
}

function drawJob(details: JobDetails, payload: boolean): string[] {
  const { id, state, row, own, logs, flow } = details;
  const line = (label: string, text: string | number): string => `  ${label.padEnd(14)}${text}`;
  const when = (label: string, text: string | number | undefined): string[] =>
    text === undefined ? [] : [line(label, text)];
  const field = (name: string): string | undefined => {
    const bytes = row.fields.get(name);
    return bytes === undefined ? undefined : word(bytes);
  };
  const counted = row.credit === 0 ? '' : `, ${row.credit} of them do not count`;
  const most = own.maxAttempts === undefined ? '' : `, at most ${own.maxAttempts}`;
  const isParent = Object.values(flow).some((n) => n > 0);
  return [
    `${id}${own.name === undefined ? '' : ` ${word(own.name, 60)}`}  ${state}`,
    line('minted', `${time(details.mintedAt)}, ${span(Math.max(0, Date.now() - details.mintedAt))} ago`),
    line('attempts', `${row.attempts}${most}${counted}`),
    line('priority', row.priority),
    ...when('stalled', row.stalled === 0 ? undefined : row.stalled),
    ...when('lane', row.group === undefined ? undefined : word(row.group)),
    ...when('dedup id', field('dedup')),
    ...when('parent', field('parent')),
    ...(isParent ? [line('flow', `${flow.open} open: emq flow ${id} shows its children`)] : []),
    ...when('progress', row.progress === undefined ? undefined : quoted(row.progress)),
    ...(row.lastError === undefined ? [] : drawError(row.lastError)),
    line(
      'payload',
      `${row.bytes.length} byte${row.bytes.length === 1 ? '' : 's'}${payload ? '' : '; --payload shows it'}`,
    ),
    ...(payload ? [`    ${quoted(row.bytes, LONGEST_PAYLOAD)}`] : []),
    ...(logs.length === 0 ? [] : [line('logs', `the last ${logs.length}`), ...logs.map((log) => `    ${quoted(log)}`)]),
  ];
}

/** As it was thrown, stack and all, further in than what this command has to say. */
function drawError(error: Buffer): string[] {
  return ['  last error', ...linesOf(error).map((line) => `    ${line}`)];
}

function firstLine(error: Buffer): string {
  const end = error.indexOf('\n');
  return quoted(end === -1 ? error : error.subarray(0, end), LONGEST_ERROR);
}

/** As UTF-8, or byte for byte where it is none. */
function textOf(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? text : bytes.toString('latin1');
}
