/**
 * A node under test, and the plain commands by which the battery speaks to it.
 *
 * Invariants: replies are seen as the server sent them, bytes as bytes; an error reply is a value, a lost connection is
 * an exception. What is written below is sent on the one connection given, never through a connector: the battery
 * judges what connectors rely on.
 * Does not: flush or reconfigure anything (vectors.ts does, and only on a node of its own).
 */
import { Command, type Redis } from 'ioredis';

import type { Arg, Reply, WireTransition } from '../wire/call.js';
import { executorOf, loadFrame, type Frame } from '../wire/executor.js';
import { BRANDS } from '../wire/fence.js';
import { EmqError } from '../wire/errors.js';
import { NODE_VERSION_KEY } from '../wire/keyspace.js';
import { isErrorReply, toReply } from '../wire/reply.js';
import { transitions } from '../wire/transitions.js';

export type ExecutorName = 'script' | 'native';

/** One node and the executor that is to be judged on it. */
export interface ParityNode {
  /** Connected, on database 0, with no other use. */
  readonly client: Redis;
  readonly executor: ExecutorName;
  /** True for a server that was started for this battery: it may be flushed and reconfigured. */
  readonly own: boolean;
}

/** What the server answered: a reply, or the whole text of an error reply. */
export type Answer = { readonly ok: true; readonly reply: Reply } | { readonly ok: false; readonly text: string };

/** A raw command: its name, then its arguments. */
export type RawCommand = readonly [string, ...Arg[]];

/** The brand that belongs to an executor. */
export const brandOf = (executor: ExecutorName): string => BRANDS[executor === 'native' ? 6 : 4];

/** Sends one command. Rejects only when there is no answer. */
export async function ask(client: Redis, [name, ...args]: RawCommand): Promise<Answer> {
  const command = new Command(name, args, { replyEncoding: null });
  // the answer is on the command's own promise, whatever wraps the one that is returned
  void client.sendCommand(command);
  try {
    return { ok: true, reply: flatScores(args, toReply(await command.promise)) };
  } catch (error) {
    if (isErrorReply(error)) return { ok: false, text: error.message };
    // an error inside an array, as EXEC may answer
    if (error instanceof EmqError) return { ok: false, text: error.reason };
    throw error;
  }
}

/** RESP3 gives members and scores in pairs, RESP2 one after the other; a battery reads the latter from both. */
function flatScores(args: readonly Arg[], reply: Reply): Reply {
  if (!Array.isArray(reply) || !Array.isArray(reply[0]) || String(args.at(-1)) !== 'WITHSCORES') return reply;
  return reply.flat();
}

/** Sends commands together; the answers are in their order. */
export function askAll(client: Redis, commands: readonly RawCommand[]): Promise<Answer[]> {
  return Promise.all(commands.map((command) => ask(client, command)));
}

/** The reply of a command that has to succeed. @throws EmqError with the server's text and the command's name. */
export async function need(client: Redis, command: RawCommand): Promise<Reply> {
  const answer = await ask(client, command);
  if (answer.ok) return answer.reply;
  throw new EmqError('ERR', `ERR ${command[0]} was refused: ${answer.text}`);
}

/** The transition of that name on the wire. @throws RangeError for a name that no entry of the table has. */
function transitionOf(name: string): WireTransition {
  const transition = Object.values(transitions).find((entry) => entry.name === name);
  if (transition === undefined) throw new RangeError(`no transition is called ${name}`);
  return transition;
}

/** One call by its name, laid out. */
export interface NamedCall {
  readonly transition: string;
  readonly keys: readonly Arg[];
  readonly args: readonly Arg[];
}

/** The frame that performs a call on an executor. */
function frameOf(executor: ExecutorName, call: NamedCall): Frame {
  const transition = transitionOf(call.transition);
  return executorOf(executor === 'native' ? 6 : 4)({ transition, queue: '', keys: call.keys, args: call.args });
}

/** Performs a call on the node's executor; a script that the node does not have is loaded first. */
export async function perform(node: ParityNode, call: NamedCall, client: Redis = node.client): Promise<Answer> {
  const frame = frameOf(node.executor, call);
  const answer = await ask(client, [frame.command, ...frame.args]);
  if (answer.ok || frame.script === undefined || !answer.text.startsWith('NOSCRIPT')) return answer;
  const load = loadFrame(frame.script);
  await need(node.client, [load.command, ...load.args]);
  return ask(client, [frame.command, ...frame.args]);
}

/** Loads all scripts, so that no call of a battery is the one that loads. */
export async function loadScripts(client: Redis): Promise<void> {
  for (const { script } of Object.values(transitions)) {
    const load = loadFrame(script);
    await need(client, [load.command, ...load.args]);
  }
}

/** The server's clock, Unix ms. */
export async function clockOf(client: Redis): Promise<number> {
  const reply = await need(client, ['TIME']);
  const [seconds, micros] = Array.isArray(reply) ? reply : [];
  return Number(String(seconds)) * 1000 + Math.floor(Number(String(micros)) / 1000);
}

/** The server's run_id, which native claims write into rows. */
export async function runIdOf(client: Redis): Promise<string> {
  const info = String(await need(client, ['INFO', 'server']));
  return /^run_id:(\w+)/m.exec(info)?.[1] ?? '';
}

/**
 * Makes sure that the node carries its executor's brand. Resolves with what takes the brand away again if it was
 * put there, or does nothing if it had been there.
 * @throws EmqError `EMQWIRE` for another brand.
 */
export async function brandNode(node: ParityNode): Promise<() => Promise<void>> {
  const own = brandOf(node.executor);
  const put = await need(node.client, ['SET', NODE_VERSION_KEY, own, 'NX']);
  if (put !== null) return async () => void (await need(node.client, ['DEL', NODE_VERSION_KEY]));
  const found = String(await need(node.client, ['GET', NODE_VERSION_KEY]));
  if (found !== own) throw new EmqError('EMQWIRE', `EMQWIRE node is ${JSON.stringify(found)}, needs ${own}`);
  return async () => {};
}
