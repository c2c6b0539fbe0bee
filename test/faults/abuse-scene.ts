/**
 * A queue at work on a server that gets into trouble: a producer that never stops, and a consumer. What the producer was
 * told is kept, call by call; an enqueue whose outcome is not known is made again with the same id until it is.
 *
 * Does not: make trouble (abuse-server.ts does).
 */
import { expect, vi } from 'vitest';
import { Connector, EmqError, mint, Queue, type ConnectorOptions, type Consumer } from '../../src/index.js';

/** What the scene needs of a server. */
export interface SceneServer {
  readonly url: string;
}

/** Patience of the tests, not of the product. */
const PATIENCE = { timeout: 20_000, interval: 10 } as const;
const FAST: ConnectorOptions = {
  ...{ heartbeatMs: 100, heartbeatDeadlineMs: 400, replyTimeoutMs: 3_000, waitMs: 200 },
  ...{ reconnectMinMs: 10, reconnectMaxMs: 50 },
};

export class Scene implements AsyncDisposable {
  /** Codes of what the producer was told, with how often. */
  readonly refusals = new Map<string, number>();
  /** Jobs whose enqueue was answered, and jobs that were run. */
  readonly acknowledged = new Set<string>();
  readonly ran = new Set<string>();
  /** Codes of what the consumer warned of. */
  readonly warnings = new Set<string>();
  /** What was thrown at nobody. */
  readonly #stray: unknown[] = [];
  readonly #onStray = (error: unknown): void => void this.#stray.push(error);
  readonly #consumer: Consumer;
  #over = false;
  readonly #producing: Promise<void>;

  private constructor(
    readonly connector: Connector,
    readonly queue: Queue,
    readonly payload: Buffer,
  ) {
    process.on('unhandledRejection', this.#onStray);
    this.#consumer = queue.consume(({ id }) => void this.ran.add(id), { beatMs: 50, leaseMs: 800, concurrency: 4 });
    this.#consumer.on('warning', ({ code }) => this.warnings.add(code));
    this.#producing = this.#produce();
  }

  /** @param bytes how large each job is. */
  static async start(server: SceneServer, wire: 4 | 6, options: ConnectorOptions = {}, bytes = 10): Promise<Scene> {
    const connector = await Connector.connect({ url: server.url, wire, ...FAST, ...options });
    return new Scene(connector, new Queue(connector, 'scene'), Buffer.alloc(bytes, 'p'));
  }

  async #produce(): Promise<void> {
    for (let id = mint(); !this.#over;) {
      try {
        await this.queue.enqueue(this.payload, { id });
        this.acknowledged.add(id);
        id = mint();
      } catch (error) {
        const code = error instanceof EmqError ? error.code : String(error);
        this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1);
        // What is refused at once would be refused a thousand times in a second.
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    }
  }

  /** Until the producer was told so once more than now. */
  async told(code: string): Promise<void> {
    const before = this.refusals.get(code) ?? 0;
    await vi.waitUntil(() => this.#over || (this.refusals.get(code) ?? 0) > before, PATIENCE);
  }

  /** Until so many more jobs were run. */
  async works(jobs = 20): Promise<void> {
    const before = this.ran.size;
    await vi.waitUntil(() => this.ran.size >= before + jobs, PATIENCE);
  }

  /** Stops the producer, and waits until nothing is left. Gives the jobs that were acknowledged and never run. */
  async drained(): Promise<string[]> {
    this.#over = true;
    await this.#producing;
    await vi.waitUntil(async () => {
      const counts = await this.queue.counts(['pending', 'active', 'scheduled', 'dead']);
      return Object.values(counts).every((count) => count === 0);
    }, PATIENCE);
    return [...this.acknowledged].filter((id) => !this.ran.has(id));
  }

  /** All is well again on the same connector and the same consumer: every job that was acknowledged was run. */
  async recovered(): Promise<void> {
    await this.works();
    expect(await this.drained()).toEqual([]);
    // between two beats of the consumer nothing is in flight
    await vi.waitUntil(() => this.connector.stats().pending === 0, PATIENCE);
    expect(this.connector.stats()).toMatchObject({ state: 'up', waiting: 0 });
    expect(this.#consumer.stats()).toMatchObject({ running: 0, held: 0, failed: 0 });
    expect(this.#stray).toEqual([]);
  }

  /** What the producer was told, in order of the alphabet. */
  get codes(): string[] {
    return [...this.refusals.keys()].sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over = true;
    await this.#producing;
    await this.#consumer.close({ timeoutMs: 0 });
    await this.connector.close();
    process.off('unhandledRejection', this.#onStray);
  }
}
