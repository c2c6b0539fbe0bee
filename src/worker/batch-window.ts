/**
 * How long a batch consumer leaves jobs waiting for more of them.
 *
 * Invariants: the window opens when a job is first seen waiting, and closes when none waits; once its time is up whatever
 * waits is taken. A queue of lanes has one window for all of them: a full batch of one lane leaves it as it is, since others
 * may have waited as long, and at its end each lane that waits then gets a batch. Pure: the time is the caller's.
 * Does not: claim, or keep a timer (batch-consumer.ts does).
 */
export class BatchWindow {
  readonly #minSize: number;
  readonly #timeoutMs: number;
  readonly #lanes: boolean;
  /** When it opened. */
  #openedAt: number | undefined;
  /** How many small batches are still to be taken, once the time is up; undefined before that is known. */
  #owed: number | undefined;
  /** Its time was up, and nothing could be claimed: a wake or a beat will tell when that is worth another try. */
  #tried = false;

  /** @param lanes it is for a queue of lanes, where a batch leaves those of other lanes waiting. */
  constructor(minSize: number, timeoutMs: number, lanes: boolean) {
    this.#minSize = minSize;
    this.#timeoutMs = timeoutMs;
    this.#lanes = lanes;
  }

  get open(): boolean {
    return this.#openedAt !== undefined;
  }

  /** How many jobs must wait for a batch to be taken now. */
  least(now: number): number {
    return this.#due(now) ? 1 : this.#minSize;
  }

  /** In how many ms a claim is to be made; undefined: it is not open, or was tried after its time was up. */
  restMs(now: number): number | undefined {
    if (this.#openedAt === undefined || this.#tried) return undefined;
    return Math.max(0, this.#openedAt + this.#timeoutMs - now);
  }

  /**
   * A claim has been made.
   * @param least what `least` said for it. @param taken it gave a batch. @param waiting how many jobs, or lanes, wait after it.
   */
  claimed(now: number, least: number, taken: boolean, waiting: number): void {
    if (waiting === 0) this.#set(undefined);
    else if (!taken) {
      this.#openedAt ??= now;
      this.#tried = least === 1;
    } else if (!this.#lanes) this.#set(now);
    else if (least > 1) this.#openedAt ??= now;
    else {
      // those that waited as long as the one that was taken have waited long enough too
      this.#owed = (this.#owed ?? waiting + 1) - 1;
      if (this.#owed <= 0) this.#set(now);
    }
  }

  #set(openedAt: number | undefined): void {
    this.#openedAt = openedAt;
    this.#owed = undefined;
    this.#tried = false;
  }

  #due(now: number): boolean {
    return this.#openedAt !== undefined && now - this.#openedAt >= this.#timeoutMs;
  }
}
