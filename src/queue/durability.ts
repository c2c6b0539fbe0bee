/**
 * What an admission is to have before it counts: read from the options of a queue or a verb, and seen to.
 *
 * Invariants: without `durability` a verb is what it was, on the shared connection; with it nothing is answered that was not
 * confirmed, a `duplicate` or `deduplicated` included. Nothing is undone.
 * Does not: wait itself (src/wire/durable.ts), or repeat an admission.
 */
import type { Call, Outcome, Reply } from '../wire/call.js';
import { Durable, type Needs, type Ran } from '../wire/durable.js';
import { EmqError, inputError, show } from '../wire/errors.js';
import { known, positive } from './input.js';
import type { Wire } from './job-controls.js';
import { checkTimer } from './opts.js';

/**
 * What has to have a job before the verb that adds it resolves. One of `replicas` and `fsync`, or both. In time or not, the
 * job is there: a verb that was not confirmed rejects with `EMQ_DURABILITY` and undoes nothing.
 */
export interface Durability {
  /** So many replicas of the primary have it, in memory: WAIT. */
  readonly replicas?: number | undefined;
  /**
   * The primary has it on disk: WAITAOF. With `replicas`, so many of them too. The server must write an AOF (`appendonly
   * yes`), and its `appendfsync` must be `always` if a loss of power is to lose nothing: with `everysec` servers confirm
   * what is only written.
   */
  readonly fsync?: boolean | undefined;
  /** How long that may take, ms. Default 1000; with `fsync` 3000. */
  readonly timeoutMs?: number | undefined;
}

/** `durability` of a verb: `false` is none, whatever the queue's own is. */
export interface DurabilityOption {
  readonly durability?: Durability | false | undefined;
}

/** Words for a job that was written just now; any other is of one that was there. */
const WROTE: ReadonlySet<string> = new Set(['enqueued', 'scheduled', 'replaced', 'added']);
const MOST_REPLICAS = 1_000;

/** @throws EmqError `EMQ_INPUT`. */
export function readDurability(given: Durability | false | undefined): Needs | undefined {
  if (given === undefined || given === false) return undefined;
  const { replicas, fsync = false, timeoutMs } = known('durability', given, ['replicas', 'fsync', 'timeoutMs']);
  if (typeof fsync !== 'boolean') throw inputError(`fsync of durability must be true or false, got ${show(fsync)}`);
  if (replicas === undefined && !fsync) {
    throw inputError('durability needs replicas (how many) or fsync: true; leave it out, or give false, for none');
  }
  if (replicas !== undefined && positive('replicas of durability', replicas) > MOST_REPLICAS) {
    throw inputError(`replicas of durability must be at most ${MOST_REPLICAS}, got ${replicas}`);
  }
  const time = checkTimer('timeoutMs of durability', timeoutMs ?? (fsync ? 3_000 : 1_000));
  return { replicas: replicas ?? 0, fsync, timeoutMs: time };
}

/** How one verb makes its admissions. */
export interface Admissions {
  /** One admission, and what `read` makes of its reply. @throws EmqError `EMQ_DURABILITY` and others. */
  run<L extends { readonly id: string; readonly outcome: string }>(call: Call, read: (reply: Reply) => L): Promise<L>;
  /** Many, each with an outcome of its own; `read` is called for each that was made: undefined needs no confirming. */
  runAll(
    calls: readonly Call[],
    read: (reply: Reply, i: number) => { readonly id: string; readonly outcome: string } | undefined,
  ): Promise<Outcome[]>;
}

/** @throws EmqError `EMQ_INPUT` for a wire that has no connections of its own. */
export async function admissionsOf(wire: Wire, queue: string, needs: Needs | undefined): Promise<Admissions> {
  if (needs === undefined) {
    return {
      run: async (call, read) => read(await wire.run(call)),
      runAll: (calls) => wire.runAll(calls),
    };
  }
  const durable = durableOf(wire);
  await durable.prepare(queue, needs);
  const confirmed = async (ran: Ran, landed: { readonly id: string; readonly outcome: string }): Promise<void> => {
    const { id, outcome } = landed;
    await durable.confirm(ran, needs, { id, outcome, queue: ran.queue }, WROTE.has(outcome) ? [] : [id]);
  };
  return {
    async run(call, read) {
      const ran = await durable.run(call);
      const landed = read(ran.reply);
      await confirmed(ran, landed);
      return landed;
    },
    async runAll(calls, read) {
      return Promise.all(
        calls.map(async (call, i): Promise<Outcome> => {
          try {
            const ran = await durable.run(call);
            const landed = read(ran.reply, i);
            if (landed !== undefined) await confirmed(ran, landed);
            return { ok: true, reply: ran.reply };
          } catch (error) {
            if (!(error instanceof EmqError)) throw error;
            return { ok: false, error };
          }
        }),
      );
    },
  };
}

/**
 * Runs the steps of an admission that takes several, over any number of queues, and confirms them all at the end.
 * A step that ran on another connection than the one before it may have been lost meanwhile: then nothing is confirmed.
 */
export class DurableSteps implements Wire {
  readonly #durable: Durable;
  readonly #needs: Needs;
  /** Where the steps of each queue ran; undefined: not all in one place. */
  readonly #places = new Map<string, Ran['socket']>();

  /** @throws EmqError `EMQ_INPUT`. */
  constructor(wire: Wire, needs: Needs) {
    this.#durable = durableOf(wire);
    this.#needs = needs;
  }

  /** Before anything is written. @throws EmqError */
  async prepare(queues: Iterable<string>): Promise<void> {
    for (const queue of new Set(queues)) await this.#durable.prepare(queue, this.#needs);
  }

  async run(call: Call): Promise<Reply> {
    const { reply, queue, socket } = await this.#durable.run(call);
    const before = this.#places.has(queue) ? this.#places.get(queue) : socket;
    this.#places.set(queue, before === socket ? socket : undefined);
    return reply;
  }

  async runAll(calls: readonly Call[]): Promise<Outcome[]> {
    return Promise.all(
      calls.map((call) =>
        this.run(call).then(
          (reply): Outcome => ({ ok: true, reply }),
          (error: unknown): Outcome => ({ ok: false, error: error as EmqError }),
        ),
      ),
    );
  }

  /**
   * Resolves when all that the steps have written is confirmed.
   * @param whole who is told of: the id that the caller knows and the word of the verb.
   * @param jobs those that may have been there before; none: all steps wrote.
   */
  async confirm(
    whole: { readonly id: string; readonly outcome: string },
    jobs: readonly { readonly id: string; readonly queue: string }[],
  ): Promise<void> {
    const confirming = [...this.#places].map(([queue, socket]) => {
      const there = jobs.filter((job) => job.queue === queue).map(({ id }) => id);
      return this.#durable.confirm({ queue, socket }, this.#needs, { ...whole, queue }, there);
    });
    await Promise.all(confirming);
  }
}

function durableOf(wire: Wire): Durable {
  const { durable } = wire as { readonly durable?: unknown };
  if (durable instanceof Durable) return durable;
  throw inputError('durability needs a Connector: what runs the calls here has no connections of its own for it');
}
