/**
 * Keeps the leases of all jobs that a consumer holds: one renewal for all of them, at half the lease, in one call.
 *
 * Invariants: while a job is held its lease is renewed, during a graceful close too; a renewal that met no server is
 * tried again soon, and at once after a reconnect; a job that the server says is no longer this consumer's is reported
 * once and no longer held. A lease that a handler made longer is not shortened.
 * Does not: sweep, or decide what becomes of a lost job.
 */
import { transitions } from '../wire/transitions.js';
import type { EmqError } from '../wire/errors.js';
import type { Runner } from './calls.js';

/** A job whose lease is kept. */
export interface Holding {
  readonly id: string;
  readonly token: number;
  /** Its outcome is on its way: the settle's answer counts, not a renewal's. */
  readonly settling: boolean;
  /** Until when a handler has extended the lease itself (performance.now()); 0 = it has not. */
  readonly extendedUntil: number;
}

/** What the keeper tells. */
export interface KeeperReports<H> {
  /** The job is no longer ours. */
  lost(holding: H): void;
  /** A renewal failed; it is tried again. */
  trouble(error: EmqError): void;
}

/** So many ids go into one call, which holds up the server for all others meanwhile. */
const MOST_AT_ONCE = 1_000;
/** A failed renewal is tried again this often within a lease. */
const TRIES_A_LEASE = 20;

export class LeaseKeeper<H extends Holding> {
  readonly #runner: Runner;
  readonly #leaseMs: number;
  readonly #reports: KeeperReports<H>;
  readonly #held = new Map<string, H>();
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<void> | undefined;
  /** When all were last told to be renewed, or the first one was claimed. */
  #renewedAt = 0;

  constructor(runner: Runner, leaseMs: number, reports: KeeperReports<H>) {
    this.#runner = runner;
    this.#leaseMs = leaseMs;
    this.#reports = reports;
  }

  get size(): number {
    return this.#held.size;
  }

  get(id: string): H | undefined {
    return this.#held.get(id);
  }

  /** All that is held, oldest first. */
  all(): H[] {
    return [...this.#held.values()];
  }

  hold(holding: H): void {
    // The job came back to us before a renewal could tell that its lease was lost.
    const before = this.#held.get(holding.id);
    if (before?.settling === false) this.#reports.lost(before);
    if (this.#held.size === 0) {
      this.#renewedAt = performance.now();
      this.#arm(this.#leaseMs / 2);
    }
    this.#held.set(holding.id, holding);
  }

  drop(holding: H): void {
    // the same job may be held again by now, under another token
    if (this.#held.get(holding.id) === holding) this.#held.delete(holding.id);
    if (this.#held.size === 0) clearTimeout(this.#timer);
  }

  /** Sends the renewal now if it is overdue: an event loop that was blocked must renew before it sweeps. */
  renewIfDue(): void {
    if (this.#held.size > 0 && performance.now() - this.#renewedAt >= this.#leaseMs / 2) void this.renew();
  }

  /** Sends a renewal for all that is held. Never rejects. */
  renew(): Promise<void> {
    if (this.#held.size === 0) return Promise.resolve();
    // One under way may be waiting for a connection; its answer counts for all.
    this.#renewing ??= this.#renewAll().finally(() => (this.#renewing = undefined));
    return this.#renewing;
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #arm(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.renew(), Math.max(1, Math.ceil(ms)));
  }

  async #renewAll(): Promise<void> {
    const now = performance.now();
    this.#renewedAt = now;
    const due = this.all().filter((one) => !one.settling && one.extendedUntil < now + this.#leaseMs);
    const steps: Promise<boolean>[] = [];
    for (let i = 0; i < due.length; i += MOST_AT_ONCE) steps.push(this.#renewSome(due.slice(i, i + MOST_AT_ONCE)));
    const all = await Promise.all(steps);
    if (this.#held.size > 0) this.#arm(all.every(Boolean) ? this.#leaseMs / 2 : this.#leaseMs / TRIES_A_LEASE);
  }

  async #renewSome(holdings: readonly H[]): Promise<boolean> {
    const input = {
      leaseMs: this.#leaseMs,
      held: holdings.map(({ id, token }) => ({ id, token })),
    };
    try {
      const failed = new Set(await this.#runner.run(transitions.extendMany, input));
      for (const holding of holdings) {
        if (!failed.has(holding.id) || holding.settling || this.#held.get(holding.id) !== holding) continue;
        this.drop(holding);
        this.#reports.lost(holding);
      }
      return true;
    } catch (error) {
      this.#reports.trouble(error as EmqError);
      return false;
    }
  }
}
