/**
 * Durable admissions: calls that are made on connections of their own, where a WAIT or WAITAOF holds up nobody else, and
 * are answered when replicas, or the disk, have what they wrote.
 *
 * Invariants:
 * - A WAIT asks about the last write of its own connection. So it goes out on the very socket on which the call ran, after
 *   the call's reply; where that socket is no more, or another node answers, nothing is confirmed.
 * - A call that met what was there already wrote nothing, and a WAIT would answer at once: such a call is followed by
 *   `touch`, a write that changes nothing.
 * - What the server cannot do or the user may not do is found out before anything is written (`prepare`).
 * - Many that wait on one socket share a WAIT, and each waits only for one that was sent after its own write.
 * Does not: undo anything, repeat an admission, or know what a verb's outcome means.
 *
 * The connections are those of a second connector, made like the first one when it is first needed, which fences,
 * reconnects, follows sentinels and routes as that does: one connection, or one to every primary of a cluster.
 */
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';

import type { Call, Reply, WireTransition } from './call.js';
import type { Connector } from './connector.js';
import type { Settings } from './connector-options.js';
import { closed } from './connector-outcomes.js';
import { EmqError, inputError } from './errors.js';
import { Keyspace } from './keyspace.js';
import { scripts } from './scripts.generated.js';

/** What is to have a write before it counts. */
export interface Needs {
  /** How many replicas; 0: none. */
  readonly replicas: number;
  /** Fsynced on the primary, and on as many replicas as are asked for. */
  readonly fsync: boolean;
  readonly timeoutMs: number;
}

/** A call that ran, and the connection it ran on. */
export interface Ran {
  readonly reply: Reply;
  readonly queue: string;
  readonly socket: object | undefined;
}

/** What stands at the server and is to be confirmed. */
export interface Standing {
  readonly id: string;
  readonly queue: string;
  /** The word of the verb. */
  readonly outcome: string;
}

/** So long a WAIT holds a connection at most: then others have their turn, and a sign of life can come. */
export const LONGEST_WAIT_MS = 1_000;
/** Who waits no longer than this shares a WAIT that goes on for the others. */
const SHORTEST_WAIT_MS = 20;

/** No entry of the table: it changes nothing. */
const touch: WireTransition = {
  name: 'touch',
  script: scripts.touch,
  readOnly: false,
  repeatable: true,
  keyNames: ['row'],
  argNames: [],
};

/** What the last WAIT said. */
interface Acks {
  readonly replicas: number;
  readonly fsynced: boolean;
}

interface Waiter {
  readonly queue: string;
  readonly since: number;
  readonly resolve: (acks: Acks) => void;
  readonly reject: (error: EmqError) => void;
}

/** Those who wait for the same on one socket. */
interface Group {
  waiters: Waiter[];
  running: boolean;
}

export class Durable {
  readonly #open: () => Promise<Connector>;
  #twin: Promise<Connector> | undefined;
  #closed = false;
  /** What was found to be possible, on the connections of this epoch. */
  #proofs = new Map<string, Promise<boolean>>();
  #provenIn = 0;
  readonly #groups = new WeakMap<object, Map<string, Group>>();
  readonly #confirming = new Set<Promise<void>>();

  /** @param open makes the second connector. */
  constructor(open: () => Promise<Connector>) {
    this.#open = open;
  }

  /**
   * Makes sure that the queue's node can do what is needed and that the user may ask for it. Nothing is written.
   * @throws EmqError `EMQ_INPUT` that says what the server lacks; `NOPERM`; as a connect, and `EMQ_CONNECTION`.
   */
  async prepare(queue: string, needs: Needs): Promise<void> {
    const twin = await this.#connected();
    if (twin.stats().state === 'down') await connectedAgain(twin);
    // the call is told so
    if (twin.stats().state === 'refused') return;
    if (this.#provenIn !== twin.epoch) {
      this.#proofs = new Map();
      this.#provenIn = twin.epoch;
    }
    const what = needs.fsync ? 'WAITAOF' : 'WAIT';
    // in a cluster nodes differ
    const place = twin.stats().perQueueBrand ? `${what} ${queue}` : what;
    const proofs = this.#proofs;
    let proof = proofs.get(place);
    if (proof === undefined) {
      if (proofs.size >= 1_000) proofs.clear();
      proof = prove(twin, queue, what);
      proofs.set(place, proof);
      // a server can be told to do better
      proof.then(
        (proven) => proven || proofs.delete(place),
        () => proofs.delete(place),
      );
    }
    await proof;
  }

  /** Runs a call and tells on which socket. @throws EmqError as `Connector.run` does. */
  async run(call: Call): Promise<Ran> {
    const twin = await this.#connected();
    let socket: object | undefined;
    const reply = await twin.run({ ...call, ran: (on) => (socket = on) });
    return { reply, queue: call.queue, socket };
  }

  /**
   * Resolves when all that was written on that socket until now is where it is needed.
   * @param there the ids of jobs that the call met, where it wrote nothing itself: one of them is touched. Where none of
   *   them is there any more nothing is left to be confirmed: they were done, or taken out.
   * @throws EmqError `EMQ_DURABILITY`: it was not in time. `EMQ_UNKNOWN_OUTCOME`: the connection was lost, or its server is
   *   no longer the primary. Both have `unconfirmed`.
   */
  confirm(
    ran: Pick<Ran, 'queue' | 'socket'>,
    needs: Needs,
    standing: Standing,
    there: readonly string[],
  ): Promise<void> {
    const confirming = this.#confirm(ran, needs, standing, there).finally(() => this.#confirming.delete(confirming));
    this.#confirming.add(confirming);
    return confirming;
  }

  /** Gives what is being confirmed `graceMs`, and closes the connections. */
  async close(graceMs: number): Promise<void> {
    this.#closed = true;
    const twin = await this.#twin?.catch(() => undefined);
    if (twin === undefined) return;
    let timer: NodeJS.Timeout | undefined;
    const enough = new Promise<void>((resolve) => (timer = setTimeout(resolve, graceMs)));
    await Promise.race([Promise.allSettled(this.#confirming), enough]);
    clearTimeout(timer);
    await twin.close();
  }

  async #confirm(
    { queue, socket }: Pick<Ran, 'queue' | 'socket'>,
    needs: Needs,
    standing: Standing,
    there: readonly string[],
  ): Promise<void> {
    let acks: Acks = { replicas: 0, fsynced: false };
    try {
      const twin = await this.#connected();
      for (const id of there) if (await this.#touch(id, queue, socket)) break;
      acks = await this.#acks(twin, queue, socket, needs);
    } catch (error) {
      throw refused(error as EmqError, standing, needs, acks);
    }
    if (!enough(acks, needs)) throw unconfirmed(standing, needs, acks);
  }

  /** False: its row is gone. */
  async #touch(id: string, queue: string, socket: object | undefined): Promise<boolean> {
    const keys = [new Keyspace(queue).job(id)];
    const touched = await this.run({ transition: touch, queue, keys, args: [] });
    if (touched.socket !== socket) throw lost(ELSEWHERE);
    return touched.reply === 1;
  }

  /** Takes part in the next WAIT on the socket. */
  #acks(twin: Connector, queue: string, socket: object | undefined, needs: Needs): Promise<Acks> {
    if (socket === undefined) return Promise.reject(lost('the connection is gone'));
    let groups = this.#groups.get(socket);
    if (groups === undefined) this.#groups.set(socket, (groups = new Map<string, Group>()));
    const name = `${needs.fsync} ${needs.replicas} ${needs.timeoutMs}`;
    let group = groups.get(name);
    if (group === undefined) groups.set(name, (group = { waiters: [], running: false }));
    const { waiters } = group;
    return new Promise((resolve, reject) => {
      waiters.push({ queue, since: performance.now(), resolve, reject });
      if (!group.running) void this.#rounds(twin, socket, needs, group);
    });
  }

  /** One WAIT after the other for as long as anybody waits. All of its commands are in the order in which they were sent. */
  async #rounds(twin: Connector, socket: object, needs: Needs, group: Group): Promise<void> {
    group.running = true;
    while (group.waiters.length > 0) {
      // calls whose replies came together have their writes confirmed together
      await turn();
      const joined = group.waiters.splice(0);
      const left = Math.min(...joined.map(({ since }) => since + needs.timeoutMs)) - performance.now();
      const waitMs = Math.ceil(Math.min(LONGEST_WAIT_MS, Math.max(SHORTEST_WAIT_MS, left)));
      const queue = joined[0]?.queue ?? '';
      try {
        const acks = await wait(twin, queue, socket, needs, waitMs);
        const now = performance.now();
        for (const waiter of joined) {
          if (enough(acks, needs) || now - waiter.since >= needs.timeoutMs) waiter.resolve(acks);
          else group.waiters.push(waiter);
        }
      } catch (error) {
        // another queue of the node may still be served there when this one's slot has moved
        for (const waiter of joined) {
          if (waiter.queue === queue) waiter.reject(error as EmqError);
          else group.waiters.push(waiter);
        }
      }
    }
    group.running = false;
  }

  async #connected(): Promise<Connector> {
    if (this.#closed) throw closed();
    if (this.#twin === undefined) {
      const opening = this.#open();
      this.#twin = opening;
      // the next one tries again
      opening.catch(() => (this.#twin = undefined));
    }
    return this.#twin;
  }
}

/** The settings of the second connector. What waits at the server may keep everything else there waiting for so long. */
export function twinSettings(settings: Settings, signal: AbortSignal): Settings {
  const { waitMs, heartbeatDeadlineMs, replyTimeoutMs, connectTimeoutMs, eviction } = settings;
  return {
    ...settings,
    signal,
    // the first one has told
    eviction: eviction === 'warn' ? 'ignore' : eviction,
    connectTimeoutMs: Math.min(connectTimeoutMs, Math.max(waitMs, heartbeatDeadlineMs)),
    heartbeatDeadlineMs: heartbeatDeadlineMs + LONGEST_WAIT_MS,
    replyTimeoutMs: replyTimeoutMs + LONGEST_WAIT_MS,
  };
}

/** A call that waits for a connection has its own time; what is asked before it has that of one call. */
async function connectedAgain(twin: Connector): Promise<void> {
  const giveUp = AbortSignal.timeout(twin.waitMs);
  await once(twin, 'connected', { signal: giveUp }).catch(() => {});
}

/** Who may ask and what the server knows comes before these: the call that follows is told, or waits until they pass. */
const PASSING: ReadonlySet<string> = new Set(['LOADING', 'MASTERDOWN', 'CLUSTERDOWN', 'TRYAGAIN', 'BUSY', 'MOVED']);

/**
 * On a connection that wrote nothing both answer at once.
 * @returns false: it cannot be said now.
 */
async function prove(twin: Connector, queue: string, what: 'WAIT' | 'WAITAOF'): Promise<boolean> {
  const args = what === 'WAIT' ? ['0', '1'] : ['1', '0', '1'];
  try {
    await twin.askNow(queue, what, args);
    return true;
  } catch (error) {
    const { code, reason } = error as EmqError;
    if (ON_A_REPLICA.test(reason) || PASSING.has(code)) return false;
    const lacks =
      /^ERR unknown command/i.test(reason) && what === 'WAITAOF'
        ? 'durability with fsync needs WAITAOF, which the server does not know (Valkey and Redis 7.2 do): ask for replicas'
        : /^ERR WAITAOF .*appendonly/i.test(reason)
          ? 'durability with fsync needs a server that writes an AOF: set appendonly yes there, or ask for replicas'
          : undefined;
    if (lacks !== undefined) throw inputError(`${lacks}; nothing was sent`);
    if (code === 'NOPERM') {
      throw new EmqError('NOPERM', `${reason}: durable calls need +${what.toLowerCase()}; nothing was sent`);
    }
    throw error;
  }
}

const ON_A_REPLICA = /^ERR WAIT(AOF)? cannot be used with replica/;

async function wait(
  twin: Connector,
  queue: string,
  socket: object,
  { replicas, fsync }: Needs,
  waitMs: number,
): Promise<Acks> {
  const frame: [string, string[]] = fsync
    ? ['WAITAOF', ['1', String(replicas), String(waitMs)]]
    : ['WAIT', [String(replicas), String(waitMs)]];
  const asked = await twin.askNow(queue, ...frame);
  // Asked of a connection that did not make the write, it means nothing.
  if (asked.socket !== socket) throw lost(ELSEWHERE);
  const { reply } = asked;
  if (!fsync && typeof reply === 'number') return { replicas: reply, fsynced: false };
  const [here, there] = Array.isArray(reply) ? reply : [];
  if (typeof here !== 'number' || typeof there !== 'number') throw new EmqError('ERR', `ERR ${frame[0]} says nothing`);
  return { replicas: there, fsynced: here > 0 };
}

function enough(acks: Acks, needs: Needs): boolean {
  return acks.replicas >= needs.replicas && (acks.fsynced || !needs.fsync);
}

const ELSEWHERE = 'another connection or node serves the queue by now';

function lost(why: string): EmqError {
  return new EmqError('EMQ_CONNECTION', why);
}

/** Not asked any more, since the answer would be another server's, or a replica's. */
const GONE: ReadonlySet<string> = new Set(['EMQ_CONNECTION', 'EMQ_UNKNOWN_OUTCOME', 'EMQ_TIMEOUT', 'EMQ_CLOSED']);

function refused(error: EmqError, standing: Standing, needs: Needs, acks: Acks): EmqError {
  const { code, reason } = error;
  const demoted = /^UNBLOCKED/.test(reason) || ON_A_REPLICA.test(reason);
  const away = GONE.has(code) || code === 'READONLY' || code === 'MOVED' || demoted;
  if (!away) return unconfirmed(standing, needs, acks, error);
  const { id, queue, outcome } = standing;
  const why = demoted ? 'its server is no longer the primary' : reason;
  const text = `${id} on queue ${queue} was answered ${outcome}, and then the connection was lost before that was confirmed: it may or may not be there (${why}); ${ADVICE}`;
  return new EmqError('EMQ_UNKNOWN_OUTCOME', text, { cause: error, unconfirmed: { id, outcome, ...acks } });
}

const ADVICE = 'enqueue it again with the same id, which is confirmed too if it is there';

function unconfirmed({ id, queue, outcome }: Standing, needs: Needs, acks: Acks, cause?: EmqError): EmqError {
  const { replicas, fsync, timeoutMs } = needs;
  const missed = [
    ...(fsync && !acks.fsynced ? ['it was not fsynced'] : []),
    ...(replicas > 0 ? [`${acks.replicas} of ${replicas} replicas have ${fsync ? 'fsynced' : 'acknowledged'} it`] : []),
  ];
  const how = cause === undefined ? `within ${timeoutMs} ms ${missed.join(' and ')}` : cause.reason;
  const text = `${id} is on queue ${queue} (${outcome}), but not as durably as was asked for: ${how}. Nothing was undone; ${ADVICE}`;
  return new EmqError('EMQ_DURABILITY', text, { cause, unconfirmed: { id, outcome, ...acks } });
}
