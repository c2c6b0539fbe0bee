/**
 * What a failed try of the first connect means: whether it may pass, and whether one end speaks TLS and the other does not,
 * which neither of them says: a plain port waits for the rest of what it takes for a command, a TLS port hangs up.
 *
 * Invariants: the other way is only asked what it speaks; nothing of a caller is sent, and nobody is believed.
 * Does not: try again (connector.ts).
 */
import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';

import type { ClientSource, Endpoint } from './client-source.js';
import { EmqError } from './errors.js';

/** What passes by itself, or may be mended while a first connect still has time. */
const PASSING: ReadonlySet<string> = new Set([
  'EMQ_CONNECTION',
  'LOADING',
  'CLUSTERDOWN',
  'MASTERDOWN',
  'TRYAGAIN',
  'BUSY',
]);
/** System errors that no waiting will change: certificates, permissions, TLS at one end only. */
const LASTING =
  /^(ERR_TLS|ERR_SSL|ERR_OSSL|ERR_INVALID|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|HOSTNAME_|EPROTO$|EACCES$|EPERM$)/;
/** What is seen of a port that hangs up. */
const HUNG_UP: ReadonlySet<string | undefined> = new Set([undefined, 'ECONNRESET', 'EPIPE']);
/** The longest and the shortest that one question may take, ms. */
const PROBE_MS = 1_000;
const SHORTEST_PROBE_MS = 250;

/** How long a question may take, and what gives it up. */
interface Patience {
  readonly ms: number;
  readonly signal: AbortSignal;
}

/** True where another try may go better. */
export function mayPass(error: EmqError): boolean {
  if (error.code === 'ERR') return error.reason.includes('max number of clients');
  if (error.code !== 'EMQ_CONNECTION') return PASSING.has(error.code);
  const code = codeOf(error);
  return code === undefined || !LASTING.test(code);
}

/**
 * The same error, or one that says more and does not pass: that only one end speaks TLS, or why TLS was refused (a client that
 * has written by then sees that it was hung up on, and not why). Never rejects.
 * @param leftMs the time that the connect still has: two questions at most, each within that, or a quarter of a second.
 */
export async function explained(
  error: unknown,
  { endpoint, where }: ClientSource,
  leftMs: number,
  signal: AbortSignal,
): Promise<unknown> {
  if (!(error instanceof EmqError) || error.code !== 'EMQ_CONNECTION' || !HUNG_UP.has(codeOf(error))) return error;
  if (endpoint === undefined) return error;
  const { host, port, tls } = endpoint;
  const patience = { ms: Math.min(PROBE_MS, Math.max(SHORTEST_PROBE_MS, leftMs)), signal };
  if (tls === undefined) {
    // it is asked what it speaks, not who it is
    const answer = await shake({ host, port, rejectUnauthorized: false }, patience);
    const speaks = answer === undefined || /^ERR_SSL_.*ALERT/.test(codeOf({ cause: answer }) ?? '');
    return speaks ? oneSided(`${where} speaks TLS only: connect with it (valkeys://, or redis.tls)`, error) : error;
  }
  if (await speaksPlain(endpoint, patience)) {
    return oneSided(`${where} does not speak TLS: connect without it (valkey://), or to its TLS port`, error);
  }
  const answer = await shake({ ...tls, host, port }, patience);
  if (answer === undefined || !LASTING.test(codeOf({ cause: answer }) ?? '')) return error;
  return new EmqError('EMQ_CONNECTION', `no connection to ${where}: ${answer.message}`, { cause: answer });
}

/** With the word by which Node calls this, where it sees it. */
function oneSided(text: string, { reason }: EmqError): EmqError {
  return new EmqError('EMQ_CONNECTION', text, { cause: Object.assign(new Error(reason), { code: 'EPROTO' }) });
}

function codeOf({ cause }: { readonly cause?: unknown }): string | undefined {
  return (cause as NodeJS.ErrnoException | undefined)?.code;
}

/** Whatever it says to a PING, a refusal too, begins as replies do. */
function speaksPlain({ host, port }: Endpoint, patience: Patience): Promise<boolean> {
  const socket = connectPlain({ host, port });
  socket.write('PING\r\n');
  return within<boolean>(
    socket,
    patience,
    () => false,
    (say) => {
      socket.once('data', (bytes: Buffer) => say(/^[+-]/.test(bytes.toString('latin1'))));
      socket.once('error', () => say(false));
    },
  );
}

/** Shakes hands and listens: why it was refused, or undefined when it was not. */
function shake(options: ConnectionOptions, patience: Patience): Promise<Error | undefined> {
  const silent = new Error('no TLS was spoken');
  const socket = connectTls(options);
  let answer: Error | undefined = silent;
  // a refused certificate comes behind the handshake, so that is not the end of it
  socket.once('secureConnect', () => (answer = undefined));
  return within<Error | undefined>(
    socket,
    patience,
    () => answer,
    (say) => socket.once('error', say),
  );
}

async function within<T>(
  socket: Socket,
  { ms, signal }: Patience,
  last: () => T,
  listen: (say: (answer: T) => void) => void,
): Promise<T> {
  const onAbort = (): void => void socket.destroy();
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  let timer: NodeJS.Timeout | undefined;
  const answer = await new Promise<T>((say) => {
    const over = (): void => say(last());
    timer = setTimeout(over, ms);
    listen(say);
    socket.once('close', over);
  });
  clearTimeout(timer);
  signal.removeEventListener('abort', onAbort);
  socket.on('error', () => {}).destroy();
  return answer;
}
