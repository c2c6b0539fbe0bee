/**
 * The counts behind the line `N passed, N failed`: what cannot run must not look as if it had passed. Vitest runs in a
 * process of its own over a folder of small test files.
 */
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { ROOT, freshFolder } from './support.js';

const REPORTER = pathToFileURL(join(ROOT, 'scripts', 'count-reporter.mjs')).href;
const HEAD = `import { beforeAll, describe, expect, it } from 'vitest';\n`;

/** Runs these files and gives back the counts and the exit code that vitest chose. */
async function counts(files: Record<string, string>): Promise<unknown> {
  const folder = await freshFolder(join(ROOT, 'node_modules', '.cache'));
  await mkdir(join(folder, 'test'));
  for (const [name, text] of Object.entries(files))
    await writeFile(join(folder, 'test', `${name}.test.ts`), HEAD + text);
  const program = join(folder, 'run.mjs');
  await writeFile(
    program,
    `import { startVitest } from 'vitest/node';
     import { CountReporter } from '${REPORTER}';
     const counts = new CountReporter();
     const options = { root: import.meta.dirname, config: false, run: true, watch: false, reporters: [counts] };
     await startVitest('test', [], { ...options, include: ['test/*.test.ts'], exclude: [] });
     const { passed, failed, notRun } = counts;
     console.log(JSON.stringify({ passed, failed, notRun, code: process.exitCode ?? 0 }));
     process.exitCode = 0;`,
  );
  // Without what this vitest tells its own workers.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('VITEST')));
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env });
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
}

describe('the counts', () => {
  it('are of test cases, nested ones and all', async () => {
    const one = `it('a', () => {}); describe('d', () => { it('b', () => {}); describe('e', () => { it('c', () => { expect(1).toBe(2); }); }); });`;
    const two = `it.runIf(false)('s', () => {}); it('u', ({ skip }) => skip()); it('d', () => {});`;
    expect(await counts({ one, two })).toEqual({ passed: 3, failed: 1, notRun: 2, code: 1 });
  });

  it('hold a file that does not load as a failure', async () => {
    const files = { good: `it('a', () => {});`, broken: `import './nothing.js';`, thrown: `throw new Error('x');` };
    expect(await counts(files)).toEqual({ passed: 1, failed: 2, notRun: 0, code: 1 });
  });

  it('hold a set-up that throws and an error outside every test as failures', async () => {
    const setUp = `describe('d', () => { beforeAll(() => { throw new Error('x'); }); it('a', () => {}); });`;
    const outside = `it('b', async () => { void Promise.reject(new Error('y')); await new Promise((done) => setImmediate(done)); });`;
    expect(await counts({ setUp, outside })).toEqual({ passed: 1, failed: 2, notRun: 1, code: 1 });
  });

  it('are nought where nothing ran', async () => {
    expect(await counts({})).toEqual({ passed: 0, failed: 0, notRun: 0, code: 1 });
  });
});
