/**
 * Hands jobs out to the free slots of all consumers of one queue in this process.
 *
 * Invariants: a slot is reserved before a job is asked for, so no consumer ever holds more than its concurrency; all
 * free slots ask together and the jobs are dealt one by one in turn, so that no consumer gets much more than its share;
 * a claim that was refused is made again soon, since nothing else may ever wake this process.
 * Does not: wait for work (park.ts), or run it (consumer.ts).
 */
import { EmqError } from '../wire/errors.js';
import { transitions, type Source, type Taken } from '../wire/transitions.js';
import { isUnreadable, type Runner } from './calls.js';

/** A consumer, as the hand-out sees it. */
export type Server = SlotServer | BatchServer;

interface AnyServer {
  readonly leaseMs: number;
  readonly source: Source;
  /** Slots in which nobody works and for which nobody has asked yet. */
  readonly free: number;
}

/** One that takes whole batches: it claims by itself when it is asked to. */
export interface BatchServer extends AnyServer {
  /** Claims a batch, if there is one; resolves with true if there was. By `HandOut.claim`: it never rejects. */
  draw(): Promise<boolean>;
}

/** One whose slots take a job each. */
export interface SlotServer extends AnyServer {
  /** Takes so many free slots out of the count until `serve`. */
  reserve(slots: number): void;
  /** The answer to a reservation: as many jobs as there were slots, or fewer. */
  serve(jobs: readonly Taken[], reserved: number): void;
}

/** What the hand-out tells. */
export interface HandOutReports {
  /** A claim gave less than was asked for: nothing more waits, or a limit holds it back. */
  short(): void;
  /** Rows that could not be read are dead now. */
  quarantined(rows: readonly { readonly id: string; readonly why: string }[]): void;
  trouble(error: EmqError): void;
}

/** So many jobs come with one claim at most. */
const MOST_AT_ONCE = 100;
/** No fewer than a claim or a sweep comes upon: what refused that has to be among them. */
const QUARANTINE_LIMIT = 100;
const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 1_000;

export class HandOut {
  readonly #runner: Runner;
  readonly #servers: ReadonlySet<Server>;
  readonly #reports: HandOutReports;
  #filling: Promise<boolean> | undefined;
  #again = false;
  #turn = 0;
  #retry: NodeJS.Timeout | undefined;
  #refusals = 0;
  #claimed = 0;
  #stopped = false;
  #waiting: Promise<void> | undefined;

  constructor(runner: Runner, servers: ReadonlySet<Server>, reports: HandOutReports) {
    this.#runner = runner;
    this.#servers = servers;
    this.#reports = reports;
  }

  /** Free slots of all consumers. */
  get free(): number {
    let free = 0;
    for (const server of this.#servers) free += server.free;
    return free;
  }

  /** Jobs that have been claimed so far. */
  get claimed(): number {
    return this.#claimed;
  }

  /** The last claim was refused. */
  get refused(): boolean {
    return this.#refusals > 0;
  }

  /** Asks for nothing before that has resolved. */
  waitFor(ready: Promise<void>): void {
    this.#waiting = ready.then(() => void (this.#waiting = undefined));
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#retry);
  }

  /** Asks for all free slots. Resolves with true when every slot that asked got a job. Never rejects. */
  fill(): Promise<boolean> {
    if (this.#filling !== undefined) {
      // What it asked for was asked before whatever happened now.
      this.#again = true;
      return this.#filling;
    }
    this.#filling = this.#fill().finally(() => (this.#filling = undefined));
    return this.#filling;
  }

  async #fill(): Promise<boolean> {
    if (this.#waiting !== undefined) await this.#waiting;
    for (;;) {
      this.#again = false;
      const { full, more } = await this.#round();
      if (this.#stopped || (!this.#again && !(full && more))) return full;
    }
  }

  /** Asks for the free slots of one consumer: it has just settled a job, in the same write. Never rejects. */
  async roll(server: SlotServer): Promise<boolean> {
    const slots = Math.min(server.free, MOST_AT_ONCE);
    if (slots === 0) return true;
    server.reserve(slots);
    const jobs = await this.#take(server.leaseMs, server.source, slots);
    server.serve(jobs, slots);
    return jobs.length === slots;
  }

  async #round(): Promise<{ full: boolean; more: boolean }> {
    const drawn = [...this.#servers].map((server) => 'draw' in server && server.free > 0 && server.draw());
    const asked = [...this.#groups().values()].map(async (slots) => {
      const [first] = slots;
      if (first === undefined) return true;
      for (const [server, count] of counted(slots)) server.reserve(count);
      const jobs = await this.#take(first.leaseMs, first.source, slots.length);
      const dealt = new Map<Server, Taken[]>();
      for (const [i, job] of jobs.entries()) {
        const server = slots[i] as Server;
        const hand = dealt.get(server);
        if (hand === undefined) dealt.set(server, [job]);
        else hand.push(job);
      }
      for (const [server, count] of counted(slots)) server.serve(dealt.get(server) ?? [], count);
      return jobs.length === slots.length;
    });
    const got = await Promise.all([...asked, ...drawn.filter((one) => one !== false)]);
    const full = got.every(Boolean);
    return { full, more: this.free > 0 };
  }

  /** One slot after the other, each consumer in its turn; those that claim alike together. */
  #groups(): Map<string, SlotServer[]> {
    const servers = [...this.#servers].filter((server): server is SlotServer => !('draw' in server) && server.free > 0);
    const groups = new Map<string, SlotServer[]>();
    if (servers.length === 0) return groups;
    const start = this.#turn++ % servers.length;
    const left = [...servers.slice(start), ...servers.slice(0, start)].map((server) => ({ server, free: server.free }));
    for (let dealt = true; dealt;) {
      dealt = false;
      for (const one of left) {
        if (one.free === 0) continue;
        const name = `${one.server.source} ${one.server.leaseMs}`;
        const slots = groups.get(name) ?? [];
        groups.set(name, slots);
        if (slots.length >= MOST_AT_ONCE) continue;
        slots.push(one.server);
        one.free--;
        dealt = true;
      }
    }
    return groups;
  }

  async #take(leaseMs: number, source: Source, count: number): Promise<readonly Taken[]> {
    const jobs = await this.claim(() => this.#runner.run(transitions.take, { leaseMs, source, count }));
    if (jobs.length < count) this.#reports.short();
    return jobs;
  }

  /** Makes a claim, again when rows that cannot be read stood in its way, and later when it was refused. Never rejects. */
  async claim(claim: () => Promise<readonly Taken[]>): Promise<readonly Taken[]> {
    for (;;) {
      try {
        const jobs = await claim();
        this.#refusals = 0;
        this.#claimed += jobs.length;
        return jobs;
      } catch (error) {
        // A row that nobody can read stands before all others: it goes to the morgue, and the claim is made again.
        if (isUnreadable(error as EmqError) && (await this.quarantine())) continue;
        this.#reports.trouble(error as EmqError);
        this.#soon();
        return [];
      }
    }
  }

  /** Moves unreadable rows to the morgue. True if there were any. Never rejects. */
  async quarantine(): Promise<boolean> {
    try {
      const found = await this.#runner.run(transitions.quarantine, { limit: QUARANTINE_LIMIT });
      const rows = found.filter(({ why }) => !/^(g(active|limit|max)|limiter) /.test(why));
      if (rows.length > 0) this.#reports.quarantined(rows);
      // A lane's own counter is not moved anywhere: someone has to mend it.
      for (const { id, why } of found.filter((row) => !rows.includes(row))) {
        this.#reports.trouble(
          new EmqError(
            'ERR',
            `ERR lane ${id} cannot be served: ${why}; mend or delete it (emq doctor --queue tells where)`,
          ),
        );
      }
      return rows.length > 0;
    } catch (error) {
      this.#reports.trouble(error as EmqError);
      return false;
    }
  }

  /** A refused claim may have been the answer to a wake, and nobody says it twice. */
  #soon(): void {
    clearTimeout(this.#retry);
    if (this.#stopped) return;
    const pause = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(this.#refusals++, 10));
    this.#retry = setTimeout(() => void this.fill(), pause);
  }
}

function counted(slots: readonly SlotServer[]): Map<SlotServer, number> {
  const counts = new Map<SlotServer, number>();
  for (const server of slots) counts.set(server, (counts.get(server) ?? 0) + 1);
  return counts;
}
