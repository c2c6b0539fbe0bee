/**
 * What becomes of children that fail: processors that do not load, children that die or are killed, jobs that are aborted,
 * and what is left when a sandbox is closed or has nothing to do.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { JobAbortedError } from '../../../src/worker/handler.js';
import type { Sandbox, SandboxOptions } from '../../../src/worker/sandbox/sandbox.js';
import { freshFolder, isAlive } from '../../dev/support.js';
import { KINDS, context, job, processor, rejection, sandbox, type TestContext } from './support.js';

const path = (name: string): string => processor(name).pathname;
const cancelled = (): JobAbortedError => new JobAbortedError('cancelled', 'the job was cancelled');

/** Waits until a sandbox has no child. */
async function empty(box: Sandbox): Promise<void> {
  await vi.waitUntil(() => box.stats().children === 0, { timeout: 10_000, interval: 2 });
}

describe.each(KINDS)('a child, a %s,', (kind) => {
  const box = (name: string, more: Partial<SandboxOptions> = {}): Sandbox => sandbox(name, { kind, size: 1, ...more });
  const who = (one: Sandbox): Promise<unknown> => one.run(job({ do: 'who' }), context());

  it('P31: that fails to load fails its job with that message, is not used again, and there are never more than size', async () => {
    const pids = join(await freshFolder(), 'pids');
    writeFileSync(pids, '');
    vi.stubEnv('EMQ_TEST_PIDS', kind === 'process' ? pids : '');
    try {
      const one = box('fails-to-load.mjs', { size: 2 });
      let most = 0;
      let over = false;
      const watching = (async () => {
        for (; !over; await turn()) most = Math.max(most, one.stats().children);
      })();
      const errors = await Promise.all(Array.from({ length: 8 }, () => rejection(one.run(job({}), context()))));
      over = true;
      await watching;
      for (const { message, stack } of errors) {
        expect(message).toBe(`the processor ${path('fails-to-load.mjs')} cannot be loaded: the import went wrong`);
        expect(stack).toContain('fails-to-load.mjs:');
      }
      await empty(one);
      expect(one.stats()).toEqual({ children: 0, busy: 0, idle: 0, waiting: 0, started: 8 });
      expect(most).toBe(2);
      if (kind === 'thread') return;
      // each saw how many were alive when it came
      const seen = readFileSync(pids, 'utf8').trim().split('\n').map((line) => line.split(' ')); // prettier-ignore
      expect(new Set(seen.map(([pid]) => pid)).size).toBe(8);
      expect(Math.max(...seen.map(([, alive]) => Number(alive)))).toBeLessThanOrEqual(2);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it.each([
    ['no-function.mjs', 'it has no default export that is a function'],
    ['bad-codec.mjs', 'its export "codec" has no function "decode"'],
    ['not-there.mjs', /^Cannot find module .*not-there\.mjs/],
  ])('that meets %s fails its job', async (name, why) => {
    const one = box(name);
    const start = `the processor ${path(name)} cannot be loaded: `;
    const { message } = await rejection(one.run(job({}), context()));
    expect(message.slice(0, start.length)).toBe(start);
    expect(message.slice(start.length)).toMatch(why);
    await empty(one);
  });

  it('that is ended by its processor while it loads fails its job with the exit code', async () => {
    const { message } = await rejection(box('exits-on-load.mjs').run(job({}), context()));
    expect(message).toBe(`the ${kind} of the processor ended with exit code 3`);
  });

  it('whose processor exits in the middle of a job fails it with the exit code, and another takes the next', async () => {
    const one = box('work.mjs');
    const first = await who(one);
    for (const code of [7, 0]) {
      const { message } = await rejection(one.run(job({ do: 'exits', code }), context()));
      expect(message).toBe(`the ${kind} of the processor ended with exit code ${code}`);
    }
    expect(await who(one)).not.toBe(first);
    expect(one.stats()).toMatchObject({ children: 1, started: 3 });
  });

  it('that dies between two jobs harms none, and is told', async () => {
    const onIdleDeath = vi.fn();
    const one = box('work.mjs', { onIdleDeath });
    expect(await one.run(job({ do: 'exitsAfterwards', code: 4 }), context())).toBe('done before that');
    await empty(one);
    expect(onIdleDeath.mock.calls).toEqual([
      [new Error(`the ${kind} of the processor ended with exit code 4 between two jobs`)],
    ]);
    expect(await one.run(job({ do: 'echo', value: 1 }), context())).toBe(1);
    await one.close();
    expect(onIdleDeath).toHaveBeenCalledOnce();
  });

  it('learns of an abort with its reason, and stays when its job ends', async () => {
    const one = box('work.mjs');
    const first = await who(one);
    const asker = context();
    const run = rejection(one.run(job({ do: 'obeys' }), asker));
    await asker.firstLog;
    asker.controller.abort(cancelled());
    const told = { name: 'JobAbortedError', message: 'the job was cancelled', kind: 'cancelled' };
    expect((await run).message).toBe(`stopped: ${JSON.stringify(told)}`);
    expect(await who(one)).toBe(first);
  });

  it.each(['disobeys', 'loops'])('that %s after an abort is killed in time, and its job rejects', async (how) => {
    const one = box('work.mjs', { killAfterMs: 100 });
    const first = await who(one);
    const asker = context();
    const run = rejection(one.run(job({ do: how }), asker));
    await asker.firstLog;
    const aborted = performance.now();
    asker.controller.abort(cancelled());
    const { message } = await run;
    expect(performance.now() - aborted).toBeGreaterThanOrEqual(99);
    expect(message).toBe(
      `the ${kind} of the processor was killed: it did not end within 100 ms of its abort (the job was cancelled)`,
    );
    expect(await who(one)).not.toBe(first);
    expect(one.stats()).toMatchObject({ children: 1, started: 2 });
  });

  it('gets no job whose signal is aborted already, or is aborted while it waits', async () => {
    const one = box('work.mjs');
    const early = context();
    early.controller.abort(cancelled());
    expect(await rejection(one.run(job({ do: 'echo' }), early))).toBe(early.signal.reason);
    expect(one.stats().started).toBe(0);

    const busy = context();
    const running = rejection(one.run(job({ do: 'obeys' }), busy));
    const late = context();
    const waiting = rejection(one.run(job({ do: 'echo' }), late));
    const next = one.run(job({ do: 'echo', value: 2 }), context());
    expect(one.stats().waiting).toBe(2);
    late.controller.abort(cancelled());
    expect(await waiting).toBe(late.signal.reason);
    await busy.firstLog;
    busy.controller.abort(cancelled());
    await running;
    expect(await next).toBe(2);
    expect(one.stats()).toMatchObject({ started: 1, waiting: 0, idle: 1 });
  });

  it.each(['aborted', 'closed'])('gets no job whose wait was over in the very moment when it was %s', async (what) => {
    const one = box('work.mjs');
    const asker = context();
    const busy = one.run(job({ do: 'echo', value: 1 }), context());
    const refused = rejection(one.run(job({ do: 'asks' }), asker));
    // the end of the wait is when its listener goes
    const remove = asker.signal.removeEventListener.bind(asker.signal);
    vi.spyOn(asker.signal, 'removeEventListener').mockImplementation((type, listener) => {
      remove(type, listener);
      if (what === 'aborted') asker.controller.abort(cancelled());
      else void one.close();
    });
    expect(await busy).toBe(1);
    expect((await refused).message).toBe(
      what === 'aborted' ? 'the job was cancelled' : 'EMQ_CLOSED the sandbox was closed',
    );
    expect(asker.asked).toEqual([]);
    if (what === 'aborted') expect(await one.run(job({ do: 'echo', value: 2 }), context())).toBe(2);
  });

  it('whose processor never loads does not outlive the abort of its job', async () => {
    const one = box('never-loads.mjs');
    const asker = context();
    const run = rejection(one.run(job({}), asker));
    await turn();
    asker.controller.abort(cancelled());
    const error = await run;
    expect([error.name, error.message]).toEqual(['JobAbortedError', 'the job was cancelled']);
    await empty(one);
  });

  it('that had nothing to do for a while ends in good order', async () => {
    const file = join(await freshFolder(), 'exit');
    const onIdleDeath = vi.fn();
    const one = box('work.mjs', { idleMs: 100, onIdleDeath });
    await one.run(job({ do: 'writesAtExit', file }), context());
    await empty(one);
    expect(readFileSync(file, 'utf8')).toBe('gone in good order');
    expect(onIdleDeath).not.toHaveBeenCalled();
    expect(await one.run(job({ do: 'echo', value: 1 }), context())).toBe(1);
    expect(one.stats().started).toBe(2);
  });

  it('ends with its sandbox: idle ones in good order, busy ones at once, and nothing runs any more', async () => {
    const file = join(await freshFolder(), 'exit');
    const one = box('work.mjs', { size: 2 });
    const busy = context();
    const running = rejection(one.run(job({ do: 'loops' }), busy));
    await one.run(job({ do: 'writesAtExit', file }), context());
    await busy.firstLog;
    const closing = one.close();
    expect(one.close()).toBe(closing);
    await closing;
    expect(one.stats()).toEqual({ children: 0, busy: 0, idle: 0, waiting: 0, started: 2 });
    expect(readFileSync(file, 'utf8')).toBe('gone in good order');
    expect((await running).message).toBe(`the ${kind} of the processor was killed: its sandbox was closed`);
    expect(await rejection(one.run(job({ do: 'echo' }), context()))).toMatchObject({ code: 'EMQ_CLOSED' });
    await one.close();
  });

  it('is not given to a job that waits for it when its sandbox is closed', async () => {
    const one = box('work.mjs');
    const busy = context();
    const running = rejection(one.run(job({ do: 'obeys' }), busy));
    const waiting = Promise.all([1, 2].map((value) => rejection(one.run(job({ do: 'echo', value }), context()))));
    await busy.firstLog;
    await one.close();
    await running;
    expect((await waiting).map(({ message }) => message)).toEqual([
      'EMQ_CLOSED the sandbox was closed',
      'EMQ_CLOSED the sandbox was closed',
    ]);
    expect(one.stats()).toMatchObject({ children: 0, started: 1 });
  });

  it('that does not end when told to is killed', async () => {
    const one = box('work.mjs', { killAfterMs: 50 });
    const pid = await one.run(job({ do: 'loopsAfterwards' }), context());
    await one.close();
    expect(one.stats().children).toBe(0);
    if (kind === 'process') expect(isAlive(Number(pid))).toBe(false);
  });

  it('that was never needed is never started, and closing is nothing', async () => {
    const one = box('work.mjs');
    await one.close();
    expect(one.stats().started).toBe(0);
  });

  it('leaves no listener on the signals it was given', async () => {
    const asker = context();
    const add = vi.spyOn(asker.signal, 'addEventListener');
    const remove = vi.spyOn(asker.signal, 'removeEventListener');
    const one = box('work.mjs');
    await Promise.all([1, 2, 3].map((value) => one.run(job({ do: 'echo', value }), asker)));
    expect(add.mock.calls.length).toBeGreaterThan(2);
    expect(remove.mock.calls.length).toBe(add.mock.calls.length);
  });
});

describe('a process', () => {
  const box = (more: Partial<SandboxOptions> = {}): Sandbox =>
    sandbox('work.mjs', { kind: 'process', size: 1, ...more });
  async function started(one: Sandbox, does: string): Promise<{ pid: number; run: Promise<unknown> }> {
    const asker: TestContext = context();
    const run = one.run(job({ do: does }), asker);
    run.catch(() => {});
    return { run, pid: Number(await asker.firstLog) };
  }

  it.each(['SIGKILL', 'SIGSEGV'] as const)(
    'P31: killed by %s in the middle of a job rejects it by that name',
    async (signal) => {
      const one = box();
      const { pid, run } = await started(one, 'waits');
      process.kill(pid, signal);
      expect((await rejection(run)).message).toBe(`the process of the processor was killed by ${signal}`);
      expect(isAlive(pid)).toBe(false);
      expect(await one.run(job({ do: 'echo', value: 1 }), context())).toBe(1);
      expect(one.stats()).toMatchObject({ children: 1, started: 2 });
    },
  );

  it('leaves the signals of a terminal or a service manager to its parent', async () => {
    const one = box();
    const { pid, run } = await started(one, 'waitsForSignal');
    process.kill(pid, 'SIGINT');
    process.kill(pid, 'SIGTERM');
    expect(await run).toBe('still here');
  });

  it('that survives an error does not blame it for its later end', async () => {
    const { message } = await rejection(box().run(job({ do: 'survives' }), context()));
    expect(message).toBe('the process of the processor ended with exit code 9');
  });
});

describe('a thread', () => {
  it.each(['throw', 'reject'])('whose processor leaves an error uncaught fails its job with that: %s', async (how) => {
    const one = sandbox('work.mjs', { kind: 'thread', size: 1 });
    const { message } = await rejection(one.run(job({ do: 'dies', how }), context()));
    expect(message).toBe('the thread of the processor ended by an uncaught error: nobody caught this');
    expect(await one.run(job({ do: 'echo', value: 1 }), context())).toBe(1);
  });

  it('in native code cannot be killed: its job rejects and says so, and its place is free when it has ended', async () => {
    const fifo = join(await freshFolder(), 'fifo');
    execFileSync('mkfifo', [fifo]);
    const one = sandbox('work.mjs', { kind: 'thread', size: 1, killAfterMs: 20 });
    const asker = context();
    const run = rejection(one.run(job({ do: 'blocksInNativeCode', fifo }), asker));
    await asker.firstLog;
    asker.controller.abort(cancelled());
    expect((await run).message).toBe(
      'the thread of the processor was killed: it did not end within 20 ms of its abort (the job was cancelled), but it still runs: native code cannot be interrupted',
    );
    expect(one.stats()).toMatchObject({ children: 1, busy: 0, idle: 0 });
    const next = one.run(job({ do: 'echo', value: 1 }), context());
    expect(one.stats()).toMatchObject({ children: 1, waiting: 1 });
    await (await open(fifo, 'w')).close();
    expect(await next).toBe(1);
    expect(one.stats().started).toBe(2);
  });
});
