/**
 * Whether an ACL user may do what a connector does: connect, pass the fence, send every transition of the table.
 *
 * Invariants: what is needed is not listed by hand: the frames come from the executors, and the commands inside from
 * the sources of the scripts themselves. Where ACL DRYRUN is allowed nothing is run; else only calls that the
 * contract refuses before any write are sent, and what they cannot tell is said. Does not: change an ACL.
 */
import type { Arg, Transition } from '../../wire/call.js';
import { EmqError } from '../../wire/errors.js';
import { executorOf, type Wire } from '../../wire/executor.js';
import { BRANDS, NATIVE_COMMANDS } from '../../wire/fence.js';
import { Keyspace, NODE_VERSION_KEY } from '../../wire/keyspace.js';
import { transitions } from '../../wire/transitions.js';
import type { PlainNode } from '../node.js';
import { attempt, type Facts } from './facts.js';
import { bad, ok, warn, type Finding } from './findings.js';

const CHECK = 'rights';
/** A job that nobody has. */
const ID = 'JOB00000000000';
/** The queue whose keys are asked about when none was named. */
const SAMPLE_QUEUE = 'sample';

/** Commands without which all works, but every refusal of them fills the server's ACL LOG. */
const QUIET = new Set(['+ping', '+script|load', '+client|setinfo']);

/** A command that a connector or a script sends. */
type Needed = readonly [string, ...Arg[]];

export interface RightsOptions {
  readonly wire: Wire;
  /** The queue whose keys are to be usable. */
  readonly queue: string | undefined;
  /** The ACL user to look at; default: the one of the connection. */
  readonly user: string | undefined;
}

export async function checkRights(node: PlainNode, facts: Facts, options: RightsOptions): Promise<Finding> {
  const self = 'value' in facts.user ? facts.user.value : undefined;
  const user = options.user ?? self;
  if (user !== undefined) {
    const trial = await attempt(node, ['ACL', 'DRYRUN', user, 'PING'], () => null);
    if ('value' in trial) return dryRun(node, facts, options, user);
    if (trial.refused.code === 'ERR') return bad(CHECK, `there is no ACL user "${user}"`, 'ACL SETUSER makes one');
  }
  if (options.user === undefined || options.user === self) return probe(node, options);
  const mend = 'give the --url of a user with +acl|dryrun, or ask as that user';
  return warn(CHECK, `the rights of user "${options.user}" cannot be seen: this user may not run ACL DRYRUN`, mend);
}

async function dryRun(node: PlainNode, facts: Facts, options: RightsOptions, user: string): Promise<Finding> {
  const { wire, queue } = options;
  const needed = await neededCommands(node, facts, wire, queue ?? SAMPLE_QUEUE);
  const commands = new Set<string>();
  const keys = new Set<string>();
  for (const [command, ...args] of needed) {
    const verdict = await judgement(node, user, command, args);
    if (verdict === 'OK') continue;
    const name = /run the '(.+?)' command/.exec(verdict)?.[1];
    if (name !== undefined) commands.add(`+${name}`);
    else keys.add(/access the '(.+?)' (?:key|channel)/.exec(verdict)?.[1] ?? verdict);
  }
  const who = `user "${user}"`;
  const what = `the ${needed.length} kinds of calls that a wire ${wire} connector and its scripts make`;
  if (commands.size > 0 && keys.size === 0 && [...commands].every((rule) => QUIET.has(rule))) {
    const text = `${who} may not run ${list(commands)}: all works without, but each try is an entry in the ACL LOG`;
    return warn(CHECK, text, `ACL SETUSER ${user} ${[...commands].join(' ')}`);
  }
  if (commands.size > 0) {
    const also = keys.size === 0 ? '' : ` and use ${[...keys].join(', ')}`;
    const mend = `ACL SETUSER ${user} ${[...commands].join(' ')}${rules(keys, queue)}, then ask again`;
    return bad(CHECK, `${who} may not run ${list(commands)}${also}`, mend);
  }
  if (keys.size === 0) {
    return ok(CHECK, `${who} may make ${what}${queue === undefined ? '' : ` on queue ${queue}`}`);
  }
  if (queue === undefined && [...keys].every((key) => key.startsWith('emq:{'))) {
    return warn(CHECK, `${who} may make ${what}, but not on every queue`, '--queue NAME checks one');
  }
  return bad(CHECK, `${who} may not use ${[...keys].join(', ')}`, `ACL SETUSER ${user}${rules(keys, queue)}`);
}

/** What ACL DRYRUN says. A command that the server itself does not know (CLIENT SETINFO before 7.2) wants no right. */
async function judgement(node: PlainNode, user: string, command: string, args: readonly Arg[]): Promise<string> {
  try {
    return String(await node.ask('ACL', 'DRYRUN', user, command, ...args));
  } catch (error) {
    if (error instanceof EmqError && error.code === 'ERR' && /^ERR Command '.*' not found$/.test(error.reason))
      return 'OK';
    throw error;
  }
}

function list(commands: ReadonlySet<string>): string {
  return [...commands].map((rule) => rule.slice(1)).join(', ');
}

/** The ACL rules that open keys and channels: of the queue that was named, else of all queues. */
function rules(keys: ReadonlySet<string>, queue = '*'): string {
  const found = [...keys].map((key) => {
    if (!key.startsWith('emq:{')) return ` ~${key}`;
    const channel = /:(events|cancel)$/.exec(key)?.[1];
    return channel === undefined ? ` ~emq:{${queue}}:*` : ` &emq:{${queue}}:${channel}`;
  });
  return [...new Set(found)].join('');
}

/**
 * One call of every kind: handshake, fence, transitions by the wire's executor, and the commands inside the scripts.
 */
async function neededCommands(node: PlainNode, facts: Facts, wire: Wire, queue: string): Promise<Needed[]> {
  const keys = new Keyspace(queue);
  const { brandKey, brand, cluster, missingCommands } = facts;
  const versionKey = brandKey ?? (cluster ? keys.version : NODE_VERSION_KEY);
  const branded = brand !== undefined && 'value' in brand && brand.value !== null;
  return [
    ['HELLO'],
    ['PING'],
    ['CLIENT', 'SETINFO', 'LIB-NAME', 'x'],
    ...(cluster ? [['CLUSTER', 'SLOTS'] as const] : []),
    ['GET', versionKey],
    // only an unbranded node is ever written to by the fence
    ...(branded ? [] : [['SET', versionKey, BRANDS[wire], 'NX'] as const]),
    ...(wire === 6 ? [['COMMAND', 'INFO', ...NATIVE_COMMANDS] as const] : []),
    ['SCRIPT', 'LOAD', 'return 1'],
    ['EVAL', 'return 1', '2', keys.pending, keys.job(ID)],
    ['EVALSHA', '0'.repeat(40), '2', keys.pending, keys.job(ID)],
    ...(wire === 6 && 'value' in missingCommands && missingCommands.value.length === 0 ? nativeCalls(keys) : []),
    ...(await innerCommands(node, keys, wire)),
  ];
}

/**
 * A call of each transition with a native twin, as the executor sends it. A twin that is new here must be given an
 * input.
 */
function nativeCalls(keys: Keyspace): Needed[] {
  const held = { id: ID, token: 1 };
  const frame = <I, R>(transition: Transition<I, R>, input: I): Needed => {
    const call = { transition, queue: keys.queue, ...transition.layout(keys, input) };
    const { command, args } = executorOf(6)(call);
    return [command, ...args];
  };
  return [
    frame(transitions.claim, { leaseMs: 1 }),
    frame(transitions.claimBatch, { leaseMs: 1, size: 1 }),
    frame(transitions.take, { leaseMs: 1, count: 1, source: 'both' }),
    frame(transitions.takeBatch, { leaseMs: 1, size: 1, min: 1, source: 'both' }),
    frame(transitions.release, held),
    frame(transitions.complete, held),
    frame(transitions.fail, { ...held, delayMs: 0, maxAttempts: 1, error: '' }),
    frame(transitions.stalledCheck, { maxStalled: 1, limit: 1 }),
  ];
}

/**
 * The commands that the scripts run: every upper-case word in their sources that the server knows as a command. On wire 6 only
 * of those that have no native twin: the others are never sent.
 */
export function wordsOfScripts(wire: Wire = 4): string[] {
  const scripted = Object.values(transitions).filter((one) => wire === 4 || !('native' in one));
  const sources = scripted.map(({ script }) => script.source);
  return [
    ...new Set(sources.flatMap((source) => [...source.matchAll(/'([A-Z]{2,})'/g)].map(([, word]) => word ?? ''))),
  ].sort();
}

async function innerCommands(node: PlainNode, keys: Keyspace, wire: Wire): Promise<Needed[]> {
  const words = wordsOfScripts(wire);
  const known = await attempt(node, ['COMMAND', 'INFO', ...words], (reply) => (Array.isArray(reply) ? reply : []));
  const infos = 'value' in known ? known.value : [];
  return words.flatMap((name, i): Needed[] => {
    const info = infos[i];
    if (!Array.isArray(info)) return [];
    if (name === 'PUBLISH') return [keys.events, keys.cancel].map((channel): Needed => [name, channel, 'x']);
    const [, arity = 0, , first = 0, last = 0, step = 1] = info.map(Number);
    // as few words as it takes, the keys where they belong
    const words = Math.abs(arity) - 1;
    const lastKey = last < 0 ? words + 1 + last : last;
    const isKey = (at: number): boolean => first > 0 && at >= first && at <= lastKey && (at - first) % step === 0;
    const args = Array.from({ length: words }, (_, i) => (isKey(i + 1) ? keys.pending : 'x'));
    return [[name, ...args]];
  });
}

/**
 * The same as far as the user itself can try it. None of these calls gets past the checks that come before a write
 * (wire contract, sections 6 and 7): a wrong number, or an id that is not that of its row.
 */
async function probe(node: PlainNode, { wire, queue }: RightsOptions): Promise<Finding> {
  const keys = new Keyspace(queue ?? SAMPLE_QUEUE);
  const row = keys.job(ID);
  const calls: Needed[] = [
    ['PING'],
    ['EVALSHA', transitions.claim.script.sha, '3', keys.pending, keys.active, keys.base, 'x'],
  ];
  if (wire === 6) {
    calls.push(
      ['EMQ.CLAIM', '3', keys.pending, keys.active, keys.base, 'x'],
      ['EMQ.CLAIM.BATCH', '3', keys.pending, keys.active, keys.base, 'x', '1'],
      ['EMQ.TAKE.BATCH', '4', keys.pending, keys.ring, keys.active, keys.base, 'x', '1', '1', 'flat'],
      ['EMQ.TAKE', '4', keys.pending, keys.ring, keys.active, keys.base, 'x', '1', 'both'],
      ['EMQ.RELEASE', '3', keys.active, keys.pending, row, 'x', '1', keys.base],
      ['EMQ.COMPLETE', '2', keys.active, row, 'x', '1', keys.base],
      ['EMQ.FAIL', '4', keys.active, keys.schedule, keys.dead, row, ID, '1', 'x', '1', '', keys.base],
      ['EMQ.STALLED.CHECK', '3', keys.active, keys.pending, keys.dead, keys.base, 'x', '1'],
    );
  }
  const refused: string[] = [];
  for (const [command, ...args] of calls) {
    try {
      await node.ask(command, ...args);
    } catch (error) {
      if (!(error instanceof EmqError) || error.code.startsWith('EMQ_')) throw error;
      if (error.code === 'NOPERM') refused.push(error.reason.replace(/^NOPERM /, ''));
    }
  }
  const mend = '+acl|dryrun for this user, or --user NAME with the --url of a user who has it, tells the rest';
  if (refused.length > 0) {
    const unnamed = queue === undefined && refused.every((text) => /\bkeys?\b/.test(text));
    if (unnamed) return warn(CHECK, 'this user may not use every queue', '--queue NAME checks one');
    return bad(
      CHECK,
      [...new Set(refused)].join('; '),
      `grant what is missing: +@emq +@scripting and what the scripts run. ${mend}`,
    );
  }
  return warn(CHECK, 'this user may send the calls, but what scripts run inside cannot be tried without a write', mend);
}
