/**
 * Building the module: each way by itself from the real sources, nothing downloaded, and when a build is not needed.
 * Where a tool is missing, the test of that way asks for its refusal instead.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { onPath } from '../../src/dev/command.js';
import { buildModule, startServer, type BuildWay } from '../../src/dev/index.js';
import { ask, freshFolder, shellProgram } from './support.js';

/** A whole module of one command, `small.hello`. The getter of the server's functions is the first word of the context. */
const SMALL = `
typedef int (*getapi_t)(const char *, void *);
static void (*set_attribs)(void *, const char *, int, int);
static int (*create_command)(void *, const char *, int (*)(void *, void **, int), const char *, int, int, int);
static int (*reply)(void *, const char *);
static int hello(void *ctx, void **argv, int argc) { (void)argv; (void)argc; return reply(ctx, "hello"); }
__attribute__((visibility("default"))) int ValkeyModule_OnLoad(void *ctx, void **argv, int argc);
int ValkeyModule_OnLoad(void *ctx, void **argv, int argc) {
  (void)argv; (void)argc;
  getapi_t get = ((getapi_t *)ctx)[0];
  if (get("ValkeyModule_SetModuleAttribs", (void *)&set_attribs) || get("ValkeyModule_CreateCommand", (void *)&create_command) ||
      get("ValkeyModule_ReplyWithSimpleString", (void *)&reply)) return 1;
  set_attribs(ctx, "small", 1, 1);
  return create_command(ctx, "small.hello", hello, "readonly", 0, 0, 0);
}
`;

let folder: string;
let out: string;

beforeEach(async () => {
  folder = await freshFolder();
  out = join(folder, 'out', 'trafikey.so');
});

afterEach(() => {
  vi.unstubAllEnvs();
});

/** A folder with one small source, or with the given ones. */
async function sourcesOf(files: Record<string, string> = { 'small.c': SMALL }): Promise<string> {
  const sources = join(folder, 'sources');
  await mkdir(sources);
  for (const [name, text] of Object.entries(files)) await writeFile(join(sources, name), text);
  return sources;
}

async function refusal(options: Parameters<typeof buildModule>[0]): Promise<string> {
  const error = (await buildModule(options).catch((error: unknown) => error)) as Error;
  expect(error).toMatchObject({ code: 'EMQ_INPUT' });
  return error.message;
}

describe('each way', () => {
  const WAYS: [BuildWay, string, string[]][] = [
    ['cmake', 'cmake-js', ['cmake']],
    ['gyp', 'node-gyp', ['python3', 'make']],
    ['cc', 'the C compiler', []],
  ];

  it.each(WAYS)('builds the module by %s, downloads nothing, and the server loads it', async (via, title, tools) => {
    // What a tool downloads it keeps at home; and it could not: the proxy is nobody.
    const home = join(folder, 'home');
    await mkdir(home);
    vi.stubEnv('HOME', home);
    vi.stubEnv('XDG_CACHE_HOME', undefined);
    for (const proxy of ['http_proxy', 'https_proxy', 'npm_config_proxy', 'npm_config_https_proxy']) {
      vi.stubEnv(proxy, 'http://127.0.0.1:9');
    }
    // A host may point to headers of Node's. They are not needed, so a wrong place does no harm.
    vi.stubEnv('npm_config_nodedir', join(folder, 'no-such-folder'));
    const lines: string[] = [];
    const missing = await Promise.all(tools.map(async (tool) => (await onPath(tool)) === undefined));
    if (missing.includes(true)) {
      expect(await refusal({ via, out })).toContain(`${title}: `);
      return;
    }

    expect(await buildModule({ via, out, log: (line) => lines.push(line) })).toEqual({ path: out, via });
    expect(lines).toEqual([`built ${out} by ${title}`]);
    expect(await readdir(join(folder, 'out'))).toEqual(['trafikey.so']);
    expect(existsSync(join(home, '.cmake-js')) || existsSync(join(home, '.cache', 'node-gyp'))).toBe(false);

    vi.unstubAllEnvs();
    await using server = await startServer({ module: out });
    expect((await ask(server.socketPath, 'COMMAND', 'INFO', 'EMQ.CLAIM')) as unknown[]).not.toEqual([null]);
  });

  it('is tried in turn, and what went wrong is told of each', async () => {
    const bin = join(folder, 'bin');
    const sources = await sourcesOf();
    const compiler = await shellProgram(join(bin, 'cc'), 'echo "small.c:1:1: error: not today"; exit 1');
    vi.stubEnv('PATH', bin);
    vi.stubEnv('CC', undefined);
    const message = await refusal({ sources, out });
    expect(message).toMatch(
      /^EMQ_INPUT the module could not be built\ncmake-js: .*no cmake.*\nnode-gyp: .*\nthe C compiler: /,
    );
    expect(message).toMatch(/the C compiler: small\.c:1:1: error: not today$/);
    expect(await readdir(join(folder, 'out'))).toEqual([]);
    await rm(compiler);
  });

  it('falls to the compiler alone where nothing else works', async () => {
    const sources = await sourcesOf();
    const compiler = (await onPath('cc')) ?? (await onPath('gcc')) ?? (await onPath('clang'));
    const bin = join(folder, 'bin');
    await shellProgram(join(bin, 'cc'), `PATH='${process.env['PATH']}' exec '${compiler}' "$@"`);
    vi.stubEnv('PATH', bin);
    vi.stubEnv('CC', undefined);
    expect(await buildModule({ sources, out })).toEqual({ path: out, via: 'cc' });
  });

  it('must be one that is known', async () => {
    expect(await refusal({ via: 'make' as BuildWay, out })).toBe('EMQ_INPUT via must be cmake, gyp or cc, not make');
  });
});

describe('a build', () => {
  it('is left out while the module is newer than each source and the folder', async () => {
    const sources = await sourcesOf({ 'small.c': SMALL, 'small.h': '' });
    const build = () => buildModule({ via: 'cc', sources, out });
    const past = new Date(Date.now() - 60_000);
    for (const path of [join(sources, 'small.c'), join(sources, 'small.h'), sources]) await utimes(path, past, past);
    expect(await build()).toEqual({ path: out, via: 'cc' });
    expect(await build()).toEqual({ path: out, via: undefined });
    expect(await buildModule({ via: 'cc', sources, out, force: true })).toEqual({ path: out, via: 'cc' });

    const future = new Date(Date.now() + 60_000);
    await utimes(join(sources, 'small.h'), future, future);
    expect(await build()).toEqual({ path: out, via: 'cc' });
    await utimes(join(sources, 'small.h'), past, past);
    expect(await build()).toEqual({ path: out, via: undefined });
    await rm(join(sources, 'small.h'));
    expect(await build()).toEqual({ path: out, via: 'cc' });
  });

  it('counts a source that changes while it compiles as newer', async () => {
    const sources = await sourcesOf();
    const compiler = (await onPath('cc')) ?? (await onPath('gcc')) ?? (await onPath('clang'));
    const touching = `sleep 0.05; echo >> '${join(sources, 'small.c')}'; exec '${compiler}' "$@"`;
    vi.stubEnv('CC', await shellProgram(join(folder, 'touching-cc'), touching));
    await buildModule({ via: 'cc', sources, out });
    const changed = (await stat(join(sources, 'small.c'))).mtimeMs;
    expect((await stat(out)).mtimeMs).toBeLessThan(changed);
  });

  it('that fails leaves the old module as it was', async () => {
    const sources = await sourcesOf();
    await buildModule({ via: 'cc', sources, out });
    const before = await readFile(out);
    await writeFile(join(sources, 'small.c'), `${SMALL}\nint wrong(long big);\nint wrong(long big) { return big; }\n`);
    expect(await refusal({ via: 'cc', sources, out, force: true })).toMatch(
      /^EMQ_INPUT the module could not be built\nthe C compiler: module\/small\.c:\d+:\d+: error: .*conversion/,
    );
    expect(await readFile(out)).toEqual(before);
    expect(await readdir(join(folder, 'out'))).toEqual(['trafikey.so']);
  });

  it('shows no symbol but the entry points', async () => {
    const sources = await sourcesOf({ 'small.c': `${SMALL}\nint inner(void);\nint inner(void) { return 1; }\n` });
    const { path } = await buildModule({ via: 'cc', sources, out });
    const library = (await readFile(path)).toString('latin1');
    // A visible symbol is named in two tables: the dynamic one and the one for debuggers.
    expect(library.split('\0ValkeyModule_OnLoad\0').length - 1).toBe(2);
    expect(library.split('\0inner\0').length - 1).toBeLessThanOrEqual(1);
  });

  it('takes the options and the wrapper that CC may hold', async () => {
    const sources = await sourcesOf({ 'small.c': `${SMALL}\n#ifndef ASKED\n#error not asked\n#endif\n` });
    vi.stubEnv('CC', `${(await onPath('cc')) ?? 'cc'} -DASKED`);
    expect(await buildModule({ via: 'cc', sources, out })).toEqual({ path: out, via: 'cc' });
  });

  it('without a compiler says what to install', async () => {
    const sources = await sourcesOf();
    vi.stubEnv('PATH', folder);
    vi.stubEnv('CC', undefined);
    const message = await refusal({ sources, out });
    expect(message).toMatch(/no C compiler found: .*install.*or set CC$/);
    expect(message).not.toContain('\n');
  });

  it('without sources says where they should be', async () => {
    const sources = await sourcesOf({ 'only.h': '' });
    expect(await refusal({ sources, out })).toBe(`EMQ_INPUT there is no C source in ${sources}`);
    expect(await refusal({ sources: join(folder, 'none'), out })).toContain('there is no C source in');
  });

  it('to a place that cannot be written is refused in words', async () => {
    const sources = await sourcesOf();
    await writeFile(join(folder, 'file'), '');
    const message = await refusal({ sources, out: join(folder, 'file', 'trafikey.so') });
    expect(message).toMatch(/^EMQ_INPUT the module cannot be written \(.*\): give another file/);
  });

  it('by two at once gives one whole module', async () => {
    const sources = await sourcesOf();
    await Promise.all([1, 2, 3].map(() => buildModule({ via: 'cc', sources, out, force: true })));
    await using server = await startServer({ module: out });
    expect(await ask(server.socketPath, 'small.hello')).toBe('hello');
    expect(await readdir(join(folder, 'out'))).toEqual(['trafikey.so']);
  });
});
