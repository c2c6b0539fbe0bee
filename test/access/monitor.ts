/**
 * What a script really runs, from the server's MONITOR: the commands in their order.
 */
import type { Redis } from 'ioredis';

/** Commands that the scripts use to look; all others that they use write, or publish. */
const READS = new Set(
  'time exists pttl hget hlen hmget hgetall hexists hscan zcard zscore zrange llen lrange lpos sismember sscan get'.split(
    ' ',
  ),
);

export const isRead = (command: string): boolean => READS.has(command);
/** Changes a key. A message that was published leaves none. */
export const isWrite = (command: string): boolean => !isRead(command) && command !== 'publish';

/** One script run: its commands, in small letters. */
export type Run = readonly string[];

export class Monitor implements Disposable {
  readonly #monitor: Redis;
  readonly #raw: Redis;
  #seen: string[] = [];
  #told: ((mark: string) => void) | undefined;

  private constructor(monitor: Redis, raw: Redis) {
    this.#monitor = monitor;
    this.#raw = raw;
    monitor.on('monitor', (_time: string, args: string[], source: string) => {
      const [command = '', first = ''] = args;
      if (source === 'lua') this.#seen.push(command.toLowerCase());
      if (command.toLowerCase() === 'echo') this.#told?.(first);
    });
  }

  static async start(raw: Redis): Promise<Monitor> {
    return new Monitor(await raw.monitor(), raw);
  }

  /** Runs it, and gives the commands that scripts ran meanwhile. */
  async watch(act: () => Promise<unknown>): Promise<Run> {
    await this.#caughtUp();
    this.#seen = [];
    await act();
    await this.#caughtUp();
    return [...this.#seen];
  }

  /** The monitor is told in order: when it has heard this, it has heard all before it. */
  async #caughtUp(): Promise<void> {
    const mark = `mark ${Math.random()}`;
    const heard = new Promise<void>((resolve) => (this.#told = (text) => void (text === mark && resolve())));
    await this.#raw.echo(mark);
    await heard;
  }

  [Symbol.dispose](): void {
    this.#monitor.disconnect();
  }
}
