/**
 * The sandbox in programs of its own: children end with their parent, however that ends, and do not keep it alive; output,
 * flags and last words of children; a package that lost the child's file.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { freePort } from '../../wire/server.js';
import { freshFolder, isAlive } from '../../dev/support.js';
import { KINDS, program } from './support.js';

const BUSY = (does: string): string => `const box = make('work.mjs', { kind: 'process', size: 1 });
  void box.run(job({ do: '${does}' }), { ...context, log: async () => console.log('busy') });
  const { pid } = process;`;

async function gone(pid: number): Promise<void> {
  await vi.waitUntil(() => !isAlive(pid), { timeout: 5000, interval: 5 });
}

describe('the children of a program', () => {
  it.each(KINDS)('do not keep it alive when they have nothing to do: %s', async (kind) => {
    const { ended, lines } = await program(
      `const box = make('work.mjs', { kind: '${kind}', size: 2 });
       await Promise.all([1, 2].map((value) => box.run(job({ do: 'echo', value }), context)));
       console.log(JSON.stringify(box.stats()));`,
    );
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ children: 2, idle: 2 });
  });

  it.each(KINDS)('keep it alive while they have a job: %s', async (kind) => {
    const { ended, lines } = await program(
      `const box = make('work.mjs', { kind: '${kind}', size: 1 });
       await box.run(job({ do: 'echo' }), context);
       box.run(job({ do: 'waitsABit' }), context).then(console.log);`,
    );
    expect([await ended, lines]).toEqual([{ code: 0, signal: null }, ['waited']]);
  });

  it.each(KINDS)('let it wait for their end: %s', async (kind) => {
    const { ended } = await program(
      `const box = make('work.mjs', { kind: '${kind}', size: 1 });
       await box.run(job({ do: 'echo' }), context);
       await box.close();
       process.exitCode = 5;`,
    );
    expect(await ended).toEqual({ code: 5, signal: null });
  });

  it.each([
    ['it ends', 0, ''],
    ['it exits', 7, 'process.exit(7);'],
    ['it throws', 1, `throw new Error('over');`],
  ])('are gone when %s, in good order', async (_how, code, does) => {
    const file = join(await freshFolder(), 'exit');
    const one = await program(
      `const box = make('work.mjs', { kind: 'process', size: 2 });
       await box.run(job({ do: 'writesAtExit', file: ${JSON.stringify(file)} }), context);
       console.log('pid ' + (await box.run(job({ do: 'who' }), context)));
       ${does}`,
    );
    const pid = Number(await one.line('pid '));
    expect((await one.ended).code).toBe(code);
    await gone(pid);
    expect(readFileSync(file, 'utf8')).toBe('gone in good order');
  });

  it.each(['waits', 'loops'])('are gone when it is ended by SIGKILL, one whose processor %s too', async (does) => {
    const one = await program(
      `${BUSY(does)} const { readdirSync, readFileSync } = await import('node:fs');
       setInterval(() => {
         for (const id of readdirSync('/proc').filter(Number)) {
           try {
             const [, parent] = / \\S (\\d+) /.exec(readFileSync('/proc/' + id + '/stat', 'utf8'));
             if (Number(parent) === pid) console.log('child ' + id);
           } catch {}
         }
       }, 20);`,
    );
    await one.line('busy');
    const child = Number(await one.line('child '));
    expect(isAlive(child)).toBe(true);
    one.child.kill('SIGKILL');
    await one.ended;
    await gone(child);
  });

  it.each(KINDS)('speak where it speaks: %s', async (kind) => {
    const one = await program(
      `const box = make('work.mjs', { kind: '${kind}', size: 1 });
       await box.run(job({ do: 'speaks' }), context);
       await box.close();`,
    );
    await one.ended;
    expect([one.lines, one.errors]).toEqual([['said on stdout'], ['said on stderr']]);
  });

  it.each(KINDS)('take its flags, but not the port of its debugger: %s', async (kind) => {
    const hook = 'data:text/javascript,globalThis.hook = "loaded"';
    const one = await program(
      `const box = make('work.mjs', { kind: '${kind}', size: 1 });
       console.log(JSON.stringify(await box.run(job({ do: 'flags' }), context)));`,
      ['--max-old-space-size=200', '--import', hook, `--inspect=127.0.0.1:${await freePort()}`],
    );
    expect((await one.ended).code).toBe(0);
    const { argv, hook: loaded } = JSON.parse(one.lines[0] ?? '');
    expect(loaded).toBe('loaded');
    if (kind === 'process') expect(argv).toEqual(['--max-old-space-size=200', '--import', hook]);
    expect(one.errors.join('\n')).not.toMatch(/address already in use/);
  });

  it.each([
    [{ do: 'dies', how: 'throw' }, 'ended by an uncaught error: nobody caught this', /Error: nobody caught this/],
    [{ do: 'dies', how: 'reject' }, 'ended by an uncaught error: nobody caught this', /Error: nobody caught this/],
    [{ do: 'eats' }, 'was killed by SIGABRT (out of memory?)', /JavaScript heap out of memory/],
  ])('fail their job with what ended them, and say it aloud: %j', async (payload, how, aloud) => {
    const one = await program(
      `process.env.NODE_OPTIONS = '--max-old-space-size=16';
       const box = make('work.mjs', { kind: 'process', size: 1 });
       await box.run(job(${JSON.stringify(payload)}), context).catch((error) => console.log(error.message));
       console.log(await box.run(job({ do: 'echo', value: 'another one works' }), context));
       await box.close();`,
    );
    await one.ended;
    expect(one.lines).toEqual([`the process of the processor ${how}`, 'another one works']);
    expect(one.errors.join('\n')).toMatch(aloud);
  });

  it.each(KINDS)('cannot be started when the package lost their file, and the error says why: %s', async (kind) => {
    const one = await program(
      `const box = make('work.mjs', { kind: '${kind}', size: 1 });
       await box.run(job({ do: 'echo' }), context).catch((error) => console.log(error.message, box.stats().children));`,
      [],
      false,
    );
    expect((await one.ended).code).toBe(0);
    expect(one.lines).toEqual([
      'EMQ_INPUT the part of echomq that runs processors was not found (bundled?): leave echomq out of the bundle 0',
    ]);
  });
});
