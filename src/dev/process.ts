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
  /** Resolves when nothing of the group is left. */
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  #over = false;

  private constructor(child: ChildProcess, pid: number) {
    this.#child = child;
    this.pid = pid;
    const pipe = child.stdio[3] as Socket;
    pipe.on('error', () => {}); // the guard may be gone already
    child.unref();
    pipe.unref();
    // The guard's end of the pipe closes with the guard, and nothing of the group outlives that.
    const guardGone = new Promise((resolve) => pipe.resume().once('close', resolve));
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#over = true;
        pipe.ref().end('\n');
        void guardGone.then(() => resolve({ code, signal }));
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

  /** Asks the process to end (SIGTERM) and, after `graceMs`, makes it. Resolves when it has ended. */
  async terminate(graceMs: number): Promise<void> {
    await this.#end(() => {
      this.#child.kill('SIGTERM');
      return setTimeout(() => this.#killGroup(), graceMs);
    });
  }

  /** SIGKILL, to the guard and to the server's own children too. Resolves when it has ended. */
  async kill(): Promise<void> {
    await this.#end(() => this.#killGroup());
  }

  async #end(act: () => NodeJS.Timeout | void): Promise<void> {
    this.#child.ref();
    const timer = this.#over ? undefined : act();
    await this.ended;
    if (timer) clearTimeout(timer);
  }

  #killGroup(): void {
    // Its number cannot have passed to another group as long as the guard is in it.
    if (!this.#over) process.kill(-this.pid, 'SIGKILL');
  }
}
