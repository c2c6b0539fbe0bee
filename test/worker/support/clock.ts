/**
 * Time for bounds that a loaded machine must not break: only the time in which this process had the processor counts.
 *
 * How: a short tick is counted at most twice its length, however late it came; timers of the code under test that run
 * in this process were held up just as long. Does not: know how loaded the other processes are.
 */
const TICK_MS = 5;

export class Stopwatch implements Disposable {
  #elapsed = 0;
  #last = performance.now();
  readonly #timer: NodeJS.Timeout;

  constructor() {
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  /** Ms since the start. */
  get ms(): number {
    this.#tick();
    return this.#elapsed;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    const now = performance.now();
    this.#elapsed += Math.min(now - this.#last, 2 * TICK_MS);
    this.#last = now;
  }
}

/** How long it took, in ms. */
export async function timed(act: () => Promise<unknown>): Promise<number> {
  using watch = new Stopwatch();
  await act();
  return watch.ms;
}
