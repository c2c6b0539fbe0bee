/**
 * `emq doctor --check` and `--repair`: what must hold between any two steps of a queue, and mending what does not.
 *
 * Invariants: a check sends nothing that writes, so it runs on a replica and for a user who may only read; a repair writes
 * only on a node that has this package's brand, or none, and only what somebody wanted. Ends with 1 when something is wrong
 * that was not mended. Does not: look at the node itself: `emq doctor` alone does.
 */
import { checkQueues, repairQueues, type Audit } from '../../queue/audit/check.js';
import type { AuditFinding } from '../../queue/audit/finding.js';
import type { AuditSource } from '../../queue/audit/walk.js';
import type { Call, Reply } from '../../wire/call.js';
import { EmqError, inputError } from '../../wire/errors.js';
import { wireOfBrand } from '../../wire/fence.js';
import { Keyspace, NODE_VERSION_KEY } from '../../wire/keyspace.js';
import { QueueRunner } from '../../queue/runner.js';
import { EXIT, refuse, type ExitCode } from '../exit.js';
import type { PlainNode } from '../node.js';
import { confirm, type Consent } from '../operate/confirm.js';
import { quoted, type Terminal } from '../terminal.js';
import type { Target } from '../target.js';
import { openPrimaries } from './cluster.js';
import type { Finding } from './findings.js';

export interface AuditCommand extends Consent {
  readonly check?: boolean;
  readonly repair?: boolean;
  readonly queue?: string | undefined;
}

/** Rights that a check needs on the queues' keys, besides those to read them. */
const RIGHTS = '+scan +zscan +type +eval_ro +exists +hscan +lrange +llen +zcard';

/** @throws EmqError `EMQ_INPUT` for options that do not go together. */
export function checkAuditOptions({ check, repair, yes, dryRun }: AuditCommand): void {
  if (check === true && repair === true) throw inputError('give --check or --repair: a repair checks too');
  if (repair !== true && (yes === true || dryRun === true)) {
    throw inputError('--yes and --dry-run go with --repair');
  }
}

/** @throws EmqError when the connection is lost or refused; CliError when nobody wants a repair. */
export async function audit(
  node: PlainNode,
  target: Target,
  options: AuditCommand,
  terminal: Terminal,
): Promise<ExitCode> {
  const { queue, repair = false, yes = false, dryRun = false } = options;
  const { cluster, isReplica } = await placeOf(node);
  // a replica of a cluster answers reads of its primary's slots to who says so
  if (cluster && isReplica) await node.ask('READONLY');
  const primaries = cluster && !isReplica ? await openPrimaries(node, target, terminal.signal) : undefined;
  try {
    const nodes = primaries?.nodes ?? [node];
    if (repair && !dryRun) {
      if (isReplica) throw refuse('a replica is read-only: repair on its primary');
      const which = queue === undefined ? 'every queue that has keys here' : `queue ${queue}`;
      const text = `what is wrong in ${which} is mended, one atomic step each; no job is lost (--dry-run tells what)`;
      await confirm(terminal, { text }, { yes });
    }
    const totals = { found: 0, mended: 0 };
    const away = primaries?.away ?? [];
    const tell = (one: AuditFinding): void => terminal.print(line(one, terminal));
    const done: { queue: string; text: string }[] = [];
    const onDone = (text: string, name: string): void => {
      terminal.print(`  ${terminal.style('green', dryRun ? 'would' : 'done '.trimEnd())} ${name}: ${text}`);
      done.push({ queue: name, text });
    };
    const all: Audit[] = [];
    for (const one of nodes) {
      const source = sourceOf(one, repair && !dryRun, cluster);
      if (queue !== undefined && nodes.length > 1 && !(await has(one, queue))) continue;
      const given = { signal: terminal.signal, onFinding: tell };
      const told = repair
        ? await repairQueues(source, queue, { ...given, dryRun, onDone })
        : await checkQueues(source, queue, given);
      all.push(told);
      totals.found += told.found;
      if ('mended' in told) totals.mended += told.mended as number;
    }
    return report(terminal, { node, all, away, totals, done, repair, dryRun });
  } catch (error) {
    if (error instanceof EmqError && error.code === 'NOPERM') {
      throw new EmqError('NOPERM', `${error.reason} (a check needs ${RIGHTS})`, { cause: error });
    }
    throw error;
  } finally {
    await primaries?.close();
  }
}

/** What the node is. A user who may not ask is taken to be on a primary without a cluster: whoever is not is told so. */
async function placeOf(node: PlainNode): Promise<{ readonly cluster: boolean; readonly isReplica: boolean }> {
  try {
    const info = `${String(await node.ask('INFO', 'cluster'))}${String(await node.ask('INFO', 'replication'))}`;
    return { cluster: /^cluster_enabled:1/m.test(info), isReplica: !/^role:master/m.test(info) };
  } catch (error) {
    if (error instanceof EmqError && error.code === 'NOPERM') return { cluster: false, isReplica: false };
    throw error;
  }
}

interface Told {
  readonly node: PlainNode;
  readonly all: readonly Audit[];
  readonly away: readonly Finding[];
  readonly totals: { readonly found: number; readonly mended: number };
  readonly done: readonly { readonly queue: string; readonly text: string }[];
  readonly repair: boolean;
  readonly dryRun: boolean;
}

function report(terminal: Terminal, { node, all, away, totals, done, repair, dryRun }: Told): ExitCode {
  const sum = (of: (audit: Audit) => number): number => all.reduce((n, one) => n + of(one), 0);
  const looked = {
    keys: sum((one) => one.looked.keys),
    jobs: sum((one) => one.looked.jobs),
    lanes: sum((one) => one.looked.lanes),
  };
  const skipped = all.flatMap((one) => one.skipped);
  const isOk = totals.found === 0 && away.length === 0;
  const findings = all.flatMap((one) => one.findings);
  const body = { where: node.where, ok: isOk, ...(repair ? { dryRun, done, ...totals } : { found: totals.found }) };
  terminal.emit({ ...body, findings, looked, skipped, away: away.map(({ text }) => text) });
  for (const text of skipped) terminal.print(`  ${terminal.style('yellow', 'skipped')} ${text}`);
  for (const { text } of away) terminal.print(`  ${terminal.style('red', 'away')} ${text}`);
  const at = `${looked.keys} keys, ${looked.jobs} jobs and ${looked.lanes} lanes looked at`;
  const mended = repair ? `, ${totals.mended} ${dryRun ? 'would be mended' : 'mended'}` : '';
  const wrong = totals.found === 0 ? 'nothing is wrong' : `${totals.found} ${repair && !dryRun ? 'left' : 'wrong'}`;
  terminal.print(`${node.where}: ${at}${mended}; ${wrong}`);
  if (!repair && findings.some(({ mends }) => mends))
    terminal.print('emq doctor --repair --dry-run tells what it would do');
  return isOk ? EXIT.ok : EXIT.notInOrder;
}

function line({ queue, text, mends }: AuditFinding, terminal: Terminal): string {
  return `  ${terminal.style(mends ? 'yellow' : 'red', mends ? 'wrong' : 'left ')} ${queue}: ${text}`;
}

async function has(node: PlainNode, queue: string): Promise<boolean> {
  try {
    await node.ask('TYPE', new Keyspace(queue).meta);
    return true;
  } catch (error) {
    if (error instanceof EmqError && error.code === 'MOVED') return false;
    throw error;
  }
}

/** Transitions on a plain connection: reads by EVAL_RO, which a replica takes and a user who may only read. */
function sourceOf(node: PlainNode, writes: boolean, cluster: boolean): AuditSource {
  const branded = new Set<string>();
  const run = async ({ transition, queue, keys, args }: Call): Promise<Reply> => {
    if (!transition.readOnly) {
      if (!writes) throw new EmqError('ERR', 'ERR a check does not write');
      await checkBrand(node, cluster ? new Keyspace(queue).version : NODE_VERSION_KEY, branded);
    }
    const command = transition.readOnly ? 'EVAL_RO' : 'EVAL';
    return node.ask(command, transition.script.source, String(keys.length), ...keys, ...args);
  };
  const runner = new QueueRunner({
    run,
    runAll: () => Promise.reject(new TypeError('an audit runs one call at a time')),
  });
  return { runs: (queue) => runner.on(queue), ask: (command, args) => node.ask(command, ...args) };
}

/** Another layout's queue is left alone. @throws EmqError `EMQWIRE` for a foreign brand. */
async function checkBrand(node: PlainNode, key: string, known: Set<string>): Promise<void> {
  if (known.has(key)) return;
  const brand = await node.ask('GET', key);
  if (brand !== null && wireOfBrand(String(brand)) === undefined) {
    const text = `EMQWIRE ${key} is ${quoted(String(brand))}, a brand that this emq does not know: nothing is mended there`;
    throw new EmqError('EMQWIRE', text);
  }
  known.add(key);
}
