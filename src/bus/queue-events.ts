/**
 * What happens to the jobs of a queue, as it happens: an EventEmitter and an async iterator over the events channel.
 *
 * Invariants: once `ready()` has resolved nothing is missed without a notice: `gap` after the connection was lost and
 * found again, and to an iterator also when its reader was too slow. A message that is no event is passed over and
 * counted. A channel is open to strangers: only the names in `EVENT_NAMES` are emitted by name; any other is seen under
 * `event` alone, so that nobody can make a process throw by publishing an `error`.
 * Does not: remember. Events say what happened while somebody listened; what is true is in the rows.
 */
import { EventEmitter } from 'node:events';

import { known, positive } from '../queue/input.js';
import { Connector } from '../wire/connector.js';
import { inputError, show } from '../wire/errors.js';
import { Keyspace } from '../wire/keyspace.js';
import { EVENT_NAMES, readEvent, type EventName, type QueueEvent } from './event.js';
import { Feed, type EventGap } from './feed.js';
import { subscriberOf, type Subscription } from './subscriber.js';

/** What is emitted: every event under its own name, if the package knows it, and under `event`. */
export interface QueueEventsMap extends Record<EventName, [event: QueueEvent]> {
  /** Every event, those with a name that this version does not know too. */
  event: [event: QueueEvent];
  /** The connection was lost and is back: events may have been missed. */
  gap: [gap: EventGap];
}

export interface QueueEventsOptions {
  /** How many events an iterator keeps for its reader; then the oldest goes, and a gap in its place. Default 1 000. */
  readonly bufferSize?: number;
}

/** Counts since it was made. */
export interface QueueEventsStats {
  readonly received: number;
  /** Messages that were no event. */
  readonly malformed: number;
  /** Losses of the connection after which events may be missing. */
  readonly gaps: number;
  /** Events that were dropped because an iterator's reader was too slow. */
  readonly dropped: number;
  /** Iterators that are being read. */
  readonly readers: number;
}

const NAMED: ReadonlySet<string> = new Set(EVENT_NAMES);

/**
 * Listens from the moment it is made; `close()` it, or `await using`. All that listen through one connector share one
 * connection. An item of an iterator without a `job` is a gap.
 *
 *     for await (const item of events) {
 *       if (item.job === undefined) await lookAgain();
 *       else console.log(item.event, item.job);
 *     }
 */
export class QueueEvents extends EventEmitter<QueueEventsMap> implements AsyncIterable<QueueEvent | EventGap> {
  readonly queue: string;
  readonly #bufferSize: number;
  readonly #subscription: Subscription;
  readonly #feeds = new Set<Feed<QueueEvent>>();
  readonly #counts = { received: 0, malformed: 0, gaps: 0, dropped: 0 };
  #closed = false;

  /** @throws EmqError `EMQ_INPUT` for a name that is none, or a wrong option. */
  constructor(connector: Connector, queue: string, options: QueueEventsOptions = {}) {
    super();
    if (!(connector instanceof Connector)) {
      throw inputError(
        `the first argument of QueueEvents is a Connector (await Connector.connect(...)), got ${show(connector)}`,
      );
    }
    const { events } = new Keyspace(queue);
    const { bufferSize = 1_000 } = known('QueueEvents', options, ['bufferSize']);
    this.queue = queue;
    this.#bufferSize = positive('bufferSize', bufferSize);
    this.#subscription = subscriberOf(connector).subscribe(events, {
      message: (bytes) => this.#read(bytes),
      gap: () => this.#gap(),
    });
    void this.#subscription.ended.then(() => this.#end());
  }

  /**
   * Resolves when the server has confirmed the subscription. It waits as long as there is no connection.
   * @throws EmqError `EMQ_CLOSED`; a refusal that does not pass by itself (`NOPERM`: the user needs `+subscribe` and the
   *   channel `&emq:{queue}:events`).
   */
  ready(): Promise<void> {
    return this.#subscription.ready;
  }

  /** A reader of its own: it is given what comes from now on, until `close()` or until it leaves its loop. */
  [Symbol.asyncIterator](): AsyncIterableIterator<QueueEvent | EventGap, undefined> {
    const feed = new Feed<QueueEvent>(this.#bufferSize, () => this.#feeds.delete(feed));
    if (this.#closed) feed.end();
    else this.#feeds.add(feed);
    return feed;
  }

  /** Ends it and its iterators. Never rejects; may be called again. */
  async close(): Promise<void> {
    this.#end();
    await this.#subscription.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** What it has heard. */
  stats(): QueueEventsStats {
    return { ...this.#counts, readers: this.#feeds.size };
  }

  #read(bytes: Buffer): void {
    if (this.#closed) return;
    const event = readEvent(bytes);
    if (event === undefined) {
      this.#counts.malformed++;
      return;
    }
    this.#counts.received++;
    this.#feed(event);
    if (NAMED.has(event.event)) this.#tell(event.event as EventName, event);
    this.#tell('event', event);
  }

  #gap(): void {
    if (this.#closed) return;
    this.#counts.gaps++;
    const gap: EventGap = { event: 'gap', missed: null };
    this.#feed(gap);
    this.#tell('gap', gap);
  }

  #feed(item: QueueEvent | EventGap): void {
    for (const feed of this.#feeds) this.#counts.dropped += feed.push(item);
  }

  #end(): void {
    this.#closed = true;
    for (const feed of this.#feeds) feed.end();
    this.#feeds.clear();
  }

  /** What a listener throws is thrown where nobody of ours stands in between, as with any other emitter. */
  #tell(name: EventName | 'event', event: QueueEvent): void;
  #tell(name: 'gap', gap: EventGap): void;
  #tell(name: keyof QueueEventsMap, item: QueueEvent | EventGap): void {
    try {
      (this as EventEmitter).emit(name, item);
    } catch (error) {
      process.nextTick(() => {
        throw error;
      });
    }
  }
}
