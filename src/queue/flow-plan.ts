/**
 * A flow before the wire: checked, its ids minted, its payloads encoded.
 *
 * Invariants: everything that can be judged here is: children, depth, repeated ids, options, payloads; a plan can be added
 * any number of times and means the same flow each time.
 * Does not: judge what only the server can know (kind, whether an id is taken), or send anything.
 */
import { mint } from '../ids/mint.js';
import { EmqError, inputError, show } from '../wire/errors.js';
import { checkId, Keyspace } from '../wire/keyspace.js';
import type { PolicyToken } from '../wire/flow-transitions.js';
import { ADMISSION, type Admission, type Admitted, type JobOptions } from './admission.js';
import { givenList, known } from './input.js';
import { Jobs, type Wire } from './jobs.js';

/**
 * What becomes of the parent when this child is dead (all tries failed, stalled too often, or removed):
 * - `fail` (default): the parent is dead too, and so on upwards.
 * - `ignore`: the parent does not wait for it; it is in `ignoredFailures`.
 * - `remove`: the parent does not wait for it, and there is no trace of it.
 * - `continue`: the parent waits for nobody any more; it is in `ignoredFailures`, and the other children are cancelled.
 */
export type OnFailure = 'fail' | 'ignore' | 'remove' | 'continue';

/** A child, which may have children itself. */
export interface FlowChild extends JobOptions {
  /** Of the queue's payloads. Given a `Jobs` or `Queue` as `queue`, its codec, schema and limit are those that count. */
  readonly payload: unknown;
  /** Its queue, or that queue's name; a queue that is only named takes JSON. Default: the queue of its parent. */
  readonly queue?: string | Jobs | undefined;
  /** Default `fail`. */
  readonly onFailure?: OnFailure | undefined;
  readonly children?: readonly FlowChild[] | undefined;
}

/** A parent that runs when its children are done. */
export interface Flow<Input = unknown> extends JobOptions {
  readonly payload: Input | Uint8Array;
  /** One at least. */
  readonly children: readonly FlowChild[];
}

/** One job of a planned flow. */
export interface PlannedJob extends Admitted {
  readonly id: string;
  /** The id is not the caller's. */
  readonly minted: boolean;
  readonly queue: string;
  readonly policy: PolicyToken;
  readonly children: readonly PlannedJob[];
}

/** A flow with all its ids, that can be added, and added again if that was cut short. */
export class PreparedFlow {
  readonly root: PlannedJob;
  /** How many jobs. */
  readonly size: number;
  /** Of all payloads and opts. */
  readonly bytes: number;
  /** All jobs are in one queue. */
  readonly oneQueue: boolean;

  /** @internal `flows.prepare` makes them. */
  constructor(root: PlannedJob) {
    const jobs = all(root);
    this.root = root;
    this.size = jobs.length;
    this.bytes = jobs.reduce((sum, { payload, opts }) => sum + payload.length + (opts?.length ?? 0), 0);
    this.oneQueue = jobs.every(({ queue }) => queue === root.queue);
  }

  get id(): string {
    return this.root.id;
  }

  get queue(): string {
    return this.root.queue;
  }

  /** The same flow with new ids in the place of those that were minted. @internal */
  reminted(): PreparedFlow {
    const again = (job: PlannedJob): PlannedJob => ({
      ...job,
      id: job.minted ? mint() : job.id,
      children: job.children.map(again),
    });
    return new PreparedFlow(again(this.root));
  }
}

/** All jobs, each behind its parent. */
export function all(job: PlannedJob): PlannedJob[] {
  return [job, ...job.children.flatMap(all)];
}

/** Where a flow's parents are, and what judges their payloads. */
export interface FlowHome<T, Input> {
  readonly queue: string;
  readonly admission: Admission<T, Input>;
  readonly wire: Wire;
}

/** Where a job of a flow goes, and what judges its payload. */
interface Place {
  readonly queue: string;
  readonly admission: { of(payload: unknown, ...rest: Rest): Promise<Admitted> };
}
type Rest = [JobOptions, Readonly<Record<string, string>>?];

/** How many levels a flow may have, the root's included. */
export const DEEPEST = 8;
const POLICY_OF: Readonly<Record<OnFailure, PolicyToken>> = { fail: 'fp', ignore: 'id', remove: 'rd', continue: 'cp' };
const ROOT = [...ADMISSION, 'payload', 'children'] as const;
const CHILD = [...ROOT, 'queue', 'onFailure'] as const;

/** @throws EmqError `EMQ_INPUT` that says what is wrong with which job. */
export async function plan<T, Input>(
  home: FlowHome<T, Input>,
  flow: Flow<Input>,
  trace: Readonly<Record<string, string>> = {},
): Promise<PreparedFlow> {
  const { queue, admission } = home;
  const own = known('a flow', flow, ROOT);
  const root = new Check(home.wire).look({ ...own, children: givenList('children', own.children) }, 1, 'the flow');
  if (root.children.length === 0) {
    throw inputError('a flow needs at least one child: enqueue a job that waits for nobody');
  }
  // a child without a queue of its own, or with that one's name, is judged as its payloads are
  const named = new Map<string, Place>([[queue, home]]);
  const placeOf = (name: string): Place => {
    const found = named.get(name) ?? new Jobs(NOWHERE, name);
    named.set(name, found);
    return found;
  };

  const child = async (spec: Looked, above: Place, what: string): Promise<PlannedJob> => {
    // before anything is waited for: ids are in the order in which the children are given
    const own = identity(spec);
    const place = spec.queue === undefined ? above : typeof spec.queue === 'string' ? placeOf(spec.queue) : spec.queue;
    const admitted = await naming(what, place.admission.of(spec.payload, spec, trace));
    const children = await Promise.all(spec.children.map((one, i) => child(one, place, `${what}.${i}`)));
    return {
      ...admitted,
      ...own,
      queue: place.queue,
      policy: POLICY_OF[spec.onFailure ?? 'fail'],
      children,
    };
  };
  const ids = identity(root);
  const admitted = await admission.of(root.payload as Input, root, trace);
  const children = await Promise.all(root.children.map((one, i) => child(one, home, `child ${i}`)));
  return new PreparedFlow({ ...admitted, ...ids, queue, policy: 'fp', children });
}

/** Says which job a refusal is of. */
export async function naming<R>(what: string, admitting: Promise<R>): Promise<R> {
  try {
    return await admitting;
  } catch (error) {
    if (error instanceof EmqError && error.code === 'EMQ_INPUT') throw inputError(`${what}: ${error.reason}`);
    throw error;
  }
}

function identity({ id }: JobOptions): Pick<PlannedJob, 'id' | 'minted'> {
  return id === undefined ? { id: mint(), minted: true } : { id, minted: false };
}

/** A job of a flow as it was when it was judged: each field was read once. */
interface Looked extends FlowChild {
  readonly children: readonly Looked[];
}

/** The shape of a flow, judged before any payload is encoded. */
class Check {
  readonly #wire: Wire;
  readonly #ids = new Set<string>();

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  look(job: FlowChild, depth: number, what: string): Looked {
    if (depth > DEEPEST) throw inputError(`a flow may have ${DEEPEST} levels, the root's included; ${what} is deeper`);
    const own = depth > 1 ? known(what, job, CHILD) : job;
    const { id, queue, onFailure, children = [] } = own;
    if (id !== undefined) {
      checkId(id);
      if (this.#ids.has(id))
        throw inputError(`${id} comes twice in the flow (${what}): give each job an id of its own`);
      this.#ids.add(id);
    }
    if (typeof queue === 'string') new Keyspace(queue);
    else if (queue !== undefined && !(queue instanceof Jobs)) {
      throw inputError(
        `the queue of ${what} must be a name, a Jobs or a Queue (of a NamedQueue its .queue), got ${show(queue)}`,
      );
    } else if (queue !== undefined && queue.wire !== this.#wire) {
      throw inputError(
        `queue ${queue.queue} of ${what} is on another connector: a flow lands on one; make the queue there, or give its name`,
      );
    }
    if (onFailure !== undefined && (typeof onFailure !== 'string' || !Object.hasOwn(POLICY_OF, onFailure))) {
      const words = Object.keys(POLICY_OF).join(', ');
      throw inputError(`onFailure of ${what} must be one of ${words}, got ${show(onFailure)}`);
    }
    const below = givenList(depth === 1 ? 'children' : `the children of ${what}`, children);
    const looked = below.map((child, i) => this.look(child, depth + 1, depth === 1 ? `child ${i}` : `${what}.${i}`));
    return { ...own, children: looked };
  }
}

/** For queues that only encode. */
const NOWHERE = {
  run: () => Promise.reject(inputError('this queue only encodes payloads')),
  runAll: () => Promise.reject(inputError('this queue only encodes payloads')),
};
