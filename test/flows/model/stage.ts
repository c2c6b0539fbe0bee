/**
 * Processes whose calls wait until somebody lets them through: one call at a time, of whichever process.
 *
 * A process is a piece of work that was given a `Wire`. Its calls stand in a row, in the order in which they were made, as on
 * one connection; whoever holds the stage decides which is next and what its maker hears of it. A process that is killed
 * hears nothing more, and nothing more of it is sent.
 * Invariants: between two calls every process is where its code waits for an answer, so the order of everything is the
 * order of the calls alone. Does not: send anything, or know a transition.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Wire } from '../../../src/queue/jobs.js';
import type { Call, Outcome, Reply } from '../../../src/wire/call.js';
import { EmqError } from '../../../src/wire/errors.js';

/** A call that has not been answered. */
interface Waiting {
  readonly call: Call;
  readonly answer: (outcome: Outcome) => void;
}

/** How a process ended by itself. */
export type End<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: EmqError };

export class Process implements Wire {
  readonly name: string;
  readonly waiting: Waiting[] = [];
  /** Long stretches of time pass between its calls. */
  slow: boolean;
  /** It has not ended, by itself or otherwise. */
  lives = true;
  readonly #killed: () => void;

  constructor(name: string, slow: boolean, killed: () => void) {
    this.name = name;
    this.slow = slow;
    this.#killed = killed;
  }

  /** The call that is next. */
  get next(): Call | undefined {
    return this.waiting[0]?.call;
  }

  run(call: Call): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ call, answer: (outcome) => (outcome.ok ? resolve(outcome.reply) : reject(outcome.error)) });
    });
  }

  runAll(calls: readonly Call[]): Promise<Outcome[]> {
    return Promise.all(calls.map((call) => new Promise<Outcome>((answer) => this.waiting.push({ call, answer }))));
  }

  /** What becomes of the call that is next. */
  answer(outcome: Outcome): void {
    this.waiting.shift()?.answer(outcome);
  }

  kill(): void {
    this.lives = false;
    this.waiting.length = 0;
    this.#killed();
  }
}

export class Stage {
  #processes: Process[] = [];
  #started = 0;
  #fault: Error | undefined;

  /** Those that wait for an answer. */
  get busy(): readonly Process[] {
    return this.#processes;
  }

  /** Those of them that are not slow. */
  get brisk(): readonly Process[] {
    return this.#processes.filter(({ slow }) => !slow);
  }

  /** How many there are whose names begin so. */
  count(prefix: string): number {
    return this.#processes.filter(({ name }) => name.startsWith(prefix)).length;
  }

  /**
   * @param ended hears how it ended by itself; what it throws is thrown by `idle`
   * @param killed is told that it was killed
   */
  start<T>(
    name: string,
    work: (wire: Wire) => Promise<T>,
    ended: (end: End<T>) => void,
    killed: () => void = () => {},
  ): void {
    const number = ++this.#started;
    const process = new Process(`${name}#${number}`, number % 3 === 0, killed);
    this.#processes.push(process);
    const end = (how: End<T>): void => {
      if (!process.lives) return;
      process.lives = false;
      try {
        ended(how);
      } catch (error) {
        this.#fault ??= error as Error;
      }
    };
    void work(process).then(
      (value) => end({ ok: true, value }),
      (error: unknown) => {
        if (error instanceof EmqError) end({ ok: false, error });
        else this.#fault ??= error as Error;
      },
    );
  }

  /** Resolves when every process waits for an answer, has ended or is dead. Rejects with what a process should not have done. */
  async idle(): Promise<void> {
    // what happens between two calls of a process are microtasks
    await turn();
    if (this.#fault !== undefined) throw this.#fault;
    this.#processes = this.#processes.filter((process) => process.lives);
    const lost = this.#processes.find(({ waiting }) => waiting.length === 0);
    if (lost !== undefined) throw new Error(`${lost.name} waits for something that is no call`);
  }
}
