/**
 * Fetching a Valkey from Debian into a folder of ours, with every library it loads and the C library's own loader, so
 * that any suite's server runs whatever the host's C library is. In the same way a Redis, for the tests: users get a Valkey.
 *
 * Invariants: apt-get runs on a configuration, lists and state of our own (no root, nothing of the system changes; its
 * proxy settings still hold); packages are verified by Debian's signature; the mirror is the one the system uses. A
 * server appears under its final name only when it is complete and has run, by one rename, so that two processes may
 * fetch at once. Does not: look for other servers (find.ts).
 */
import { chmod, mkdir, mkdtemp, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { EmqError, inputError } from '../wire/errors.js';
import { isExecutable, lastLines, run, type RunOptions } from './command.js';

/** Debian packs both alike: `<product>-server` has the settings, `<product>-tools` the programs, `<product>-*`. */
export type Product = 'valkey' | 'redis';

export interface FetchOptions {
  readonly suite: string;
  /** Default `valkey`. */
  readonly product?: Product | undefined;
  /** The folder of ours; made when missing. */
  readonly home: string;
  readonly signal?: AbortSignal | undefined;
  readonly log?: ((line: string) => void) | undefined;
}

const NAMES: Readonly<Record<Product, string>> = { valkey: 'Valkey', redis: 'Redis' };
/** What to do where fetching does not help. */
const HINT = 'apt-get install valkey-server, or set VALKEY_SERVER to the path of one';
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
/** What a system's own apt sources may call the suite it runs. */
const ALIASES = ['stable', 'oldstable', 'oldoldstable', 'testing', 'unstable', 'sid'];
/** How the names of unfinished folders begin. */
const STAGING = '.fetch-';
/** An unfinished folder of this age, in ms, is nobody's any more: its process was ended. */
const ABANDONED_MS = 3_600_000;

/** The suite that has a Valkey for this system, or undefined where this is no Debian. */
export async function debianSuite(): Promise<string | undefined> {
  const codename = await debianCodename();
  return codename === 'bookworm' ? 'bookworm-backports' : codename;
}

async function debianCodename(): Promise<string | undefined> {
  const text = await readFile('/etc/os-release', 'utf8').catch(() => '');
  const field = (name: string): string | undefined => new RegExp(`^${name}="?([^"\\n]*)`, 'm').exec(text)?.[1];
  return field('ID') === 'debian' ? field('VERSION_CODENAME') : undefined;
}

/** A suite's server that was fetched before. */
export async function fetchedServer(
  suite: string,
  home: string,
  product: Product = 'valkey',
): Promise<string | undefined> {
  const program = serverIn(folderOf(suite, home, product), product);
  return (await isExecutable(program)) ? program : undefined;
}

function serverIn(folder: string, product: Product): string {
  return join(folder, 'bin', `${product}-server`);
}

function folderOf(suite: string, home: string, product: Product): string {
  if (!/^[a-z][a-z-]*$/.test(suite))
    throw inputError(`suite ${JSON.stringify(suite)} must be a Debian suite, such as trixie`);
  return join(home, `${product}-${suite}-${process.arch}`);
}

/** Fetches a suite's server and returns the path of its program. @throws EmqError as `findServer` says. */
export async function fetchServer(options: FetchOptions): Promise<string> {
  const { suite, home, signal, log, product = 'valkey' } = options;
  const folder = folderOf(suite, home, product);
  const name = NAMES[product];
  const mirror = await systemMirror();
  log?.(`fetching ${name} (${suite}) into ${folder}`);
  const staging = await makeStaging(home);
  try {
    const apt = await configureApt(staging, mirror, suite);
    await apt('apt-get', ['-q', 'update'], { signal });
    const packages = await packagesToFetch(apt, suite, product, signal);
    const debs = join(staging, 'debs');
    await mkdir(debs);
    await apt('apt-get', ['-q', 'download', ...packages], { cwd: debs, signal });
    const root = join(staging, 'root');
    for (const deb of await readdir(debs)) await must('dpkg-deb', ['-x', join(debs, deb), root], { signal });
    await prove(staging, await writePrograms(staging, product), product, signal);
    await Promise.all(['apt', 'debs'].map((name) => rm(join(staging, name), { recursive: true })));
    await chmod(staging, 0o755);
    await rename(staging, folder).catch((error: unknown) => {
      // Another process was faster: its folder is as good as ours.
      const code = error instanceof Error && 'code' in error ? error.code : undefined;
      if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
    });
    return serverIn(folder, product);
  } catch (error) {
    if (signal?.aborted) throw new EmqError('EMQ_CLOSED', `the fetch of ${name} was aborted`, { cause: signal.reason });
    if (error instanceof EmqError) throw error;
    throw new EmqError('EMQ_CONNECTION', `could not fetch ${name} (${(error as Error).message}): ${HINT}`, {
      cause: error,
    });
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/** A fresh folder beside the final one (a rename must not cross file systems); abandoned ones go. */
async function makeStaging(home: string): Promise<string> {
  try {
    await mkdir(home, { recursive: true });
    for (const name of await readdir(home)) {
      if (!name.startsWith(STAGING)) continue;
      const path = join(home, name);
      const changed = await stat(path).catch(() => undefined);
      if (changed && Date.now() - changed.mtimeMs > ABANDONED_MS) await rm(path, { recursive: true, force: true });
    }
    return await mkdtemp(join(home, STAGING));
  } catch (error) {
    throw inputError(`cannot write to ${home} (${(error as Error).message}): set EMQ_HOME to a folder you own`);
  }
}

/**
 * The URI of the Debian mirror that this system's own apt sources name, whatever format they are written in.
 * @throws EmqError `EMQ_INPUT` when they name none.
 */
export async function systemMirror(): Promise<string> {
  const suites = [await debianCodename(), ...ALIASES];
  // What an update would download, which apt says even where there has been none yet.
  const listed = await must('apt-get', ['update', '--print-uris']);
  const mirrors = [...listed.matchAll(/^'(\S+)\/dists\/([^/]+)\/main\/binary-/gm)]
    .filter(([, , suite]) => suites.includes(suite))
    .map(([, uri = '']) => uri);
  // Another vendor may use Debian's suite names as well; Debian's own archive is served from a folder of that name.
  const mirror = mirrors.find((uri) => uri.endsWith('/debian')) ?? mirrors[0];
  if (mirror === undefined) {
    throw inputError(`the apt sources of this system name no Debian mirror: ${HINT}`);
  }
  return mirror;
}

type Apt = (program: 'apt-get' | 'apt-cache', args: readonly string[], options: RunOptions) => Promise<string>;

/** Sets up an apt that knows one suite and has nothing installed, all of it inside `staging`. */
async function configureApt(staging: string, mirror: string, suite: string): Promise<Apt> {
  const state = join(staging, 'apt');
  await mkdir(join(state, 'lists', 'partial'), { recursive: true });
  await mkdir(join(state, 'cache', 'archives', 'partial'), { recursive: true });
  // Backports depend on the suite they were made for.
  const suites = suite.endsWith('-backports') ? `${suite.slice(0, -'-backports'.length)} ${suite}` : suite;
  const source = ['Types: deb', `URIs: ${mirror}`, `Suites: ${suites}`, 'Components: main'];
  if (existsSync(KEYRING)) source.push(`Signed-By: ${KEYRING}`);
  const conf = {
    'Dir::Etc::sourcelist': join(state, 'valkey.sources'),
    'Dir::Etc::sourceparts': '/dev/null',
    'Dir::Etc::preferences': '/dev/null',
    'Dir::Etc::preferencesparts': '/dev/null',
    'Dir::State': state,
    'Dir::State::lists': join(state, 'lists'),
    'Dir::State::status': join(state, 'status'),
    'Dir::Cache': join(state, 'cache'),
    'APT::Sandbox::User': '',
    'Debug::NoLocking': 'true',
    // Without this an unreachable mirror is a warning and an empty list.
    'APT::Update::Error-Mode': 'any',
    'Acquire::Languages': 'none',
    'Acquire::Retries': '2',
    'Acquire::http::Timeout': '20',
    'Acquire::https::Timeout': '20',
    // Indexes of no use here, which some systems switch on.
    'Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled': 'false',
    'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled': 'false',
  };
  const lines = Object.entries(conf).map(([name, value]) => `${name} "${value}";`);
  // The system's own hooks would act on the system.
  lines.push(
    '#clear APT::Update::Pre-Invoke;',
    '#clear APT::Update::Post-Invoke;',
    '#clear APT::Update::Post-Invoke-Success;',
  );
  const file = join(state, 'apt.conf');
  await writeFile(join(state, 'status'), '');
  await writeFile(join(state, 'valkey.sources'), `${source.join('\n')}\n`);
  await writeFile(file, `${lines.join('\n')}\n`);
  return (program, args, options) => must(program, ['-c', file, ...args], options);
}

/** The server's packages and every library package they need, found by walking what `<product>-tools` depends on. */
async function packagesToFetch(apt: Apt, suite: string, product: Product, signal?: AbortSignal): Promise<string[]> {
  const tools = `${product}-tools`;
  const listed = await apt('apt-cache', ['depends', '--recurse', '--important', tools], { signal }).catch(() => '');
  const needs = new Map<string, string[]>();
  let current: string[] = [];
  for (const line of listed.split('\n')) {
    const name = /^[ |]{2}(?:Pre)?Depends: (\S+)$/.exec(line)?.[1];
    if (name !== undefined) current.push(name);
    else if (/^\S/.test(line)) needs.set(line.trim(), (current = []));
  }
  if (!needs.has(tools))
    throw inputError(`Debian ${suite} has no ${NAMES[product]}: set VALKEY_SERVER to the path of a ${product}-server`);
  const found = new Set([`${product}-server`, tools]);
  for (const name of found) {
    // Only libraries are loaded; what a package wants for its installation (adduser, debconf) is of no use here.
    for (const need of needs.get(name) ?? []) if (/^(lib|zlib)/.test(need)) found.add(need);
  }
  return [...found];
}

/** Where, below `root`, the loader and the folders of libraries are. */
interface Loading {
  readonly loader: string;
  readonly folders: readonly string[];
}

/** Writes `bin/<program>` for each of the product's programs: it runs the real one by the fetched loader and libraries. */
async function writePrograms(staging: string, product: Product): Promise<Loading> {
  const root = join(staging, 'root');
  const folders: string[] = [];
  let loader: string | undefined;
  for (const parent of ['lib', 'usr/lib']) {
    for (const name of await readdir(join(root, parent)).catch(() => [])) {
      if (!name.includes('-linux-gnu')) continue;
      const folder = `${parent}/${name}`;
      folders.push(folder);
      const file = (await readdir(join(root, folder))).find((entry) => /^ld-linux.*\.so\.\d+$/.test(entry));
      if (file !== undefined) loader = `${folder}/${file}`;
    }
  }
  if (loader === undefined) throw new Error('the fetched C library has no loader');
  const libraries = folders.map((folder) => `$root/${folder}`).join(':');
  await mkdir(join(staging, 'bin'));
  for (const name of await readdir(join(root, 'usr/bin'))) {
    if (!name.startsWith(`${product}-`)) continue;
    const script = [
      '#!/bin/sh',
      `# Runs the ${name} of this folder with the C library of this folder, whatever the host's is.`,
      'root=$(dirname -- "$(readlink -f -- "$0")")/../root',
      `exec "$root/${loader}" --library-path "${libraries}" --argv0 ${name} "$root/usr/bin/${name}" "$@"`,
    ];
    await writeFile(join(staging, 'bin', name), `${script.join('\n')}\n`, { mode: 0o755 });
  }
  return { loader, folders };
}

/** Runs the fetched server and looks where its libraries come from: a host's own may be missing on the next host. */
async function prove(staging: string, loading: Loading, product: Product, signal?: AbortSignal): Promise<void> {
  const root = join(staging, 'root');
  const libraries = loading.folders.map((folder) => join(root, folder)).join(':');
  const listed = await must(
    join(root, loading.loader),
    ['--library-path', libraries, '--list', join(root, `usr/bin/${product}-server`)],
    { signal },
  );
  const foreign = listed.split('\n').find((line) => line.includes('=> ') && !line.includes(`=> ${root}/`));
  if (foreign !== undefined) throw new Error(`the fetched server would load a library of the host: ${foreign.trim()}`);
  const version = await must(serverIn(staging, product), ['--version'], { signal });
  if (!/v=\d+\.\d+/.test(version)) throw new Error(`the fetched server does not run: ${lastLines(version, 1)}`);
}

/** Runs a program that must succeed and gives back what it printed. */
async function must(file: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const ran = await run(file, args, options);
  if (ran.code !== 0) {
    const complaint = ran.output.split('\n').find((line) => line.startsWith('E: ')) ?? lastLines(ran.output, 1);
    throw new Error(`${basename(file)}: ${complaint.replace(/^E: /, '')}`);
  }
  return ran.stdout;
}
