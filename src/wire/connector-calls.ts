/**
 * The calls in flight: each from its start to its one outcome, over however many connections that takes.
 *
 * Invariants:
 * - Every call is answered exactly once, within replyTimeoutMs, whatever becomes of the connection.
 * - A call is sent again only if it has certainly not been executed, or if executing it twice does no harm
 *   (`repeatable` or `readOnly`; wire contract, section 10). Otherwise a lost reply is EMQ_UNKNOWN_OUTCOME.
 * - Calls are written in the order in which they were made, and all that are made in one turn leave in one write.
 * - No timer per call on the ordinary way: one for the oldest call in flight, one for the oldest waiting call.
 * Does not: connect, or fence (it is given links that have passed).
 *
 * What becomes of a call:
 *
 *   start -> waiting (no link) -> sent -> replied
 *                ^   |             |-> NOSCRIPT: LOAD and EVAL in one write on the same link
 *                |   waitMs:       |-> refused, passing (LOADING ...): again after a pause
 *                |   EMQ_CONNECTION|-> refused by the brand: fenced anew, then again or refused
 *                |                 |-> refused for good: that error
 *                |                 `-> lost: not written, or harmless to repeat -> waiting; else EMQ_UNKNOWN_OUTCOME
 *                `--------------------------------------------------------------------'
 */
import type { Call, Reply, Script } from './call.js';
import type { Sent } from './command.js';
import type { Settings } from './connector-options.js';
import { SCRIPT_SUFFIX, SLOT_ON_THE_MOVE, fromReply, inputError, type EmqError } from './errors.js';
import { evalFrame, executorOf, isIntact, loadFrame, malformed, type Executor, type Frame } from './executor.js';
import { NO_QUEUE } from './keyspace.js';
import { checkQueue, QueueGate, strayKey } from './queue-gate.js';
import { isErrorReply, toReply } from './reply.js';
import {
  again,
  astray,
  closed,
  foreignScript,
  harmless,
  overdue,
  overloaded,
  strayed,
  unknownOutcome,
  unreachable,
} from './connector-outcomes.js';
import { toEmqError, type Link } from './transport.js';
import type { ClientSource } from './client-source.js';

/** Counters that only grow. */
export interface CallCounters {
  /** Calls made. */
  calls: number;
  /** Calls sent again after their reply was lost, because that does no harm. */
  repeats: number;
  /** Calls sent again because the server was not ready for them. */
  retries: number;
  /** Scripts loaded because the server did not have them. */
  scriptLoads: number;
  /** Calls that ended in EMQ_UNKNOWN_OUTCOME. */
  unknownOutcomes: number;
}

/** One call on its way. */
interface Op {
  readonly call: Call;
  readonly seq: number;
  readonly deadline: number;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: EmqError) => void;
  /** The command that is out, while it is. */
  sent: Sent | undefined;
  /** Since when it has been waiting without having been sent; undefined = it is not, or it was sent before. */
  unsentSince: number | undefined;
  /** Its reply was lost once, and it may be repeated. */
  lost: boolean;
  /** The last passing refusal, and how many there were. */
  refusal: EmqError | undefined;
  tries: number;
  done: boolean;
}

/**
 * Refusals that pass by themselves and that the server gives before it runs anything, so that any call may be repeated:
 * LOADING, MASTERDOWN, CLUSTERDOWN and ASK come from the gate that every command passes first, TRYAGAIN from the same gate
 * or from a native command before its first write (wire contract, section 7). The same words out of the middle of a
 * script are no such promise; the server marks those by a suffix. But for one: a key that has moved with its slot.
 */
const PASSING: ReadonlySet<string> = new Set(['LOADING', 'MASTERDOWN', 'CLUSTERDOWN', 'TRYAGAIN', 'ASK']);
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 500;

export class Calls {
  readonly counters: CallCounters = { calls: 0, repeats: 0, retries: 0, scriptLoads: 0, unknownOutcomes: 0 };
  /** Why there is no connection, for the error of a call that waited in vain. */
  lastFailure: EmqError | undefined;

  readonly #settings: Settings;
  readonly #source: ClientSource;
  readonly #executor: Executor;
  /** All calls without an outcome, oldest first: they all have the same time, so the first one is due first. */
  readonly #open = new Set<Op>();
  #waiting: Op[] = [];
  readonly #pauses = new Set<NodeJS.Timeout>();
  #dueTimer: NodeJS.Timeout | undefined;
  #waitTimer: NodeJS.Timeout | undefined;
  #link: Link | undefined;
  #gate: QueueGate | undefined;
  /** Scripts that are being loaded: many calls may miss one script at once. */
  #loads = new Map<string, Promise<boolean>>();
  #inFlight = 0;
  #retiring: Error | undefined;
  #blocked: EmqError | undefined;
  #closing = false;
  #onIdle: (() => void) | undefined;
  #seq = 0;

  constructor(settings: Settings, source: ClientSource) {
    this.#settings = settings;
    this.#source = source;
    this.#executor = executorOf(settings.wire);
  }

  /** Calls without an outcome. */
  get pending(): number {
    return this.#open.size;
  }

  /** Calls that wait for a connection. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Starts a call. Rejects with an `EmqError` only. */
  start(call: Call): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.counters.calls++;
      const wrong = malformed(call);
      if (wrong !== undefined) return reject(inputError(wrong));
      if (this.#closing) return reject(closed());
      if (this.#open.size >= this.#settings.maxPending) return reject(overloaded(this.#settings.maxPending));
      const now = performance.now();
      const op: Op = {
        call,
        seq: this.#seq++,
        deadline: now + this.#settings.replyTimeoutMs,
        resolve,
        reject,
        sent: undefined,
        unsentSince: undefined,
        lost: false,
        refusal: undefined,
        tries: 0,
        done: false,
      };
      this.#open.add(op);
      this.#dueTimer ??= this.#dueIn(this.#settings.replyTimeoutMs);
      this.#place(op);
    });
  }

  /** A link has come up: everything that waits is sent on it, oldest first. */
  attach(link: Link): void {
    this.#link = link;
    this.#blocked = undefined;
    this.#retiring = undefined;
    this.#loads = new Map();
    this.#gate = link.perQueue ? new QueueGate((queue) => checkQueue(link, queue, this.#settings)) : undefined;
    link.onNodeLost = () => this.#gate?.forget();
    const waiting = this.#waiting.sort((a, b) => a.seq - b.seq);
    this.#waiting = [];
    for (const op of waiting) this.#place(op);
  }

  /** The link is gone. What was in flight on it comes back here, call by call. */
  detach(reason: EmqError): void {
    this.#link = undefined;
    this.#gate = undefined;
    this.lastFailure = reason;
  }

  /** The fence refuses this node: nothing waits for it, until the next attach(). */
  block(error: EmqError): void {
    this.#blocked = error;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const op of waiting) this.#fail(op, again(error));
  }

  /**
   * No more calls; those in flight have `graceMs` to get their replies. Resolves when the rest may be cut off.
   * What was not sent is answered at once.
   */
  async drain(graceMs: number): Promise<void> {
    this.#closing = true;
    for (const op of [...this.#open]) if (op.sent === undefined) this.#fail(op, closed());
    if (this.#open.size === 0 || graceMs === 0) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
      timer = setTimeout(resolve, graceMs);
    });
    clearTimeout(timer);
  }

  /** After the link was destroyed: answers whatever is still open, and leaves no timer. */
  finish(): void {
    for (const op of [...this.#open]) this.#lose(op, closed());
    for (const timer of this.#pauses) clearTimeout(timer);
    clearTimeout(this.#dueTimer);
    clearTimeout(this.#waitTimer);
  }

  /** Sends it on the link if there is one, through the gate where brands are per queue; else it waits. */
  #place(op: Op): void {
    if (op.done) return;
    const link = this.#link;
    if (link === undefined || !link.usable) this.#wait(op);
    else if (this.#gate === undefined) this.#send(op, link, this.#executor(op.call));
    else {
      const stray = strayKey(op.call);
      if (stray !== undefined) return this.#fail(op, strayed(op.call, stray));
      this.#gate.visit(op.call.queue, {
        enter: () => {
          if (!op.done) this.#send(op, link, this.#executor(op.call));
        },
        refuse: (error) => this.#turnedAway(op, link, error),
      });
    }
  }

  /** Writes one frame. `before` must have gone well too for the reply to count. */
  #send(op: Op, link: Link, frame: Frame, before?: Promise<boolean>): void {
    if (!link.usable) return this.#wait(op);
    this.#inFlight++;
    let foreign: EmqError | undefined;
    const sent = (op.sent = link.send(frame, placeOf(op.call), (follow, stop) => {
      // What was found about the brand was found on another node.
      const refuse = (error: EmqError): void => {
        foreign = error;
        stop();
      };
      if (this.#gate === undefined) follow();
      else this.#gate.revisit(op.call.queue, { enter: follow, refuse });
    }));
    if (sent.written) op.unsentSince = undefined;
    sent.promise.then(
      (raw: unknown) => {
        this.#landed(link);
        if (before === undefined) return this.#reply(op, raw);
        void before.then((intact) => (intact ? this.#reply(op, raw) : this.#fail(op, foreignScript(op.call))));
      },
      (error: unknown) => {
        op.sent = undefined;
        if (foreign !== undefined) this.#turnedAway(op, link, foreign);
        else if (isErrorReply(error)) this.#refused(op, link, frame, error.message);
        else this.#cutOff(op, link, sent, error);
        this.#landed(link);
      },
    );
  }

  #reply(op: Op, raw: unknown): void {
    try {
      this.#succeed(op, toReply(raw));
    } catch (error) {
      this.#fail(op, toEmqError(error, this.#source));
    }
  }

  /** One command less in flight. A link that is to go, goes with the last. */
  #landed(link: Link): void {
    this.#inFlight--;
    if (this.#retiring !== undefined && this.#inFlight === 0 && link === this.#link) void link.destroy(this.#retiring);
  }

  /** The server said no: the call has not been executed, or it wrote nothing. */
  #refused(op: Op, link: Link, frame: Frame, text: string): void {
    const error = fromReply(text);
    if (op.done) return;
    if (error.code === 'NOSCRIPT' && frame.script !== undefined) return this.#heal(op, link, frame.script);
    if (PASSING.has(error.code) && (!SCRIPT_SUFFIX.test(text) || SLOT_ON_THE_MOVE.test(text))) {
      if (error.code === 'CLUSTERDOWN') link.refresh();
      op.refusal = error;
      op.unsentSince = undefined;
      return this.#pause(op);
    }
    if (error.code === 'READONLY') this.#distrust(link, error);
    if (error.code === 'EMQWIRE') return this.#outlawed(op, link, error);
    this.#fail(op, astray(error, link));
  }

  /**
   * A native command found another brand than the fence did, and wrote nothing. The fence looks again: if it refuses,
   * so is the call; if it passes (the brand was claimed again after a flush, or lies on the node to which a slot is
   * moving), the call is made again: once on one server, for as long as it has time on a cluster.
   */
  #outlawed(op: Op, link: Link, error: EmqError): void {
    const before = op.refusal;
    op.refusal = error;
    if (this.#gate !== undefined) {
      this.#gate.forget(op.call.queue);
      return this.#pause(op);
    }
    this.#distrust(link, error);
    if (before?.code === 'EMQWIRE') this.#fail(op, error);
    else this.#wait(op);
  }

  /**
   * The server does not have the script. LOAD keeps it there for good, EVAL runs this call whatever a flush does in
   * between; both in one write, on the node that answered. Replies come in order, so repeated calls keep theirs.
   */
  #heal(op: Op, link: Link, script: Script): void {
    if (!isIntact(script)) {
      return this.#fail(
        op,
        inputError(`script ${script.name}: its sha is not that of its source; build the scripts again`),
      );
    }
    if (!link.usable) return this.#wait(op);
    // On a cluster every node has scripts of its own.
    const place = link.manyNodes ? `${script.sha} ${placeOf(op.call)}` : script.sha;
    let load = this.#loads.get(place);
    if (load === undefined) {
      this.counters.scriptLoads++;
      load = link.send(loadFrame(script), placeOf(op.call)).promise.then(
        (sha) => String(sha) === script.sha,
        () => true, // It may not be allowed, or the link is gone: the EVAL's own reply tells what became of the call.
      );
      this.#loads.set(place, load);
      void load.then(() => this.#loads.delete(place));
    }
    this.#send(op, link, evalFrame(op.call), load);
  }

  /** No reply will come. */
  #cutOff(op: Op, link: Link, sent: Sent, error: unknown): void {
    if (op.done) return;
    const reason = link.explain(error);
    if (sent.written) return this.#lose(op, reason);
    if (this.#closing) return this.#fail(op, closed());
    // Not written. A cluster still has a link: the node may be replaced, or found elsewhere, a moment later.
    this.lastFailure = reason;
    if (!link.manyNodes || !link.usable) return this.#wait(op);
    link.refresh();
    this.#pauseUnsent(op);
  }

  /** Written, and its reply is lost. */
  #lose(op: Op, reason: EmqError): void {
    if (!harmless(op.call)) {
      this.counters.unknownOutcomes++;
      this.#fail(op, unknownOutcome(op.call, this.#source.where, reason));
    } else if (this.#closing) {
      this.#fail(op, closed());
    } else {
      this.counters.repeats++;
      op.lost = true;
      op.sent = undefined;
      op.unsentSince = undefined;
      this.lastFailure = reason;
      // On a cluster the other nodes are still there, and the lost one may be replaced in a moment.
      if (this.#link?.usable === true) this.#pause(op);
      else this.#wait(op);
    }
  }

  /** The queue's brand did not pass; the call was not sent. */
  #turnedAway(op: Op, link: Link, error: EmqError): void {
    if (op.done) return;
    if (this.#closing) return this.#fail(op, closed());
    if (PASSING.has(error.code)) {
      op.refusal = error;
      this.#pause(op);
    } else if (error.code !== 'EMQ_CONNECTION') {
      this.#fail(op, astray(again(error), link));
    } else {
      this.lastFailure = error;
      if (this.#link?.usable === true) this.#pauseUnsent(op);
      else this.#wait(op);
    }
  }

  /** Waits for a link: a call that was never sent for waitMs, one that is being repeated as long as it has time. */
  #wait(op: Op): void {
    if (op.done) return;
    if (this.#closing) return this.#fail(op, closed());
    if (this.#blocked !== undefined) return this.#fail(op, again(this.#blocked));
    if (op.call.once === true) return this.#fail(op, this.#unreachable());
    if (!op.lost) op.unsentSince ??= performance.now();
    this.#waiting.push(op);
    this.#waitTimer ??= setTimeout(() => this.#stopWaiting(), this.#settings.waitMs);
  }

  #stopWaiting(): void {
    this.#waitTimer = undefined;
    const now = performance.now();
    let next = Infinity;
    const expired: Op[] = [];
    this.#waiting = this.#waiting.filter((op) => {
      if (op.done) return false;
      if (op.unsentSince === undefined) return true;
      const left = op.unsentSince + this.#settings.waitMs - now;
      if (left <= 0) expired.push(op);
      else next = Math.min(next, left);
      return left > 0;
    });
    for (const op of expired) this.#fail(op, this.#unreachable());
    if (next !== Infinity) this.#waitTimer = setTimeout(() => this.#stopWaiting(), Math.ceil(next));
  }

  /** A cluster's node is away: tries again soon, for as long as a call may wait. */
  #pauseUnsent(op: Op): void {
    op.unsentSince ??= performance.now();
    if (!op.lost && performance.now() - op.unsentSince >= this.#settings.waitMs) this.#fail(op, this.#unreachable());
    else this.#pause(op);
  }

  /**
   * Again after a pause that grows from try to try; never beyond the call's own time. No jitter: calls that were refused
   * together come back together, in their order.
   */
  #pause(op: Op): void {
    if (this.#closing) return this.#fail(op, op.refusal ?? closed());
    if (op.call.once === true) return this.#fail(op, op.refusal ?? this.#unreachable());
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** op.tries++);
    // A last try would end in an unknown outcome; what is known now is better.
    if (!op.lost && performance.now() + pause >= op.deadline) return this.#fail(op, op.refusal ?? this.#unreachable());
    if (op.refusal !== undefined) this.counters.retries++;
    const timer = setTimeout(() => {
      this.#pauses.delete(timer);
      this.#place(op);
    }, pause);
    this.#pauses.add(timer);
  }

  /** This server is no longer what it was: no further call on this link, and a new one once the replies are in. */
  #distrust(link: Link, reason: EmqError): void {
    if (link !== this.#link) return;
    if (link.manyNodes) return link.refresh();
    this.#retiring ??= reason;
    link.retire();
  }

  /**
   * After a blocked event loop the replies are there, only not read yet: the verdict over what is due when the timer
   * fires waits until they are.
   */
  #dueIn(ms: number): NodeJS.Timeout {
    return setTimeout(() => setImmediate((now: number) => this.#expire(now), performance.now()), ms);
  }

  /** The oldest call's time is up; perhaps more than one's. */
  #expire(now: number): void {
    this.#dueTimer = undefined;
    for (const op of this.#open) {
      if (op.deadline > now) {
        this.#dueTimer = this.#dueIn(Math.ceil(op.deadline - now));
        return;
      }
      this.#overdue(op);
    }
  }

  #overdue(op: Op): void {
    const late = overdue(op.call, this.#settings.replyTimeoutMs);
    // Even unwritten: a cluster's client may hold it back for a node that is still connecting, and send it later.
    if (op.sent !== undefined && !harmless(op.call)) this.#lose(op, late);
    else if (op.sent !== undefined || op.lost) this.#fail(op, late);
    else this.#fail(op, op.refusal ?? this.#unreachable());
  }

  #unreachable(): EmqError {
    return unreachable(this.#source.where, this.lastFailure);
  }

  #succeed(op: Op, reply: Reply): void {
    op.call.ran?.(op.sent?.socket);
    if (this.#close(op)) op.resolve(reply);
  }

  #fail(op: Op, error: EmqError): void {
    if (this.#close(op)) op.reject(error);
  }

  #close(op: Op): boolean {
    if (op.done) return false;
    op.done = true;
    op.sent = undefined;
    this.#open.delete(op);
    if (this.#open.size === 0) this.#onIdle?.();
    return true;
  }
}

/** What decides on the slot of its keys. */
function placeOf({ transition, queue }: Call): string {
  return transition.slot === 'registry' ? NO_QUEUE : queue;
}
