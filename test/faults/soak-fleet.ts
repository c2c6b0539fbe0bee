/**
 * The processes of a soak: started, killed, stopped and asked how they are. Each reaches the server through a proxy of its
 * own, in this process.
 *
 * Invariants: they end with the fleet, and with this process. Does not: decide what happens to them.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { FaultyProxy } from '../worker/support/proxy.js';
import type { SoakHealth, SoakOrder, SoakPlan, SoakTold } from './soak-words.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PATIENCE_MS = 60_000;

export class SoakProcess {
  readonly proxy: FaultyProxy;
  /** The exit code, or the signal. */
  readonly ended: Promise<number | string>;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, proxy: FaultyProxy) {
    this.#child = child;
    this.proxy = proxy;
    this.ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal ?? 'gone')));
  }

  static async start(program: string, plan: Omit<SoakPlan, 'url'>, port: number): Promise<SoakProcess> {
    const proxy = await FaultyProxy.start(port);
    const child = fork(program, [JSON.stringify({ ...plan, url: proxy.url })], {
      execArgv: ['--expose-gc'],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const started = new SoakProcess(child, proxy);
    await started.#told(({ ready }) => ready);
    return started;
  }

  async health(): Promise<SoakHealth> {
    const told = this.#told(({ health }) => health);
    this.order('health');
    return told;
  }

  /** Resolves when it adds no more jobs. */
  async stop(): Promise<void> {
    const told = this.#told(({ stopped }) => stopped);
    this.order('stop');
    await told;
  }

  order(order: SoakOrder): void {
    this.#child.send(order);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
    await this.proxy[Symbol.asyncDispose]();
  }

  /** What it says next of that kind; rejects when it ends before. */
  #told<T>(read: (told: SoakTold) => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => end(new Error('a process of the soak says nothing')), PATIENCE_MS);
      const hear = (message: unknown): void => {
        const value = read(message as SoakTold);
        if (value !== undefined) end(value);
      };
      const over = (): void => end(new Error('a process of the soak has ended'));
      const end = (value: T | Error): void => {
        clearTimeout(timer);
        this.#child.off('message', hear).off('exit', over);
        if (value instanceof Error) reject(value);
        else resolve(value);
      };
      this.#child.on('message', hear).on('exit', over);
    });
  }
}

export class SoakFleet implements AsyncDisposable {
  producer!: SoakProcess;
  /** The first one is never killed. */
  readonly consumers: SoakProcess[] = [];
  readonly #program: string;
  readonly #folder: string;
  readonly #plan: Omit<SoakPlan, 'url' | 'role'>;
  readonly #port: number;
  #count = 0;

  private constructor(folder: string, plan: Omit<SoakPlan, 'url' | 'role'>, port: number) {
    this.#folder = folder;
    this.#program = join(folder, 'soak.mjs');
    this.#plan = plan;
    this.#port = port;
  }

  /** Consumers only: the producer comes by `produce`. @param port the server's */
  static async start(consumers: number, plan: Omit<SoakPlan, 'url' | 'role'>, port: number): Promise<SoakFleet> {
    // Inside node_modules, where ioredis is found.
    const parent = join(ROOT, 'node_modules', '.cache');
    await mkdir(parent, { recursive: true });
    const fleet = new SoakFleet(await mkdtemp(join(parent, 'emq-soak-')), plan, port);
    await build({
      entryPoints: [fileURLToPath(new URL('./soak-program.ts', import.meta.url))],
      outfile: fleet.#program,
      ...{ bundle: true, platform: 'node', format: 'esm', target: 'node20', packages: 'external' },
    });
    for (let i = 0; i < consumers; i++) fleet.consumers.push(await fleet.#start('consumer'));
    return fleet;
  }

  async produce(): Promise<void> {
    this.producer = await this.#start('producer');
  }

  /** Another consumer in the place of one that was killed. */
  async replace(i: number): Promise<void> {
    await this.consumers[i]?.kill();
    this.consumers[i] = await this.#start('consumer');
  }

  get all(): SoakProcess[] {
    return [this.producer, ...this.consumers].filter((one) => one !== undefined);
  }

  /** All end by themselves. Gives how. */
  async close(): Promise<(number | string)[]> {
    for (const one of this.all) one.order('close');
    return Promise.all(this.all.map(({ ended }) => ended));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((one) => one.kill()));
    await rm(this.#folder, { recursive: true, force: true });
  }

  #start(role: SoakPlan['role']): Promise<SoakProcess> {
    const seed = this.#plan.seed + 1 + this.#count++;
    return SoakProcess.start(this.#program, { ...this.#plan, role, seed }, this.#port);
  }
}
