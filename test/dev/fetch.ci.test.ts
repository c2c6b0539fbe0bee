/**
 * Really fetching a Valkey from Debian: without root, by several at once, another suite than the system's, and ended
 * half-way. Needs a Debian and its mirror; each fetch takes some seconds.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, copyFile, mkdir, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { debianSuite } from '../../src/dev/fetch.js';
import { findServer, startServer } from '../../src/dev/index.js';
import { ask, devPackage, freshFolder } from './support.js';

/** A user that owns nothing, where this is root. */
const NOBODY = process.getuid?.() === 0 ? 65_534 : undefined;

let home: string;

beforeEach(async () => {
  const parent = await freshFolder();
  await chmod(parent, 0o755);
  home = join(parent, 'home');
  vi.stubEnv('EMQ_HOME', home);
  vi.stubEnv('VALKEY_SERVER', undefined);
});

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Runs `findServer` in a process of its own, without root, and gives back what it found. */
async function findElsewhere(program: string): Promise<unknown> {
  const ids = NOBODY === undefined ? {} : { uid: NOBODY, gid: NOBODY };
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'], cwd: home, ...ids });
  const [said] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return JSON.parse(said);
}

describe('a fetch', () => {
  it('works without root, by three at once, and is then there without a network', { timeout: 120_000 }, async () => {
    const suite = await debianSuite();
    expect(suite, 'this test needs a Debian').toBeDefined();
    await mkdir(home);
    if (NOBODY !== undefined) await chown(home, NOBODY, NOBODY);
    // In a place that everyone may read; only what the search needs, so no dependency has to be found.
    const program = join(dirname(home), 'find.mjs');
    await copyFile(join(await devPackage('find.ts'), 'dev.mjs'), join(dirname(home), 'dev.mjs'));
    await writeFile(
      program,
      `import { findServer } from './dev.mjs';
       console.log(JSON.stringify(await findServer({ suite: ${JSON.stringify(suite)} })));`,
    );
    const path = join(home, `valkey-${suite}-${process.arch}`, 'bin', 'valkey-server');
    const found = await Promise.all([1, 2, 3].map(() => findElsewhere(program)));
    expect(found).toEqual([1, 2, 3].map(() => ({ path, from: 'fetched' })));
    expect(await readdir(home)).toEqual([`valkey-${suite}-${process.arch}`]);

    // No apt-get and no mirror any more.
    vi.stubEnv('PATH', home);
    expect(await findServer({ suite })).toEqual({ path, from: 'folder' });
    expect(await findServer()).toEqual({ path, from: 'folder' });
    vi.unstubAllEnvs();
    await using server = await startServer({ server: path, module: true });
    expect(await ask(server.socketPath, 'GET', '{emq}:version')).toBe('echomq:6.0.0');
  });

  it.each([
    ['trixie', /^8\.1\./],
    ['forky', /^9\./],
  ])(
    'brings the Valkey of %s, whatever this system is, and the module loads',
    { timeout: 120_000 },
    async (suite, version) => {
      await using server = await startServer({ suite, module: true });
      expect(server.version).toMatch(version);
      const modules = (await ask(server.socketPath, 'MODULE', 'LIST')) as unknown[][];
      expect(modules.map((module) => module[1])).toContain('trafikey');
      expect(await ask(server.socketPath, 'EVAL', 'return 1 + 1', '0')).toBe(2);
    },
  );

  it('that is aborted leaves nothing', { timeout: 120_000 }, async () => {
    const abort = new AbortController();
    const finding = findServer({ suite: 'trixie', signal: abort.signal }).catch((error: unknown) => error);
    await expect.poll(() => readdir(home).catch(() => [])).toHaveLength(1);
    abort.abort();
    expect(await finding).toMatchObject({ code: 'EMQ_CLOSED' });
    expect(await readdir(home)).toEqual([]);
  });

  it('of a suite that there is not is refused in words', { timeout: 120_000 }, async () => {
    await expect(findServer({ suite: 'nosuchsuite' })).rejects.toMatchObject({
      code: 'EMQ_CONNECTION',
      reason: expect.stringContaining('nosuchsuite') as string,
    });
    expect(await readdir(home)).toEqual([]);
  });
});
