/**
 * What the tests of the sandbox share: jobs and contexts without a queue, and programs outside of vitest.
 * Does not: test anything.
 */
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { onTestFinished } from 'vitest';
import type { ConsumedJob, JobContext } from '../../../src/worker/handler.js';
import { Sandbox, type SandboxOptions } from '../../../src/worker/sandbox/sandbox.js';

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
export const KINDS = ['thread', 'process'] as const;

export function processor(name: string): URL {
  return new URL(`./processors/${name}`, import.meta.url);
}

/** A sandbox that is closed with the test. */
export function sandbox(name: string, options: SandboxOptions): Sandbox {
  const made = new Sandbox(processor(name), options);
  onTestFinished(() => made.close());
  return made;
}

/** A job with this payload, or with these bytes. */
export function job(payload: unknown, more: Partial<ConsumedJob> = {}): ConsumedJob {
  const bytes = Buffer.isBuffer(payload) ? payload : Buffer.from(JSON.stringify(payload));
  return {
    id: 'JOB0KHTOWnGLuC',
    queue: 'q',
    bytes,
    get payload(): unknown {
      throw new Error('a payload is decoded in the child');
    },
    name: undefined,
    attempts: 1,
    token: 1,
    credit: 0,
    maxAttempts: 3,
    group: undefined,
    opts: {},
    ...more,
  };
}

export interface TestContext extends JobContext {
  /** What was asked, such as `['log', 'a line']`. */
  readonly asked: [string, unknown][];
  readonly controller: AbortController;
  /** Resolves with the first line that the job logs. */
  readonly firstLog: Promise<string>;
}

export function context(own: Partial<JobContext> = {}): TestContext {
  const controller = new AbortController();
  const asked: [string, unknown][] = [];
  let tell!: (line: string) => void;
  const firstLog = new Promise<string>((resolve) => (tell = resolve));
  const note =
    (what: string) =>
    async (value: unknown): Promise<void> => {
      asked.push([what, value]);
      if (what === 'log') tell(value as string);
    };
  return {
    asked,
    controller,
    firstLog,
    signal: controller.signal,
    progress: note('progress'),
    log: note('log'),
    extend: note('extend'),
    children: async () => {
      asked.push(['children', undefined]);
      return { values: new Map(), ignored: new Map(), failures: new Map() };
    },
    ...own,
  };
}

/** What a promise rejects with. */
export async function rejection(promise: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  return promise.then(
    (value) => {
      throw new Error(`it resolved with ${JSON.stringify(value)}`);
    },
    (error: unknown) => error as Error & Record<string, unknown>,
  );
}

export interface Program {
  readonly child: ChildProcess;
  /** The lines of its standard output so far. */
  readonly lines: string[];
  /** The lines of its standard error so far. */
  readonly errors: string[];
  /** Waits for a line of its standard output that begins so, and gives the rest of it. */
  line(start: string): Promise<string>;
  /** Resolves when it has ended and all was read. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
}

const PRELUDE = `
import { Sandbox } from './sandbox.mjs';
const make = (name, options) => new Sandbox(new URL(name, ${JSON.stringify(processor('').href)}), options);
const job = (payload) => ({ id: 'JOB0KHTOWnGLuC', queue: 'q', bytes: Buffer.from(JSON.stringify(payload)), attempts: 1, token: 1,
  credit: 0, maxAttempts: 3, opts: {} });
const context = { signal: new AbortController().signal, log: async (line) => console.log('log ' + line) };
`;

/** Runs a program of its own that has \`make(processor, options)\`, \`job(payload)\` and \`context\`, which prints logs. */
export async function program(text: string, flags: readonly string[] = [], entry = true): Promise<Program> {
  const folder = join(ROOT, 'node_modules', '.cache');
  await mkdir(folder, { recursive: true });
  const dir = await mkdtemp(join(folder, 'emq-sandbox-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const source = join(ROOT, 'src', 'worker', 'sandbox');
  await build({
    entryPoints: [join(source, 'sandbox.ts')],
    outfile: join(dir, 'sandbox.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
  });
  if (entry) await copyFile(join(source, 'child.js'), join(dir, 'child.js'));
  await writeFile(join(dir, 'package.json'), '{ "type": "module" }');
  await writeFile(join(dir, 'program.mjs'), PRELUDE + text);
  const child = spawn(process.execPath, [...flags, join(dir, 'program.mjs')], { stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines: string[] = [];
  const errors: string[] = [];
  const output = createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  createInterface({ input: child.stderr }).on('line', (line) => errors.push(line));
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  return {
    child,
    lines,
    errors,
    ended,
    async line(start) {
      for (;;) {
        const found = lines.find((line) => line.startsWith(start));
        if (found !== undefined) return found.slice(start.length);
        if (child.exitCode !== null || child.signalCode !== null) {
          throw new Error(`the program ended without a line "${start}":\n${[...lines, ...errors].join('\n')}`);
        }
        await Promise.race([once(output, 'line'), ended]);
      }
    },
  };
}
