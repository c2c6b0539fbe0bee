/**
 * The calls that one process makes, in order, as its connector is asked for them: with their arguments, which MONITOR
 * would give only as text. Does not: see the blocking reads and subscriptions, which have connections of their own.
 */
import { vi } from 'vitest';
import type { Call, Connector } from '../../../src/index.js';

export class CallLog {
  readonly calls: Call[] = [];
  /** When each was made, as of performance.now(). */
  readonly times: number[] = [];

  /** From now on, until the test is over. `refuse` may make a call fail before it is sent. */
  constructor(connector: Connector, refuse: (call: Call) => Error | undefined = () => undefined) {
    const run = connector.run.bind(connector);
    vi.spyOn(connector, 'run').mockImplementation((call) => {
      this.calls.push(call);
      this.times.push(performance.now());
      const error = refuse(call);
      return error === undefined ? run(call) : Promise.reject(error);
    });
  }

  get names(): string[] {
    return this.calls.map(({ transition }) => transition.name);
  }

  /** The times between the first and the last call of that name, in ms, and how many steps that were. */
  span(name: string): { readonly ms: number; readonly steps: number } {
    const times = this.times.filter((_, n) => this.calls[n]?.transition.name === name);
    return { ms: (times.at(-1) ?? 0) - (times[0] ?? 0), steps: times.length - 1 };
  }

  of(name: string): Call[] {
    return this.calls.filter(({ transition }) => transition.name === name);
  }
}
