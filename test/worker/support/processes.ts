/**
 * Starts worker processes (program.ts) and talks to them.
 *
 * Invariants: they end with the test that started them, and with this process; their errors go to our own output.
 * Does not: run them inside of vitest: they are programs of their own, bundled from the sources.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import type { Order, Plan, Told } from './program.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** How a process ended: one of the two is null. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** The program, bundled once for a test file. */
export class WorkerProgram implements AsyncDisposable {
  readonly #folder: string;
  readonly #started = new Set<WorkerProcess>();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async build(): Promise<WorkerProgram> {
    // Inside node_modules, where ioredis is found.
    const parent = join(ROOT, 'node_modules', '.cache');
    await mkdir(parent, { recursive: true });
    const folder = await mkdtemp(join(parent, 'emq-test-'));
    await build({
      entryPoints: [fileURLToPath(new URL('./program.ts', import.meta.url))],
      outfile: join(folder, 'program.mjs'),
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node20',
      packages: 'external',
    });
    return new WorkerProgram(folder);
  }

  /** Starts a process; resolves when it consumes. */
  async start(plan: Plan): Promise<WorkerProcess> {
    const worker = new WorkerProcess(join(this.#folder, 'program.mjs'), plan);
    this.#started.add(worker);
    await worker.told('ready');
    return worker;
  }

  /** Ends all that still run. */
  async endAll(): Promise<void> {
    await Promise.all([...this.#started].map((worker) => worker.kill()));
    this.#started.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.endAll();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

export class WorkerProcess implements AsyncDisposable {
  readonly ended: Promise<Ended>;
  /** All that it has told, oldest first. */
  readonly all: Told[] = [];
  readonly #child: ChildProcess;
  #over = false;
  #heard: (() => void) | undefined;
  #news: Promise<void>;

  constructor(program: string, plan: Plan) {
    this.#child = fork(program, [JSON.stringify(plan)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    this.#news = this.#next();
    this.#child.on('message', (told) => {
      this.all.push(told as Told);
      this.#tellNews();
    });
    this.ended = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        this.#over = true;
        this.#tellNews();
        resolve({ code, signal });
      });
    });
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** What it has told of one kind. */
  of(event: string): Told[] {
    return this.all.filter((told) => told.event === event);
  }

  /** Resolves when it has told so many of that kind; rejects when it ends before. */
  async told(event: string, count = 1): Promise<Told[]> {
    for (;;) {
      const found = this.of(event);
      if (found.length >= count) return found;
      if (this.#over) throw new Error(`the worker process ended after ${found.length} of ${count} ${event}`);
      await this.#news;
    }
  }

  order(order: Order): void {
    this.#child.send(order);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** SIGKILL. Resolves when it is gone. */
  async kill(): Promise<void> {
    if (!this.#over) this.#child.kill('SIGKILL');
    await this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  #next(): Promise<void> {
    return new Promise((resolve) => (this.#heard = resolve));
  }

  #tellNews(): void {
    const heard = this.#heard;
    this.#news = this.#next();
    heard?.();
  }
}

/** A folder for a ledger, or for files; removed by the returned value's disposal. */
export async function freshFolder(): Promise<{ readonly path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), 'emq-worker-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
