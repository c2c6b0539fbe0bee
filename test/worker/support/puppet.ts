/**
 * A worker process on strings: the real Consumer, Metronome, hand-out and park, on a connector whose every step is taken
 * by a test. A call leaves, is run by the real server, and is answered, at three moments of the test's choice; a blocking
 * read blocks at the real server, on a connection of the puppet's own.
 *
 * Invariants: what a process sends on one connection arrives in its order, and is answered in its order; its two
 * connections know nothing of each other. Does not: choose the moments (explorer.ts does).
 */
import { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';
import { jsonCodec, transitions, type Call, type Connector, type Keyspace, type Reply } from '../../../src/index.js';
import { fromReply, EmqError } from '../../../src/wire/errors.js';
import type { Executor } from '../../../src/wire/executor.js';
import { isErrorReply, toReply } from '../../../src/wire/reply.js';
import { Consumer } from '../../../src/worker/consumer.js';
import { readConsumeOptions } from '../../../src/worker/options.js';

interface Sent {
  readonly call: Call;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: EmqError) => void;
}

/** A call that the server has run and the process has not heard of yet. */
interface Answered extends Sent {
  readonly reply: Reply | EmqError;
}

/** Calls whose moments do not matter to anybody else: they touch neither what waits nor the tokens. */
const ASIDE: ReadonlySet<string> = new Set(['complete', 'agenda', 'promote', 'publish', 'extend_many']);

/** What a puppet needs of the stage. */
export interface Strings {
  readonly keys: Keyspace;
  readonly executor: Executor;
  /** Runs the puppet's calls. */
  readonly server: Redis;
  /** The puppet's own connection, and its id at the server. */
  readonly blocker: Redis;
  readonly blockerId: string;
  readonly slots: number;
}

export class Puppet {
  readonly #strings: Strings;
  readonly sent: Sent[] = [];
  readonly answered: Answered[] = [];
  /** The blocking read: none, on its way, at the server, or answered with a token (or without one). */
  block: 'none' | 'sent' | 'parked' | 'token' | 'timeout' = 'none';
  dead = false;
  /** It has a token, and no call of its own has come to the server since. */
  holdsToken = false;
  /** A token went to it when it was dead, or died with it. */
  tokenLost = false;
  readonly consumer: Consumer;
  readonly #running: { readonly id: string; readonly end: () => void }[] = [];
  #tell: ((reply: Reply) => void) | undefined;
  #arrived: Promise<unknown> | undefined;

  constructor(strings: Strings) {
    this.#strings = strings;
    const settings = readConsumeOptions({
      ...{ concurrency: strings.slots, beatMs: 1_000_000, publish: false, recovery: 'none' },
    });
    const handler = ({ id }: { readonly id: string }) => new Promise<void>((end) => this.#running.push({ id, end }));
    const connector = this.#connector() as unknown as Connector;
    this.consumer = new Consumer({ connector, keys: strings.keys, codec: jsonCodec(), handler, settings });
    this.consumer.on('warning', () => {}); // of a refused claim: it is what was wanted
  }

  /** The jobs whose handlers run. */
  get running(): readonly string[] {
    return this.#running.map(({ id }) => id);
  }

  /** What the server would run next for it. */
  get next(): string | undefined {
    return this.sent[0]?.call.transition.name;
  }

  /** Runs at once, and tells at once, what concerns nobody else. Resolves when there is no more of it. */
  async aside(): Promise<void> {
    while (!this.dead && this.answered.length === 0 && ASIDE.has(this.next ?? '')) {
      await this.run();
      await this.hear();
    }
  }

  /** The server runs the next call. */
  async run(): Promise<void> {
    const sent = this.sent.shift();
    if (sent === undefined) throw new Error('nothing was sent');
    if (['take', 'wake'].includes(sent.call.transition.name)) this.holdsToken = false;
    const { command, args } = this.#strings.executor(sent.call);
    const reply = await this.#strings.server
      .callBuffer(command, ...args)
      .then(toReply)
      .catch((error: unknown) => {
        if (isErrorReply(error)) return fromReply(error.message);
        throw error;
      });
    this.answered.push({ ...sent, reply });
  }

  /** The next call is refused instead, by a server that is out of sorts for a moment: nothing is written. */
  refuse(): void {
    const sent = this.sent.shift();
    if (sent === undefined) throw new Error('nothing was sent');
    this.answered.push({ ...sent, reply: new EmqError('BUSY', 'BUSY out of sorts') });
  }

  /** The process is told the answer to its oldest call. */
  async hear(): Promise<void> {
    const answer = this.answered.shift();
    if (answer === undefined) throw new Error('nothing was answered');
    if (answer.reply instanceof EmqError) answer.reject(answer.reply);
    else answer.resolve(answer.reply);
    await turn();
  }

  /** The blocking read comes to the server: it is answered at once, or parked. */
  async park(): Promise<void> {
    const { blocker, keys } = this.#strings;
    this.#arrived = blocker.blpop(keys.wake, 0).then((token) => {
      this.block = token === null ? 'timeout' : 'token';
      if (token === null) return;
      if (this.dead) this.tokenLost = true;
      else this.holdsToken = true;
    });
    this.block = 'parked';
    await this.settleBlock();
  }

  /** Resolves when it is known whether the server has answered the blocking read. */
  async settleBlock(): Promise<void> {
    while (this.block === 'parked') {
      const list = String(await this.#strings.server.client('LIST', 'ID', this.#strings.blockerId));
      if (/ flags=\w*b/.test(list)) return;
      await turn();
    }
  }

  /** The blocking read's time is up at the server. */
  async expire(): Promise<void> {
    await this.#strings.server.client('UNBLOCK', this.#strings.blockerId, 'TIMEOUT');
    await this.#arrived;
  }

  /** The process hears what its blocking read gave. */
  async wake(): Promise<void> {
    const reply = this.block === 'token' ? [Buffer.from(this.#strings.keys.wake), Buffer.from('1')] : null;
    this.block = 'none';
    this.#tell?.(reply);
    await turn();
  }

  /** A handler ends. */
  async finish(id: string): Promise<void> {
    const at = this.#running.findIndex((one) => one.id === id);
    this.#running.splice(at, 1)[0]?.end();
    await turn();
  }

  /** The process is gone: what it sent and the server has not run never arrives; its parked read stays, unnoticed. */
  die(): void {
    this.dead = true;
    if (this.holdsToken) this.tokenLost = true;
    this.sent.length = 0;
    this.answered.length = 0;
    this.#running.length = 0;
    if (this.block === 'sent') this.block = 'none';
  }

  /** Leaves nothing at the server. */
  async release(): Promise<void> {
    this.dead = true;
    if (this.block === 'parked') await this.expire();
  }

  /** As much of a Connector as the worker uses. */
  #connector(): object {
    const run = (call: Call): Promise<Reply> =>
      new Promise((resolve, reject) => {
        if (!this.dead) this.sent.push({ call, resolve, reject });
      });
    const ask = (): Promise<Reply> =>
      new Promise((resolve) => {
        this.#tell = resolve;
        if (!this.dead) this.block = 'sent';
      });
    const link = {
      ...{ usable: true, ask, destroy: () => Promise.resolve() },
      ...{ subscribe: () => Promise.resolve(), unsubscribe: () => Promise.resolve(), ended: new Promise(() => {}) },
    };
    const openDedicated = (): Promise<object> => Promise.resolve(link);
    return Object.assign(new EventEmitter(), {
      ...{ epoch: 1, run, openDedicated, pauseMs: () => 1_000, stats: () => ({ state: 'up' }) },
    });
  }
}

/** Everything that the last step has set in motion inside the processes has come to rest. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Adds a job, as a producer does. */
export async function enqueue({ keys, executor, server }: Omit<Strings, 'slots'>, id: string): Promise<void> {
  const { transition, input } = { transition: transitions.enqueue, input: { id, payload: '1' } };
  const { command, args } = executor({ transition, queue: keys.queue, ...transition.layout(keys, input) });
  await server.call(command, ...args);
}
