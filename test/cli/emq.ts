/**
 * Runs the compiled `emq` as its users do: as a program of its own, without a terminal.
 *
 * Invariants: whatever it started is gone with the test. Needs a compiled `dist/` (`npm run setup`).
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { Redis } from 'ioredis';
import { onTestFinished } from 'vitest';
import { startServer, type EmbeddedServer, type StartServerOptions } from '../../src/dev/index.js';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** Whatever came as JSON. */
export type Json = ReturnType<typeof JSON.parse>;

/** How a run ended. `code` is null when a signal ended the process itself. */
export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Standard output as JSON, one value a line. */
  readonly json: Json[];
}

/** Starts `emq`; it is ended with the test if it still runs. */
export function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const { EMQ_URL: _none, FORCE_COLOR: _force, ...inherited } = process.env;
  const child = spawn(process.execPath, [MAIN, ...args], { env: { ...inherited, ...env }, stdio: 'pipe' });
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  return child;
}

/** Waits for the end and gives what was said. Call it at once: it collects from then on. */
export async function finish(child: ChildProcess): Promise<Ran> {
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const [code] = (await once(child, 'close')) as [number | null];
  const lines = stdout.split('\n').filter((line) => line.startsWith('{'));
  return { code, stdout, stderr, json: lines.flatMap(parse) };
}

function parse(line: string): unknown[] {
  try {
    return [JSON.parse(line)];
  } catch {
    return [];
  }
}

/** Runs `emq` to its end. */
export function emq(...args: string[]): Promise<Ran> {
  return finish(start(args));
}

/** The first line of its standard output that is JSON, or a match of the pattern. */
export async function firstLine(child: ChildProcess, pattern = /^\{/): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) if (pattern.test(line)) return line;
  throw new Error(`emq ended without a line like ${pattern.source}`);
}

/** A node that goes with the test: with a TCP port, so that URLs may carry a user. */
export async function node(options: StartServerOptions = {}): Promise<EmbeddedServer> {
  const server = await startServer({ port: 'free', ...options });
  onTestFinished(() => server.stop());
  return server;
}

/** The node's URL for a user. */
export function urlFor(server: EmbeddedServer, user: string, password: string): string {
  return `redis://${user}:${password}@127.0.0.1:${server.port}`;
}

/** A client of the node that goes with the test. `close` it where a node must have no other client. */
export function client(server: EmbeddedServer): Redis {
  const redis = new Redis({ path: server.socketPath });
  onTestFinished(() => redis.disconnect());
  return redis;
}

/** Does something on the node and leaves no client behind. */
export async function on<T>(server: EmbeddedServer, act: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis({ path: server.socketPath });
  try {
    return await act(redis);
  } finally {
    await redis.quit();
  }
}

/** All that a node holds, in all databases: key -> serialized value. And how often it was flushed or reconfigured. */
export function stateOf(server: EmbeddedServer): Promise<unknown> {
  return on(server, async (redis) => {
    const found: Record<string, string> = {};
    for (const db of [0, 1]) {
      await redis.select(db);
      for (const key of (await redis.keys('*')).sort()) {
        found[`${db} ${key}`] = (await redis.dumpBuffer(key))?.toString('base64') ?? '';
      }
    }
    const stats = await redis.info('commandstats');
    const meddled = stats.match(/cmdstat_(flush\w+|config\|set|config\|resetstat|acl\|setuser|client\|kill)/g) ?? [];
    return { found, meddled };
  });
}

/** True while a process of that id runs. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
