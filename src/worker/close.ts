/**
 * Closing, and closing when the process is told to end.
 *
 * Invariants: connectors are closed last, since a hand-back needs one; a second signal does not wait any longer.
 * Does not: end anything that it was not given, but for the process.
 */
import { constants } from 'node:os';
import { givenList, known } from '../queue/input.js';
import { Connector } from '../wire/connector.js';
import { inputError, show } from '../wire/errors.js';

export interface CloseOptions {
  /** How long jobs in hand may take to end, in ms; 0 = hand them back now. Default 5 000. */
  readonly timeoutMs?: number;
}

const DEFAULT_CLOSE_MS = 5_000;
const LONGEST_MS = 2 ** 31 - 1;

/** @throws EmqError `EMQ_INPUT`. */
export function readCloseTimeout(options: CloseOptions): number {
  const { timeoutMs = DEFAULT_CLOSE_MS } = known('close', options, ['timeoutMs']);
  if (!Number.isInteger(timeoutMs) || timeoutMs < 0 || timeoutMs > LONGEST_MS) {
    throw inputError(`timeoutMs must be a whole number of ms from 0 to ${LONGEST_MS}, got ${show(timeoutMs)}`);
  }
  return timeoutMs;
}

/** Whatever has a `close`: consumers, event streams, connectors. */
export interface Closable {
  close(options?: CloseOptions): Promise<unknown>;
}

export interface CloseOnSignalOptions extends CloseOptions {
  /** Default SIGTERM and SIGINT. */
  readonly signals?: readonly NodeJS.Signals[];
  /**
   * End the process when all is closed, by process.exit with 128 + the signal's number (143 for SIGTERM), whatever else is
   * open. Default true; false leaves it to you.
   */
  readonly exit?: boolean;
}

/**
 * Closes these when the process gets a signal: consumers and event streams all at once, then the connectors among them,
 * one after the other. Then the process ends, as it would have by the signal. A second signal hands jobs back at once.
 * @returns a function that takes the listeners off again.
 * @throws EmqError `EMQ_INPUT`.
 */
export function closeOnSignal(closables: readonly Closable[], options: CloseOnSignalOptions = {}): () => void {
  const own = known('closeOnSignal', options, ['signals', 'timeoutMs', 'exit']);
  const { exit = true } = own;
  const timeoutMs = readCloseTimeout(own.timeoutMs === undefined ? {} : { timeoutMs: own.timeoutMs });
  const signals = givenList('signals', own.signals ?? ['SIGTERM', 'SIGINT']);
  const wrong = signals.findIndex((signal) => typeof signal !== 'string' || !Object.hasOwn(constants.signals, signal));
  if (wrong >= 0) throw inputError(`signals must be names such as SIGTERM, got ${show(signals[wrong])}`);
  const all = givenList('closables', closables);
  for (const one of all) {
    if (typeof (one as Partial<Closable> | null)?.close !== 'function') {
      throw inputError(
        `closeOnSignal takes a list of what has a close(): consumers, events, connectors; got ${show(one)}`,
      );
    }
  }
  const connectors = all.filter((one) => one instanceof Connector);
  const users = all.filter((one) => !(one instanceof Connector));
  const closeUsers = (ms: number): Promise<unknown> =>
    Promise.allSettled(users.map(async (one) => one.close({ timeoutMs: ms })));
  let closing = false;
  const off = (): void => {
    for (const signal of signals) process.off(signal, onSignal);
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    if (closing) return void closeUsers(0);
    closing = true;
    void (async () => {
      await closeUsers(timeoutMs);
      for (const connector of connectors) await connector.close();
      off();
      // Not by the signal itself: others who listen to it have heard it, and process 1 of a container would not mind it.
      if (exit) process.exit(128 + constants.signals[signal]);
    })();
  };
  for (const signal of signals) process.on(signal, onSignal);
  return off;
}
