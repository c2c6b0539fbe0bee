/**
 * Putting the Lua scripts together: where a piece lands, what is refused, and that the result is what the server hashes.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { transform } from 'esbuild';
import { beforeEach, describe, expect, it } from 'vitest';
import { ROOT, freshFolder } from './support.js';

interface BuildLua {
  buildLua: (paths: { folder: string; out: string }) => boolean;
}

interface Script {
  name: string;
  sha: string;
  source: string;
}

// Plain JavaScript, since it runs before anything is installed.
const script: string = pathToFileURL(join(ROOT, 'scripts', 'build-lua.mjs')).href;
const { buildLua } = (await import(script)) as BuildLua;

let folder: string;
let out: string;

beforeEach(async () => {
  const parent = await freshFolder();
  folder = join(parent, 'lua');
  out = join(parent, 'out', 'scripts.ts');
});

async function write(files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, `${name}.lua`);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
}

/** Builds, and reads the result as a program would. */
async function built(files: Record<string, string>): Promise<Record<string, Script>> {
  await write(files);
  expect(buildLua({ folder, out })).toBe(true);
  const { code } = await transform(await readFile(out, 'utf8'), { loader: 'ts', format: 'esm' });
  const module = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(code)}`)) as {
    scripts: Record<string, Script>;
  };
  return module.scripts;
}

async function refusal(files: Record<string, string>): Promise<string> {
  await write(files);
  expect(() => buildLua({ folder, out })).toThrow();
  expect(existsSync(out)).toBe(false);
  try {
    buildLua({ folder, out });
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}

describe('a script', () => {
  it('is its own text and the SHA-1 of it, under the name of its file', async () => {
    const text = '#!lua flags=allow-oom\n-- says "hé" and \\n\nreturn 1\n';
    expect(await built({ claim_batch: text })).toEqual({
      claim_batch: { name: 'claim_batch', source: text, sha: createHash('sha1').update(text).digest('hex') },
    });
  });

  it('has a piece in the place of its first mention, once, with the pieces it needs before it', async () => {
    const scripts = await built({
      claim:
        '#!lua flags=allow-oom\n-- head\n-- @include lib/b\nlocal x\n-- @include lib/a\n-- @include lib/b\nreturn x\n',
      extend: '-- @include lib/a\nreturn 2\n',
      'lib/a': 'local a = 1\n',
      'lib/b': '-- @include lib/a\nlocal b = a\n',
    });
    expect(scripts['claim']?.source).toBe(
      '#!lua flags=allow-oom\n-- head\nlocal a = 1\nlocal b = a\nlocal x\nreturn x\n',
    );
    expect(scripts['extend']?.source).toBe('local a = 1\nreturn 2\n');
  });

  it('takes no file but .lua ones', async () => {
    await write({ claim: 'return 1\n' });
    await writeFile(join(folder, 'notes.md'), 'no script');
    expect(Object.keys(await built({}))).toEqual(['claim']);
  });
});

describe('the output', () => {
  it('is written only when it changed', async () => {
    await built({ claim: 'return 1\n' });
    const { mtimeMs, ino } = await stat(out);
    expect(buildLua({ folder, out })).toBe(false);
    expect(await stat(out)).toMatchObject({ mtimeMs, ino });
    await write({ claim: 'return 2\n' });
    expect(buildLua({ folder, out })).toBe(true);
  });

  it('of the project is up to date and holds every script', async () => {
    const generated = await readFile(join(ROOT, 'src/wire/scripts.generated.ts'), 'utf8');
    expect(buildLua({ folder: join(ROOT, 'lua'), out })).toBe(true);
    expect(await readFile(out, 'utf8')).toBe(generated);
  });
});

describe('a refusal', () => {
  it.each([
    ['an unknown piece', { claim: '\n-- @include lib/none\n' }, 'claim.lua:2: there is no lib/none.lua'],
    [
      'an unknown piece of a piece',
      { claim: '-- @include lib/a\n', 'lib/a': '-- @include lib/b\n' },
      'lib/a.lua:1: there is no lib/b.lua',
    ],
    ['an unused piece', { claim: 'return 1\n', 'lib/a': '\n' }, 'lib/a.lua: no script includes it'],
    [
      'a circle',
      { claim: '-- @include lib/a\n', 'lib/a': '-- @include lib/b\n', 'lib/b': '\n\n-- @include lib/a\n' },
      'lib/b.lua:3: circular include: claim -> lib/a -> lib/b -> lib/a',
    ],
    [
      'a piece that includes itself',
      { claim: '-- @include lib/a\n', 'lib/a': '-- @include lib/a\n' },
      'lib/a.lua:1: circular include: claim -> lib/a -> lib/a',
    ],
    [
      'another way to write it',
      { claim: '-- @include lib/a.lua\n', 'lib/a': '\n' },
      'claim.lua:1: an include is written "-- @include lib/name"',
    ],
    ['no space after the dashes', { claim: '--@include lib/a\n', 'lib/a': '\n' }, 'claim.lua:1: an include is written'],
    ['a piece outside of lib', { claim: '-- @include other\n', other: '\n' }, 'claim.lua:1: an include is written'],
    [
      'a "#!" in a piece',
      { claim: '-- @include lib/a\n', 'lib/a': '#!lua\n' },
      'lib/a.lua:1: only a script begins with "#!"',
    ],
    ['a "#!" that is not first', { claim: '\n#!lua\n' }, 'claim.lua:2: only a script begins with "#!"'],
    [
      'a name that is none',
      { 'claim-batch': 'return 1\n' },
      'claim-batch.lua: the name of a script must be of a-z 0-9 _',
    ],
    ['no script', { 'lib/a': '\n' }, 'there is no script in'],
  ])('names the place of %s and writes nothing', async (_what, files, message) => {
    expect(await refusal(files as Record<string, string>)).toContain(message);
  });
});
