/**
 * Which server is found, in which order, and what is said where there is none. No network: apt-get is a stand-in,
 * but where the system's own reads the system's own kind of sources.
 */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { onPath } from '../../src/dev/command.js';
import { debianSuite, systemMirror } from '../../src/dev/fetch.js';
import { findServer, homeFolder } from '../../src/dev/index.js';
import { freshFolder, shellProgram } from './support.js';

const SERVER = 'echo "Valkey server v=8.0.1"';
let folder: string;
let bin: string;
let home: string;

beforeEach(async () => {
  folder = await freshFolder();
  bin = join(folder, 'bin');
  home = join(folder, 'home');
  await mkdir(bin);
  vi.stubEnv('PATH', bin);
  vi.stubEnv('EMQ_HOME', home);
  vi.stubEnv('VALKEY_SERVER', undefined);
});

afterEach(() => {
  vi.unstubAllEnvs();
});

const fetched = (suite: string): string => join(home, `valkey-${suite}-${process.arch}`, 'bin', 'valkey-server');

describe('findServer', () => {
  it('takes the option, then VALKEY_SERVER, then PATH, then our folder', async () => {
    const suite = await debianSuite();
    const option = await shellProgram(join(folder, 'a', 'some-server'), SERVER);
    const variable = await shellProgram(join(folder, 'b', 'other-server'), SERVER);
    const onPath = await shellProgram(join(bin, 'valkey-server'), SERVER);
    const own = await shellProgram(fetched(suite ?? 'trixie'), SERVER);
    vi.stubEnv('VALKEY_SERVER', variable);

    expect(await findServer({ server: option })).toEqual({ path: option, from: 'option' });
    expect(await findServer()).toEqual({ path: variable, from: 'environment' });
    vi.stubEnv('VALKEY_SERVER', undefined);
    expect(await findServer()).toEqual({ path: onPath, from: 'path' });
    await rm(onPath);
    // Only a Debian has a suite of its own.
    if (suite !== undefined) expect(await findServer()).toEqual({ path: own, from: 'folder' });
    else await expect(findServer()).rejects.toMatchObject({ code: 'EMQ_INPUT' });
  });

  it('takes a suite that is asked for from our folder, whatever else there is', async () => {
    await shellProgram(join(bin, 'valkey-server'), SERVER);
    vi.stubEnv('VALKEY_SERVER', join(bin, 'valkey-server'));
    const own = await shellProgram(fetched('forky'), SERVER);
    expect(await findServer({ suite: 'forky' })).toEqual({ path: own, from: 'folder' });
  });

  it.each([
    ['the option', { server: '/nonexistent/valkey-server' }, 'the option server names /nonexistent/valkey-server'],
    ['a folder', { server: '/' }, 'the option server names /, '],
    ['a suite that leaves our folder', { suite: '../trixie' }, 'suite "../trixie" must be a Debian suite'],
  ])('refuses %s that cannot be run', async (_what, options, reason) => {
    await expect(findServer(options)).rejects.toMatchObject({
      code: 'EMQ_INPUT',
      reason: expect.stringContaining(reason) as string,
    });
  });

  it('refuses a VALKEY_SERVER that cannot be run, though PATH has one', async () => {
    await shellProgram(join(bin, 'valkey-server'), SERVER);
    const file = join(folder, 'not-a-program');
    await writeFile(file, '');
    vi.stubEnv('VALKEY_SERVER', file);
    await expect(findServer()).rejects.toThrow(`EMQ_INPUT VALKEY_SERVER names ${file}, which is not a program`);
  });

  it('says in one line what to install where there is none and no apt-get', async () => {
    const error = (await findServer().catch((error: unknown) => error)) as Error;
    expect(error).toMatchObject({ code: 'EMQ_INPUT' });
    expect(error.message).toMatch(/no valkey-server found: .*install valkey.*VALKEY_SERVER/);
    expect(error.message).not.toContain('\n');
  });

  it('fetches nothing when told not to', async () => {
    const marker = join(folder, 'called');
    await shellProgram(join(bin, 'apt-get'), `: > ${marker}`);
    await shellProgram(join(bin, 'dpkg-deb'), `: > ${marker}`);
    await expect(findServer({ suite: 'trixie', fetch: false })).rejects.toMatchObject({ code: 'EMQ_INPUT' });
    expect(existsSync(marker)).toBe(false);
  });
});

/** A line of what `apt-get update --print-uris` prints. */
const listed = (uri: string, suite = 'stable'): string => `'${uri}/dists/${suite}/main/binary-amd64/Packages.xz' x 0`;

describe('a fetch that fails', () => {
  it('says why and what else to do, and leaves nothing behind', async () => {
    await shellProgram(
      join(bin, 'apt-get'),
      `case "$*" in *--print-uris) echo "${listed('http://mirror.invalid/debian')}";; *) echo "E: the mirror is away" >&2; exit 100;; esac`,
    );
    await shellProgram(join(bin, 'dpkg-deb'), 'exit 1');
    const lines: string[] = [];
    await expect(findServer({ suite: 'trixie', log: (line) => lines.push(line) })).rejects.toMatchObject({
      code: 'EMQ_CONNECTION',
      reason: expect.stringMatching(/the mirror is away.*apt-get install valkey-server/) as string,
    });
    expect(lines).toEqual([`fetching Valkey (trixie) into ${join(home, `valkey-trixie-${process.arch}`)}`]);
    expect(await readdir(home)).toEqual([]);
  });

  it('says when the sources of the system name no Debian mirror', async () => {
    await shellProgram(join(bin, 'apt-get'), `echo "${listed('http://vendor.invalid/apt', 'nodistro')}"`);
    await shellProgram(join(bin, 'dpkg-deb'), 'exit 1');
    await expect(findServer({ suite: 'trixie' })).rejects.toMatchObject({
      code: 'EMQ_INPUT',
      reason: expect.stringContaining('name no Debian mirror') as string,
    });
  });

  it('says when our folder cannot be written', async () => {
    await writeFile(home, 'a file');
    await shellProgram(join(bin, 'apt-get'), `echo "${listed('http://mirror.invalid/debian')}"`);
    await shellProgram(join(bin, 'dpkg-deb'), 'exit 1');
    await expect(findServer({ suite: 'trixie' })).rejects.toMatchObject({
      code: 'EMQ_INPUT',
      reason: expect.stringContaining('set EMQ_HOME') as string,
    });
  });
});

const realApt = await onPath('apt-get');

describe.runIf(realApt !== undefined)('the mirror of the system', () => {
  const VENDOR = ['deb http://vendor.invalid/apt stable main', 'deb-src http://wrong.invalid/debian stable main'];

  it.each([
    [
      'one-line',
      'x.list',
      ['# deb http://old.invalid/debian stable main', 'deb http://one.invalid/debian stable main'],
    ],
    [
      'deb822',
      'x.sources',
      ['Types: deb', 'URIs: http://one.invalid/debian', 'Suites: stable stable-updates', 'Components: contrib main'],
    ],
  ])('is read from %s sources', async (_format, name, lines) => {
    const parts = join(folder, 'parts');
    await mkdir(parts);
    await writeFile(join(folder, 'sources.list'), `${VENDOR.join('\n')}\n`);
    await writeFile(join(parts, name), `${lines.join('\n')}\n`);
    const conf = join(folder, 'apt.conf');
    await writeFile(
      conf,
      `Dir::Etc::sourcelist "${join(folder, 'sources.list')}";\nDir::Etc::sourceparts "${parts}";\n`,
    );
    vi.stubEnv('APT_CONFIG', conf);
    vi.stubEnv('PATH', join(realApt!, '..'));
    expect(await systemMirror()).toBe('http://one.invalid/debian');
  });
});

describe('our folder', () => {
  it('is EMQ_HOME, else in XDG_CACHE_HOME, else in ~/.cache', () => {
    expect(homeFolder()).toBe(home);
    vi.stubEnv('EMQ_HOME', undefined);
    vi.stubEnv('XDG_CACHE_HOME', folder);
    expect(homeFolder()).toBe(join(folder, 'echomq'));
    vi.stubEnv('XDG_CACHE_HOME', undefined);
    expect(homeFolder()).toBe(join(homedir(), '.cache', 'echomq'));
  });
});
