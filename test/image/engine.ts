/**
 * The Docker engine for the tests of the image: the one that testcontainers reaches, else one of our own where that may be
 * started (`EMQ_DOCKER=start`, or CI on Debian as root), else none, with the reason.
 *
 * Invariants: an engine of our own ends with `stop`, and by itself when this process ends in whatever way, since the
 * process that holds it watches the pipe to it. Does not: change or stop an engine that it did not start.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);
export const CI = !['', '0', 'false'].includes(process.env['CI'] ?? '');

/** `found` and `to start` say that the tests are run; `absent` says why not. */
export type Docker = { readonly state: 'found' | 'to start' } | { readonly state: 'absent'; readonly reason: string };

/** Looks, and starts nothing. */
export async function findDocker(): Promise<Docker> {
  // In a process of its own: testcontainers remembers for good what it did not find.
  const probe = `await (await import('testcontainers')).getContainerRuntimeClient()`;
  const reached = await execute(process.execPath, ['--input-type=module', '-e', probe]).then(
    () => true,
    () => false,
  );
  if (reached) return { state: 'found' };
  const may = process.getuid?.() === 0 && existsSync('/etc/debian_version');
  if (process.env['EMQ_DOCKER'] === 'start' || (CI && may)) return { state: 'to start' };
  const how = may ? 'EMQ_DOCKER=start starts one' : 'start one, or set DOCKER_HOST';
  return { state: 'absent', reason: `no Docker engine reachable (${how})` };
}

export class Engine {
  readonly #holder: ChildProcess | undefined;

  private constructor(holder?: ChildProcess) {
    this.#holder = holder;
  }

  /** Uses the engine that was found, or starts one and points this process at it. Rejects with what it said. */
  static async open(docker: Docker): Promise<Engine> {
    if (docker.state !== 'to start') return new Engine();
    const script = join(import.meta.dirname, '..', '..', 'scripts', 'docker-engine.mjs');
    // The folder goes with the engine.
    const dir = await mkdtemp(join(tmpdir(), 'emq-image-'));
    const holder = spawn(process.execPath, [script, 'hold', dir], { stdio: ['pipe', 'pipe', 'pipe'] });
    let said = '';
    holder.stderr.on('data', (text: Buffer) => (said += text.toString()));
    process.env['DOCKER_HOST'] = await new Promise<string>((resolve, reject) => {
      let out = '';
      holder.stdout.on('data', (text: Buffer) => {
        out += text.toString();
        const found = /^DOCKER_HOST=(.*)$/m.exec(out)?.[1];
        if (found !== undefined) resolve(found);
      });
      holder.once('error', reject);
      holder.once('close', (code) => reject(new Error(`no engine (exit code ${code}): ${said}`)));
    });
    return new Engine(holder);
  }

  /** Ends an engine of our own with all that is in it. */
  async stop(): Promise<void> {
    if (this.#holder === undefined) return;
    if (this.#holder.exitCode === null) {
      const ended = once(this.#holder, 'close');
      this.#holder.stdin?.end();
      await ended;
    }
    const code = this.#holder.exitCode;
    if (code !== 0) throw new Error(`the engine was not taken down in good order (exit code ${code})`);
  }
}

/** The command that runs compose files here, or undefined. */
export async function findCompose(): Promise<readonly [string, ...string[]] | undefined> {
  for (const command of [['docker', 'compose'] as const, ['docker-compose'] as const]) {
    const [program, ...args] = command;
    const works = await execute(program, [...args, 'version']).then(
      () => true,
      () => false,
    );
    if (works) return command;
  }
  return undefined;
}
