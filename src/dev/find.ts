/**
 * Finding a `valkey-server`, and on Debian fetching one (fetch.ts) when there is none.
 *
 * Invariants: what the caller or the environment names is used or refused, never passed over; a server found on the
 * host is preferred to one of ours. Does not: start anything, ask for a password, or change the system.
 */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { inputError, type EmqError } from '../wire/errors.js';
import { isExecutable, onPath } from './command.js';
import { debianSuite, fetchServer, fetchedServer } from './fetch.js';

export interface FindServerOptions {
  /** The path of a server program. Nothing else is looked at. */
  readonly server?: string | undefined;
  /**
   * A Debian suite whose Valkey is wanted, such as `bookworm-backports` (8.0), `trixie` (8.1) or `forky` (9.1). Then
   * neither the environment nor PATH is looked at. Default: the suite of this system.
   */
  readonly suite?: string | undefined;
  /** False never downloads anything. Default true. */
  readonly fetch?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Told in one line before something slow begins. */
  readonly log?: ((line: string) => void) | undefined;
}

/** A server program and how it was come by. */
export interface FoundServer {
  readonly path: string;
  readonly from: 'option' | 'environment' | 'path' | 'folder' | 'fetched';
}

/** The folder that is ours: `EMQ_HOME`, else `echomq` in the user's cache folder. It may not exist yet. */
export function homeFolder(): string {
  const { EMQ_HOME, XDG_CACHE_HOME } = process.env;
  if (EMQ_HOME) return resolve(EMQ_HOME);
  return join(XDG_CACHE_HOME ? resolve(XDG_CACHE_HOME) : join(homedir(), '.cache'), 'echomq');
}

/**
 * Finds a server program: the option `server`, then the environment's `VALKEY_SERVER`, then PATH, then our own folder.
 * On Debian a missing one is fetched by apt-get into our folder: some 10 MB, a few seconds, no root, nothing else
 * on the system is touched.
 *
 * @throws EmqError `EMQ_INPUT` when there is none and what to install, or when a named one cannot be run;
 * `EMQ_CONNECTION` when the fetch failed; `EMQ_CLOSED` when `signal` was aborted.
 */
export async function findServer(options: FindServerOptions = {}): Promise<FoundServer> {
  const { server, suite, fetch = true, signal, log } = options;
  if (server !== undefined) return named(server, 'option', 'the option server');
  if (suite === undefined) {
    const variable = process.env['VALKEY_SERVER'];
    if (variable) return named(variable, 'environment', 'VALKEY_SERVER');
    const path = await onPath('valkey-server');
    if (path !== undefined) return { path, from: 'path' };
  }
  const home = homeFolder();
  const wanted = suite ?? (await debianSuite());
  if (wanted !== undefined) {
    const path = await fetchedServer(wanted, home);
    if (path !== undefined) return { path, from: 'folder' };
    if (fetch && (await onPath('apt-get')) !== undefined && (await onPath('dpkg-deb')) !== undefined) {
      return { path: await fetchServer({ suite: wanted, home, signal, log }), from: 'fetched' };
    }
  }
  throw missing(suite);
}

async function named(path: string, from: FoundServer['from'], what: string): Promise<FoundServer> {
  const absolute = resolve(path);
  if (!(await isExecutable(absolute)))
    throw inputError(`${what} names ${absolute}, which is not a program that can be run`);
  return { path: absolute, from };
}

function missing(suite: string | undefined): EmqError {
  if (suite !== undefined)
    return inputError(`the Valkey of ${suite} is not in ${homeFolder()} and cannot be fetched here`);
  const how =
    process.platform === 'darwin' ? 'brew install valkey' : 'apt-get install valkey-server (or your system’s own)';
  return inputError(`no valkey-server found: ${how}, or set VALKEY_SERVER to the path of one`);
}
