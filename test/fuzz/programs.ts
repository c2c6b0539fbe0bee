/**
 * The programs of this folder: the module's C with the fake server, under the address and the undefined-behaviour
 * sanitizer, built by clang into a folder. Does not: run them, or judge what they say.
 */
import { execFile, execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { missingTools } from '../module/tools.js';

export const here = dirname(fileURLToPath(import.meta.url));
const module = join(here, '..', '..', 'module');

/** The sources of each program beyond the module and the fake server. */
const PROGRAMS = {
  play: ['scene.c', 'strict.c', 'play.c'],
  fuzz_parse: ['fuzz_parse.c'],
  fuzz_commands: ['fuzz_commands.c'],
} as const;
export type Program = keyof typeof PROGRAMS;

const FLAGS = ['-std=c11', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror', '-Wconversion', '-g'];
const SANITIZERS = ['address', 'undefined'];

/** What this machine lacks to build and run them. */
export function missingForPrograms(): string[] {
  if (process.platform !== 'linux') return ['Linux'];
  const missing = missingTools('clang');
  if (missing.length > 0) return missing;
  // The libraries are a package of their own on some systems.
  const smallest = 'int LLVMFuzzerTestOneInput(const void *data, unsigned long size) { return data == 0 && size > 0; }';
  try {
    const args = ['-x', 'c', `-fsanitize=fuzzer,${SANITIZERS.join(',')}`, '-o', '/dev/null', '-'];
    execFileSync('clang', args, { input: smallest, stdio: ['pipe', 'ignore', 'ignore'] });
    return [];
  } catch {
    return ['sanitizers and libFuzzer of clang (libclang-rt)'];
  }
}

/** Builds a program; answers its path. Throws with what the compiler said. */
export function build(program: Program, folder: string): string {
  const out = join(folder, program);
  const sources = (from: string, which: RegExp): string[] =>
    readdirSync(from)
      .filter((name) => which.test(name))
      .map((name) => join(from, name));
  const fuzzer = program.startsWith('fuzz_') ? ['fuzzer'] : [];
  const flags = [`-fsanitize=${[...fuzzer, ...SANITIZERS].join(',')}`, '-fno-sanitize-recover=all'];
  // A fuzzer lives of its speed; a test is built more often than it has to do.
  flags.push(fuzzer.length > 0 ? '-O1' : '-O0', '-fno-omit-frame-pointer');
  const files = [...sources(module, /\.c$/), ...sources(here, /^fake_.+\.c$/)];
  const own = PROGRAMS[program].map((name) => join(here, name));
  execFileSync('clang', [...FLAGS, ...flags, '-o', out, ...files, ...own], { stdio: 'pipe' });
  return out;
}

/** What a program did. */
export interface Ended {
  /** Its exit code, or the name of the signal. */
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, however it ends; output is read as bytes, one character each. */
export function run(path: string, args: readonly string[], cwd?: string): Promise<Ended> {
  return new Promise((resolve) => {
    const child = execFile(path, args, { cwd, maxBuffer: 1 << 28, encoding: 'latin1' }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : (child.signalCode ?? child.exitCode ?? error.message), stdout, stderr });
    });
  });
}
