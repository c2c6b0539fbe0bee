/**
 * What the tests of the embedded server share: folders of their own, small programs, and a look at processes.
 * Does not: test anything.
 */
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { Redis } from 'ioredis';
import { onTestFinished } from 'vitest';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A fresh folder that goes with the test. */
export async function freshFolder(parent = tmpdir()): Promise<string> {
  await mkdir(parent, { recursive: true });
  const folder = await mkdtemp(join(parent, 'emq-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes an executable shell script and returns its path. */
export async function shellProgram(path: string, script: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
  return path;
}

/** A package of its own that holds a file of `src/dev` with all it imports, as `dev.mjs`, for programs outside of vitest. */
export async function devPackage(entry = 'index.ts'): Promise<string> {
  // Inside node_modules, where ioredis is found.
  const folder = await freshFolder(join(ROOT, 'node_modules', '.cache'));
  await writeFile(join(folder, 'package.json'), '{ "name": "echomq", "type": "module" }');
  await build({
    entryPoints: [join(ROOT, 'src/dev', entry)],
    outfile: join(folder, 'dev.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
  });
  return folder;
}

/** True while a process runs; one that has ended and was not yet asked for its end by its parent does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync('/proc') || !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** One command on a connection of its own, over the socket of a server. */
export async function ask(socketPath: string, command: string, ...args: string[]): Promise<unknown> {
  const redis = new Redis({ path: socketPath, lazyConnect: true, retryStrategy: () => null });
  // The failure itself rejects the connect.
  redis.on('error', () => {});
  try {
    await redis.connect();
    return await redis.call(command, ...args);
  } finally {
    redis.disconnect();
  }
}

/** The process ids whose command line holds `text`. Linux only: elsewhere none. */
export async function processesWith(text: string): Promise<string[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')));
  return pids.filter((_pid, at) => lines[at]!.includes(text));
}
