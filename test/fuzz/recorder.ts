/**
 * Records what a server with the module does, as scenes for the fake server: the keyspace before each native command,
 * the command, its reply, and the whole keyspace after it. A fake that plays them alike is a true one.
 *
 * The clock is asked for within the transaction that runs the command, which is the only instant there is in it.
 * Invariants: whoever made the call gets the reply as if nobody had listened. Does not: record other commands.
 */
import { Command, type Redis } from 'ioredis';

import { readKeys, type Bytes, type Keys } from '../../src/parity/keyspace-dump.js';
import { need, runIdOf } from '../../src/parity/node.js';
import type { Reply } from '../../src/wire/call.js';
import { isErrorReply, toReply } from '../../src/wire/reply.js';
import type { TestNode } from '../parity/nodes.js';
import { FAKE_RUN_ID, plants, replyWords, word } from './scene-text.js';

export class Recorder {
  /** Set before a call: what its scene is called. Further calls of one title are told apart by a number. */
  title = '';
  readonly scenes: string[] = [];
  /** Calls that the fake server cannot play, by title. */
  readonly left: string[] = [];
  /** A client of the node whose native commands are recorded, as are those of its duplicates. */
  readonly client: Redis;
  readonly #node: TestNode;
  readonly #runId: string;
  #count = 0;
  #last = '';

  private constructor(node: TestNode, runId: string) {
    this.#node = node;
    this.#runId = runId;
    this.client = this.#listen(node.client);
  }

  static async of(node: TestNode): Promise<Recorder> {
    return new Recorder(node, await runIdOf(node.client));
  }

  #listen(client: Redis): Redis {
    return new Proxy(client, {
      get: (target, property) => {
        if (property === 'sendCommand') return (command: Command) => this.#send(target, command);
        if (property === 'duplicate') return (...args: unknown[]) => this.#listen(target.duplicate(...(args as [])));
        const value: unknown = Reflect.get(target, property, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  }

  #send(client: Redis, command: Command): unknown {
    if (!/^emq\./i.test(command.name)) return client.sendCommand(command);
    this.#record(client, command).then(
      (reply) => command.resolve(reply as Parameters<typeof command.resolve>[0]),
      (error: unknown) => command.reject(error as Error),
    );
    return command.promise;
  }

  async #record(client: Redis, command: Command): Promise<unknown> {
    const words = [command.name, ...command.args].map((arg) => Buffer.from(arg as string).toString('latin1'));
    const rights = await this.#rights(client);
    const before = await readKeys(this.#node.client);
    const send = (name: string, ...args: (string | Buffer)[]): Promise<unknown> => {
      const one = new Command(name, args, { replyEncoding: null });
      void client.sendCommand(one);
      return one.promise;
    };
    const [, , , replies] = await Promise.all([
      send('MULTI'),
      send('TIME'),
      send(command.name, ...(command.args as (string | Buffer)[])),
      send('EXEC'),
    ]);
    const [time, reply] = replies as [Buffer[], unknown];
    const [seconds, micros] = time.map(Number);
    const now = 1_000_000 * (seconds ?? 0) + (micros ?? 0);
    this.#write(words, rights, now, before, reply, await readKeys(this.#node.client));
    if (isErrorReply(reply)) throw reply;
    return reply;
  }

  /** What the caller may use, as statements. */
  async #rights(client: Redis): Promise<string[]> {
    const name = String(await client.acl('WHOAMI'));
    const user = (await need(this.#node.client, ['ACL', 'GETUSER', name])) as Reply[];
    const at = user.findIndex((part) => String(part) === 'keys');
    const lines = String(user[at + 1])
      .split(' ')
      .flatMap((rule) => {
        const [, read, pattern = ''] = /^(%R)?~(.*)$/.exec(rule) ?? [];
        return read === undefined
          ? [`allow ${word(pattern)}`]
          : [`allow ${word(pattern)}`, `readonly ${word(pattern)}`];
      });
    return lines.includes('allow *') ? [] : lines;
  }

  #write(words: Bytes[], rights: string[], now: number, before: Keys, reply: unknown, after: Keys): void {
    this.#count = this.#last === this.title ? this.#count + 1 : 1;
    this.#last = this.title;
    const name = this.#count === 1 ? this.title : `${this.title} (${this.#count})`;
    const [planted, remaining] = [plants(before), plants(after)];
    if (planted === undefined || remaining === undefined) {
      this.left.push(name);
      return;
    }
    const scene = [
      `case ${name}`,
      `micros ${now}`,
      'drop {emq}:version',
      ...planted,
      ...rights,
      `call ${words.map(word).join(' ')}`,
      `reply ${isErrorReply(reply) ? `-${reply.message}` : replyWords(toReply(reply))}`,
      ...remaining.map((line) => `left ${line}`),
      'whole',
    ];
    this.scenes.push(scene.join('\n').replaceAll(this.#runId, FAKE_RUN_ID));
  }
}
