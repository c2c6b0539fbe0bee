/**
 * What one reader of a queue's events has yet to read: a bounded line with an async iterator at its end.
 *
 * Invariants: it never holds more than its limit; when it is full the oldest item goes, and the reader is told so in the
 * place of what went; items keep their order; after the end what is left is still given out.
 * Does not: hold anything up: whoever adds never waits.
 */

/** Stands in the place of events that were missed. It has no `job`; no event is named `gap`. */
export interface EventGap {
  readonly event: 'gap';
  /** How many events this reader was too slow for; null when nobody knows: the connection was lost for a while. */
  readonly missed: number | null;
  readonly job?: undefined;
}

export class Feed<T extends object> implements AsyncIterableIterator<T | EventGap, undefined> {
  readonly #limit: number;
  readonly #onDone: () => void;
  #items: (T | EventGap)[] = [];
  /** Where the line begins: what is before it has been read, or dropped. */
  #head = 0;
  /** What was dropped since the reader was told; null = it is not known how much. */
  #missed: number | null = 0;
  readonly #readers: ((result: IteratorResult<T | EventGap, undefined>) => void)[] = [];
  #ended = false;

  /** @param onDone called when the reader stops reading. */
  constructor(limit: number, onDone: () => void) {
    this.#limit = limit;
    this.#onDone = onDone;
  }

  /** Adds an item. Answers how many events were dropped for it: 0 or 1. */
  push(item: T | EventGap): number {
    if (this.#ended) return 0;
    const reader = this.#readers.shift();
    if (reader !== undefined) {
      reader({ done: false, value: item });
      return 0;
    }
    this.#items.push(item);
    return this.#items.length - this.#head > this.#limit ? this.#drop() : 0;
  }

  /** No more items come. */
  end(): void {
    this.#ended = true;
    for (const reader of this.#readers.splice(0)) reader({ done: true, value: undefined });
  }

  next(): Promise<IteratorResult<T | EventGap, undefined>> {
    if (this.#missed !== 0) {
      const gap: EventGap = { event: 'gap', missed: this.#missed };
      this.#missed = 0;
      return Promise.resolve({ done: false, value: gap });
    }
    const item = this.#take();
    if (item !== undefined) return Promise.resolve({ done: false, value: item });
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => this.#readers.push(resolve));
  }

  /** The reader has left its loop. */
  return(): Promise<IteratorResult<T | EventGap, undefined>> {
    this.#items = [];
    this.#head = 0;
    this.#missed = 0;
    this.end();
    this.#onDone();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #drop(): number {
    const item = this.#take();
    if (item !== undefined && isGap(item)) this.#missed = null;
    else if (this.#missed !== null) this.#missed++;
    return item === undefined || isGap(item) ? 0 : 1;
  }

  #take(): T | EventGap | undefined {
    if (this.#head === this.#items.length) return undefined;
    const item = this.#items[this.#head++];
    // Moved to the front once as much has been read as may wait: taking costs the same however long the line is.
    if (this.#head === this.#items.length || this.#head > this.#limit) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

function isGap(item: object): item is EventGap {
  return 'event' in item && item.event === 'gap';
}
