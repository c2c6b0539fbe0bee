/**
 * Where the worker's suites work: a private server of one executor, queues of fresh names, and consumers that are closed
 * after each test.
 *
 * Invariants: nothing is left between two tests: no consumer, no connection but the stage's own, no key. Does not: wait
 * for time: a test that needs something to lapse or to fall due writes a past score (`stage.lapse`).
 */
import type { Redis } from 'ioredis';
import {
  Queue,
  type Connector,
  type ConnectorOptions,
  type ConsumeOptions,
  type Consumer,
  type Handler,
  type JobsOptions,
} from '../../../src/index.js';
import { Stage, type StageOptions, type Wire } from '../../conformance/stage.js';

/** So long that no beat but the first comes within a test: whatever happens happens because of a wake or a timer. */
export const NO_BEAT = { beatMs: 600_000 } as const;

/** A Consumer of whatever payload. */
type Closing = Pick<Consumer, 'close' | 'renew' | 'stats'>;

export class Shop implements AsyncDisposable {
  /** Those that will be closed. */
  readonly consumers = new Set<Closing>();
  readonly #connectors = new Set<Connector>();
  #queues = 0;

  private constructor(readonly stage: Stage) {}

  static async open(wire: Wire, options?: StageOptions): Promise<Shop> {
    return new Shop(await Stage.start(wire, options));
  }

  get raw(): Redis {
    return this.stage.raw;
  }

  /** A queue that nobody has used, over the stage's connector or another. */
  queue<T = unknown>(options: JobsOptions<T> = {}, connector: Connector = this.stage.connector): Queue<T> {
    return new Queue<T>(connector, `q${(this.#queues += 1)}`, options);
  }

  /** The same queue as another process sees it, over a connector of its own or the one that is given. */
  async elsewhere<T>(queue: Queue<T>, connector?: Connector): Promise<Queue<T>> {
    return new Queue<T>(connector ?? (await this.connect()), queue.queue);
  }

  /** One more connector, closed after the test: another process, as far as the server can tell. */
  async connect(options: ConnectorOptions = {}): Promise<Connector> {
    const connector = await this.stage.connect(options);
    this.#connectors.add(connector);
    return connector;
  }

  /** A consumer that is closed after the test. Retries come at once unless it is said otherwise. */
  consume<T>(queue: Queue<T>, handler: Handler<T>, options: ConsumeOptions = {}): Consumer<T> {
    const pause = options.backoff === undefined ? { retryDelayMs: 0 } : {};
    return this.closeLater(queue.consume(handler, { ...NO_BEAT, ...pause, ...options }));
  }

  /** Has it closed after the test. */
  closeLater<C extends Closing>(consumer: C): C {
    this.consumers.add(consumer);
    return consumer;
  }

  /** After each test. */
  async clear(): Promise<void> {
    await Promise.all([...this.consumers].map((consumer) => consumer.close({ timeoutMs: 0 })));
    this.consumers.clear();
    await Promise.all([...this.#connectors].map((connector) => connector.close()));
    this.#connectors.clear();
    const keys = (await this.raw.keys('emq:*')).filter((key) => key.startsWith('emq:{'));
    if (keys.length > 0) await this.raw.del(...keys);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.clear();
    await this.stage[Symbol.asyncDispose]();
  }
}
