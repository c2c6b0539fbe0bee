/**
 * `npm run demo [-- folder]`: from a fresh checkout to real work, in one command.
 *
 * Sets everything up (setup.mjs), walks one job through both executors (`emq trace`), then makes every file below the
 * folder a job on a wire 6 node and checks the results (src/demo). Default: the project's own node_modules. Exit code
 * 0 or 1; 2 for a folder that is none; 3 where something is missing that the set-up cannot get.
 * Invariants: needs nothing but Node when it starts; leaves no server behind; may be run again and again.
 * Does not: change anything below the folder.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { report, setup } from './setup.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** Ends with one line and a code. */
class Stop extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

function folderOf(args) {
  if (args.length > 1 || args[0]?.startsWith('-')) throw new Stop(2, 'usage: npm run demo [-- folder]');
  if (args.length === 0) return join(ROOT, 'node_modules');
  // npm changes to the folder of the package; INIT_CWD is where the user was
  const folder = resolve(process.env.INIT_CWD ?? process.cwd(), args[0]);
  const found = statSync(folder, { throwIfNoEntry: false });
  if (found === undefined) throw new Stop(2, `there is no folder ${folder}`);
  if (!found.isDirectory()) throw new Stop(2, `${folder} is not a folder`);
  return folder;
}

function heading(number, text) {
  console.log(`\n[${number}/3] ${text}\n`);
}

async function trace() {
  const child = spawn(process.execPath, [join(ROOT, 'dist', 'cli', 'main.js'), 'trace'], { stdio: 'inherit' });
  const [code, signal] = await once(child, 'exit');
  if (signal !== null || code >= 128) throw new Stop(130, 'ended');
  if (code !== 0) throw new Stop(code, `the trace ended with exit code ${code}`);
}

async function work(folder, signal) {
  const { runDemo } = await import('../dist/demo/demo.js');
  const verdict = await runDemo({ folder, out: process.stdout, signal });
  if (!verdict.ok) throw new Stop(1, 'the results are not what they must be');
}

async function main() {
  const folder = folderOf(process.argv.slice(2));
  heading(1, 'set-up');
  try {
    await setup();
  } catch (error) {
    report(error);
    throw new Stop(3, 'the set-up failed');
  }
  console.log('all is there');
  const ending = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => ending.abort(name));
  heading(2, 'one job, two executors');
  await trace();
  heading(3, `every file below ${folder} is a job`);
  try {
    await work(folder, ending.signal);
  } catch (error) {
    throw ending.signal.aborted ? new Stop(130, 'ended') : error;
  }
}

try {
  await main();
} catch (error) {
  console.error(`demo: ${error instanceof Stop ? error.message : (error.reason ?? error.stack)}`);
  process.exitCode = error instanceof Stop ? error.code : 1;
}
