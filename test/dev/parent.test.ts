/**
 * The embedded server dies with its parent, however the parent ends, and does not keep it alive. The parents are small
 * programs that print what they started and then end in one way or another.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { findServer } from '../../src/dev/index.js';
import { devPackage, freshFolder, isAlive, processesWith, shellProgram } from './support.js';

let server: string;

beforeAll(async () => {
  ({ path: server } = await findServer());
}, 120_000);

interface Started {
  pid: number;
  dir: string;
}

/** Runs a program that may use `startServer` and prints one line of JSON; gives back that line. */
async function parentThat(does: string): Promise<{ child: ChildProcess; started: Started }> {
  const folder = await devPackage();
  const program = join(folder, 'parent.mjs');
  await writeFile(
    program,
    `import { startServer } from './dev.mjs';
     const say = ({ pid, dir }) => console.log(JSON.stringify({ pid, dir }));
     ${does}`,
  );
  const child = spawn(process.execPath, [program, server], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { child, started: JSON.parse(line) as Started };
}

async function expectGone({ pid, dir }: Started): Promise<void> {
  await expect.poll(() => isAlive(pid), { timeout: 5000, interval: 10 }).toBe(false);
  await expect.poll(() => existsSync(dir), { timeout: 5000, interval: 10 }).toBe(false);
}

const START = 'const own = await startServer({ server: process.argv[2] }); say(own);';

describe('the server of a parent', () => {
  it.each(['SIGKILL', 'SIGTERM', 'SIGHUP'] as const)(
    'that was ended by %s is gone, with its folder',
    async (signal) => {
      const { child, started } = await parentThat(`${START} setInterval(() => {}, 1000);`);
      expect(isAlive(started.pid)).toBe(true);
      child.kill(signal);
      await once(child, 'exit');
      await expectGone(started);
    },
  );

  it('that exits without a word is gone', async () => {
    const { child, started } = await parentThat(`${START} process.exit(7);`);
    if (child.exitCode === null) await once(child, 'exit');
    expect(child.exitCode).toBe(7);
    await expectGone(started);
  });

  it('does not keep a parent alive that has nothing more to do', async () => {
    const { child, started } = await parentThat(START);
    if (child.exitCode === null) await once(child, 'exit');
    expect(child.exitCode).toBe(0);
    await expectGone(started);
  });

  it.each(['stop', 'kill'])('lets a parent that has nothing else to do wait for its %s', async (end) => {
    const { child, started } = await parentThat(`${START} await own.${end}(); await own.stop(); process.exitCode = 5;`);
    if (child.exitCode === null) await once(child, 'exit');
    expect(child.exitCode).toBe(5);
    await expectGone(started);
  });

  it('is gone after a restart too', async () => {
    const { child, started } = await parentThat(
      `const own = await startServer({ server: process.argv[2] }); await own.restart(); say(own); setInterval(() => {}, 1000);`,
    );
    child.kill('SIGKILL');
    await expectGone(started);
  });

  it('is gone too when its program is a wrapper that stays', async () => {
    const wrapper = await shellProgram(join(await freshFolder(), 'wrapper'), `"${server}" "$@"\nexit $?`);
    const { child, started } = await parentThat(
      `const own = await startServer({ server: ${JSON.stringify(wrapper)} }); say(own); setInterval(() => {}, 1000);`,
    );
    child.kill('SIGKILL');
    await expectGone(started);
    await expect.poll(() => processesWith(started.dir)).toEqual([]);
  });
});

describe('a package without a built module', () => {
  it('says how to build it', async () => {
    const { started } = await parentThat(
      `const error = await startServer({ server: process.argv[2], module: true }).catch((error) => error);
       console.log(JSON.stringify({ dir: error.message }));`,
    );
    expect(started.dir).toMatch(
      /^EMQ_INPUT the module is not built where it is looked for \(.*\): run "emq build-module"/,
    );
  });
});
