/**
 * A queue: all its verbs, and consumers.
 *
 * Invariants: a consumer needs a Connector, since it has connections of its own; producers may use `Jobs` on whatever
 * runs calls. Does not: hold anything open itself.
 */
import type { JobsOptions } from '../queue/admission.js';
import { Jobs } from '../queue/jobs.js';
import { Connector } from '../wire/connector.js';
import { EmqError, inputError, show } from '../wire/errors.js';
import { announce } from '../queue/registry.js';
import { BatchConsumer } from './batch-consumer.js';
import type { BatchHandler } from './batch-handler.js';
import { readBatchOptions, type ConsumeBatchOptions } from './batch-options.js';
import { Consumer } from './consumer.js';
import type { Handler } from './handler.js';
import { readConsumeOptions, type ConsumeOptions } from './options.js';
import { Sandbox } from './sandbox/sandbox.js';

/**
 * The verbs of one queue (`Jobs`), and `consume`. `T` is the payload that a handler gets; `Input` is what may be
 * enqueued, which differs from `T` only where a schema transforms.
 */
export class Queue<T = unknown, Input = T> extends Jobs<T, Input> {
  readonly #connector: Connector;

  /** @throws EmqError `EMQ_INPUT` for a queue name outside the grammar, or a wrong option. */
  constructor(connector: Connector, queue: string, options: JobsOptions<T, Input> = {}) {
    if (!(connector instanceof Connector)) {
      throw inputError(
        `the first argument of a Queue is a Connector (await Connector.connect(...)), got ${show(connector)}`,
      );
    }
    super(connector, queue, options);
    this.#connector = connector;
  }

  /**
   * Starts a consumer. The handler is a function, or the URL of a processor file that is run in worker threads or child
   * processes. Resolving completes the job; throwing fails it: DelayError puts it off, UnrecoverableError makes it dead.
   * At least once is the promise: write what must not happen twice with `job.token`.
   * @throws EmqError `EMQ_INPUT` for a wrong handler or option; `EMQ_CLOSED` when the connector is closed.
   */
  consume(handler: Handler<T> | URL, options: ConsumeOptions = {}): Consumer<T> {
    const settings = readConsumeOptions(options);
    this.#open('consume');
    const parts = { connector: this.#connector, keys: this.keys, codec: this.codec, settings };
    if (typeof handler === 'function') {
      if (options.processor !== undefined || options.killAfterMs !== undefined) {
        throw inputError(
          'processor and killAfterMs are for the URL of a processor file: a function runs in this process',
        );
      }
      return this.#announced(new Consumer({ ...parts, handler }));
    }
    if (!(handler instanceof URL)) {
      throw inputError(`a handler must be a function or the URL of a processor file, got ${show(handler)}`);
    }
    const { processor: kind, concurrency: size, killAfterMs } = settings;
    const sandbox = new Sandbox(handler, {
      ...{ kind, size, killAfterMs },
      onIdleDeath: (error) => consumer.warn(new EmqError('ERR', `ERR ${error.message}`)),
    });
    const consumer = new Consumer({
      ...parts,
      handler: (job, context) => sandbox.run(job, context),
      atEnd: () => sandbox.close(),
    });
    return this.#announced(consumer);
  }

  /**
   * Starts a consumer of batches. The handler gets many jobs and returns a verdict for each; see `Verdict`. Throwing fails
   * them all, and a job without a verdict is tried again. At least once is the promise, as with `consume`.
   * @throws EmqError `EMQ_INPUT` for a wrong handler or option; `EMQ_CLOSED` when the connector is closed.
   */
  consumeBatch(handler: BatchHandler<T>, options: ConsumeBatchOptions = {}): BatchConsumer<T> {
    const settings = readBatchOptions(options);
    if (typeof handler !== 'function') throw inputError(`a batch handler must be a function, got ${show(handler)}`);
    this.#open('consumeBatch');
    const parts = { connector: this.#connector, keys: this.keys, codec: this.codec, settings };
    return this.#announced(new BatchConsumer({ ...parts, handler }));
  }

  /** It would wait for ever for what never comes back. */
  #open(what: string): void {
    if (this.#connector.stats().state !== 'closed') return;
    throw new EmqError('EMQ_CLOSED', `the connector is closed: ${what} needs one that is open`);
  }

  /** Names the queue for whoever lists queues. */
  #announced<C>(consumer: C): C {
    void announce(this.#connector, this.queue);
    return consumer;
  }
}
