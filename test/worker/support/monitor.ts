/**
 * What a server is told, transition by transition: MONITOR, read through the transition table.
 *
 * Invariants: commands that are no transition of ours are left out; times are the server's. A socket of its own, since
 * ioredis loses its place when the first lines come together with MONITOR's own reply.
 * Does not: see what went on before it was started.
 */
import { connect, type Socket } from 'node:net';
import { transitions } from '../../../src/index.js';
import type { WorkerNode } from './nodes.js';

export interface Seen {
  /** The transition's name, such as `extend_many`. */
  readonly name: string;
  /** The connection it came from. */
  readonly source: string;
  /** The server's clock, in ms. */
  readonly atMs: number;
}

/** Time, source, command, and the first argument. */
const LINE = /^\+(\d+\.\d+) \[\d+ (\S+)\] "([^"]*)"(?: "([^"]*)")?/;

export class Monitor implements Disposable {
  /** In the order in which the server ran them. */
  readonly seen: Seen[] = [];
  readonly #socket: Socket;
  #rest = '';

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static async start(node: WorkerNode): Promise<Monitor> {
    const monitor = new Monitor(connect(node.server.socketPath));
    monitor.#socket.write('MONITOR\r\n');
    await new Promise<void>((resolve, reject) => {
      monitor.#socket.once('error', reject);
      monitor.#socket.on('data', (bytes: Buffer) => {
        const lines = (monitor.#rest + bytes.toString('latin1')).split('\r\n');
        monitor.#rest = lines.pop() ?? '';
        for (const line of lines) {
          if (line === '+OK') resolve();
          else monitor.#read(line);
        }
      });
    });
    return monitor;
  }

  /** What came from one connection. */
  from(source: string): Seen[] {
    return this.seen.filter((one) => one.source === source);
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  #read(line: string): void {
    const [, seconds = '', source = '', command = '', sha = ''] = LINE.exec(line) ?? [];
    // A script that the server did not have is sent whole once; all that is counted here comes again.
    const found = Object.values(transitions).find((one) =>
      /^evalsha$/i.test(command) ? one.script.sha === sha : 'native' in one && one.native === command.toUpperCase(),
    );
    if (found !== undefined) this.seen.push({ name: found.name, source, atMs: Number(seconds) * 1_000 });
  }
}
