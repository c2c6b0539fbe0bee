/**
 * One command in the client library's hands, watched: was it written, and if so together with what.
 *
 * Invariants: `written` is true from the moment the library hands the bytes to a socket, and false again once the
 * server refused them by a redirect: so `written === false` means that the server has certainly not executed it.
 * All commands written to one socket in one turn of the event loop leave it in one write: a burst of calls costs one
 * system call, and no call ever waits for company.
 * Does not: decide what to do about a lost reply.
 *
 * Both are seen in `toWritable`, which every 5.x and 6.x of ioredis calls with the socket, for `Redis` and for the
 * nodes of a `Cluster`, at the very moment of writing and never before.
 */
import { Command, type Cluster, type Redis } from 'ioredis';

import type { Arg } from './call.js';
import { isErrorReply } from './reply.js';

/** A command on its way. `promise` resolves with what the library decoded, all strings as Buffers. */
export interface Sent {
  readonly promise: Promise<unknown>;
  /** True if the server may have executed it. */
  readonly written: boolean;
  /** The socket it was last written to: on a cluster that tells which node was asked, redirects followed. */
  readonly socket?: object | undefined;
}

/** Makes a command of the class that the client understands: a client may come from another copy of ioredis. */
export type CommandFactory = (command: string, args: readonly Arg[], slot?: number) => Command & Sent;

/** Calls one of both: the command goes on, or ends with the refusal. */
export type Moved = (follow: () => void, stop: () => void) => void;

const factories = new WeakMap<typeof Command, CommandFactory>();

/** The factory for this client's own copy of ioredis. */
export function commandsOf(client: Redis | Cluster): CommandFactory {
  const base = (client.constructor as { Command?: typeof Command }).Command ?? Command;
  let factory = factories.get(base);
  if (factory === undefined) factories.set(base, (factory = watched(base)));
  return factory;
}

/** What a node says of a slot that is moving: the caller waits it out. */
const MOVING = /^(ASK|TRYAGAIN) /;

/**
 * Sends it. On a cluster a command that lands on the wrong node is sent to the right one, and what a node refused counts as
 * not written.
 *
 * While a slot moves key by key nothing is followed. On the node to which it moves a command with one key is run whether
 * the key is there or not: a script that looks at others would take for missing what has not come yet, and make it anew.
 * And on a TRYAGAIN the library would ask any other node, be sent back, and give up after so many redirects.
 * @param moved asked before it goes on to another node than the one to which it was sent. Default: it does.
 */
export function sendOn(client: Redis | Cluster, command: Command & Sent, moved?: Moved): Sent {
  const give = command.reject;
  // Every answer is on the command's own promise; the returned one may be a tracing wrapper around it.
  void client.sendCommand(command);
  if (client.isCluster) {
    const redirect = command.reject;
    command.reject = (error) => {
      const refused = isErrorReply(error);
      if (refused) (command as { written: boolean }).written = false;
      if (refused && MOVING.test(error.message)) give.call(command, error);
      else if (!refused || moved === undefined || !error.message.startsWith('MOVED ')) redirect.call(command, error);
      else
        moved(
          () => redirect.call(command, error),
          () => give.call(command, error),
        );
    };
  }
  return command;
}

function watched(base: typeof Command): CommandFactory {
  class Watched extends base {
    written = false;
    socket: object | undefined;
    readonly #slot: number | undefined;

    constructor(command: string, args: readonly Arg[], slot: number | undefined) {
      super(command, args as Arg[], { replyEncoding: null });
      this.#slot = slot;
    }

    /** The library knows the keys of core commands only; a native command's slot is told to it. */
    override getSlot(): number {
      return this.#slot ?? super.getSlot();
    }

    override toWritable(socket: object): string | Buffer {
      this.written = true;
      this.socket = socket;
      burst(socket);
      return super.toWritable(socket);
    }
  }
  return (command, args, slot) => new Watched(command, args, slot);
}

interface Corked {
  cork?(): void;
  uncork?(): void;
}

const corked = new WeakSet<object>();

/** Holds the socket's bytes back until this turn of the event loop is over, then lets them go in one write. */
function burst(socket: Corked): void {
  if (corked.has(socket) || typeof socket.cork !== 'function') return;
  corked.add(socket);
  socket.cork();
  process.nextTick(release, socket);
}

function release(socket: Corked): void {
  corked.delete(socket);
  socket.uncork?.();
}
