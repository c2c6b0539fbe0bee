/**
 * Makes a checkout ready to run: dependencies, Lua scripts, compiled TypeScript, the module, a Valkey server.
 *
 * Invariants: each step is done only when it is needed, so a second run does nothing, says nothing and needs no network;
 * what a step begins is announced in one line; what cannot be done ends it with one line that says what to install.
 * Does not: need anything but Node when it starts, or change the system.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildLua } from './build-lua.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** Its time is when the last successful compilation began. */
const COMPILED = join(ROOT, 'build', '.compiled');

/** What went wrong and what to do, for a person; `output` is what the tool that failed said. */
export class SetupError extends Error {
  constructor(message, output = '') {
    super(message);
    this.output = output.trim();
  }
}

/** @throws SetupError */
export async function setup(log = console.log) {
  checkNode();
  installDependencies(log);
  try {
    if (buildLua()) log('built src/wire/scripts.generated.ts');
  } catch (error) {
    throw new SetupError(`lua/${error.message}`);
  }
  compile(log);
  const { buildModule, findServer } = await import('../dist/dev/index.js');
  try {
    await buildModule({ log });
    await findServer({ log });
  } catch (error) {
    throw new SetupError(error.reason ?? String(error));
  }
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) {
    throw new SetupError(`Node ${process.versions.node} is too old: install 20.19 or later`);
  }
}

// ---- dependencies ---------------------------------------------------------------------------------------------------

function installDependencies(log) {
  if (dependenciesAreThere()) return;
  log('installing dependencies (npm ci)');
  const args = ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
  // Under npm the npm that runs us, which need not be the one on PATH; other package managers set this too.
  const npm = process.env.npm_execpath;
  const ran = npm?.endsWith('npm-cli.js') ? run(process.execPath, [npm, ...args]) : run('npm', args);
  if (ran.error) throw new SetupError('npm is not on PATH: install it, or run this through npm');
  if (ran.status !== 0) throw new SetupError('npm ci failed: is the registry reachable?', ran.output);
}

/** True when npm's record of what it installed, which it writes last, agrees with the lock file. */
function dependenciesAreThere() {
  const record = join(ROOT, 'node_modules', '.package-lock.json');
  if (!existsSync(record)) return false;
  const locked = packagesOf(join(ROOT, 'package-lock.json'));
  const installed = packagesOf(record);
  const same = (path) => ['version', 'integrity'].every((what) => locked[path][what] === installed[path][what]);
  return (
    Object.keys(installed).every((path) => locked[path] !== undefined && same(path)) &&
    // Left out where they are for another system.
    Object.keys(locked).every((path) => path === '' || installed[path] !== undefined || locked[path].optional)
  );
}

function packagesOf(file) {
  return JSON.parse(readFileSync(file, 'utf8')).packages;
}

// ---- TypeScript -----------------------------------------------------------------------------------------------------

function compile(log) {
  const sources = ['src', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'].map((name) => join(ROOT, name));
  const compiled = existsSync(COMPILED) && existsSync(join(ROOT, 'dist', 'index.js')) ? statSync(COMPILED).mtimeMs : 0;
  if (newest(sources) < compiled) return;
  log('compiling dist/ (tsc)');
  const begun = new Date();
  rmSync(COMPILED, { force: true });
  const ran = run(process.execPath, [join('node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json']);
  if (ran.status !== 0) throw new SetupError('the TypeScript sources do not compile', ran.output);
  mkdirSync(dirname(COMPILED), { recursive: true });
  writeFileSync(COMPILED, '');
  // A source that was changed while it compiled must count as newer.
  utimesSync(COMPILED, begun, begun);
}

/** The newest change below these files and folders, in ms; a folder's own time tells of files that went. */
function newest(paths) {
  let time = 0;
  for (const path of paths) {
    const stat = statSync(path);
    time = Math.max(time, stat.mtimeMs);
    if (stat.isDirectory()) time = Math.max(time, newest(readdirSync(path).map((name) => join(path, name))));
  }
  return time;
}

function run(program, args) {
  const ran = spawnSync(program, args, {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return { status: ran.status, error: ran.error, output: `${ran.stdout ?? ''}${ran.stderr ?? ''}` };
}

/** Prints why the set-up failed: the tool's own words first, our line last. */
export function report(error) {
  if (error instanceof SetupError && error.output !== '') console.error(error.output);
  console.error(`setup: ${error instanceof SetupError ? error.message : error.stack}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    await setup();
  } catch (error) {
    report(error);
    process.exitCode = 1;
  }
}
