/**
 * How far a batch consumer has gone along the ring of lanes in search of one that has enough jobs.
 *
 * A claim passes over a bounded number of lanes. Where more wait, the claims follow each other until one has given a batch
 * or all lanes have been looked at.
 * Invariants: a round ends when each lane that was on the ring has been passed; one that found nothing is followed by a rest
 * of some times its own length, so that the server is not kept busy by lanes that do not fill; whoever asks during a round
 * or a rest is owed one more, no matter how often. Pure: the time is the caller's, in ms.
 * Does not: claim, or keep a timer (batch-consumer.ts does).
 */

/** So many lanes one claim passes over (docs/wire.md, take_batch). */
const PASSED_OVER = 64;
/** A rest is so many times as long as the round. */
const REST = 3;

export class RingRound {
  /** Lanes that have not been looked at; undefined: no round is under way. */
  #left: number | undefined;
  #beganAt = 0;
  #restUntil = -Infinity;
  #owed = false;

  get underWay(): boolean {
    return this.#left !== undefined;
  }

  /** A claim has passed over lanes and given nothing; so many are on the ring. True when a round begins with it. */
  begins(now: number, lanes: number): boolean {
    if (lanes <= PASSED_OVER) return false;
    this.#owed = now < this.#restUntil;
    if (this.#owed) return false;
    this.#left = lanes - PASSED_OVER;
    this.#beganAt = now;
    return true;
  }

  /** Whether one more claim is to be made; it is counted as made. */
  goesOn(): boolean {
    if (this.#left === undefined || this.#left <= 0) return false;
    this.#left -= PASSED_OVER;
    return true;
  }

  /** Somebody asks for a batch during a round. */
  asked(): void {
    this.#owed = true;
  }

  ends(now: number, taken: boolean): void {
    this.#left = undefined;
    // the caller goes on at once where something was found
    if (taken) this.#owed = false;
    else this.#restUntil = now + REST * (now - this.#beganAt);
  }

  /** In how many ms one more is to be begun; undefined: none is owed. */
  restMs(now: number): number | undefined {
    return this.#owed && !this.underWay ? Math.max(0, this.#restUntil - now) : undefined;
  }
}
