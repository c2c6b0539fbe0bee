/**
 * Running other programs, for the other files of this folder: looking one up on PATH, running it to its end, and
 * keeping what it said.
 *
 * Invariants: no shell is involved; output is read in the C locale; a program that fails is a value, not an exception.
 * Does not: keep a program running (server.ts does).
 */
import { execFile } from 'node:child_process';
import { access, constants, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

/** How a program ended. `code` is null when it could not be started, was killed or ran out of time. */
export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  /** Both streams, errors last: what to show a person. */
  readonly output: string;
}

export interface RunOptions {
  readonly cwd?: string;
  /** The whole environment; `LC_ALL=C` is added. Default: this process's own. */
  readonly env?: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds; default five minutes. */
  readonly timeoutMs?: number;
}

/** Runs a program to its end and resolves with how it ended; never rejects. */
export function run(file: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const { cwd, env = process.env, signal, timeoutMs = 300_000 } = options;
  return new Promise((resolve) => {
    execFile(
      file,
      args,
      { cwd, env: { ...env, LC_ALL: 'C' }, signal, timeout: timeoutMs, maxBuffer: 32 << 20 },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : null;
        // A program that never ran said nothing: then the reason is Node's ("spawn x ENOENT").
        const said = `${stdout}${stderr}`;
        resolve({ code, stdout, output: said === '' && error !== null ? error.message : said });
      },
    );
  });
}

/** True for a file that this user may execute. */
export async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

/** The first executable of that name on PATH, as an absolute path where PATH is absolute. */
export async function onPath(name: string): Promise<string | undefined> {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(folder, name);
    if (folder !== '' && (await isExecutable(path))) return path;
  }
  return undefined;
}

/** The last `count` lines that say something. */
export function lastLines(text: string, count: number): string {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .slice(-count)
    .join('\n');
}
