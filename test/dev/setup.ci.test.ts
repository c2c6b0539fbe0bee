/**
 * Setting a clean checkout up, as `npm test` and `npm run demo` do: everything the first time, nothing and no network
 * the second time, one line where something is missing, and the closing line of a test run. Installs the dependencies
 * once more, so it needs the registry and takes a while.
 */
import { execFile, execFileSync } from 'node:child_process';
import { cp, mkdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT, freshFolder } from './support.js';

interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs one of the scripts of the checkout. */
function node(checkout: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<Ran> {
  // Not as a child of vitest or of npm: their settings would leak into it.
  const inherited = Object.entries(process.env).filter(([name]) => !/^(VITEST|npm_|NODE_ENV$|TEST$)/.test(name));
  return new Promise((resolve) => {
    const options = { cwd: checkout, env: { ...Object.fromEntries(inherited), ...env }, maxBuffer: 1 << 26 };
    execFile(process.execPath, args, options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }),
    );
  });
}

/** What git would check out, with the changes of this work tree. */
async function checkOut(): Promise<string> {
  const checkout = await freshFolder();
  const listed = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' });
  for (const file of listed.split('\0').filter((name) => name !== '')) {
    await mkdir(dirname(join(checkout, file)), { recursive: true });
    // A file that is listed and was deleted is not there to be copied.
    await cp(join(ROOT, file), join(checkout, file)).catch(() => {});
  }
  return checkout;
}

const SETUP = ['scripts/setup.mjs'];
/** A network that is not there. */
const OFFLINE = Object.fromEntries(
  ['http_proxy', 'https_proxy', 'npm_config_proxy', 'npm_config_https_proxy'].map((name) => [
    name,
    'http://127.0.0.1:9',
  ]),
);

describe('a clean checkout', () => {
  it('is set up once, then left alone', { timeout: 600_000 }, async () => {
    const checkout = await checkOut();
    const first = await node(checkout, SETUP);
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toMatch(
      /^installing dependencies.*\nbuilt src\/wire\/scripts\.generated\.ts\ncompiling dist.*\nbuilt \S+\/build\/trafikey\.so by /,
    );
    expect(await node(checkout, SETUP, OFFLINE)).toEqual({ code: 0, stdout: '', stderr: '' });

    // One thing is done again when that is what changed.
    const source = join(checkout, 'src', 'index.ts');
    await writeFile(source, `${await readFile(source, 'utf8')}\n`);
    expect(await node(checkout, SETUP, OFFLINE)).toEqual({ code: 0, stdout: 'compiling dist/ (tsc)\n', stderr: '' });

    // A source that does not compile: the compiler's words, then ours; and not only the first time.
    const before = await readFile(source, 'utf8');
    await writeFile(source, `${before}\nexport const wrong: number = 'text';\n`);
    for (const _time of [1, 2]) {
      const wrong = await node(checkout, SETUP, OFFLINE);
      expect(wrong.code).toBe(1);
      expect(wrong.stderr).toMatch(/src\/index\.ts.*error TS2322[^]*\nsetup: the TypeScript sources do not compile\n$/);
    }
    await writeFile(source, before);
    await node(checkout, SETUP, OFFLINE);

    // The closing line, alone, and the count file.
    const counts = join(checkout, 'counts');
    const tested = await node(checkout, ['scripts/test.mjs', 'quick', 'test/ids/'], { EMQ_COUNT_FILE: counts });
    expect(tested.code).toBe(0);
    expect(tested.stdout).toMatch(/\n[1-9]\d* passed, 0 failed\n$/);
    const passed = Number(/(\d+) passed, 0 failed\n$/.exec(tested.stdout)?.[1]);
    expect(JSON.parse(await readFile(counts, 'utf8'))).toMatchObject({ suite: 'quick', passed, failed: 0 });
    const none = await node(checkout, ['scripts/test.mjs', 'quick', 'no/such/test']);
    expect(none).toMatchObject({ code: 1, stdout: expect.stringMatching(/\n0 passed, 0 failed\n$/) as string });
    expect((await node(checkout, ['scripts/test.mjs', 'nonsense'])).code).toBe(2);

    // A host with nothing but Node.
    const bare = join(checkout, 'bare');
    await mkdir(bare);
    await symlink(process.execPath, join(bare, 'node'));
    const host = { PATH: bare, EMQ_HOME: join(checkout, 'home'), CC: '', VALKEY_SERVER: '' };
    expect(await node(checkout, SETUP, host)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^setup: no valkey-server found: .*VALKEY_SERVER.*\n$/) as string,
    });
    const future = new Date(Date.now() + 60_000);
    await utimes(join(checkout, 'module', 'trafikey.c'), future, future);
    expect(await node(checkout, SETUP, host)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^setup: no C compiler found: .*\n$/) as string,
    });
    await rm(join(checkout, 'node_modules', '.package-lock.json'));
    expect(await node(checkout, SETUP, host)).toMatchObject({
      code: 1,
      stderr: 'setup: npm is not on PATH: install it, or run this through npm\n',
    });
  });
});
