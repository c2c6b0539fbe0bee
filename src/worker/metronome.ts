/**
 * One for each queue in a process, shared by all its consumers: the beat, the block, and what is common to them.
 *
 * At every beat it promotes, recovers, fires repeats and claims; between beats a blocked connection wakes it; when
 * something is due sooner than the next beat (a scheduled job, a repeat, a token of a rate), the beat comes then. The last
 * consumer that leaves ends it.
 *
 * Invariants:
 * - Beats do not overlap, and never stop coming, whatever a leg met and however busy the consumers are.
 * - After any interruption of the connection everything that is held is renewed first, and no lease is swept before
 *   half a lease, and at least 5 s, has passed: whoever was cut off too has that long to come back.
 * - An event loop that was blocked renews before it sweeps.
 * Does not: run jobs (consumer.ts), or hold leases (lease-keeper.ts).
 */
import { setTimeout as pause } from 'node:timers/promises';
import { subscriberOf, type Subscription } from '../bus/subscriber.js';
import type { Connector } from '../wire/connector.js';
import { EmqError } from '../wire/errors.js';
import type { Keyspace } from '../wire/keyspace.js';
import { transitions, type Taken } from '../wire/transitions.js';
import { dueBehind, fireDue } from '../queue/repeat-fire.js';
import { isUnreadable, Runner } from './calls.js';
import { Chores } from './chores.js';
import { HandOut, type BatchServer, type Server, type SlotServer } from './hand-out.js';
import type { DeadLetter } from './options.js';
import { Outlook } from './outlook.js';
import { Park } from './park.js';
import { Publisher } from './publisher.js';
import { Post } from './post.js';
import { Pump, type Leg, type Swept } from './pump.js';

/** A consumer, as the metronome sees it. */
export type Member = SlotMember | BatchMember;
/** One whose slots take a job each. */
export type SlotMember = MemberOf<SlotServer>;
/** One that takes whole batches. */
export type BatchMember = MemberOf<BatchServer>;

type MemberOf<S extends Server> = S & {
  readonly beatMs: number;
  readonly recovery: Leg | 'none';
  readonly maxStalled: number;
  /** Whether events are to be published. */
  readonly publishes: boolean;
  /** How many dead jobs it wants kept, and for how long; undefined: all. */
  readonly deadLetter: DeadLetter | undefined;
  /** It may leave jobs waiting though it has room, until there are enough of them. */
  readonly patient?: boolean;
  /** Renews all leases now. Never rejects. */
  renew(): Promise<void>;
  renewIfDue(): void;
  /** Aborts the job if it runs here. */
  cancel(id: string, reason: string): void;
  stalled(jobs: Swept['stalled']): void;
  quarantined(rows: readonly { readonly id: string; readonly why: string }[]): void;
  warn(error: EmqError): void;
  /** The connector was closed under it. */
  cutOff(): void;
};

const LEAST_GRACE_MS = 5_000;
/** How long the end waits for what was sent last. */
const LAST_ANSWERS_MS = 500;
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** How long the first claim waits until cancels are heard. */
const LISTEN_MS = 250;
/** A beat that found something due and could not move it must not spin. */
const LEAST_BEAT_MS = 20;
/** What a node says to everybody: a slot is moving, or has nobody to serve it. */
const HELD_UP: ReadonlySet<string> = new Set(['TRYAGAIN', 'ASK', 'CLUSTERDOWN', 'MASTERDOWN']);
/** Where jobs are left waiting for more of them, wakes are heard only so often. */
const PATIENCE_MS = 5;

/** Those of one connector, by queue. It listens to the connector once for all of them. */
const metronomes = new WeakMap<Connector, Map<string, Metronome>>();

export class Metronome {
  readonly runner: Runner;
  readonly publisher: Publisher;
  readonly #connector: Connector;
  readonly #keys: Keyspace;
  readonly #members = new Set<Member>();
  readonly #handOut: HandOut;
  readonly #pump: Pump;
  readonly #post: Post;
  readonly #chores: Chores;
  readonly #outlook: Outlook;
  #park: Park | undefined;
  #cancels: Subscription | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** When the next beat comes; while there is one, when another was asked for. */
  #beatAt = Infinity;
  #beating: Promise<void> | undefined;
  #epoch: number;
  #sweepsFrom = 0;
  #sweptAt = -Infinity;
  #passedAt = -Infinity;
  #leg: Leg | undefined;
  /** Those who have been told how the queue recovers. */
  readonly #introduced = new WeakSet<Member>();
  /** What is wrong at present, by its kind: said once, until a beat goes well and claims do. */
  readonly #troubles = new Set<string>();
  /** A repeat could not be fired: it has been told, and lasts. */
  #repeatTroubled = false;
  #stopped = false;

  private constructor(connector: Connector, keys: Keyspace) {
    this.#connector = connector;
    this.#keys = keys;
    this.#epoch = connector.epoch;
    this.runner = new Runner(connector, keys);
    this.#pump = new Pump(this.runner);
    this.publisher = new Publisher(this.runner, (error) => this.trouble(error));
    this.#post = new Post(connector, keys.queue, {
      trouble: (error) => this.trouble(error),
      poison: (error) => {
        for (const member of this.#members) member.warn(error);
      },
    });
    this.#chores = new Chores(this.runner, (error) => this.trouble(error));
    this.#handOut = new HandOut(this.runner, this.#members, {
      short: () => this.#outlook.short(),
      quarantined: (rows) => this.#quarantined(rows),
      trouble: (error) => this.trouble(error),
    });
    const handOut = this.#handOut;
    this.#outlook = new Outlook(
      {
        agenda: () => this.#pump.agenda(),
        arm: (ms) => this.#arm(ms),
        fill: () => handOut.fill().then(() => this.#park?.freed()),
        get claimed() {
          return handOut.claimed;
        },
        trouble: (error) => this.trouble(error),
      },
      LEAST_BEAT_MS,
    );
  }

  /** The metronome of this queue on this connector, the same for all of the process. */
  static of(connector: Connector, keys: Keyspace): Metronome {
    const queues = metronomes.get(connector) ?? new Map<string, Metronome>();
    if (!metronomes.has(connector)) {
      metronomes.set(connector, queues);
      connector.on('connected', () => {
        for (const metronome of queues.values()) metronome.#minded();
      });
      connector.on('closed', () => {
        for (const metronome of queues.values()) for (const member of [...metronome.#members]) member.cutOff();
      });
    }
    let metronome = queues.get(keys.queue);
    if (metronome === undefined) queues.set(keys.queue, (metronome = new Metronome(connector, keys)));
    return metronome;
  }

  join(member: Member): void {
    this.#members.add(member);
    // It may have come back a moment ago, and a consumer that starts now must leave the others the same time.
    this.#holdBack(this.#connector.reconnectedAt);
    this.#park ??= new Park(this.#connector, this.#keys, this.#beatMs, this.#parkSide());
    if (this.#cancels === undefined) {
      this.#cancels = subscriberOf(this.#connector).subscribe(this.#keys.cancel, {
        message: (bytes) => this.#cancel(bytes),
        gap: () => {},
        trouble: (error) => this.trouble(error),
      });
      // Whoever cancels the first job that is claimed here must be heard.
      this.#handOut.waitFor(within(LISTEN_MS, this.#cancels.ready));
    }
    this.#arm(0);
  }

  /** Resolves when, after the last one, no connection and no timer is left. */
  async leave(member: Member): Promise<void> {
    if (!this.#members.delete(member) || this.#members.size > 0) return;
    const queues = metronomes.get(this.#connector);
    if (queues?.get(this.#keys.queue) === this) queues.delete(this.#keys.queue);
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#handOut.stop();
    this.#chores.stop();
    this.#outlook.stop();
    // Their answers are nobody's any more: a server that gives none must not hold up a close.
    const answers = Promise.all([this.#cancels?.close(), this.publisher.settled(), this.#post.settled()]);
    await Promise.all([this.#park?.stop(), within(LAST_ANSWERS_MS, answers)]);
  }

  /** Delivers the letters of the queue: a flow child has left one. */
  deliver(): void {
    if (!this.#stopped) this.#post.deliver();
  }

  /** Claims for one consumer, in the write in which it settles. */
  roll(member: SlotServer): void {
    void this.#handOut.roll(member).then(() => this.#park?.freed());
  }

  /** Asks for all that is free. */
  fill(): void {
    if (!this.#stopped) void this.#handOut.fill().then(() => this.#park?.freed());
  }

  /** As `HandOut.claim`. */
  claim(claim: () => Promise<readonly Taken[]>): Promise<readonly Taken[]> {
    return this.#handOut.claim(claim);
  }

  /** A claim of batches gave nothing. @param again one job would have been enough: as soon as there may be one it is made again. */
  short(again: boolean): void {
    this.#outlook.short(again);
  }

  /** A beat in so many ms, or before: something is due then, and nobody will be woken. */
  expect(ms: number): void {
    this.#arm(ms);
  }

  get #servesAll(): boolean {
    if ([...this.#members].some(({ patient }) => patient === true)) return false;
    const sources = new Set([...this.#members].map(({ source }) => source));
    return sources.has('both') || sources.size === 2;
  }

  get #beatMs(): number {
    return Math.min(...[...this.#members].map(({ beatMs }) => beatMs));
  }

  #parkSide(): ConstructorParameters<typeof Park>[3] {
    const handOut = this.#handOut;
    return {
      get free() {
        return handOut.free > 0;
      },
      woken: () => this.#woken(),
      passOn: () => this.#passOn(),
      trouble: (error) => this.trouble(error),
    };
  }

  /** A token may mean a job, or that something is now due sooner. */
  async #woken(): Promise<void> {
    if (await this.#handOut.fill()) return;
    // It may have been meant for a source that nobody serves here. Once a beat: where nobody else waits it comes back.
    const now = performance.now();
    if (!this.#servesAll && now - this.#passedAt >= this.#beatMs) {
      this.#passedAt = now;
      await this.#passOn();
    }
    await this.#outlook.once(0);
    if ([...this.#members].some(({ patient }) => patient === true)) await pause(PATIENCE_MS);
  }

  async #passOn(): Promise<void> {
    await this.runner.run(transitions.wake, undefined).catch((error: unknown) => this.trouble(error as EmqError));
  }

  /** A beat in so many ms, or before. One that is asked for during a beat comes after it: that one may have looked already. */
  #arm(ms: number): void {
    const at = performance.now() + Math.max(0, ms);
    if (this.#stopped || at >= this.#beatAt) return;
    clearTimeout(this.#timer);
    this.#beatAt = at;
    this.#timer = setTimeout(
      () => {
        this.#beating ??= this.#beat();
      },
      // a job may be scheduled for later than a timer of Node can wait
      Math.min(Math.max(0, Math.ceil(ms)), LONGEST_TIMER_MS),
    );
  }

  /** A beat that comes early, since a scheduled job is due, promotes and claims, no more. */
  async #beat(): Promise<void> {
    this.#beatAt = Infinity;
    await this.#agree();
    const started = performance.now();
    this.#minded();
    // In this order, and in one write: what is held, what is due, what has lapsed, and then the claims.
    for (const member of this.#members) member.renewIfDue();
    const whole = started - this.#sweptAt >= this.#beatMs - LEAST_BEAT_MS;
    if (whole) this.#sweptAt = started;
    const sweeping = this.#pump.sweep(
      whole && started >= this.#sweepsFrom ? this.#sweepLeg : undefined,
      this.#maxStalled,
    );
    // Not waited for: under a steady load it goes on for as long as there is work.
    void this.#handOut.fill().then(() => this.#park?.freed());
    const swept = await sweeping;
    await this.#read(swept);
    const repeatInMs = await this.#fire(swept);
    this.#chores.attend(this.#deadLetter);
    this.#beating = undefined;
    if (this.#stopped) return;
    const asked = this.#beatAt - performance.now();
    this.#beatAt = Infinity;
    this.#arm(Math.min(this.#pause(swept), repeatInMs, asked));
  }

  /** Fires what is due. In how many ms the next repeat is. */
  async #fire({ repeatInMs }: Swept): Promise<number> {
    this.#repeatTroubled = false;
    if (typeof repeatInMs !== 'number') return Infinity;
    if (repeatInMs > 0) return repeatInMs;
    try {
      const { fired, more, errors } = await fireDue(this.runner);
      this.#repeatTroubled = errors.length > 0;
      for (const error of errors) this.trouble(error);
      if (more) return fired > 0 ? 0 : LEAST_BEAT_MS;
      // one that cannot be fired stays due, before all others: it must neither make this spin nor keep them waiting
      const next = await dueBehind(this.runner, errors.length);
      return next > 0 ? next : fired > 0 ? LEAST_BEAT_MS : Infinity;
    } catch (error) {
      this.#repeatTroubled = true;
      this.trouble(error as EmqError);
      return Infinity;
    }
  }

  /** The strictest bounds of all. */
  get #deadLetter(): DeadLetter | undefined {
    let strictest: DeadLetter | undefined;
    for (const { deadLetter } of this.#members) {
      if (deadLetter === undefined) continue;
      const { maxJobs, maxAgeMs } = strictest ?? deadLetter;
      strictest = {
        maxJobs: Math.min(maxJobs, deadLetter.maxJobs),
        maxAgeMs: Math.min(maxAgeMs, deadLetter.maxAgeMs),
      };
    }
    return strictest;
  }

  /** How long until the next beat: the whole one, or an early one. */
  #pause({ more, moved, dueInMs, errors }: Swept): number {
    if (more) {
      this.#sweptAt = -Infinity;
      return 0;
    }
    const rest = Math.max(LEAST_BEAT_MS, this.#sweptAt + this.#beatMs - performance.now());
    if (typeof dueInMs !== 'number' || errors.length > 0) return rest;
    const due = dueInMs > 0 || moved > 0 ? Math.max(0, dueInMs) : LEAST_BEAT_MS;
    return Math.min(rest, due);
  }

  async #read(swept: Swept): Promise<void> {
    // Nobody could renew either, here or elsewhere: all get the time to do it.
    if (swept.errors.some(({ code }) => HELD_UP.has(code))) this.#holdBack(performance.now());
    if (swept.leg !== undefined) this.#leg = swept.leg ?? undefined;
    if (swept.limited !== undefined) this.#outlook.limited = swept.limited;
    const others = [this.#handOut.refused, this.#post.troubled, this.#chores.troubled, this.#repeatTroubled];
    const troubled = swept.errors.length > 0 || others.some(Boolean);
    if (!troubled) this.#troubles.clear();
    if (swept.stalled.recovered.length + swept.stalled.dead.length > 0) {
      for (const id of swept.stalled.recovered) this.#publish('stalled', id);
      for (const id of swept.stalled.dead) this.#publish('failed', id, { error: 'stalled' });
      for (const member of this.#members) member.stalled(swept.stalled);
    }
    if (swept.letters !== 0 && swept.letters !== undefined) this.deliver();
    for (const error of swept.errors) if (!isUnreadable(error)) this.trouble(error);
    if (swept.errors.some(isUnreadable)) {
      const unreadable = swept.errors.find(isUnreadable) as EmqError;
      if (!(await this.#handOut.quarantine())) this.trouble(unreadable);
    }
  }

  /** The first member that takes part in recovery speaks for this process; the queue's own leg wins. */
  get #wanted(): Leg | undefined {
    for (const { recovery } of this.#members) if (recovery !== 'none') return recovery;
    return undefined;
  }

  get #sweepLeg(): Leg | undefined {
    return this.#wanted === undefined ? undefined : this.#leg;
  }

  get #maxStalled(): number {
    const counting = [...this.#members].filter(({ recovery }) => recovery === 'stalled');
    return Math.max(...(counting.length > 0 ? counting : [...this.#members]).map(({ maxStalled }) => maxStalled), 1);
  }

  /** The first consumer's choice is kept for the queue; one that came with another is told. */
  async #agree(): Promise<void> {
    const wanted = this.#wanted;
    if (wanted === undefined) return;
    try {
      this.#leg ??= await this.#pump.keep(wanted);
    } catch (error) {
      return this.trouble(error as EmqError);
    }
    for (const member of this.#members) {
      if (this.#introduced.has(member)) continue;
      this.#introduced.add(member);
      if (member.recovery === 'none' || member.recovery === this.#leg) continue;
      const text = `queue ${this.#keys.queue} recovers by ${this.#leg} (kept in its meta), this consumer asked for ${member.recovery}: ${this.#leg} it is; queue.setRecovery('${member.recovery}') changes it for all`;
      member.warn(new EmqError('EMQ_INPUT', text));
    }
  }

  /** Looks whether the connection was interrupted since it last looked. */
  #minded(): void {
    if (this.#connector.epoch === this.#epoch) return;
    this.#epoch = this.#connector.epoch;
    this.#holdBack(performance.now());
    for (const member of this.#members) void member.renew();
  }

  /** No sweep before everybody had the time to come back. */
  #holdBack(interruptedAt: number | undefined): void {
    if (interruptedAt === undefined) return;
    const leaseMs = Math.max(...[...this.#members].map((member) => member.leaseMs), 0);
    this.#sweepsFrom = Math.max(this.#sweepsFrom, interruptedAt + Math.max(LEAST_GRACE_MS, leaseMs / 2));
  }

  #cancel(bytes: Buffer): void {
    let id: unknown, reason: unknown;
    try {
      ({ job: id, reason } = JSON.parse(bytes.toString()) as { job?: unknown; reason?: unknown });
    } catch {
      return; // not ours: anybody may publish
    }
    if (typeof id !== 'string') return;
    for (const member of this.#members) member.cancel(id, typeof reason === 'string' ? reason : '');
  }

  #quarantined(rows: readonly { readonly id: string; readonly why: string }[]): void {
    for (const { id, why } of rows) this.#publish('failed', id, { error: `unreadable: ${why}` });
    for (const member of this.#members) member.quarantined(rows);
  }

  #publish(event: string, id: string, extras?: Record<string, string>): void {
    if ([...this.#members].some(({ publishes }) => publishes)) this.publisher.publish(event, id, extras);
  }

  /** Something is wrong that is not one job's: all consumers are told, once of a kind while it lasts. */
  trouble(error: EmqError): void {
    // what goes wrong with an outage goes wrong in many calls, a right is missing for one, and one record may be wrong
    const kind = ['NOPERM', 'EMQ_INPUT'].includes(error.code) ? error.message : error.code;
    if (this.#stopped || error.code === 'EMQ_CLOSED' || this.#troubles.has(kind)) return;
    // cutOff() says what there is to say about a connector that was closed
    if (this.#connector.stats().state === 'closed') return;
    this.#troubles.add(kind);
    for (const member of this.#members) member.warn(error);
  }
}

/** Resolves when that has ended, whichever way, or after so many ms. */
async function within(ms: number, what: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const enough = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  await Promise.race([what.catch(() => {}), enough]);
  clearTimeout(timer);
}
