/**
 * The servers that are promised to work, each found in Debian and run from a folder of ours, whatever this system's own is.
 *
 * Invariants: one that cannot be had says so by name and its suite is not run; in CI that is a failure. Does not: change the
 * system, or start anything.
 */
import { test } from 'vitest';

import { onPath } from '../../src/dev/command.js';
import { homeFolder } from '../../src/dev/find.js';
import { fetchedServer, fetchServer, type Product } from '../../src/dev/fetch.js';
import { EmqError } from '../../src/wire/errors.js';

export interface Version {
  readonly name: string;
  readonly product: Product;
  /** The suite of Debian that has it. */
  readonly suite: string;
  /** What the server calls itself. */
  readonly number: RegExp;
  /** The wires that it is good for: the module loads on a Valkey only. */
  readonly wires: readonly (4 | 6)[];
}

const version = (name: string, suite: string, number: RegExp): Version => {
  const redis = name.startsWith('Redis');
  return { name, product: redis ? 'redis' : 'valkey', suite, number, wires: redis ? [4] : [4, 6] };
};

export const VERSIONS = {
  redis70: version('Redis 7.0', 'bookworm', /^7\.0\./),
  valkey80: version('Valkey 8.0', 'bookworm-backports', /^8\.0\./),
  valkey81: version('Valkey 8.1', 'trixie', /^8\.1\./),
  valkey9: version('Valkey 9', 'forky', /^9\./),
} as const;

/** The program, or why there is none. */
type Had = { readonly path: string } | { readonly reason: string };

/** Finds it in our folder, or fetches it: some 10 MB, a few seconds. */
async function have({ suite, product }: Version): Promise<Had> {
  const home = homeFolder();
  const path = await fetchedServer(suite, home, product);
  if (path !== undefined) return { path };
  for (const program of ['apt-get', 'dpkg-deb']) {
    if ((await onPath(program)) === undefined) return { reason: `it is not in ${home}, and there is no ${program}` };
  }
  try {
    return { path: await fetchServer({ suite, home, product }) };
  } catch (error) {
    if (!(error instanceof EmqError)) throw error;
    return { reason: error.reason };
  }
}

/**
 * The program of a version whose suite is to be run. Where there is none, says so by name, and leaves a test that counts as not
 * run. @throws Error in CI, where that is a failure.
 */
export async function take(version: Version): Promise<string | undefined> {
  const had = await have(version);
  if ('path' in had) return had.path;
  const why = `not run: ${version.name}, ${had.reason}`;
  if (process.env['CI'] === 'true') throw new Error(why);
  console.log(why);
  test(version.name, ({ skip }) => skip(why));
  return undefined;
}

/** The same for what the suite of another version wants beside it. @throws Error where there is none. */
export async function mustHave(version: Version): Promise<string> {
  const had = await have(version);
  if ('path' in had) return had.path;
  throw new Error(`${version.name} cannot be had: ${had.reason}`);
}

/** While something is started, whatever looks for a server finds this program. */
export async function withServer<T>(path: string, start: () => Promise<T>): Promise<T> {
  const before = process.env['VALKEY_SERVER'];
  process.env['VALKEY_SERVER'] = path;
  try {
    return await start();
  } finally {
    if (before === undefined) delete process.env['VALKEY_SERVER'];
    else process.env['VALKEY_SERVER'] = before;
  }
}
