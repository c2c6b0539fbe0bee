/**
 * The ear of a process: one connection for all channels that are listened to through one connector.
 *
 * Invariants: the connection is opened with the first subscription and closed with the last; after a loss it is opened
 * anew, with a growing jittered pause, for as long as somebody listens and the connector is open. `ready` resolves once
 * the server has confirmed the channel: from then on no message is missed without a `gap`. A gap is told after the
 * channel is listened to again and before its first message. A listener that throws breaks nothing (it is counted).
 * Does not: read messages, or keep any: what is published while there is no connection is lost (pub/sub has no memory).
 *
 * On a cluster every node hears what is published on any, so one plain connection to one primary is enough.
 */
import { setTimeout as pause } from 'node:timers/promises';

import type { Connector } from '../wire/connector.js';
import { EmqError } from '../wire/errors.js';
import type { Link } from '../wire/transport.js';

/** Who listens to a channel. */
export interface Listener {
  message(bytes: Buffer): void;
  /** The connection was lost and is back: messages may have been missed. */
  gap(): void;
  /** It cannot be listened to now, and why; each `code` is told once, until it is listened to again. It is tried on. */
  trouble?(error: EmqError): void;
}

export interface Subscription {
  /**
   * Resolves when the channel is listened to. Rejects `EMQ_CLOSED` when the subscription or the connector was closed
   * before, and with a refusal that does not pass by itself (`NOPERM` ...); it is tried again all the same.
   */
  readonly ready: Promise<void>;
  /** Resolves when it is over: closed, or the connector is. */
  readonly ended: Promise<void>;
  /** Ends it. Resolves when the server knows, or the connection is gone. Never rejects. */
  close(): Promise<void>;
}

/** What a subscriber has done and how it is. */
export interface SubscriberStats {
  readonly channels: number;
  readonly connected: boolean;
  /** Connections made, and how often one was lost. */
  readonly connects: number;
  readonly losses: number;
  /** Exceptions that listeners threw. */
  readonly listenerErrors: number;
  /** Why the last try to connect or to subscribe failed; undefined once it has succeeded. */
  readonly lastError: EmqError | undefined;
}

export interface Subscriber {
  subscribe(channel: string, listener: Listener): Subscription;
  stats(): SubscriberStats;
}

const subscribers = new WeakMap<Connector, Ear>();

/** The one subscriber of a connector. */
export function subscriberOf(connector: Connector): Subscriber {
  let ear = subscribers.get(connector);
  if (ear === undefined) subscribers.set(connector, (ear = new Ear(connector)));
  return ear;
}

/** Refusals that a person has to mend: who waits is told at once. */
const LASTING: ReadonlySet<string> = new Set(['NOPERM', 'NOAUTH', 'WRONGPASS', 'EMQWIRE']);

class Listening implements Subscription {
  readonly ready: Promise<void>;
  readonly ended: Promise<void>;
  /** The link on which it was last told that it is listened to; undefined = never ready. */
  on: Link | undefined;
  /** The codes of the errors that it was told since. */
  readonly told = new Set<string>();
  tellReady: () => void = () => {};
  refuse: (error: EmqError) => void = () => {};
  tellEnded: () => void = () => {};

  constructor(
    readonly listener: Listener,
    readonly leave: (listening: Listening) => Promise<void>,
  ) {
    this.ready = new Promise((resolve, reject) => {
      this.tellReady = resolve;
      this.refuse = reject;
    });
    // Nobody has to wait for it.
    this.ready.catch(() => {});
    this.ended = new Promise((resolve) => (this.tellEnded = resolve));
  }

  close(): Promise<void> {
    return this.leave(this);
  }
}

interface Channel {
  readonly name: string;
  readonly listeners: Set<Listening>;
  /** The link on which it was asked for, and the one on which the server has confirmed it. */
  askedOn: Link | undefined;
  on: Link | undefined;
}

/** The time in which somebody listens: it ends with the last subscription, and the next one starts another. */
interface Session {
  readonly stop: AbortController;
  /** Resolves when nothing of it is left. */
  done: Promise<void>;
}

class Ear implements Subscriber {
  readonly #connector: Connector;
  readonly #channels = new Map<string, Channel>();
  #session: Session | undefined;
  #link: Link | undefined;
  #lastError: EmqError | undefined;
  #connects = 0;
  #losses = 0;
  #listenerErrors = 0;

  constructor(connector: Connector) {
    this.#connector = connector;
  }

  subscribe(name: string, listener: Listener): Subscription {
    let channel = this.#channels.get(name);
    if (channel === undefined) {
      channel = { name, listeners: new Set(), askedOn: undefined, on: undefined };
      this.#channels.set(name, channel);
    }
    const { listeners } = channel;
    const listening = new Listening(listener, (one) => this.#leave(name, listeners, one));
    listeners.add(listening);
    if (this.#session === undefined) this.#start();
    else if (this.#link !== undefined && channel.on === this.#link) this.#resume(listening, this.#link);
    else if (this.#link !== undefined) void this.#ask(this.#link, channel);
    return listening;
  }

  stats(): SubscriberStats {
    return {
      channels: this.#channels.size,
      connected: this.#link?.usable === true,
      connects: this.#connects,
      losses: this.#losses,
      listenerErrors: this.#listenerErrors,
      lastError: this.#lastError,
    };
  }

  async #leave(name: string, listeners: Set<Listening>, listening: Listening): Promise<void> {
    if (!listeners.delete(listening)) return;
    over(listening);
    if (listeners.size > 0) return;
    this.#channels.delete(name);
    const [link, session] = [this.#link, this.#session];
    if (this.#channels.size > 0) {
      // It fails only with the connection, and the subscription ends with that too.
      await link?.unsubscribe(name).catch(() => {});
      return;
    }
    this.#session = undefined;
    this.#link = undefined;
    session?.stop.abort();
    await link?.destroy();
    await session?.done;
  }

  #start(): void {
    const stop = new AbortController();
    const session: Session = { stop, done: Promise.resolve() };
    this.#session = session;
    session.done = this.#keepOpen(stop).then(() => {
      if (this.#session === session) this.#end();
    });
  }

  /** The connector is closed, and with it everything that listened. */
  #end(): void {
    this.#session = undefined;
    const channels = [...this.#channels.values()];
    this.#channels.clear();
    for (const { listeners } of channels) {
      for (const listening of listeners) over(listening);
    }
  }

  /** One connection after the other, until it is stopped or the connector is closed. */
  async #keepOpen(stop: AbortController): Promise<void> {
    const { signal } = stop;
    const onClosed = (): void => stop.abort();
    this.#connector.once('closed', onClosed);
    let tries = 0;
    for (;;) {
      const started = performance.now();
      try {
        await this.#listenOn(await this.#connector.openDedicated(signal), signal);
      } catch (error) {
        if (!signal.aborted) this.#note(error as EmqError, this.#channels.values());
      }
      if (signal.aborted || this.#connector.stats().state === 'closed') break;
      // A connection that held out starts the pauses anew; one that keeps breaking does not.
      if (performance.now() - started >= this.#connector.pauseMs(Infinity)) tries = 0;
      await pause(this.#connector.pauseMs(tries++), undefined, { signal }).catch(() => {});
    }
    this.#connector.off('closed', onClosed);
  }

  /** Listens on this link to all there is to listen to, until it is gone. */
  async #listenOn(link: Link, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return link.destroy();
    this.#link = link;
    this.#connects++;
    this.#lastError = undefined;
    link.onLost = (reason) => (this.#lastError = reason);
    link.onMessage = (name, message) => this.#hear(link, name.toString(), message);
    for (const channel of this.#channels.values()) void this.#ask(link, channel);
    await link.ended;
    // Not lost if it was given up by the last who left.
    if (this.#link !== link) return;
    this.#link = undefined;
    this.#losses++;
  }

  /** Asks for a channel; again after a pause if the server refuses it, since someone may be mending that. */
  async #ask(link: Link, channel: Channel): Promise<void> {
    if (channel.askedOn === link) return;
    channel.askedOn = link;
    // A signal, not a race with `ended` at each try: that would hold on to every one of them, for as long as the link is up.
    const gone = new AbortController();
    void link.ended.then(() => gone.abort());
    for (let tries = 0; this.#link === link && this.#channels.get(channel.name) === channel; tries++) {
      try {
        await link.subscribe(channel.name);
        channel.on = link;
        for (const listening of channel.listeners) this.#resume(listening, link);
        return;
      } catch (error) {
        this.#note(error as EmqError, [channel]);
        // A lost link ends this: the next one is asked for all channels.
        const { signal } = gone;
        await pause(this.#connector.pauseMs(tries), undefined, { ref: false, signal }).catch(() => {});
      }
    }
  }

  #note(error: EmqError, channels: Iterable<Channel>): void {
    this.#lastError = error;
    for (const listening of [...channels].flatMap(({ listeners }) => [...listeners])) {
      if (LASTING.has(error.code)) listening.refuse(error);
      if (listening.told.has(error.code)) continue;
      listening.told.add(error.code);
      this.#tell(() => listening.listener.trouble?.(error));
    }
  }

  /** Its channel is listened to on this link: it is ready, or if it was before, it has missed something. */
  #resume(listening: Listening, link: Link): void {
    const before = listening.on;
    listening.on = link;
    listening.told.clear();
    if (before === undefined) listening.tellReady();
    else if (before !== link) this.#tell(() => listening.listener.gap());
  }

  #hear(link: Link, name: string, message: Buffer): void {
    for (const listening of this.#channels.get(name)?.listeners ?? []) {
      // A message may be read in one go with the confirmation before it: the gap comes first.
      if (listening.on !== undefined) this.#resume(listening, link);
      this.#tell(() => listening.listener.message(message));
    }
  }

  #tell(what: () => void): void {
    try {
      what();
    } catch {
      this.#listenerErrors++;
    }
  }
}

function over(listening: Listening): void {
  listening.refuse(new EmqError('EMQ_CLOSED', 'the subscription was closed'));
  listening.tellEnded();
}
