/**
 * The connector: one connection to a server, or one client of a cluster, that runs calls and keeps itself alive.
 *
 * Invariants: no call is sent on a connection whose fence has not passed; the executor is chosen once, by `wire`; after
 * a loss it reconnects with a growing, jittered pause, without end, until it is closed; it rejects with `EmqError` only.
 * No error, event or statistic holds a user name, a password or a payload.
 * Does not: know any transition, decode payloads, or block: blocking reads and subscriptions have links of their own,
 * which it opens for those who need one (`openDedicated`), never reopens, and ends when it is closed.
 */
import { EventEmitter, setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';

import type { Arg, Call, Outcome, Reply } from './call.js';
import { clientSource, type ClientSource } from './client-source.js';
import { Calls } from './connector-calls.js';
import { closed, overloaded, unreachable } from './connector-outcomes.js';
import { readOptions, type ConnectorOptions, type Settings } from './connector-options.js';
import { Durable, twinSettings } from './durable.js';
import { EmqError, inputError } from './errors.js';
import { EvictionWatch } from './eviction.js';
import type { Ask } from './fence.js';
import type { Wire } from './executor.js';
import { explained, mayPass } from './first-connect.js';
import { NO_QUEUE } from './keyspace.js';
import { checkQueue } from './queue-gate.js';
import { isErrorReply, toReply } from './reply.js';
import { givenUp, openLink, toEmqError, type Link } from './transport.js';

export type { ConnectorOptions } from './connector-options.js';

/** What a connector reports while it lives. There is no `error` event: a loss is reported and mended, not thrown. */
export interface ConnectorEvents {
  /** Up again after a loss. */
  connected: [info: { readonly reconnects: number }];
  /** The connection is lost; calls wait up to `waitMs`. */
  disconnected: [error: EmqError];
  /** A try to reconnect failed; the next one comes after `delayMs`. */
  retrying: [error: EmqError, delayMs: number];
  /**
   * The fence refused on a reconnect (`EMQWIRE`, or `EMQ_EVICTION` where that is asked for): calls are refused with it until
   * someone has mended the node.
   */
  refused: [error: EmqError];
  /**
   * Something that a person should look at, with no call to tell of it: a node that throws jobs away when its memory is full
   * (`EMQ_EVICTION`), once for each node. Where nobody listens it is a warning of the process, once.
   */
  warning: [error: EmqError];
  /** Closed by `close()`; the last event. */
  closed: [];
}

/** A snapshot of a connector's work. Counts are since connect. */
export interface ConnectorStats {
  readonly state: 'up' | 'down' | 'refused' | 'closed';
  readonly wire: Wire;
  /** The RESP version of the last connection. */
  readonly protocol: 2 | 3;
  /** True where the brand is per queue: a cluster, or one node of a cluster. */
  readonly perQueueBrand: boolean;
  /** Connections made, the first one included, and those made after a loss. */
  readonly connects: number;
  readonly reconnects: number;
  readonly calls: number;
  /** Calls without an outcome yet, and those of them that wait for a connection. */
  readonly pending: number;
  readonly waiting: number;
  /** Calls sent again: after a lost reply, and because the server was not ready. */
  readonly repeats: number;
  readonly retries: number;
  readonly scriptLoads: number;
  readonly unknownOutcomes: number;
}

/** Refusals of the fence: waiting does not help who calls, and someone may mend the node. */
const FENCED: ReadonlySet<string> = new Set(['EMQWIRE', 'EMQ_EVICTION']);

/** What a dedicated link is for. */
export interface DedicatedUse {
  /** The queue it serves: on a cluster the link goes to that queue's node. Without: to any primary (a subscription). */
  readonly queue?: string;
  /** How long its commands block at the server, in ms: for so much longer it may be silent when asked for a sign of life. */
  readonly blockMs?: number;
}

export class Connector extends EventEmitter<ConnectorEvents> {
  /** The wire that was asked for: 4 runs scripts, 6 native commands where there are any. */
  readonly wire: Wire;

  readonly #settings: Settings;
  readonly #source: ClientSource;
  readonly #calls: Calls;
  readonly #eviction: EvictionWatch;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;
  #link: Link | undefined;
  #reconnecting: Promise<void> | undefined;
  /** Links of their own, open or being opened. */
  readonly #dedicated = new Set<Promise<Link>>();
  #durable: Durable | undefined;
  #epoch = 0;
  #refused = false;
  #warned = false;
  readonly #warnings: EmqError[] = [];
  #connects = 0;
  #tries = 0;
  #upSince = 0;
  #last: { readonly protocol: 2 | 3; readonly perQueue: boolean; readonly manyNodes: boolean } = {
    protocol: 2,
    perQueue: false,
    manyNodes: false,
  };

  private constructor(settings: Settings) {
    super();
    this.wire = settings.wire;
    this.#settings = settings;
    // As many may listen as there are dedicated links to open: that is no leak.
    setMaxListeners(0, this.#closing.signal);
    this.#source = clientSource(settings);
    this.#calls = new Calls(settings, this.#source);
    this.#eviction = new EvictionWatch(settings.eviction, (warning) => {
      this.#warnings.push(warning);
      if (this.#link !== undefined) this.#warn();
    });
  }

  /**
   * Connects and passes the fence, trying again while there is time and a reason to.
   * @param options a URL or options; times in milliseconds.
   * @throws EmqError `EMQ_INPUT` for a wrong option; `EMQWIRE` for a foreign or (with `claim: false`) absent brand, or a
   *   server without the module on wire 6; `EMQ_EVICTION` as `eviction` asks for it; `EMQ_CONNECTION` when nobody answered in time; `EMQ_CLOSED` when the signal
   *   gave up; else the server's own error (`WRONGPASS`, `NOAUTH`, `NOPERM`, `READONLY` from an unbranded replica ...).
   */
  static async connect(options?: ConnectorOptions | string): Promise<Connector> {
    const connector = new Connector(readOptions(options));
    await connector.#start();
    return connector;
  }

  /**
   * Runs one call and gives its reply.
   * @throws EmqError the server's refusal or error; `EMQ_CONNECTION` when no connection came up within `waitMs` (nothing
   *   was sent); `EMQ_TIMEOUT`, or `EMQ_UNKNOWN_OUTCOME` for a call that may not be repeated, when its reply was lost or
   *   did not come within `replyTimeoutMs`; `EMQ_CLOSED`; `EMQWIRE` while the fence refuses the node.
   */
  run(call: Call): Promise<Reply> {
    return this.#calls.start(call);
  }

  /**
   * Sends several calls in one write. They run in their order unless one of them has to be sent again; each has an
   * outcome of its own, at its place. More calls than `maxPending` leaves room for now are refused together; more than
   * `maxPending` at all are sent in steps.
   * @throws EmqError `EMQ_INPUT` only.
   */
  async runAll(calls: readonly Call[]): Promise<Outcome[]> {
    if (!Array.isArray(calls)) throw inputError('runAll takes a list of calls');
    const { maxPending } = this.#settings;
    // More than may ever be in flight: in steps, each of which has room when the one before is done.
    if (calls.length > maxPending) {
      return [...(await this.runAll(calls.slice(0, maxPending))), ...(await this.runAll(calls.slice(maxPending)))];
    }
    if (calls.length > maxPending - this.#calls.pending) {
      return calls.map(() => ({ ok: false, error: overloaded(maxPending) }));
    }
    return Promise.all(
      (calls as readonly Call[]).map((call) =>
        this.#calls.start(call).then(
          (reply): Outcome => ({ ok: true, reply }),
          (error: unknown): Outcome => ({ ok: false, error: error as EmqError }),
        ),
      ),
    );
  }

  /**
   * Closes. Calls that were not sent reject with `EMQ_CLOSED` at once; those in flight have `closeGraceMs` to get their
   * replies, then they reject with `EMQ_CLOSED`, or `EMQ_UNKNOWN_OUTCOME` if they may not be repeated. Never rejects;
   * resolves when no socket and no timer is left. May be called again.
   */
  close(): Promise<void> {
    this.#closed ??= this.#shutDown();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Grows with every connection that is taken up and with every node of a cluster that is lost: the same number means
   * that there was no interruption.
   * @internal
   */
  get epoch(): number {
    return this.#epoch;
  }

  /**
   * The pause before the next try to connect, in ms, after so many: doubled from try to try; the jitter takes up to half
   * of it away, so that clients do not come back all at once.
   * @internal
   */
  pauseMs(tries: number): number {
    const { reconnectMinMs, reconnectMaxMs } = this.#settings;
    const longest = Math.min(reconnectMaxMs, reconnectMinMs * 2 ** Math.min(tries, 30));
    return Math.ceil(longest * (0.5 + Math.random() / 2));
  }

  /**
   * When the connection came back after its last loss (performance.now()); undefined while there was none.
   * @internal
   */
  get reconnectedAt(): number | undefined {
    return this.#connects > 1 ? this.#upSince : undefined;
  }

  /**
   * One try to open a link of its own, fenced like every other, for what would hold up all calls on the shared one. It
   * is the caller's to destroy, and is destroyed by `close()`. On a cluster it needs the connector to be up.
   * @param signal gives up the try; an open link does not mind it.
   * @throws EmqError as a try to connect does; `EMQ_CLOSED` when the signal gave up or the connector is closed.
   * @internal
   */
  openDedicated(signal: AbortSignal, use: DedicatedUse = {}): Promise<Link> {
    const opening = this.#openDedicated(signal, use);
    this.#dedicated.add(opening);
    const over = (): void => void this.#dedicated.delete(opening);
    opening.then((link) => link.ended, over).then(over, over);
    return opening;
  }

  /**
   * For reads and courtesies that belong to no queue (which queues are there?): one asker for every primary, on the
   * connection that is up. Nothing is tried again, and no brand of a queue is looked at.
   * @throws EmqError `EMQ_CONNECTION` when none is up, `EMQ_CLOSED`.
   * @internal
   */
  primaries(): readonly Ask[] {
    return this.#upLink().primaries();
  }

  /** The same, for keys that belong to no queue: where their slot is. @throws EmqError as `primaries`. @internal */
  get commons(): Ask {
    const link = this.#upLink();
    return (command, args) => link.ask(NO_QUEUE, command, args);
  }

  /** For admissions that are to be confirmed by replicas or the disk: on connections of their own. @internal */
  get durable(): Durable {
    this.#durable ??= new Durable(async () => {
      const twin = new Connector(twinSettings(this.#settings, this.#closing.signal));
      await twin.#start();
      return twin;
    });
    return this.#durable;
  }

  /** @internal */
  get waitMs(): number {
    return this.#settings.waitMs;
  }

  /** One command about a queue on the connection that is up, and on which socket. @throws EmqError @internal */
  async askNow(queue: string, command: string, args: readonly Arg[]): Promise<{ reply: Reply; socket?: object }> {
    const link = this.#upLink();
    const sent = link.send({ command, args }, queue);
    const raw = await sent.promise.catch((error: unknown) => {
      throw isErrorReply(error) ? toEmqError(error, this.#source) : link.explain(error);
    });
    return { reply: toReply(raw), ...(sent.socket === undefined ? {} : { socket: sent.socket }) };
  }

  #upLink(): Link {
    if (this.#closing.signal.aborted) throw closed();
    if (this.#link?.usable !== true) throw unreachable(this.#source.where, this.#calls.lastFailure);
    return this.#link;
  }

  /** What it has done and how it is. */
  stats(): ConnectorStats {
    const state = this.#closing.signal.aborted
      ? 'closed'
      : this.#link?.usable === true
        ? 'up'
        : this.#refused
          ? 'refused'
          : 'down';
    return {
      state,
      wire: this.wire,
      protocol: this.#last.protocol,
      perQueueBrand: this.#last.perQueue,
      connects: this.#connects,
      reconnects: Math.max(0, this.#connects - 1),
      pending: this.#calls.pending,
      waiting: this.#calls.waiting,
      ...this.#calls.counters,
    };
  }

  /** The first connect: final errors end it, all others are tried again until connectTimeoutMs is over. */
  async #start(): Promise<void> {
    const { connectTimeoutMs, signal: stop = this.#closing.signal } = this.#settings;
    const end = performance.now() + connectTimeoutMs;
    let reason: unknown;
    for (;;) {
      try {
        return this.#adopt(await this.#open(Math.ceil(end - performance.now()), stop));
      } catch (failure) {
        const error =
          reason === undefined ? await explained(failure, this.#source, end - performance.now(), stop) : failure;
        // A try that was cut short says little: what the one before it met says more.
        if (reason === undefined || stop.aborted || performance.now() < end) reason = error;
        const delayMs = this.#nextDelay();
        if (!(error instanceof EmqError) || !mayPass(error) || performance.now() + delayMs >= end) throw reason;
        // An abort wakes the pause, and the next try reports it.
        await pause(delayMs, undefined, { signal: stop }).catch(() => {});
      }
    }
  }

  /** One try; a peer that accepts and then says nothing is given up before the whole time is gone. */
  #open(timeLeftMs: number, signal: AbortSignal): Promise<Link> {
    const timeoutMs = Math.max(1, Math.min(timeLeftMs, this.#settings.heartbeatDeadlineMs));
    return openLink(this.#source, this.#settings, timeoutMs, signal, this.#eviction);
  }

  async #openDedicated(signal: AbortSignal, { queue, blockMs = 0 }: DedicatedUse): Promise<Link> {
    // Not AbortSignal.any: it holds on to what follows a signal that lives as long as the process does.
    const giveUp = new AbortController();
    const onAbort = (): void => giveUp.abort(this.#closing.signal.aborted ? closed() : signal.reason);
    const signals = [signal, this.#closing.signal];
    for (const one of signals) one.addEventListener('abort', onAbort, { once: true });
    if (signals.some(({ aborted }) => aborted)) onAbort();
    try {
      const source = await this.#dedicatedSource(queue, giveUp.signal);
      const { connectTimeoutMs, heartbeatDeadlineMs } = this.#settings;
      const patient = { ...this.#settings, heartbeatDeadlineMs: heartbeatDeadlineMs + blockMs };
      const timeoutMs = Math.min(connectTimeoutMs, heartbeatDeadlineMs);
      const link = await openLink(source, patient, timeoutMs, giveUp.signal);
      if (queue !== undefined && link.perQueue) await this.#fenceQueue(link, queue, giveUp.signal);
      return link;
    } finally {
      for (const one of signals) one.removeEventListener('abort', onAbort);
    }
  }

  /** On a cluster the open connection knows which node it is; elsewhere there is only one place. */
  async #dedicatedSource(queue: string | undefined, signal: AbortSignal): Promise<ClientSource> {
    if (signal.aborted) throw givenUp(signal);
    const link = this.#link;
    if (link === undefined) {
      if (!this.#last.manyNodes) return this.#source;
      throw new EmqError('EMQ_CONNECTION', `no connection to ${this.#source.where}`);
    }
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(givenUp(signal)), { once: true });
      link.dedicatedSource(queue).then(resolve, reject);
    });
  }

  async #fenceQueue(link: Link, queue: string, signal: AbortSignal): Promise<void> {
    // Its reply may be long in coming; ended, the link answers at once.
    const end = (): void => void link.destroy();
    signal.addEventListener('abort', end, { once: true });
    try {
      await checkQueue(link, queue, this.#settings);
    } catch (error) {
      await link.destroy();
      throw signal.aborted ? givenUp(signal) : error;
    } finally {
      signal.removeEventListener('abort', end);
    }
  }

  #adopt(link: Link): void {
    this.#link = link;
    this.#epoch++;
    this.#last = link;
    this.#connects++;
    this.#refused = false;
    this.#upSince = performance.now();
    link.onLost = (reason) => this.#lost(link, reason);
    this.#calls.attach(link);
    if (this.#warnings.length > 0) this.#warn();
    const { onNodeLost } = link;
    link.onNodeLost = (where) => {
      this.#epoch++;
      onNodeLost?.(where);
      this.#endDedicated(where);
    };
  }

  /** A node may have left the cluster and yet be up: who listened there would hear nothing any more, and not know it. */
  #endDedicated(where: string): void {
    const reason = new EmqError('EMQ_CONNECTION', `EMQ_CONNECTION the cluster has lost its node ${where}`);
    for (const opening of this.#dedicated) {
      void opening.then(
        (link) => (link.where === where ? link.destroy(reason) : undefined),
        () => {},
      );
    }
  }

  #lost(link: Link, reason: EmqError): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    this.#calls.detach(reason);
    if (this.#closing.signal.aborted) return;
    // A connection that held out starts the pauses anew; one that keeps breaking does not.
    if (performance.now() - this.#upSince >= this.#settings.reconnectMaxMs) this.#tries = 0;
    this.#reconnecting = this.#reconnect();
    this.#tell('disconnected', reason);
  }

  async #reconnect(): Promise<void> {
    const { signal } = this.#closing;
    let failure: EmqError | undefined;
    while (!signal.aborted) {
      const delayMs = this.#nextDelay();
      if (failure !== undefined) this.#tell('retrying', failure, delayMs);
      try {
        await pause(delayMs, undefined, { signal });
        const link = await this.#open(this.#settings.connectTimeoutMs, signal);
        if (signal.aborted) return await link.destroy();
        this.#adopt(link);
        return this.#tell('connected', { reconnects: this.#connects - 1 });
      } catch (error) {
        if (signal.aborted) return;
        failure = error as EmqError;
        this.#calls.lastFailure = failure;
        // Told to the callers at once: waiting would not help them.
        if (FENCED.has(failure.code)) {
          this.#refused = true;
          this.#calls.block(failure);
          this.#tell('refused', failure);
        }
      }
    }
  }

  #nextDelay(): number {
    return this.pauseMs(this.#tries++);
  }

  async #shutDown(): Promise<void> {
    this.#closing.abort();
    const dedicated = [...this.#dedicated].map((opening) =>
      opening.then(
        (link) => link.destroy(),
        () => {},
      ),
    );
    const twin = this.#durable?.close(this.#settings.closeGraceMs);
    await this.#calls.drain(this.#link === undefined ? 0 : this.#settings.closeGraceMs);
    await this.#reconnecting;
    await Promise.all([this.#link?.destroy(), twin, ...dedicated]);
    this.#calls.finish();
    this.#tell('closed');
  }

  /** In a turn of its own after the connect: whoever has just been given the connector has had the time to listen. */
  #warn(): void {
    setImmediate(() => {
      for (const warning of this.#warnings.splice(0)) {
        if (this.#closing.signal.aborted) return;
        if (this.listenerCount('warning') > 0) this.emit('warning', warning);
        else if (!this.#warned) {
          this.#warned = true;
          process.emitWarning(warning.message, { code: warning.code });
        }
      }
    });
  }

  /** A listener that throws must not break the connection: it is thrown where nobody of ours stands in between. */
  #tell<K extends keyof ConnectorEvents>(event: K, ...args: ConnectorEvents[K]): void {
    process.nextTick(() => (this as EventEmitter).emit(event, ...args));
  }
}
