/**
 * The literal replication stream: a connection that asks for it as a replica does and reads what the server sends.
 *
 * Invariants: every command of the stream is seen, MULTI and EXEC too, as lists of bytes; `take` waits for a marker that
 * was written after what is asked for, never for a time. Does not: apply anything; it is no replica.
 * The server must be started with `REPLICATION`: a snapshot from disk (its length is sent first), and no pings.
 */
import { connect, type Socket } from 'node:net';
import { latin1, type Bytes } from '../../src/parity/keyspace-dump.js';
import { need } from '../../src/parity/node.js';
import type { TestNode } from './nodes.js';

export const REPLICATION = ['--repl-diskless-sync', 'no', '--repl-ping-replica-period', '3600'];

const MARKER = 'replica-tap';

export class ReplicaTap {
  readonly #node: TestNode;
  readonly #socket: Socket;
  #bytes = Buffer.alloc(0);
  #snapshotOver = false;
  #commands: Bytes[][] = [];
  #markers = 0;
  #changed: () => void = () => {};
  #failure: Error | undefined;

  private constructor(node: TestNode, socket: Socket) {
    this.#node = node;
    this.#socket = socket;
    socket.on('data', (bytes: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, bytes]);
      this.#read();
      this.#changed();
    });
    socket.on('close', () => {
      this.#failure ??= new Error('the server closed the replication stream');
      this.#changed();
    });
    socket.on('error', (error) => (this.#failure = error));
  }

  /** Resolves when the snapshot is over and the stream has begun. */
  static async open(node: TestNode): Promise<ReplicaTap> {
    const socket = connect(node.server.socketPath);
    const tap = new ReplicaTap(node, socket);
    socket.write('SYNC\r\n');
    await tap.#until(() => tap.#snapshotOver);
    await tap.take();
    return tap;
  }

  /** The commands since the last call, without the selection of the database. */
  async take(): Promise<Bytes[][]> {
    this.#markers += 1;
    const marker = `${MARKER}:${this.#markers}`;
    await need(this.#node.client, ['SET', marker, '1']);
    const ends = (command: readonly Bytes[]): boolean => command[1] === marker;
    await this.#until(() => this.#commands.some(ends));
    const end = this.#commands.findIndex(ends);
    const taken = this.#commands.splice(0, end + 1).slice(0, -1);
    return taken.filter(([name, key]) => name !== 'SELECT' && !key?.startsWith(MARKER));
  }

  close(): void {
    this.#socket.destroy();
  }

  async #until(happened: () => boolean): Promise<void> {
    while (!happened()) {
      if (this.#failure !== undefined) throw this.#failure;
      await new Promise<void>((resolve) => (this.#changed = resolve));
    }
  }

  #read(): void {
    if (!this.#snapshotOver && !this.#skipSnapshot()) return;
    for (;;) {
      const command = this.#command();
      if (command === undefined) return;
      this.#commands.push(command);
    }
  }

  /** Line feeds while the server saves, then `$<length>` and so many bytes. */
  #skipSnapshot(): boolean {
    const header = /^\n*\$(\d+)\r\n/.exec(this.#bytes.subarray(0, 1000).toString('latin1'));
    if (header === null) return false;
    const end = header[0].length + Number(header[1]);
    if (this.#bytes.length < end) return false;
    this.#bytes = this.#bytes.subarray(end);
    this.#snapshotOver = true;
    return true;
  }

  /** The next whole command: an array of bulk strings. */
  #command(): Bytes[] | undefined {
    const bytes = this.#bytes;
    let at = 0;
    const line = (): string | undefined => {
      const end = bytes.indexOf('\r\n', at);
      if (end < 0) return undefined;
      const text = bytes.toString('latin1', at, end);
      at = end + 2;
      return text;
    };
    const head = line();
    if (head === undefined) return undefined;
    if (!head.startsWith('*')) throw new Error(`not a command: ${JSON.stringify(head)}`);
    const words: Bytes[] = [];
    while (words.length < Number(head.slice(1))) {
      const size = line();
      if (size === undefined) return undefined;
      const end = at + Number(size.slice(1));
      if (bytes.length < end + 2) return undefined;
      words.push(latin1(bytes.subarray(at, end)));
      at = end + 2;
    }
    this.#bytes = bytes.subarray(at);
    return words;
  }
}
