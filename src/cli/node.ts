/**
 * A plain connection to one node, for commands that look at it: no fence, no transitions, no reconnecting.
 *
 * Invariants: nothing is sent but what is asked for here, and the client library's handshake; no error holds a
 * password, and only a refused login names its user; every wait has an end. Does not: brand, retry or follow redirects.
 */
import type { Redis } from 'ioredis';

import type { Arg, Reply } from '../wire/call.js';
import { clientSource } from '../wire/client-source.js';
import { commandsOf, sendOn } from '../wire/command.js';
import { readOptions } from '../wire/connector-options.js';
import { readUrl } from '../wire/connector-url.js';
import { EmqError, fromReply } from '../wire/errors.js';
import { explained } from '../wire/first-connect.js';
import { isErrorReply, toReply } from '../wire/reply.js';
import { toEmqError } from '../wire/transport.js';
import type { Target } from './target.js';
import { quoted } from './terminal.js';

export interface PlainNode extends AsyncDisposable {
  readonly client: Redis;
  /** Address or path, without user and password. */
  readonly where: string;
  /**
   * Sends one command; also after a Ctrl-C, so that a command can clean up. @throws EmqError the server's,
   * `EMQ_CONNECTION`, `EMQ_TIMEOUT`.
   */
  ask(command: string, ...args: Arg[]): Promise<Reply>;
  close(): Promise<void>;
}

const TIMEOUT_MS = 5_000;

/**
 * Connects, in RESP2 so that replies have one form.
 * @param target the node: a URL as the Connector's, or one with certificates
 * @param signal gives up the connecting
 * @param urlFrom where the user is to put a password that is wanting
 * @throws EmqError `EMQ_INPUT` for another, `EMQ_CONNECTION`, or the server's own error.
 */
export async function openNode(target: string | Target, signal: AbortSignal, urlFrom = 'the URL'): Promise<PlainNode> {
  const at: Target = typeof target === 'string' ? { url: target } : target;
  const { url } = at;
  const source = clientSource(readOptions({ ...at, protocol: 2 }));
  const client = source.create() as Redis;
  let failure: Error | undefined;
  client.on('error', (error: Error) => (failure ??= error));
  // what the server says of a login names neither the node nor the user
  const named = (error: EmqError): EmqError => {
    if (error.code !== 'NOAUTH' && error.code !== 'WRONGPASS') return error;
    const { username = 'default', password } = readUrl(url);
    // a name without a password is sent as a wrong login; it may be a password in the wrong place, and is not shown
    if (error.code === 'NOAUTH' || password === undefined) {
      const text = `${source.where} wants a password and the URL has none: put it into ${urlFrom} as valkey://user:password@host`;
      return new EmqError('NOAUTH', text, { cause: error });
    }
    const text = `WRONGPASS ${source.where} refuses user ${quoted(username, 60)}: the password is wrong, or there is no such user, or it is off`;
    return new EmqError('WRONGPASS', text, { cause: error });
  };
  const asError = (error: unknown): EmqError =>
    named(toEmqError(error instanceof EmqError ? error : (failure ?? error), source));
  const close = async (): Promise<void> => {
    if (client.status === 'end') return;
    const ended = new Promise<void>((resolve) => client.once('end', () => resolve()));
    client.disconnect();
    await ended;
  };
  const ask = async (command: string, ...args: Arg[]): Promise<Reply> => {
    const { promise } = sendOn(client, commandsOf(client)(command, args));
    const late = new EmqError('EMQ_TIMEOUT', `${source.where} did not answer within ${TIMEOUT_MS} ms`);
    try {
      return toReply(await within(promise, late));
    } catch (error) {
      // an error reply goes before whatever the connection said earlier
      throw isErrorReply(error) ? named(fromReply(source.redact(error.message))) : asError(error);
    }
  };
  try {
    const late = new EmqError('EMQ_CONNECTION', `${source.where} did not accept a connection within ${TIMEOUT_MS} ms`);
    await within(client.connect(), late, signal);
    // a refused SELECT is an event only, and the library would go on in database 0
    if (failure !== undefined) throw failure;
  } catch (error) {
    await close();
    throw await explained(asError(error), source, TIMEOUT_MS, signal);
  }
  return { client, where: source.where, ask, close, [Symbol.asyncDispose]: close };
}

/** Waits for a promise, but not for ever, and with a signal not beyond a Ctrl-C. */
async function within<T>(promise: Promise<T>, late: EmqError, signal?: AbortSignal): Promise<T> {
  let stop: () => void = () => {};
  const limit = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(late), TIMEOUT_MS);
    const onAbort = (): void => reject(new EmqError('EMQ_CLOSED', 'interrupted'));
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    stop = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
  });
  promise.catch(() => {}); // when the limit came first, its error is the one that counts
  try {
    return await Promise.race([promise, limit]);
  } finally {
    stop();
  }
}
