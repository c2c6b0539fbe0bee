/**
 * How long one call holds the server up.
 *
 * Two clocks are read, and the lower counts: the slow log's wall time of the command, which grows while the machine does
 * something else, and the time that the server's main thread was at work meanwhile, which has the server's own chores in it.
 * Neither can be less than what the call took. Invariants: calls go one by one. Does not: judge.
 */
import type { Call, Connector, Reply } from '../../../src/index.js';
import { loadScripts } from '../../../src/parity/node.js';
import type { Stage } from '../../conformance/stage.js';

/** One call's reply, and the time that it took in the server, in microseconds. */
export interface Metered {
  readonly reply: Reply;
  readonly us: number;
}

export class Meter {
  readonly #stage: Stage;

  private constructor(stage: Stage) {
    this.#stage = stage;
  }

  static async on(stage: Stage): Promise<Meter> {
    // no call is the one that brings its script
    await loadScripts(stage.raw);
    await stage.raw.config('SET', 'slowlog-log-slower-than', '0', 'slowlog-max-len', '20');
    return new Meter(stage);
  }

  get connector(): Connector {
    return this.#stage.connector;
  }

  async run(call: Call): Promise<Metered> {
    const { raw } = this.#stage;
    await raw.slowlog('RESET');
    const before = await this.#busy();
    const reply = await this.#stage.connector.run(call);
    const busy = (await this.#busy()) - before;
    const log = (await raw.slowlog('GET', -1)) as [number, number, number, string[]][];
    const found = log.filter(([, , , [command]]) => /^(evalsha|eval|emq\..*)$/i.test(command ?? ''));
    const wall = found[0]?.[2];
    if (wall === undefined || found.length > 1) {
      throw new Error(`the slow log has ${found.length} entries of ${call.transition.name}`);
    }
    return { reply, us: Math.min(wall, busy) };
  }

  /** The time of the server's main thread, microseconds. */
  async #busy(): Promise<number> {
    const info = await this.#stage.raw.info('cpu');
    const times = [...info.matchAll(/^used_cpu_(?:sys|user)_main_thread:([\d.]+)/gm)];
    if (times.length !== 2) throw new Error('the server does not tell the time of its main thread');
    return Math.round(times.reduce((sum, [, seconds]) => sum + Number(seconds) * 1e6, 0));
  }
}
