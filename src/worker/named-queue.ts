/**
 * A queue of named jobs: a type that says which payload goes with which name.
 *
 * Invariants: the name travels in the row's `opts`; a job whose name has no handler here fails and is tried again, since
 * another worker of a rolling deploy may know it. Does not: check payloads at run time (a schema does).
 */
import { ENQUEUE, type EnqueueItem, type EnqueueOptions, type JobsOptions } from '../queue/admission.js';
import type { DurabilityOption } from '../queue/durability.js';
import { fields, known, namesOf } from '../queue/input.js';
import type { Enqueued, EnqueuedMany } from '../queue/jobs.js';
import type { RunAt } from '../queue/run-at.js';
import type { Connector } from '../wire/connector.js';
import { inputError, show } from '../wire/errors.js';
import type { Consumer } from './consumer.js';
import type { ConsumedJob, JobContext } from './handler.js';
import type { ConsumeOptions } from './options.js';
import { Queue } from './queue.js';

/** The names of a map of payloads. */
export type JobName<Payloads> = keyof Payloads & string;

/** A job of one name, or of any: `job.name` then tells which payload it has. */
export type NamedJob<Payloads, Name extends JobName<Payloads> = JobName<Payloads>> = {
  [N in Name]: Omit<ConsumedJob<Payloads[N]>, 'name'> & { readonly name: N };
}[Name];

/** One handler for each name. */
export type NamedHandlers<Payloads> = {
  [N in JobName<Payloads>]: (job: NamedJob<Payloads, N>, context: JobContext) => unknown;
};

/** The limits of a named job; its name is an argument of its own. */
export type NamedEnqueueOptions = Omit<EnqueueOptions, 'name'>;

const NAMELESS = ENQUEUE.filter((option) => option !== 'name');

/** A queue whose jobs have names. `Payloads` maps each name to its payload. */
export class NamedQueue<Payloads extends object> {
  /** The queue itself, with all other verbs. */
  readonly queue: Queue<Payloads[JobName<Payloads>]>;

  /** @throws EmqError `EMQ_INPUT`. */
  constructor(connector: Connector, queue: string, options: JobsOptions<Payloads[JobName<Payloads>]> = {}) {
    this.queue = new Queue(connector, queue, options);
  }

  /** As `Queue.enqueue`. */
  async enqueue<N extends JobName<Payloads>>(
    name: N,
    payload: Payloads[N] | Uint8Array,
    options: NamedEnqueueOptions = {},
  ): Promise<Enqueued> {
    return this.queue.enqueue(payload, { ...known('enqueue', options, NAMELESS), name: checkName(name) });
  }

  /** As `Queue.enqueueMany`. */
  enqueueMany(
    items: readonly ({
      [N in JobName<Payloads>]: { readonly name: N; readonly payload: Payloads[N] | Uint8Array };
    }[JobName<Payloads>] &
      Omit<EnqueueItem, 'name'>)[],
    options: DurabilityOption = {},
  ): Promise<EnqueuedMany[]> {
    return this.queue.enqueueMany(items, options);
  }

  /** As `Queue.schedule`. */
  async schedule<N extends JobName<Payloads>>(
    name: N,
    payload: Payloads[N] | Uint8Array,
    runAt: RunAt,
    options: NamedEnqueueOptions = {},
  ): ReturnType<Queue['schedule']> {
    return this.queue.schedule(payload, runAt, { ...known('schedule', options, NAMELESS), name: checkName(name) });
  }

  /** As `Queue.consume`, with a handler for each name, or one that switches on `job.name`. */
  consume(
    handlers: NamedHandlers<Payloads> | ((job: NamedJob<Payloads>, context: JobContext) => unknown),
    options: ConsumeOptions = {},
  ): Consumer<Payloads[JobName<Payloads>]> {
    if (typeof handlers === 'function') {
      return this.queue.consume((job, context) => handlers(job as unknown as NamedJob<Payloads>, context), options);
    }
    if (typeof handlers !== 'object' || handlers === null) {
      throw inputError(`handlers must be an object of functions, one for each name, got ${show(handlers)}`);
    }
    const names = namesOf('handlers', handlers);
    if (names.length === 0) throw inputError('handlers must name at least one kind of job');
    const named = Object.entries(fields('handlers', handlers, names as JobName<Payloads>[]));
    const wrong = named.find(([, handler]) => typeof handler !== 'function');
    if (wrong !== undefined) throw inputError(`the handler of ${show(wrong[0])} must be a function`);
    const byName = new Map(named) as Map<string, (job: unknown, context: JobContext) => unknown>;
    return this.queue.consume((job, context) => {
      const handler = byName.get(job.name ?? '');
      if (handler === undefined) {
        const which = job.name === undefined ? 'without a name' : `named ${show(job.name)}`;
        throw new Error(`no handler here for a job ${which}: there are ${[...byName.keys()].join(', ')}`);
      }
      return handler(job, context);
    }, options);
  }
}

/** The rest of what a name may be is every job's. */
function checkName(name: string): string {
  if (typeof name === 'string') return name;
  throw inputError(`the first argument of a NamedQueue's verb is the name of the job, got ${show(name)}`);
}
