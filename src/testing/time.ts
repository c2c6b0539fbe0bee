/**
 * Making time pass in a queue, so that no test has to wait for it.
 *
 * Invariants: the order of what is scheduled stays. Does not: touch this process's clock or timers, or the time of death
 * of dead jobs.
 */
import { positive } from '../queue/input.js';
import type { Jobs } from '../queue/jobs.js';
import { call } from './call.js';
import { advance } from './scripts.js';

/** What an advance has made of a queue. */
export interface Advanced {
  /** Scheduled jobs whose time has come: `drain` or the next beat of a consumer runs them. */
  readonly due: number;
  /** Held jobs whose lease has lapsed. */
  readonly lapsed: number;
}

/**
 * As if `ms` milliseconds had passed: scheduled jobs and retries come due that much sooner, and so do the ends of leases (a
 * worker that is alive renews them). A consumer that waits for the next due time is woken. A pause, a dedup window or a
 * rate limit is not shortened.
 * @throws EmqError `EMQ_INPUT`.
 */
export async function advanceTime<T, Input>(queue: Jobs<T, Input>, ms: number): Promise<Advanced> {
  const input = positive('ms', ms);
  return call(queue, advance, input);
}
