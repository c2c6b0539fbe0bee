/**
 * The reference model of flows: what docs/wire.md (sections 2 to 4) says that jobs, parents and letters are, and its shared
 * procedures, on plain objects.
 *
 * Invariants: nothing here reads the product's code; a call is one step. Does not: know lanes, or the clock: leases have
 * lapsed when somebody said so, and what is scheduled is due.
 */

export type State = 'pending' | 'active' | 'scheduled' | 'dead' | 'awaiting_children';

/** A child's way to its parent. `queue` is empty for a parent in the child's own queue. */
export interface Link {
  readonly parent: string;
  readonly queue: string;
  readonly policy: string;
}

export class Job {
  readonly id: string;
  readonly payload: string;
  readonly priority: string;
  state: State;
  attempts = 0;
  credit: number | undefined;
  stalled: number | undefined;
  lastError: string | undefined;
  link: Link | undefined;
  /** When its lease lapsed, in the order of lapses; undefined while it holds. */
  lapsed: number | undefined;
  /** As a parent. `open` is undefined for a job that is none. */
  open: number | undefined;
  landing: number | undefined;
  readonly children = new Map<string, string>();
  readonly processed = new Map<string, string>();
  readonly unsuccessful = new Map<string, string>();
  readonly failed = new Map<string, string>();

  constructor(id: string, payload: string, priority: string, state: State) {
    this.id = id;
    this.payload = payload;
    this.priority = priority;
    this.state = state;
  }

  waits(): boolean {
    return this.state === 'awaiting_children';
  }
}

export class Queue {
  readonly name: string;
  readonly jobs = new Map<string, Job>();
  readonly outbox: string[] = [];
  /** Those of its letters that nobody has delivered since they were written; orders are not among them. */
  readonly unheard: string[] = [];
  readonly landed = new Set<string>();
  /** flow:cancel:<parent> */
  readonly orders = new Map<string, Map<string, string>>();
  readonly poison: string[] = [];
  completed = 0;
  failed = 0;
  /** `meta.letters`: how often letters of deaths have left the outbox. */
  edition = 0;

  constructor(name: string) {
    this.name = name;
  }

  /** Leaves a letter. */
  post(...parts: readonly string[]): void {
    const letter = parts.join('\0');
    this.outbox.push(letter);
    if (parts[1] !== 'cancel') this.unheard.push(letter);
  }

  in(state: State): Job[] {
    return [...this.jobs.values()].filter((job) => job.state === state);
  }

  /** `pending`, the first to be served first. */
  waiting(): Job[] {
    const before = (a: Job, b: Job): boolean =>
      Number(a.priority) === Number(b.priority) ? a.id < b.id : Number(a.priority) < Number(b.priority);
    return this.in('pending').sort((a, b) => (before(a, b) ? -1 : 1));
  }
}

export type Heard = 'gone' | 'known' | 'counted' | 'released' | 'failed';

const HIGHEST_CLIMB = 8;
const POLICIES: readonly string[] = ['fp', 'id', 'rd', 'cp'];

export const policyOf = (text: string): string => (POLICIES.includes(text) ? text : 'fp');
export const isUnlanded = (value: string | undefined): boolean => value?.startsWith('+') ?? false;

/** Leaves the letter of a child that is dead (`fail`), or whose row is gone for good (`gone`). */
export function mourn(kind: 'fail' | 'gone', queue: Queue, child: string, link: Link, error: string): void {
  queue.post('', kind, link.queue || queue.name, link.parent, child, policyOf(link.policy), error);
}

/**
 * OPEN. The second half, for parents that another client has landed, does not concern the flows of this suite: a parent of
 * theirs has its list from the start, or nobody can tell it anything yet.
 */
function isOpen(parent: Job, child: string): boolean {
  return parent.children.has(child);
}

/** One less, or several, that have still to land. */
export function landLess(parent: Job, fewer: number): void {
  if (parent.landing === undefined) return;
  parent.landing = parent.landing - fewer;
  if (parent.landing <= 0) parent.landing = undefined;
}

function close(parent: Job, child: string): void {
  if (isUnlanded(parent.children.get(child))) landLess(parent, 1);
  parent.children.delete(child);
  parent.failed.delete(child);
  parent.open = (parent.open ?? 0) - 1;
}

function free(parent: Job): boolean {
  if (!parent.waits() || (parent.open ?? 0) > 0) return false;
  parent.state = 'pending';
  return true;
}

/** JOIN */
export function join(queue: Queue, parentId: string, child: string, result: string): Heard {
  const parent = queue.jobs.get(parentId);
  if (parent === undefined) return 'gone';
  if (isOpen(parent, child)) {
    close(parent, child);
    parent.processed.set(child, result);
    return free(parent) ? 'released' : 'counted';
  }
  if (!parent.unsuccessful.delete(child)) return 'known';
  parent.processed.set(child, result);
  return 'counted';
}

/** BURY; LOSE when the child is `lost`. `died`: how many parents have died of it in this step before. */
export function bury(
  queue: Queue,
  parentId: string,
  { child, policy: named, error, lost = false }: { child: string; policy: string; error: string; lost?: boolean },
  died = 0,
): Heard {
  const parent = queue.jobs.get(parentId);
  if (parent === undefined) return 'gone';
  if (!isOpen(parent, child)) return 'known';
  const policy = policyOf(named);
  if (policy === 'fp') {
    if (lost) close(parent, child);
    parent.failed.set(child, error);
    if (!parent.waits()) return 'counted';
    die(queue, parent, child, error, died + 1);
    return 'failed';
  }
  close(parent, child);
  if (policy !== 'rd') parent.unsuccessful.set(child, error);
  if (policy === 'cp' && parent.waits()) {
    parent.open = 0;
    parent.landing = undefined;
    if (parent.children.size > 0) order(queue, parent, `child ${child} failed`);
  }
  return free(parent) ? 'released' : 'counted';
}

/** The open children of a parent are to be cancelled. */
export function order(queue: Queue, parent: Job, reason: string): void {
  queue.orders.set(parent.id, new Map(parent.children));
  parent.children.clear();
  queue.post('', 'cancel', parent.id, reason);
}

/** DIE */
function die(queue: Queue, job: Job, child: string, error: string, died: number): void {
  job.state = 'dead';
  job.lastError = `child ${child} failed: ${error}`;
  queue.failed += 1;
  const { link } = job;
  if (link === undefined) return;
  if (link.queue === '' && died < HIGHEST_CLIMB) {
    bury(queue, link.parent, { child: job.id, policy: link.policy, error }, died);
  } else {
    mourn('fail', queue, job.id, link, error);
  }
}

export class Model {
  readonly queues = new Map<string, Queue>();
  /** Jobs that somebody has tried to cancel, `queue/id`. */
  readonly cancelled = new Set<string>();

  constructor(names: readonly string[]) {
    for (const name of names) this.queues.set(name, new Queue(name));
  }

  queue(name: string): Queue {
    const queue = this.queues.get(name);
    if (queue === undefined) throw new Error(`there is no queue ${name}`);
    return queue;
  }

  /** Every job with its queue, in the order in which they were made. */
  all(): { readonly queue: Queue; readonly job: Job }[] {
    return [...this.queues.values()].flatMap((queue) => [...queue.jobs.values()].map((job) => ({ queue, job })));
  }
}
