/**
 * Takes a queue's letters to the parents they are for, and cancels what an order says.
 *
 * Invariants: a letter leaves the outbox after it was delivered, by its value: with any number of deliverers it takes effect
 * once. One that can never be delivered is moved aside and reported; one that meets what may pass stays, and those behind
 * it are delivered all the same. A pass is bounded and never rejects.
 * Does not: keep time (the metronome does).
 */
import type { EmqError } from '../wire/errors.js';
import type { Delivered } from '../wire/flow-transitions.js';
import { Keyspace } from '../wire/keyspace.js';
import { transitions } from '../wire/transitions.js';
import { isBranded } from '../ids/brand.js';
import type { QueueRunner } from './runner.js';

/** What a letter says. */
export type Letter =
  | {
      readonly kind: 'done' | 'fail' | 'gone';
      readonly queue: string;
      readonly parent: string;
      readonly child: string;
      readonly policy: string;
      readonly bytes: Buffer;
    }
  | { readonly kind: 'cancel'; readonly parent: string; readonly reason: string };

/** What one pass did. */
export interface DeliveryReport {
  /** Letters that are out of the outbox, those for parents that are gone among them. */
  readonly delivered: number;
  /** Parents that wait to be claimed now, and parents that are dead now. */
  readonly released: number;
  readonly failed: number;
  /** Letters moved to `flow:poison`, and why. */
  readonly poison: readonly { readonly letter: Buffer; readonly why: string }[];
  /** Letters that stay, since what they met may pass. */
  readonly left: number;
  /** The pass has reached its limit: there is more to do now. */
  readonly more: boolean;
  readonly errors: readonly EmqError[];
}

type Verdict = Delivered | 'cancelled' | 'stays' | { readonly poison: string };

const PAGE = 100;
/** So many letters, and so many children of one order, a pass at most. */
const MOST = 1_000;

/** The words that mean that a letter is at fault, and not the moment. */
const FOR_GOOD: ReadonlySet<string> = new Set(['WRONGTYPE', 'ERR', 'EMQ_INPUT', 'EMQKIND']);

export class Courier {
  readonly #runner: QueueRunner;
  readonly #queue: string;

  constructor(runner: QueueRunner, queue: string) {
    this.#runner = runner;
    this.#queue = queue;
  }

  /** One pass over the outbox, from its head. Never rejects. */
  async deliver(): Promise<DeliveryReport> {
    const errors: EmqError[] = [];
    const poison: { letter: Buffer; why: string }[] = [];
    const counts = { delivered: 0, released: 0, failed: 0, left: 0, read: 0 };
    let more = false;
    try {
      for (;;) {
        const input = { offset: counts.left, limit: PAGE };
        const { edition, letters } = await this.#runner.run(this.#queue, transitions.flowLetters, input);
        const read = letters.map((bytes) => ({ bytes, letter: readLetter(bytes) }));
        const verdicts = await Promise.all(read.map(({ letter }) => this.#deliver(letter, errors)));
        const out: { verdict: 'done' | 'poison'; letter: Buffer }[] = [];
        for (const [i, { bytes, letter }] of read.entries()) {
          const verdict = verdicts[i] ?? 'stays';
          if (verdict === 'stays') {
            counts.left += 1;
            more ||= 'kind' in letter && letter.kind === 'cancel';
            continue;
          }
          const bad = typeof verdict === 'object';
          if (bad) poison.push({ letter: bytes, why: verdict.poison });
          if (verdict === 'released' || verdict === 'failed') counts[verdict] += 1;
          out.push({ verdict: bad ? 'poison' : 'done', letter: bytes });
        }
        const gone =
          out.length === 0 ? 0 : await this.#runner.run(this.#queue, transitions.flowAck, { edition, letters: out });
        // Somebody else was quicker, or letters of deaths that another has touched meanwhile are for another look.
        if (gone < out.length) more = true;
        counts.delivered += gone;
        counts.read += letters.length;
        if (letters.length < PAGE) break;
        if (counts.read >= MOST) {
          more = true;
          break;
        }
      }
    } catch (error) {
      errors.push(error as EmqError);
    }
    const { delivered, released, failed, left } = counts;
    return { delivered: Math.max(0, delivered - poison.length), released, failed, poison, left, more, errors };
  }

  /** Never rejects. */
  async #deliver(letter: Letter | { readonly why: string }, errors: EmqError[]): Promise<Verdict> {
    if ('why' in letter) return { poison: letter.why };
    try {
      if (letter.kind === 'cancel') return (await this.#cancel(letter, errors)) ? 'cancelled' : 'stays';
      return await this.#runner.run(letter.queue, transitions.flowDeliver, letter);
    } catch (error) {
      const failure = error as EmqError;
      if (FOR_GOOD.has(failure.code)) return { poison: failure.message };
      errors.push(failure);
      return 'stays';
    }
  }

  /** Cancels the children of an order, in their queues. False when some are left. */
  async #cancel({ parent, reason }: Letter & { kind: 'cancel' }, errors: EmqError[]): Promise<boolean> {
    const why = `its flow parent ${parent} no longer waits for it${reason === '' ? '' : `: ${reason}`}`;
    let cursor = '0';
    for (let done = 0; done < MOST;) {
      const input = { id: parent, book: 'cancel', cursor, count: PAGE } as const;
      const page = await this.#runner.run(this.#queue, transitions.flowChildren, input);
      const told = await Promise.all(
        page.entries.map(async ([id, value]) => {
          const queue = value.toString('utf8').replace(/^\+/, '') || this.#queue;
          try {
            await this.#runner.run(queue, transitions.cancel, { id, reason: why });
            return id;
          } catch (error) {
            if (FOR_GOOD.has((error as EmqError).code)) return id;
            errors.push(error as EmqError);
            return undefined;
          }
        }),
      );
      const children = told.filter((id) => id !== undefined);
      const left = await this.#runner.run(this.#queue, transitions.flowCancelled, { id: parent, children });
      if (left === 0) return true;
      done += children.length;
      // A page may be empty with more behind it; what a whole scan has missed is for the next pass.
      cursor = page.next;
      if (cursor === '0') return false;
    }
    return false;
  }
}

/** Reads a letter; what is wrong with it if it is none. */
export function readLetter(bytes: Buffer): Letter | { readonly why: string } {
  const [first, ...rest] = parts(bytes, 4);
  if (first === undefined || rest.length < 1) return { why: 'it is no letter' };
  if (first.length > 0) {
    const [parent, child, result] = rest;
    if (parent === undefined || child === undefined || result === undefined) return { why: 'it is no letter' };
    return addressed('done', first, parent, child, '', result);
  }
  const kind = rest[0]?.toString('latin1');
  if (kind === 'cancel') {
    const [, , parent, reason] = parts(bytes, 4);
    if (parent === undefined || reason === undefined) return { why: 'it is no letter' };
    const id = parent.toString('utf8');
    return isBranded(id) ? { kind, parent: id, reason: reason.toString('utf8') } : { why: 'its parent is no job id' };
  }
  if (kind !== 'fail' && kind !== 'gone') return { why: 'it is no letter' };
  const [, , queue, parent, child, policy, error] = parts(bytes, 7);
  if (
    queue === undefined ||
    parent === undefined ||
    child === undefined ||
    policy === undefined ||
    error === undefined
  ) {
    return { why: 'it is no letter' };
  }
  return addressed(kind, queue, parent, child, policy.toString('latin1'), error);
}

function addressed(
  kind: 'done' | 'fail' | 'gone',
  queue: Buffer,
  parent: Buffer,
  child: Buffer,
  policy: string,
  bytes: Buffer,
): Letter | { readonly why: string } {
  const name = queue.toString('utf8');
  try {
    new Keyspace(name);
  } catch {
    return { why: 'it names no queue' };
  }
  const [above, below] = [parent.toString('utf8'), child.toString('utf8')];
  if (!isBranded(above)) return { why: 'its parent is no job id' };
  if (!isBranded(below)) return { why: 'its child is no job id' };
  return { kind, queue: name, parent: above, child: below, policy, bytes };
}

/** The first parts between NULs; the last of `most` is all the rest. */
function parts(bytes: Buffer, most: number): Buffer[] {
  const found: Buffer[] = [];
  let from = 0;
  while (found.length < most - 1) {
    const at = bytes.indexOf(0, from);
    if (at === -1) break;
    found.push(bytes.subarray(from, at));
    from = at + 1;
  }
  found.push(bytes.subarray(from));
  return found;
}
