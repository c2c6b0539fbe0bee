/**
 * One server process that dies with this one, however this one ends, kill -9 included.
 *
 * How: the server is started through `sh`, which first leaves a guard behind and then becomes the server (`exec`). The
 * guard waits on a pipe whose other end only this process holds. A line on it means that the server has ended; its
 * end without a line means that this process has. Either way the guard then kills what is left of the group, itself too.
 * Invariants: the server is a direct child (its pid and its end are its own), alone with its guard in a process group
 * of its own (a Ctrl-C in the terminal does not reach it), and keeps neither this process nor its loop alive.
 * Does not: know what the server is or whether it is ready (server.ts).
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import type { Socket } from 'node:net';

/** $1 is the folder to remove when this process is gone, or empty; the rest is the command. */
const GUARDED = `
folder=$1; shift
(
  trap '' TERM
  if ! read -r line <&3; then
    kill -KILL $$
    [ -z "$folder" ] || rm -rf -- "$folder"
  fi
  kill -KILL -$$
) >/dev/null 2>&1 &
exec "$@" 3<&-
`;

/** How a process ended: one of the two is null. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface GuardedOptions {
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
  /** Both output streams are appended to this file. */
  readonly logFile: string;
  /** Removed when this process ends without having ended the server. */
  readonly ownFolder?: string | undefined;
}

export class GuardedProcess {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  #over: Ended | undefined;

  private constructor(child: ChildProcess, pid: number) {
    this.#child = child;
    this.pid = pid;
    const pipe = child.stdio[3] as Socket;
    pipe.on('error', () => {}); // the guard may be gone already
    child.unref();
    pipe.unref();
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        pipe.end('\n');
        this.#over = { code, signal };
        resolve(this.#over);
      });
    });
  }

  /** @throws the system's error when not even a shell can be started. */
  static async start(options: GuardedOptions): Promise<GuardedProcess> {
    const log = openSync(options.logFile, 'a');
    try {
      const child = spawn('/bin/sh', ['-c', GUARDED, 'echomq-dev', options.ownFolder ?? '', ...options.command], {
        cwd: options.cwd,
        detached: true,
        // Not the standard input: Node closes that one when the child ends, before a line could be written.
        stdio: ['ignore', log, log, 'pipe'],
      });
      await once(child, 'spawn');
      return new GuardedProcess(child, child.pid!);
    } finally {
      closeSync(log);
    }
  }

  /** How it ended, or undefined while it runs. */
  get over(): Ended | undefined {
    return this.#over;
  }

  /** Asks the process to end (SIGTERM) and, after `graceMs`, makes it. Resolves when it has ended. */
  async terminate(graceMs: number): Promise<void> {
    await this.#end(() => {
      this.#signalGroup('SIGTERM');
      return setTimeout(() => this.#signalGroup('SIGKILL'), graceMs);
    });
  }

  /** SIGKILL, to the guard and to the server's own children too. Resolves when it has ended. */
  async kill(): Promise<void> {
    await this.#end(() => this.#signalGroup('SIGKILL'));
  }

  async #end(act: () => NodeJS.Timeout | void): Promise<void> {
    if (this.#over !== undefined) return;
    this.#child.ref();
    const timer = act();
    await this.ended;
    if (timer) clearTimeout(timer);
  }

  /** The whole group, since the program may be a wrapper that does not become the server; the guard ignores SIGTERM. */
  #signalGroup(signal: NodeJS.Signals): void {
    if (this.#over === undefined) process.kill(-this.pid, signal);
  }
}
