/**
 * Connection URLs: `redis://`, `rediss://`, `valkey://`, `valkeys://` and `unix://`.
 *
 * Invariants: no error ever repeats the URL, which may hold a password; what is not understood is refused, not ignored.
 * Does not: open anything.
 */
import { inputError } from './errors.js';

/** What a URL says, in the client library's words. */
export interface Endpoint {
  host?: string;
  port?: number;
  path?: string;
  username?: string;
  password?: string;
  db?: number;
  /** An empty object: TLS with the platform's certificate authorities. */
  tls?: Record<string, never>;
}

const FORMS = 'valkey://[user:password@]host[:port][/db], valkeys://... for TLS, or unix:///path/to/socket[?db=0]';
const SCHEMES = new Set(['redis:', 'rediss:', 'valkey:', 'valkeys:', 'unix:']);

/** @throws EmqError `EMQ_INPUT` for anything but the five schemes, with the forms that are understood. */
export function readUrl(url: string): Endpoint {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    // The error of URL holds its input, password and all: it goes no further.
    throw inputError(`the url is not a URL: write ${FORMS} (a socket's user and password go to the redis option)`);
  }
  if (!SCHEMES.has(parsed.protocol)) {
    throw inputError(`the url's scheme must be redis, rediss, valkey, valkeys or unix: write ${FORMS}`);
  }
  const endpoint: Endpoint = {};
  if (parsed.username !== '') endpoint.username = decode(parsed.username, 'user name');
  if (parsed.password !== '') endpoint.password = decode(parsed.password, 'password');
  for (const [key, value] of parsed.searchParams) {
    if (key !== 'db') throw inputError(`the url has an unknown parameter ${JSON.stringify(key)}: only db is known`);
    endpoint.db = database(value);
  }
  if (parsed.protocol === 'unix:') {
    const path = decode(parsed.pathname, 'path');
    if (path.length < 2 || parsed.hostname !== '') throw inputError(`a unix url needs three slashes: write ${FORMS}`);
    return { ...endpoint, path };
  }
  if (parsed.hostname === '') throw inputError(`the url has no host: write ${FORMS}`);
  endpoint.host = parsed.hostname.replace(/^\[(.*)\]$/, '$1');
  if (parsed.port !== '') endpoint.port = port(parsed.port);
  const rest = parsed.pathname.replace(/^\//, '');
  if (rest !== '') endpoint.db = database(rest);
  if (parsed.protocol === 'rediss:' || parsed.protocol === 'valkeys:') endpoint.tls = {};
  return endpoint;
}

function database(text: string): number {
  if (!/^\d{1,5}$/.test(text)) throw inputError("the url's database must be a number: write it as /0 or ?db=0");
  return Number(text);
}

function port(text: string): number {
  const value = Number(text);
  if (value < 1 || value > 65_535) throw inputError("the url's port must be 1 to 65535");
  return value;
}

function decode(text: string, what: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw inputError(`the url's ${what} holds a % that is no escape: write it as %25`);
  }
}
