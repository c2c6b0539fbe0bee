/**
 * Puts the Lua scripts together: `lua/*.lua`, with the pieces of `lua/lib/` they include, become
 * `src/wire/scripts.generated.ts`.
 *
 * A line `-- @include lib/name` is replaced by `lua/lib/name.lua`, at its first mention in a script; further mentions,
 * in the script itself or in a piece, are dropped. A script's first line `#!lua ...` stays first.
 * Invariants: the output depends on the sources alone and is written only when it changed; an unknown, unused or
 * circular piece is an error and nothing is written. Does not: change or check the Lua (check.mjs does).
 * Runs before `npm install`: nothing but Node.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const MENTION = /^\s*--+\s*@include\b/;
const INCLUDE = /^-- @include (lib\/[a-z][a-z0-9_]*)$/;
const NAME = /^[a-z][a-z0-9_]*$/;

/**
 * @param {{ folder?: string, out?: string }} [paths] the folder of the scripts, the file to write
 * @returns {boolean} true when the file was written, false when it was up to date
 * @throws Error that names the file and what is wrong with it
 */
export function buildLua({ folder = join(ROOT, 'lua'), out = join(ROOT, 'src/wire/scripts.generated.ts') } = {}) {
  const used = new Set();
  const scripts = luaFiles(folder).map((name) => {
    if (!NAME.test(name)) throw new Error(`${name}.lua: the name of a script must be of a-z 0-9 _`);
    return { name, source: assemble(folder, name, used) };
  });
  if (scripts.length === 0) throw new Error(`there is no script in ${folder}`);
  const unused = luaFiles(join(folder, 'lib')).filter((name) => !used.has(`lib/${name}`));
  if (unused.length > 0) throw new Error(`lib/${unused[0]}.lua: no script includes it`);

  const text = moduleText(scripts);
  if (existsSync(out) && readFileSync(out, 'utf8') === text) return false;
  mkdirSync(dirname(out), { recursive: true });
  // By a rename: another process may be compiling the old one.
  writeFileSync(`${out}.${process.pid}`, text);
  renameSync(`${out}.${process.pid}`, out);
  return true;
}

function luaFiles(folder) {
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder).filter((file) => file.endsWith('.lua'));
  return files.map((file) => basename(file, '.lua')).sort();
}

/** The source of one script with its pieces in it. */
function assemble(folder, name, used) {
  const placed = new Set();
  const expand = (file, trail) => {
    const path = join(folder, `${file}.lua`);
    return read(path)
      .split('\n')
      .flatMap((line, at) => {
        const where = `${file}.lua:${at + 1}`;
        if (line.startsWith('#!') && (at > 0 || trail.length > 0)) {
          throw new Error(`${where}: only a script begins with "#!", on its first line`);
        }
        if (!MENTION.test(line)) return [line];
        const piece = INCLUDE.exec(line)?.[1];
        if (piece === undefined) throw new Error(`${where}: an include is written "-- @include lib/name"`);
        const path = [...trail, file];
        if (path.includes(piece)) throw new Error(`${where}: circular include: ${[...path, piece].join(' -> ')}`);
        if (!existsSync(join(folder, `${piece}.lua`))) throw new Error(`${where}: there is no ${piece}.lua`);
        used.add(piece);
        if (placed.has(piece)) return [];
        placed.add(piece);
        return expand(piece, path);
      });
  };
  return `${expand(name, []).join('\n')}\n`;
}

/** Without the last line's end, so that a piece leaves no empty line behind. */
function read(path) {
  return readFileSync(path, 'utf8').replace(/\n$/, '');
}

function moduleText(scripts) {
  const names = scripts.map(({ name }) => `'${name}'`).join(' | ');
  const entries = scripts.map(({ name, source }) => {
    const sha = createHash('sha1').update(source).digest('hex');
    return `  ${name}: {\n    name: '${name}',\n    sha: '${sha}',\n    source: ${JSON.stringify(source)},\n  },\n`;
  });
  return [
    '/** Written by scripts/build-lua.mjs from lua/. Does not: want to be edited. */\n',
    "import type { Script } from './call.js';\n\n",
    `export type ScriptName = ${names};\n\n`,
    '/** Every script, by the name of its file. */\n',
    `export const scripts: Readonly<Record<ScriptName, Script>> = {\n${entries.join('')}};\n`,
  ].join('');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    if (buildLua()) console.log('built src/wire/scripts.generated.ts');
  } catch (error) {
    console.error(`lua/${error.message}`);
    process.exitCode = 1;
  }
}
