/**
 * The keyspace events of a node, in the order in which the server sent them.
 *
 * Invariants: `take` waits for a marker that follows the events on the same connection, never for a time.
 * Does not: switch the events on; the node is started with `--notify-keyspace-events KEAn`.
 */
import { need } from '../../src/parity/node.js';
import type { TestNode } from './nodes.js';

/** The argument of a server that sends all events there are, those of new keys too. */
export const EVENTS = ['--notify-keyspace-events', 'KEAn'];

export class EventTap {
  readonly #node: TestNode;
  readonly #seen: string[] = [];
  readonly #waiting = new Map<string, () => void>();
  #markers = 0;

  private constructor(node: TestNode) {
    this.#node = node;
  }

  static async open(node: TestNode): Promise<EventTap> {
    const tap = new EventTap(node);
    const client = await node.connect();
    client.on('pmessageBuffer', (_pattern: unknown, channel: Buffer, message: Buffer) => {
      const name = channel.toString('latin1');
      if (name !== 'tap')
        tap.#seen.push(`${name.replace(/^__(keyspace|keyevent)@0__:/, '$1 ')} ${message.toString('latin1')}`);
      else tap.#waiting.get(message.toString())?.();
    });
    await client.psubscribe('__key*@0__:*', 'tap');
    return tap;
  }

  /** The events since the last call of `take`: `keyspace <key> <event>` and `keyevent <event> <key>`. */
  async take(): Promise<string[]> {
    this.#markers += 1;
    const marker = String(this.#markers);
    const arrived = new Promise<void>((resolve) => this.#waiting.set(marker, resolve));
    await need(this.#node.client, ['PUBLISH', 'tap', marker]);
    await arrived;
    this.#waiting.delete(marker);
    return this.#seen.splice(0);
  }
}
