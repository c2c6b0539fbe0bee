/**
 * Building the module `trafikey` from its C sources: by cmake-js, by node-gyp, or by the C compiler alone.
 *
 * Invariants: each way compiles every `.c` of one folder with the same flags into one file, in a folder of its own
 * that is gone afterwards; the result appears under its name by one rename, so a server that starts meanwhile loads
 * the old one or the new one. Nothing is downloaded: the module needs no header of Node's, so cmake-js is told that
 * this is a Node-API package (it then has all it wants) and node-gyp is given a folder of settings in place of headers.
 * Does not: install a compiler, or load the result.
 */
import { copyFile, mkdir, mkdtemp, readFile, readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { inputError } from '../wire/errors.js';
import { lastLines, onPath, run, type Ran } from './command.js';
import { packageRoot } from './root.js';

export type BuildWay = 'cmake' | 'gyp' | 'cc';

export interface BuildModuleOptions {
  /** The one way to take. Default: cmake-js, else node-gyp, else the compiler alone, whichever works first. */
  readonly via?: BuildWay | undefined;
  /** The file to write. Default: `build/trafikey.so` of this package. */
  readonly out?: string | undefined;
  /** The folder of the C sources. Default: `module/` of this package. */
  readonly sources?: string | undefined;
  /** True builds even when the file is newer than every source. */
  readonly force?: boolean | undefined;
  /** Told in one line which way it went. */
  readonly log?: ((line: string) => void) | undefined;
}

export interface BuiltModule {
  /** The absolute path of the module. */
  readonly path: string;
  /** The way that was taken, or undefined when the file was new enough. */
  readonly via: BuildWay | undefined;
}

const FLAGS = ['-std=c11', '-O2', '-fPIC', '-Wall', '-Wextra', '-Werror', '-Wconversion', '-fvisibility=hidden'];
const NAME = 'trafikey.so';
/** All that node-gyp asks of Node's headers: a file of settings. */
const NO_HEADERS = `{ 'target_defaults': { 'default_configuration': 'Release', 'configurations': { 'Release': {} } } }\n`;

/**
 * Builds the module unless it is newer than its sources.
 *
 * @throws EmqError `EMQ_INPUT` when there is no C compiler, or no source, or it does not compile: the text then ends
 * with what the compiler said.
 */
export async function buildModule(options: BuildModuleOptions = {}): Promise<BuiltModule> {
  const { via, force = false, log } = options;
  if (via !== undefined && !Object.hasOwn(WAYS, via)) throw inputError(`via must be cmake, gyp or cc, not ${via}`);
  const root = packageRoot();
  const sources = resolve(options.sources ?? join(root, 'module'));
  const path = resolve(options.out ?? join(root, 'build', NAME));
  const files = (await readdir(sources).catch(() => [])).filter((name) => /\.[ch]$/.test(name)).sort();
  if (!files.some((name) => name.endsWith('.c'))) throw inputError(`there is no C source in ${sources}`);
  if (!force && (await isNewer(path, sources, files))) return { path, via: undefined };

  const compiler = await findCompiler();
  await mkdir(dirname(path), { recursive: true }).catch(unwritable);
  const failures: string[] = [];
  for (const way of via === undefined ? (['cmake', 'gyp', 'cc'] as const) : [via]) {
    const begun = new Date();
    const folder = await mkdtemp(join(dirname(path), '.module-')).catch(unwritable);
    try {
      await layOut(folder, root, sources, files);
      const made = await WAYS[way](folder, root, compiler);
      // A source that was changed while it compiled must count as newer.
      await utimes(made, begun, begun);
      await rename(made, path);
      log?.(`built ${path} by ${TITLES[way]}`);
      return { path, via: way };
    } catch (error) {
      failures.push(
        `${TITLES[way]}: ${(error as Error).message.replaceAll(`${folder}/`, '').replaceAll('../module/', 'module/')}`,
      );
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  // The last way is the plainest: what it says is shown whole, of the others the first line.
  const shown = failures.map((text, at) => (at < failures.length - 1 ? text.replace(/\n[^]*/, '') : text));
  throw inputError(`the module could not be built\n${shown.join('\n')}`);
}

/** True when the file is newer than each source and than the folder, which a removed source changes. */
async function isNewer(path: string, sources: string, files: readonly string[]): Promise<boolean> {
  const built = await stat(path).catch(() => undefined);
  if (built === undefined) return false;
  const times = await Promise.all([sources, ...files.map((name) => join(sources, name))].map((name) => stat(name)));
  return times.every(({ mtimeMs }) => mtimeMs < built.mtimeMs);
}

async function findCompiler(): Promise<string> {
  const named = process.env['CC'];
  if (named) return named;
  for (const name of ['cc', 'gcc', 'clang']) if ((await onPath(name)) !== undefined) return name;
  const how =
    process.platform === 'darwin' ? 'xcode-select --install' : 'apt-get install gcc libc6-dev (or your system’s own)';
  throw inputError(`no C compiler found: ${how}, or set CC`);
}

function unwritable(error: Error): never {
  throw inputError(`the module cannot be written (${error.message}): give another file to write`);
}

/** Copies what each way expects, where it expects it. */
async function layOut(folder: string, root: string, sources: string, files: readonly string[]): Promise<void> {
  await mkdir(join(folder, 'module'));
  for (const name of files) await copyFile(join(sources, name), join(folder, 'module', name));
  for (const name of ['package.json', 'CMakeLists.txt']) await copyFile(join(root, name), join(folder, name));
  // Not at the root of the package: npm would take it for something to build at every install.
  await copyFile(join(root, 'module', 'binding.gyp'), join(folder, 'binding.gyp'));
}

/** Builds in `folder` and returns the path of what was made there. */
type Build = (folder: string, root: string, compiler: string) => Promise<string>;

const TITLES: Record<BuildWay, string> = { cmake: 'cmake-js', gyp: 'node-gyp', cc: 'the C compiler' };

const WAYS: Record<BuildWay, Build> = {
  async cmake(folder, root, compiler) {
    const tool = await toolOf(root, 'cmake-js');
    if (tool === undefined) throw new Error('not installed (npm install cmake-js)');
    if ((await onPath('cmake')) === undefined) throw new Error('there is no cmake on PATH');
    const args = [tool, 'build', '--out', join(folder, 'build')];
    must(await run(process.execPath, args, { cwd: folder, env: { ...process.env, CC: compiler } }));
    return join(folder, 'build', 'Release', NAME);
  },

  async gyp(folder, root, compiler) {
    const tool = await findNodeGyp(root);
    if (tool === undefined) throw new Error('not installed (npm install node-gyp)');
    const headers = join(folder, 'no-headers');
    await mkdir(join(headers, 'include', 'node'), { recursive: true });
    await writeFile(join(headers, 'include', 'node', 'common.gypi'), NO_HEADERS);
    // A setting of npm's would win over the option.
    const kept = Object.entries(process.env).filter(([name]) => !/^npm_.*nodedir$/i.test(name));
    const env = { ...Object.fromEntries(kept), CC: compiler };
    const args = [tool, 'rebuild', `--nodedir=${headers}`, '--force-process-config', '--loglevel=error'];
    must(await run(process.execPath, args, { cwd: folder, env }));
    return join(folder, 'build', 'Release', NAME);
  },

  async cc(folder, _root, compiler) {
    const made = join(folder, NAME);
    const units = (await readdir(join(folder, 'module'))).filter((name) => name.endsWith('.c'));
    const link = process.platform === 'darwin' ? ['-undefined', 'dynamic_lookup'] : [];
    // CC may hold options or a wrapper, as in "ccache gcc".
    const [program = compiler, ...options] = compiler.split(/ +/);
    const args = [...options, ...FLAGS, '-shared', ...link, '-o', made, ...units.map((name) => join('module', name))];
    must(await run(program, args, { cwd: folder }));
    return made;
  },
};

/** This package's own, else the one inside the npm that runs us, else the user's. */
async function findNodeGyp(root: string): Promise<string | undefined> {
  return (await toolOf(root, 'node-gyp')) ?? process.env['npm_config_node_gyp'] ?? (await onPath('node-gyp'));
}

/** The program of an npm package, as this package sees it: its own dependency or its user's. */
async function toolOf(root: string, name: string): Promise<string | undefined> {
  try {
    const manifest = createRequire(join(root, 'package.json')).resolve(`${name}/package.json`);
    const { bin } = JSON.parse(await readFile(manifest, 'utf8')) as {
      bin: string | Record<string, string>;
    };
    const program = typeof bin === 'string' ? bin : bin[name];
    return program === undefined ? undefined : join(dirname(manifest), program);
  } catch {
    return undefined;
  }
}

/** @throws what the tool said, when it failed: the compiler's complaints alone, if there are any. */
function must(ran: Ran): void {
  if (ran.code === 0) return;
  const complaints = ran.output.split('\n').filter((line) => /\b(error|warning):/.test(line));
  throw new Error(complaints.length > 0 ? complaints.slice(0, 10).join('\n') : lastLines(ran.output, 5));
}
