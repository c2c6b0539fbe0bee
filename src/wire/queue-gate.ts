/**
 * The fence of a cluster, queue by queue (wire contract, section 8): the brand lies in the queue's own slot and is
 * checked, and claimed, when a queue is first touched on a connection.
 *
 * Invariants: a call enters only after its queue's brand was found right on this connection; calls of one queue enter
 * in the order in which they came; a good finding is kept until a node is lost or the queue has moved, a bad one never.
 * Does not: send calls, or retry a check.
 *
 * A call about one queue with the keys of another would go through by the wrong brand: strayKey() finds it.
 */
import type { Call } from './call.js';
import type { Settings } from './connector-options.js';
import type { EmqError } from './errors.js';
import { checkBrand, proveModule, type Ask } from './fence.js';
import { Keyspace } from './keyspace.js';
import type { Link } from './transport.js';

/** Someone who waits before the gate. */
export interface Visitor {
  /** The brand is right: go on. */
  enter(): void;
  /** The check failed: nothing was sent. */
  refuse(error: EmqError): void;
}

export class QueueGate {
  readonly #check: (queue: string) => Promise<void>;
  readonly #open = new Set<string>();
  readonly #waiting = new Map<string, Visitor[]>();
  #epoch = 0;

  /** @param check looks at one queue's brand; rejects with an `EmqError`. */
  constructor(check: (queue: string) => Promise<void>) {
    this.#check = check;
  }

  /** Lets the visitor in, now or when the queue's brand has been found right. */
  visit(queue: string, visitor: Visitor): void {
    const line = this.#waiting.get(queue);
    if (line !== undefined) line.push(visitor);
    else if (this.#open.has(queue)) visitor.enter();
    else this.#examine(queue, [visitor]);
  }

  /** Lets the visitor in when the brand has been found right anew: the queue is on another node now. */
  revisit(queue: string, visitor: Visitor): void {
    this.#open.delete(queue);
    this.visit(queue, visitor);
  }

  /** Forgets what was found about a queue, or about all. */
  forget(queue?: string): void {
    this.#epoch++;
    if (queue === undefined) this.#open.clear();
    else this.#open.delete(queue);
  }

  #examine(queue: string, line: Visitor[]): void {
    this.#waiting.set(queue, line);
    const epoch = this.#epoch;
    this.#check(queue).then(
      () => {
        this.#waiting.delete(queue);
        // A node was lost meanwhile: good enough for those who waited, not for those to come.
        if (epoch === this.#epoch) this.#open.add(queue);
        for (const visitor of line) visitor.enter();
      },
      (error: unknown) => {
        this.#waiting.delete(queue);
        for (const visitor of line) visitor.refuse(error as EmqError);
      },
    );
  }
}

/** The fence of one queue: the module first on wire 6, since nothing may be branded without it. */
export async function checkQueue(link: Link, queue: string, settings: Settings): Promise<void> {
  const { version } = new Keyspace(queue);
  const ask: Ask = (command, args) => link.ask(queue, command, args);
  await link.meet(queue);
  if (settings.wire === 6 && link.manyNodes) await proveModule(ask);
  await checkBrand(ask, version, `queue ${queue}`, settings);
}

/** The first key of a call that is not its queue's, or undefined. */
export function strayKey({ transition, queue, keys }: Call): string | undefined {
  if (transition.slot === 'registry') return undefined;
  const base = `emq:{${queue}}:`;
  for (const key of keys) {
    const start = typeof key === 'string' ? key : key.toString('latin1', 0, base.length);
    if (!start.startsWith(base)) return String(key);
  }
  return undefined;
}
