/**
 * The append-only file of a server that was killed under load, and servers that are started on copies of it, whole or cut.
 *
 * Invariants: the file is read as the server reads it, command by command; a transaction is one step. A copy's server is
 * gone with its folder. Does not: judge what was loaded.
 */
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { vi } from 'vitest';
import { startServer, type EmbeddedServer } from '../../src/dev/index.js';
import { readKeys, type Keys } from '../../src/parity/keyspace-dump.js';
import { WorkerNode, type Wire } from '../worker/support/nodes.js';
import { freshFolder } from '../worker/support/processes.js';
import { CrashLoad } from './crash-load.js';

/** One rewrite at the start, so that all that is written later is in one file. */
export const AOF = ['--appendonly', 'yes', '--auto-aof-rewrite-percentage', '0'] as const;
const PARTS = 'appendonlydir';

type Folder = { readonly path: string } & AsyncDisposable;

/** One command of the file, or one whole transaction. */
export interface Step {
  readonly from: number;
  readonly to: number;
  /** The names of its commands, lower case, without MULTI and EXEC; where each begins. */
  readonly commands: readonly { readonly name: string; readonly from: number }[];
}

/** The file that grows, of a server's folder. */
export async function growing(dir: string): Promise<string> {
  const names = (await readdir(join(dir, PARTS))).filter((name) => name.endsWith('.incr.aof'));
  const numberOf = (name: string): number => Number(/\.(\d+)\.incr/.exec(name)?.[1]);
  const [last] = names.sort((a, b) => numberOf(b) - numberOf(a));
  if (last === undefined) throw new Error(`no append-only file in ${dir}`);
  return join(dir, PARTS, last);
}

export class CrashLog implements AsyncDisposable {
  readonly bytes: Buffer;
  readonly steps: readonly Step[];
  readonly #folder: Folder;
  readonly #name: string;

  private constructor(folder: Folder, name: string, bytes: Buffer) {
    this.#folder = folder;
    this.#name = name;
    this.bytes = bytes;
    this.steps = stepsOf(bytes);
  }

  /** Keeps the folder of a server that has been killed. */
  static async of(node: WorkerNode): Promise<CrashLog> {
    const folder = await freshFolder();
    await cp(join(node.server.dir, PARTS), join(folder.path, PARTS), { recursive: true });
    const file = await growing(folder.path);
    return new CrashLog(folder, basename(file), await readFile(file));
  }

  /** A server is killed after so long a load, or somewhat longer where that was not much. */
  static async record(wire: Wire, ms: number, seed: number): Promise<CrashLog> {
    await using node = await WorkerNode.start(wire, ...AOF, '--appendfsync', 'everysec');
    await using load = await CrashLoad.start(node, seed);
    await pause(ms);
    await vi.waitUntil(() => load.books.jobs.size > 100, { timeout: 20_000, interval: 5 });
    await node.server.kill();
    await load.cutOff();
    return await CrashLog.of(node);
  }

  /** Starts a server on a copy of which only so many bytes are left. */
  async start(wire: Wire, bytes = this.bytes.length): Promise<Copy> {
    const folder = await freshFolder();
    await mkdir(join(folder.path, PARTS));
    await cp(join(this.#folder.path, PARTS), join(folder.path, PARTS), {
      recursive: true,
      filter: (path) => basename(path) !== this.#name,
    });
    await writeFile(join(folder.path, PARTS, this.#name), this.bytes.subarray(0, bytes));
    return Copy.start(folder, wire, AOF);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#folder[Symbol.asyncDispose]();
  }
}

/** A server on a folder that it finds as it is: no brand is set. */
export class Copy implements AsyncDisposable {
  readonly server: EmbeddedServer;
  readonly admin: Redis;
  readonly #folder: AsyncDisposable;

  private constructor(folder: AsyncDisposable, server: EmbeddedServer) {
    this.#folder = folder;
    this.server = server;
    this.admin = new Redis({ path: server.socketPath, retryStrategy: () => 20, maxRetriesPerRequest: null });
    this.admin.on('error', () => {}); // why it has to wait is no news
  }

  /** @param wire with the module, or without */
  static async start(folder: Folder, wire: Wire, args: readonly string[]): Promise<Copy> {
    const server = await startServer({ module: wire === 6, dir: folder.path, brand: false, fetch: true, args });
    return new Copy(folder, server);
  }

  dump(): Promise<Keys> {
    return readKeys(this.admin);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.admin.disconnect();
    await this.server.kill();
    await this.server.stop();
    await this.#folder[Symbol.asyncDispose]();
  }
}

/** Reads the file as arrays of bulk strings; a step that is not whole is left out. */
function stepsOf(bytes: Buffer): Step[] {
  const steps: Step[] = [];
  let at = 0;
  const line = (mark: string): number | undefined => {
    const end = bytes.indexOf('\r\n', at);
    if (end < 0 || String.fromCharCode(bytes[at] ?? 0) !== mark) return undefined;
    const count = Number(bytes.subarray(at + 1, end).toString());
    at = end + 2;
    return count;
  };
  /** The name of the next command; undefined at the end. */
  const command = (): string | undefined => {
    const parts = line('*');
    let name: string | undefined;
    for (let i = 0; i < (parts ?? 0); i++) {
      const length = line('$');
      if (length === undefined || at + length + 2 > bytes.length) return undefined;
      if (i === 0)
        name = bytes
          .subarray(at, at + length)
          .toString()
          .toLowerCase();
      at += length + 2;
    }
    return name;
  };
  for (let open: { from: number; commands: Step['commands'][number][] } | undefined; ;) {
    const from = at;
    const name = command();
    if (name === undefined) return steps;
    if (name === 'multi') open = { from, commands: [] };
    else if (name === 'exec' && open !== undefined) {
      steps.push({ ...open, to: at });
      open = undefined;
    } else if (open !== undefined) open.commands.push({ name, from });
    else steps.push({ from, to: at, commands: [{ name, from }] });
  }
}
