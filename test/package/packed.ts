/**
 * The package as a user gets it: packed from a clean copy of the sources, installed into a project of its own.
 *
 * Invariants: the copy holds what git knows or would add, so no built file of this tree can hide one that is missing; all
 * of it lives in one temporary folder, and nothing here is written to. Does not: start servers.
 */
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

interface Manifest {
  readonly version: string;
  readonly devDependencies: Readonly<Record<string, string>>;
}
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;

export interface Packed {
  /** The tarball. */
  readonly tarball: string;
  /** The files in it, without the leading `package/`, sorted. */
  readonly files: readonly string[];
  /** The source files it was made from, sorted. */
  readonly sources: readonly string[];
  /** A project, `"type": "module"`, into which the tarball is installed, with the types of Node beside it. */
  readonly project: string;
  /** The folder of the installed package. */
  readonly installed: string;
  /** An empty folder without any node_modules above it that is ours. */
  readonly elsewhere: string;
  remove(): Promise<void>;
}

const start = promisify(execFile);

/** Runs a program to its end. @returns what it said; @throws with all it said, when it fails. */
export async function run(command: string, args: readonly string[], cwd: string, env = {}): Promise<string> {
  try {
    const { stdout } = await start(command, args, { cwd, env: { ...process.env, ...env }, maxBuffer: 1 << 26 });
    return stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(' ')}\n${stdout}\n${stderr}`, { cause: error });
  }
}

/** Packs and installs. Needs the registry, or npm's cache, for the package's own dependencies. */
export async function pack(): Promise<Packed> {
  const folder = await mkdtemp(join(tmpdir(), 'emq-pack-'));
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  try {
    return { ...(await packInto(folder)), remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function packInto(folder: string): Promise<Omit<Packed, 'remove'>> {
  const [tree, project, elsewhere] = [join(folder, 'tree'), join(folder, 'project'), join(folder, 'elsewhere')];
  await Promise.all([tree, project, elsewhere].map((path) => mkdir(path)));

  const listed = await run('git', ['ls-files', '-co', '--exclude-standard', '-z'], ROOT);
  const sources = listed.split('\0').filter((file) => file !== '' && existsSync(join(ROOT, file)));
  for (const file of sources) await cp(join(ROOT, file), join(tree, file));
  await symlink(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
  await run('npm', ['pack', '--silent', '--pack-destination', folder], tree);
  const tarball = join(folder, `echomq-${manifest.version}.tgz`);
  const entries = (await run('tar', ['-tzf', tarball], folder)).split('\n').filter((entry) => entry !== '');

  await writeFile(join(project, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type: 'module' }));
  const types = `@types/node@${String(manifest.devDependencies['@types/node'])}`;
  await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', tarball, types], project);

  // The same once more from the lock, as a deploy does, where nothing can compile: installing must not need it.
  const bin = join(folder, 'bin');
  await mkdir(bin);
  await symlink(process.execPath, join(bin, 'node'));
  const npm = (await run('which', ['npm'], folder)).trim();
  await run(process.execPath, [realpathSync(npm), 'ci', '--prefer-offline', '--no-audit', '--no-fund'], project, {
    PATH: bin,
  });

  return {
    tarball,
    files: entries.map((entry) => entry.replace(/^package\//, '')).sort(),
    sources: sources.sort(),
    project,
    installed: join(project, 'node_modules', 'echomq'),
    elsewhere,
  };
}
