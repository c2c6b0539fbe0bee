/**
 * Progress on a terminal as one bar that moves, elsewhere as a plain line every few seconds.
 *
 * Invariants: no timer; the bar is gone when the thing is done. Does not: write more often than a person can read.
 */
const BAR = 30;
const EVERY_MS = 100;
const PLAIN_EVERY_MS = 3_000;

export interface Output {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Shows how far something is. Call it with every step, and `end` once. */
export class Progress {
  readonly #begun = performance.now();
  #next: number;

  constructor(
    readonly out: Output,
    readonly what: string,
    readonly total: number,
  ) {
    this.#next = this.#begun + (out.isTTY === true ? 0 : PLAIN_EVERY_MS);
  }

  readonly at = (done: number): void => {
    const now = performance.now();
    if (now < this.#next) return;
    this.#next = now + (this.out.isTTY === true ? EVERY_MS : PLAIN_EVERY_MS);
    const share = this.total === 0 ? 1 : done / this.total;
    const rate = Math.round((done / Math.max(now - this.#begun, 1)) * 1000);
    const text = `${this.what.padEnd(10)}${count(done)}/${count(this.total)}  ${count(rate)}/s`;
    if (this.out.isTTY !== true) return void this.out.write(`${text}\n`);
    const full = Math.round(share * BAR);
    this.out.write(`\r\x1b[K[${'█'.repeat(full)}${'·'.repeat(BAR - full)}] ${text}`);
  };

  /** Takes the bar away; resolves to the seconds it took. */
  end(): number {
    if (this.out.isTTY === true) this.out.write('\r\x1b[K');
    return (performance.now() - this.#begun) / 1000;
  }
}

/** A number with its thousands apart. */
export function count(n: number): string {
  return n.toLocaleString('en-US');
}
