/**
 * What the clients of a server that crashes were told, kept outside of it: who was promised what, and when.
 *
 * Invariants: a promise is noted when its answer has arrived, an intent before it is sent; times are performance.now().
 * Does not: ask the server; it is shown a dump and says which promises that dump breaks.
 */
import type { Bytes, Keys } from '../../src/parity/keyspace-dump.js';
import type { Keyspace } from '../../src/index.js';

/** What a handler does with a job: completes it, at once, at the second try or after a delay; or lets it die. */
export type Fate = 'ok' | 'retry' | 'delay' | 'die';

/** What is known of a job that the load adds. */
export interface Entry {
  readonly queue: Keyspace;
  readonly fate: Fate;
  /**
   * What its admission came to: not answered yet or lost on the way; there; refused before anything was sent;
   * not needed, since another job has its dedup id; lost with the end of the log, within the time that may be lost.
   */
  admitted: 'unknown' | 'yes' | 'refused' | 'deduplicated' | 'lost';
  admittedAt: number;
  /** Its handler has begun to complete it. */
  finished: boolean;
  /** When its completion, or its death, was answered. */
  completedAt: number | undefined;
  diedAt: number | undefined;
  /** A claim of it went with the end of the log: its token is given again, to a second run beside the first. */
  forked: boolean;
  /** Token -> when its run began. */
  readonly runs: Map<number, number>;
}

/** All promises of one server's life. */
export class Books {
  readonly jobs = new Map<string, Entry>();
  /** What went wrong between two crashes, a line each. */
  readonly wrong: string[] = [];
  /** Flow parent -> its children, for those that must not run before them. */
  readonly flows = new Map<string, readonly string[]>();
  /** Grows with every crash: an answer may come from before one. */
  era = 0;
  /** Answered promises that went with the end of the log. */
  lost = 0;
  /** Jobs that have still to run, as far as is known here: a load must not outrun its consumers. */
  readonly open = new Set<string>();

  /** A job is about to be added. */
  intend(id: string, queue: Keyspace, fate: Fate): void {
    this.jobs.set(id, {
      ...{ queue, fate, admitted: 'unknown', admittedAt: Infinity, finished: false, forked: false },
      ...{ completedAt: undefined, diedAt: undefined, runs: new Map<number, number>() },
    });
  }

  /** Its addition was answered. */
  admit(id: string, outcome: Entry['admitted']): void {
    const entry = this.of(id);
    entry.admitted = outcome;
    entry.admittedAt = performance.now();
    if (outcome === 'yes' && !entry.finished && entry.diedAt === undefined) this.open.add(id);
  }

  /** A handler has the job. */
  begin(id: string, token: number): void {
    const { admitted, runs, completedAt, diedAt, forked } = this.of(id);
    const say = (what: string): void => void this.wrong.push(`${id} ran with token ${token}: ${what}`);
    if (runs.has(token)) say('a run had that token before');
    const later = [...runs.keys()].find((other) => other > token);
    if (later !== undefined) say(`token ${later} was given before`);
    if (completedAt !== undefined && !forked) say('its completion had been answered');
    if (diedAt !== undefined && !forked) say('its death had been answered');
    if (admitted === 'refused') say('its admission had been refused');
    const open = (this.flows.get(id) ?? []).filter((child) => !this.#ended(child));
    if (open.length > 0) say(`its children ${open.join(' ')} had not ended`);
    runs.set(token, performance.now());
  }

  /** Its handler is about to complete it. */
  finish(id: string): void {
    this.of(id).finished = true;
    this.open.delete(id);
  }

  completed(id: string): void {
    this.of(id).completedAt = performance.now();
  }

  died(id: string): void {
    this.of(id).diedAt = performance.now();
    this.open.delete(id);
  }

  of(id: string): Entry {
    const entry = this.jobs.get(id);
    if (entry === undefined) throw new Error(`${id} was never added`);
    return entry;
  }

  /** The promises that a dump breaks, a line each. @param until those that were answered later may be lost */
  broken(keys: Keys, until: number): string[] {
    const wrong = [...this.wrong];
    for (const [id, entry] of this.jobs) {
      const { admitted, admittedAt, finished, completedAt = Infinity, diedAt = Infinity } = entry;
      const row = rowOf(keys, entry, id);
      const say = (what: string): void => void wrong.push(`${id}: ${what}`);
      if (admitted === 'refused' && row !== undefined) say('its admission was refused, and it is there');
      if (admitted === 'yes' && admittedAt < until && row === undefined && !finished) say('was added, and is lost');
      if (completedAt < until && row !== undefined) say(`was completed, and is ${row.get('state')}`);
      if (diedAt < until && row?.get('state') !== 'dead') say(`was dead, and is ${row?.get('state') ?? 'gone'}`);
      if (row?.get('state') === 'dead' && entry.fate !== 'die' && !this.flows.has(id)) {
        say(`was to be done, and died of ${row.get('last_error')}`);
      }
      const told = Math.max(0, ...[...entry.runs].filter(([, at]) => at < until).map(([token]) => token));
      if (row !== undefined && Number(row.get('attempts')) < told) {
        say(`was claimed with token ${told}, and its row says ${row.get('attempts')}`);
      }
    }
    return wrong;
  }

  /** Takes a dump for what is true now: the promises that it does not know went with the end of the log. */
  rebase(keys: Keys): void {
    this.era++;
    for (const [id, entry] of this.jobs) {
      const row = rowOf(keys, entry, id);
      if (row === undefined) {
        if (entry.admitted === 'yes' && !entry.finished) {
          entry.admitted = 'lost';
          this.open.delete(id);
          this.lost++;
        }
        entry.diedAt = undefined;
        continue;
      }
      if (entry.completedAt !== undefined) this.lost++;
      entry.completedAt = undefined;
      if (row.get('state') !== 'dead') {
        if (entry.diedAt !== undefined) this.lost++;
        entry.diedAt = undefined;
      }
      for (const token of entry.runs.keys()) {
        if (token > Number(row.get('attempts'))) entry.forked = entry.runs.delete(token);
      }
    }
  }

  /** Ids of jobs that are neither done nor dead, a line each, when there is nothing left to do. */
  unaccounted(keys: Keys): string[] {
    return [...this.jobs].flatMap(([id, entry]) => {
      const state = rowOf(keys, entry, id)?.get('state');
      if (state === 'dead') return [];
      if (state !== undefined) return [`${id} is ${state} though nothing is left to do`];
      return entry.admitted === 'yes' && !entry.finished ? [`${id} was added, and was neither done nor dead`] : [];
    });
  }

  /** How many jobs have been done, and how many are dead. */
  totals(keys: Keys): { readonly done: number; readonly dead: number; readonly added: number } {
    const total = { done: 0, dead: 0, added: 0 };
    for (const [id, entry] of this.jobs) {
      const there = rowOf(keys, entry, id) !== undefined;
      if (entry.admitted === 'yes') total.added++;
      if (there) total.dead++;
      else if (entry.finished) total.done++;
    }
    return total;
  }

  /** A child of a flow that its parent no longer waits for. */
  #ended(child: string): boolean {
    const { fate, finished, runs } = this.of(child);
    return fate === 'die' ? runs.size > 0 : finished;
  }
}

function rowOf(keys: Keys, { queue }: Entry, id: string): Map<Bytes, Bytes> | undefined {
  const row = keys.get(queue.job(id));
  return row?.type === 'hash' ? row.fields : undefined;
}
