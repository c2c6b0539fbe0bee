/**
 * Closing, and closing when the process is told to end.
 *
 * Invariants: connectors are closed last, since a hand-back needs one; a second signal does not wait any longer.
 * Does not: call process.exit: when nothing is left open, the process ends by itself.
 */
import { known } from '../queue/input.js';
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
}

/**
 * Closes these when the process gets a signal: consumers and event streams all at once, then the connectors among them,
 * one after the other. Then the signal takes its usual course, so that whoever sent it sees the process end of it. A
 * second signal hands jobs back at once.
 * @returns a function that takes the listeners off again.
 */
export function closeOnSignal(closables: readonly Closable[], options: CloseOnSignalOptions = {}): () => void {
  const { signals = ['SIGTERM', 'SIGINT'] } = known('closeOnSignal', options, ['signals', 'timeoutMs']);
  const timeoutMs = readCloseTimeout(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs });
  const connectors = closables.filter((one) => one instanceof Connector);
  const users = closables.filter((one) => !(one instanceof Connector));
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
      process.kill(process.pid, signal);
    })();
  };
  for (const signal of signals) process.on(signal, onSignal);
  return off;
}
