/** The module of old-module.c, compiled for a test and gone with it. Needs a C compiler, as the module itself does. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

/** Its path. */
export async function oldModule(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'emq-old-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const [source, path] = [fileURLToPath(new URL('old-module.c', import.meta.url)), join(dir, 'old.so')];
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', path, source], { stdio: 'pipe' });
  return path;
}
