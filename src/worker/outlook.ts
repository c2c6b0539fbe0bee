/**
 * When it is worth claiming again: looked up where a limit may hold back what waits, since nobody is woken when a token comes.
 *
 * Invariants: many that ask at once share one look, and the next; a look that finds nothing for a while is followed by one
 * more claim, since a token may have come between the claim and the look, and by no third; whoever needs more than one token is not asked again by it.
 * Does not: wait (the metronome has the timer).
 */
import type { EmqError } from '../wire/errors.js';
import type { Due } from './pump.js';

/** What it asks and tells. */
export interface OutlookSide {
  /** @throws EmqError */
  agenda(): Promise<Due>;
  /** A beat in so many ms, or before. */
  arm(ms: number): void;
  /** Claims for all that is free. Never rejects. */
  fill(): Promise<unknown>;
  /** How many jobs have been claimed here so far. */
  readonly claimed: number;
  trouble(error: EmqError): void;
}

/** A beat that comes as soon as that claims again by itself. */
const SOON_MS = 100;

export class Outlook {
  /** The queue or a lane has a rate: a claim that gave too little may give more soon. */
  limited = false;
  readonly #side: OutlookSide;
  /** A beat for what is due already comes in so many ms: it did not help the claim. */
  readonly #leastMs: number;
  #looking: Promise<void> | undefined;
  #again = false;
  /** Somebody would be served by the next token. */
  #thirsty = false;
  #retrying = false;
  #stopped = false;

  constructor(side: OutlookSide, leastMs: number) {
    this.#side = side;
    this.#leastMs = leastMs;
  }

  stop(): void {
    this.#stopped = true;
  }

  /** A claim gave less than was asked for. @param again one token that came since would be reason to claim once more. */
  short(again = true): void {
    if (!this.limited || this.#retrying || this.#stopped) return;
    this.#thirsty ||= again;
    if (this.#looking !== undefined) this.#again = true;
    else this.#looking = this.#look();
  }

  /**
   * Looks once, and has the beats come then. Gives the ms until something is due; null when nothing is, or the look failed.
   * @param leastMs a beat for what is due already comes in so many ms.
   */
  async once(leastMs: number): Promise<number | null> {
    try {
      const { dueInMs, repeatInMs, limited } = await this.#side.agenda();
      this.limited = limited;
      for (const ms of [dueInMs, repeatInMs]) if (ms !== null) this.#side.arm(ms > 0 ? ms : leastMs);
      return dueInMs;
    } catch (error) {
      this.#side.trouble(error as EmqError);
      return null;
    }
  }

  async #look(): Promise<void> {
    do {
      this.#again = false;
      const thirsty = this.#thirsty;
      this.#thirsty = false;
      const dueInMs = await this.once(this.#leastMs);
      if (this.#stopped || !this.limited || !thirsty || (dueInMs !== null && dueInMs <= SOON_MS)) continue;
      const before = this.#side.claimed;
      this.#retrying = true;
      await this.#side.fill();
      this.#retrying = false;
      // there was something: there may be more, and its token is still to come
      this.#again ||= this.#side.claimed > before;
    } while (this.#again && !this.#stopped);
    this.#looking = undefined;
  }
}
