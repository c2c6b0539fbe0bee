/**
 * One child and the line to it: a worker thread or a process, alike from outside.
 *
 * Invariants: `ended` is told once, after the last message, with how it ended; nothing of a child is left then. What is
 * sent to a child that is ending is dropped. A child's standard output and error are those of this process.
 * Does not: know what is said (processor-child.ts does), or keep a child that no longer answers from being waited for.
 */
import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { Socket } from 'node:net';
import { inputError } from '../../wire/errors.js';
import { asError } from '../failure.js';
import type { FromChild, ToChild } from './protocol.js';

export type ChildKind = 'thread' | 'process';

export interface Channel {
  send(message: ToChild): void;
  /** At once and without a word: SIGKILL, or the end of the thread as soon as it is in JavaScript. */
  kill(): void;
  /** The child keeps this process alive, as it does from the start. */
  ref(): void;
  unref(): void;
}

export interface ChannelEvents {
  message(message: FromChild): void;
  /** @param how such as `was killed by SIGKILL`. */
  ended(how: string): void;
}

/**
 * Starts a child for the processor at `url`.
 * @throws EmqError `EMQ_INPUT` when the child's own file is not where the package has it; the system's error.
 */
export function openChannel(kind: ChildKind, url: URL, events: ChannelEvents): Channel {
  return kind === 'thread' ? openThread(url, events) : openProcess(url, events);
}

function openThread(url: URL, events: ChannelEvents): Channel {
  const worker = new Worker(entry(), { workerData: { processor: url.href } });
  let crash: string | undefined;
  worker.on('message', (message: unknown) => receive(message, events));
  worker.on('error', (error: unknown) => (crash = uncaught(error)));
  worker.on('messageerror', (error) => {
    crash = `gave an answer that cannot be read: ${error.message}`;
    void worker.terminate();
  });
  worker.on('exit', (code) => events.ended(crash ?? `ended with exit code ${code}`));
  return {
    send(message) {
      if (message.emq !== 'run') return worker.postMessage(message);
      // A view is cloned with all that lies around it, other jobs among them: give a copy of its own.
      const bytes = new Uint8Array(message.job.bytes);
      worker.postMessage({ ...message, job: { ...message.job, bytes } }, [bytes.buffer]);
    },
    kill: () => void worker.terminate(),
    ref: () => worker.ref(),
    unref: () => worker.unref(),
  };
}

function openProcess(url: URL, events: ChannelEvents): Channel {
  const child = fork(entry(), [url.href], {
    serialization: 'advanced',
    // The last is how the child learns that this process is gone: nothing is ever written to it.
    stdio: ['ignore', 'inherit', 'inherit', 'ipc', 'pipe'],
    ...flags(),
  });
  const lifeline = child.stdio[4] as Socket | null | undefined;
  lifeline?.on('error', () => {});
  let crash: string | undefined;
  child.on('message', (message) => {
    if (isOurs(message) && message.emq === 'crash') crash = uncaught(message.error);
    else receive(message, events);
  });
  child.on('error', (error) => {
    // One that was started tells its end by itself.
    if (child.pid === undefined) events.ended(`could not be started: ${error.message}`);
  });
  // Not `exit`: messages may still come after that.
  child.on('close', (code, signal) => {
    if (child.pid === undefined) return;
    // V8 ends a process that is out of memory this way
    const hint = signal === 'SIGABRT' ? ' (out of memory?)' : '';
    events.ended(signal === null ? (crash ?? `ended with exit code ${code}`) : `was killed by ${signal}${hint}`);
  });
  return {
    send: (message) => void (child.connected && child.send(message, () => {})),
    kill: () => void child.kill('SIGKILL'),
    ref() {
      child.ref();
      child.channel?.ref();
      lifeline?.ref();
    },
    unref() {
      child.unref();
      child.channel?.unref();
      lifeline?.unref();
    },
  };
}

/** A child takes the flags of this process, loaders among them, but not its debugger's port. */
function flags(): { execArgv?: string[] } {
  const own = process.execArgv.filter((flag) => !flag.startsWith('--inspect'));
  return own.length === process.execArgv.length ? {} : { execArgv: own };
}

function receive(message: unknown, events: ChannelEvents): void {
  if (isOurs(message)) events.message(message);
}

/** A processor may send messages too. */
function isOurs(message: unknown): message is FromChild {
  return typeof message === 'object' && message !== null && 'emq' in message;
}

function uncaught(error: unknown): string {
  return `ended by an uncaught error: ${asError(error).message}`;
}

/** The file that a child starts with: it lies beside this one, in the sources as in the built package. */
function entry(): URL {
  try {
    const url = new URL('./child.js', import.meta.url);
    if (existsSync(url)) return url;
  } catch {
    // a bundle may have no place of its own
  }
  throw inputError('the part of echomq that runs processors was not found (bundled?): leave echomq out of the bundle');
}
