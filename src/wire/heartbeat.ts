/**
 * The sign of life: notices a peer that is gone without a word (a half-open connection).
 *
 * Invariants: any byte counts as life, so a busy connection is never asked; a peer that was asked and stays silent for
 * the deadline loses its socket, and with it every call in flight is answered. A node of a cluster that never finishes
 * its handshake is given up the same way. One timer for all nodes; it does not keep the process alive.
 * Does not: reconnect.
 */
import type { Redis } from 'ioredis';

import { sendOn, type CommandFactory } from './command.js';

interface Pulse {
  socket: object;
  bytes: number;
  /** When the last byte was seen to have come. */
  alive: number;
  /** When the peer was asked, or its handshake first seen unfinished; 0 = not waiting. */
  since: number;
}

export class Heartbeat {
  /** Why the last socket was given up. */
  failure: Error | undefined;

  readonly #nodes: () => readonly Redis[];
  readonly #commands: CommandFactory;
  readonly #deadlineMs: number;
  readonly #pulses = new WeakMap<Redis, Pulse>();
  readonly #timer: NodeJS.Timeout;
  readonly #everyMs: number;
  #check: NodeJS.Immediate | undefined;

  constructor(nodes: () => readonly Redis[], commands: CommandFactory, everyMs: number, deadlineMs: number) {
    this.#nodes = nodes;
    this.#commands = commands;
    this.#everyMs = everyMs;
    this.#deadlineMs = deadlineMs;
    // Often enough to ask, and to notice a deadline, within an eighth of the time given.
    const tickMs = Math.max(1, Math.ceil(Math.min(everyMs, deadlineMs) / 8));
    // The verdict waits for the poll phase: after a blocked event loop the replies are there, only not read yet.
    this.#timer = setInterval(
      () => (this.#check ??= setImmediate((now: number) => this.#tick(now), performance.now())),
      tickMs,
    ).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    if (this.#check !== undefined) clearImmediate(this.#check);
  }

  #tick(now: number): void {
    this.#check = undefined;
    for (const node of this.#nodes()) this.#look(node, now);
  }

  #look(node: Redis, now: number): void {
    const socket = node.stream as Redis['stream'] | undefined;
    if (socket === undefined || socket.destroyed || node.status === 'wait') return;
    const bytes = socket.bytesRead;
    const pulse = this.#pulses.get(node);
    if (pulse?.socket !== socket) {
      this.#pulses.set(node, { socket, bytes, alive: now, since: 0 });
      return;
    }
    if (pulse.bytes !== bytes) {
      pulse.bytes = bytes;
      pulse.alive = now;
      pulse.since = 0;
    } else if (pulse.since !== 0) {
      if (now - pulse.since < this.#deadlineMs) return;
      this.failure = new Error(`no sign of life for ${this.#deadlineMs} ms`);
      socket.destroy();
    } else if (node.status !== 'ready') {
      pulse.since = now;
    } else if (now - pulse.alive >= this.#everyMs) {
      pulse.since = now;
      // Its reply is only bytes; a rejection comes with the end of the socket.
      sendOn(node, this.#commands('PING', [])).promise.catch(() => {});
    }
  }
}
