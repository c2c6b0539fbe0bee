/**
 * The two executors: how a call becomes a frame, the command that goes on the wire.
 *
 * Invariants: a frame is a pure function of the call. Keys and arguments stand at the same place in both: the native
 * command's name takes the place of `EVALSHA <sha>` (wire contract, section 7), and a transition without a native
 * twin goes the scripted way on either executor.
 * Does not: send anything, or know whether the server has the script (connector-calls.ts heals a NOSCRIPT).
 */
import { createHash } from 'node:crypto';

import type { Arg, Call, Script } from './call.js';

/** The two wires: 4 = scripts, 6 = native commands (wire contract, section 8). */
export type Wire = 4 | 6;

/** One command as it is sent: `command` and its arguments, in order. */
export interface Frame {
  readonly command: string;
  readonly args: readonly Arg[];
  /** The script that an `EVALSHA` frame names: what to load when the server does not have it. */
  readonly script?: Script;
}

/** Turns a call into the frame that performs it. */
export type Executor = (call: Call) => Frame;

/** `EVALSHA sha numkeys keys... args...` */
export const scripted: Executor = (call) => {
  const { script } = call.transition;
  return { command: 'EVALSHA', args: [script.sha, ...operands(call)], script };
};

/** `COMMAND numkeys keys... args...` where the transition has a native twin, else the scripted way. */
export const native: Executor = (call) => {
  const command = call.transition.native;
  return command === undefined ? scripted(call) : { command, args: operands(call) };
};

/** The executor of a wire. */
export function executorOf(wire: Wire): Executor {
  return wire === 6 ? native : scripted;
}

/** `EVAL source numkeys keys... args...`: the scripted way for a server that does not have the script. */
export function evalFrame(call: Call): Frame {
  return { command: 'EVAL', args: [call.transition.script.source, ...operands(call)] };
}

/** `SCRIPT LOAD source`: what keeps a script on a server that would evict one it only knows from an EVAL. */
export function loadFrame(script: Script): Frame {
  return { command: 'SCRIPT', args: ['LOAD', script.source] };
}

/** What is wrong with a call that a caller without types has made, or undefined. */
export function malformed(call: unknown): string | undefined {
  const { transition, queue, keys, args } = (call ?? {}) as Partial<Record<keyof Call, unknown>>;
  const { name, script } = (transition ?? {}) as Partial<Record<keyof Call['transition'], unknown>>;
  if (typeof name !== 'string' || typeof (script as Partial<Script> | null | undefined)?.source !== 'string') {
    return 'a call needs a transition: an entry of `transitions`';
  }
  if (typeof queue !== 'string') return `a call of ${name} needs the name of its queue`;
  for (const [what, list] of [
    ['keys', keys],
    ['args', args],
  ] as const) {
    if (!Array.isArray(list) || !list.every((item) => typeof item === 'string' || Buffer.isBuffer(item))) {
      return `the ${what} of a call of ${name} must be a list of strings and Buffers`;
    }
  }
  return undefined;
}

/** True if the script's `sha` is the SHA-1 of its `source`, as the build step promises. */
export function isIntact(script: Script): boolean {
  return createHash('sha1').update(script.source).digest('hex') === script.sha;
}

function operands(call: Call): Arg[] {
  return [String(call.keys.length), ...call.keys, ...call.args];
}
