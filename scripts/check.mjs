/**
 * The gate, `npm run check`: layout, lint and types of TypeScript, C and Lua, and the rules of the house, in one command.
 *
 * Each step prints one line: `ok`, `failed` with what it found behind it, or `not run` with the tool that is missing.
 * A missing tool fails the gate only where `CI` is set, so that a contributor without clang can still use the rest.
 * `--fix` lets the formatters and eslint mend what they can first. Exit code 0 or 1.
 *
 * Does not: run tests, build the package or install anything. Works on what git knows or would add, so ignored folders and
 * built files are out of its sight.
 */
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, homedir, tmpdir } from 'node:os';
import { basename, dirname, extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const CI = !['', '0', 'false'].includes(process.env.CI ?? '');
const MAX_LINES = 500;
const MAX_COLUMNS = 120;
const GENERATED_SCRIPTS = 'src/wire/scripts.generated.ts';
const C_FLAGS = ['-std=c11', '-Wall', '-Wextra', '-Wconversion', '-fvisibility=hidden', '-fPIC'];

// ---- running things -------------------------------------------------------------------------------------------------

let free = availableParallelism();
const waiting = [];

/** Runs a program, at most one for each core at a time. `missing` is true when it is not on this machine. */
async function run(command, args) {
  if (free === 0) await new Promise((resolve) => waiting.push(resolve));
  else free -= 1;
  try {
    return await new Promise((resolve, reject) => {
      const child = spawn(command, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] });
      let output = '';
      child.stdout.on('data', (chunk) => (output += chunk));
      child.stderr.on('data', (chunk) => (output += chunk));
      child.on('error', (error) => (error.code === 'ENOENT' ? resolve({ missing: true }) : reject(error)));
      child.on('close', (code) => resolve({ ok: code === 0, output: output.trim() }));
    });
  } finally {
    const next = waiting.shift();
    if (next) next();
    else free += 1;
  }
}

/** A tool that `npm install` puts here. */
function runOwn(script, args) {
  return run(process.execPath, [join('node_modules', script), ...args]);
}

class NotRun extends Error {}

/** A step of one program: its output is the finding. */
async function pass(command, args, { own = false } = {}) {
  const result = await (own ? runOwn(command, args) : run(command, args));
  if (result.missing) throw new NotRun(`${command} is not on this machine`);
  return result.ok ? [] : [result.output || `${command} ended with an error and said nothing`];
}

// ---- what is looked at ----------------------------------------------------------------------------------------------

const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: ROOT, encoding: 'utf8' })
  .split('\0')
  .filter((file) => file !== '' && statSync(join(ROOT, file), { throwIfNoEntry: false })?.isFile());

function having(...extensions) {
  return files.filter((file) => extensions.includes(extname(file)));
}

const texts = new Map();
function read(file) {
  if (!texts.has(file)) texts.set(file, readFileSync(join(ROOT, file), 'utf8'));
  return texts.get(file);
}

const cSources = having('.c');
/** The module keeps to C11; its tests are for Linux, and use what that has. */
const cFlags = (file) => (file.startsWith('module/') ? C_FLAGS : [...C_FLAGS, '-D_GNU_SOURCE']);
const codeFiles = having('.ts', '.mts', '.cts', '.tsx', '.js', '.mjs', '.cjs');
const sourceFiles = [...codeFiles, ...having('.c', '.h', '.lua')];

// ---- Lua ------------------------------------------------------------------------------------------------------------

/** Layout of the pieces, which no formatter looks after: width, tabs, trailing blanks, the end of the file. */
function luaLayout() {
  const found = [];
  for (const file of having('.lua')) {
    const text = read(file);
    if (!text.endsWith('\n') || text.endsWith('\n\n')) found.push(`${file}: must end with one line feed`);
    for (const [at, line] of text.split('\n').entries()) {
      const say = (what) => found.push(`${file}:${at + 1}: ${what}`);
      if (line.length > MAX_COLUMNS) say(`${line.length} columns, at most ${MAX_COLUMNS}`);
      if (line.includes('\t')) say('a tab');
      if (/[ \r]$/.test(line)) say('a blank at the end of the line');
    }
  }
  return found;
}

/** The scripts as the build step assembled them: [{ name, source }]. */
async function assembledScripts(folder) {
  const { transform } = await import('esbuild');
  const { code } = await transform(readFileSync(join(ROOT, GENERATED_SCRIPTS), 'utf8'), {
    loader: 'ts',
    format: 'esm',
  });
  const plain = join(folder, 'scripts.mjs');
  writeFileSync(plain, code);
  const scripts = [];
  const collect = (value, key) => {
    if (typeof value !== 'object' || value === null) return;
    if (typeof value.source === 'string') scripts.push({ name: value.name ?? key, source: value.source });
    else for (const [inner, item] of Object.entries(value)) collect(item, inner);
  };
  collect({ ...(await import(pathToFileURL(plain).href)) }, '');
  return [...new Map(scripts.map((script) => [script.name, script])).values()];
}

/**
 * luacheck over the assembled scripts. A shared piece offers more than each script takes, so a local that is never used
 * is a finding only if no script that holds it uses it.
 */
async function luaLint() {
  const folder = mkdtempSync(join(tmpdir(), 'emq-check-'));
  try {
    const scripts = await assembledScripts(folder);
    if (scripts.length === 0) return [`${GENERATED_SCRIPTS} holds no script`];
    for (const { name, source } of scripts) writeFileSync(join(folder, `${name}.lua`), source);
    const paths = scripts.map(({ name }) => join(folder, `${name}.lua`));
    const result = await run('luacheck', [
      '--config',
      '.luacheckrc',
      '--codes',
      '--no-color',
      '--formatter',
      'plain',
      ...paths,
    ]);
    if (result.missing) throw new NotRun('luacheck is not on this machine');
    const found = [];
    const unused = new Map();
    for (const line of result.output.split('\n').filter((text) => text !== '')) {
      const local = /\(W211\) unused (?:function|variable) '(\w+)'/.exec(line)?.[1];
      if (local === undefined) found.push(line.replace(folder, 'assembled'));
      else unused.set(local, (unused.get(local) ?? 0) + 1);
    }
    for (const [local, times] of unused) {
      const declared = new RegExp(`^ *local (?:function )?(?:\\w+, *)*${local}\\b`, 'm');
      const holders = scripts.filter(({ source }) => declared.test(source)).map(({ name }) => name);
      if (times >= holders.length) found.push(`${local} is used by no script that holds it: ${holders.join(', ')}`);
    }
    return found;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

// ---- C --------------------------------------------------------------------------------------------------------------

function cLayout() {
  return pass('clang-format', ['--dry-run', '-Werror', ...having('.c', '.h')]);
}

/** One process a file, so that all cores take part. Headers are looked at through the sources that include them. */
async function eachSource(command, argsOf) {
  if (cSources.length === 0) return ['no C source: a check of nothing is no check'];
  const found = await Promise.all(cSources.map((file) => pass(command, argsOf(file))));
  return found.flat();
}

function cCompile(compiler) {
  // With optimisation, since several warnings come from its analysis; the code itself is thrown away.
  return eachSource(compiler, (file) => [...cFlags(file), '-Werror', '-O2', '-c', '-o', '/dev/null', file]);
}

function cUnreached() {
  const included = new Set(
    cSources
      .concat(having('.h'))
      .flatMap((file) => [...read(file).matchAll(/^#include "(.+)"/gm)].map((m) => basename(m[1]))),
  );
  return having('.h')
    .filter((file) => !included.has(basename(file)))
    .map((file) => `${file}: included by no source, so nothing checks it`);
}

// ---- the rules of the house -----------------------------------------------------------------------------------------

function sizeAndHeader() {
  const found = [];
  for (const file of sourceFiles) {
    const text = read(file);
    const lines = text.split('\n').length - 1;
    if (lines > MAX_LINES) found.push(`${file}: ${lines} lines, at most ${MAX_LINES}`);
    const start = text.replace(/^#!.*\n/, '').trimStart();
    const header = file.endsWith('.lua') ? start.startsWith('--') : /^\/[*/]/.test(start);
    if (!header) found.push(`${file}: no header comment (purpose, invariants, what it does not do)`);
  }
  return found;
}

function names() {
  return files
    .filter((file) => file.split('/').some((part) => /^utils?(\.|$)/i.test(part)))
    .map((file) => `${file}: name it after what it does`);
}

/** Lines of `list` on which `pattern` stands. */
function linesWith(list, pattern, what) {
  return list.flatMap((file) =>
    read(file)
      .split('\n')
      .flatMap((line, at) => (pattern.test(line) ? [`${file}:${at + 1}: ${what}`] : [])),
  );
}

function unfinished() {
  // The patterns are spelt so that they do not find themselves here.
  const prose = files.filter((file) => file !== 'package-lock.json' && !read(file).includes('\0'));
  return [
    ...linesWith(codeFiles, /\.(only|skip|todo)(\.\w+)?\(/, 'a test that is left out, or leaves others out'),
    ...linesWith(prose, /\b(TO[D]O|FIX[M]E|XX[X])\b/, 'something unfinished: end it or open an issue'),
  ];
}

/** Hosts of the package sources that this machine uses. They differ from machine to machine and may be private. */
function machineHosts() {
  const npm = execFileSync('npm', ['config', 'get', 'registry'], { cwd: ROOT, encoding: 'utf8' });
  const apt = ['/etc/apt/sources.list']
    .concat(folder('/etc/apt/sources.list.d').filter((file) => /\.(list|sources)$/.test(file)))
    .filter((file) => existsSync(file))
    .map((file) => readFileSync(file, 'utf8').replace(/^\s*#.*$/gm, ''));
  const urls = [npm, ...apt].join('\n').matchAll(/\b[a-z+]+:\/\/(?:[^/\s@]*@)?([^/:\s]+)/g);
  return [...new Set([...urls].map(([, host]) => host))];
}

function folder(path) {
  return existsSync(path) ? readdirSync(path).map((name) => join(path, name)) : [];
}

function machine() {
  const escape = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  // A checkout may lie right below a folder that every machine has.
  const common = ['/', '/tmp', '/var/tmp', '/home', '/opt', '/srv', '/usr', '/var', tmpdir()];
  const places = [...new Set([ROOT, dirname(ROOT), homedir()])].filter((path) => !common.includes(path));
  const path = new RegExp(`(?<![\\w.~$})-])(?:${places.map(escape).join('|')})(?=[/\\s'"\`)\\],;]|$)`);
  const host = new RegExp(`(?<![\\w-])(?:${machineHosts().map(escape).join('|')})(?![\\w-])`);
  return [
    ...linesWith(files, host, 'the host of a package source of this machine'),
    ...linesWith(files, path, 'a path of this machine'),
    ...linesWith(sourceFiles, /["'`]\/tm[p]\//, 'a fixed temporary folder: use os.tmpdir()'),
  ];
}

// ---- the steps ------------------------------------------------------------------------------------------------------

const steps = [
  ['layout: prettier', () => pass('prettier/bin/prettier.cjs', ['--check', '--log-level', 'warn', '.'], { own: true })],
  ['lint: eslint', () => pass('eslint/bin/eslint.js', ['--max-warnings', '0', '.'], { own: true })],
  ['types: tsc', () => pass('typescript/bin/tsc', ['--noEmit', '--pretty', 'false'], { own: true })],
  ['layout: clang-format', cLayout],
  ['lint: clang-tidy', () => eachSource('clang-tidy', (file) => ['--quiet', file, '--', ...cFlags(file)])],
  ['types: gcc', () => cCompile('gcc')],
  ['types: clang', () => cCompile('clang')],
  ['layout: lua', luaLayout],
  ['lint: luacheck', luaLint],
  ['house: size and header', () => [...sizeAndHeader(), ...cUnreached()]],
  ['house: names', names],
  ['house: nothing unfinished', unfinished],
  ['house: nothing of this machine', machine],
];

async function fix() {
  await pass('eslint/bin/eslint.js', ['--fix', '.'], { own: true });
  await pass('prettier/bin/prettier.cjs', ['--write', '--log-level', 'warn', '.'], { own: true });
  await run('clang-format', ['-i', ...having('.c', '.h')]);
}

async function attempt(check) {
  try {
    const found = await check();
    return { status: found.length === 0 ? 'ok' : 'failed', found };
  } catch (error) {
    if (!(error instanceof NotRun)) return { status: 'failed', found: [error.stack] };
    if (CI) return { status: 'failed', found: [`${error.message}; in CI it must be`] };
    return { status: `not run: ${error.message}`, found: [] };
  }
}

async function main() {
  const start = performance.now();
  // The types, eslint and luacheck all need the assembled scripts.
  const built = await attempt(() => pass(process.execPath, ['scripts/build-lua.mjs']));
  if (process.argv.includes('--fix')) await fix();
  const results = [['scripts: build', built], ...steps.map(([name, check]) => [name, attempt(check)])];
  let failed = 0;
  let notRun = 0;
  for (const [name, pending] of results) {
    const { status, found } = await pending;
    console.log(`${name.padEnd(32)} ${status}`);
    for (const text of found) console.log(text.replace(/^/gm, '  '));
    if (status === 'failed') failed += 1;
    else if (status !== 'ok') notRun += 1;
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const verdict = failed === 0 ? 'ok' : `${failed} of ${results.length} steps failed`;
  console.log(`check: ${verdict}${notRun === 0 ? '' : `, ${notRun} not run`}, ${seconds} s`);
  process.exitCode = failed === 0 ? 0 : 1;
}

await main();
