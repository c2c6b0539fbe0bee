/** Every example is run as a user would, against the package as the set-up built it, and prints what stands beside it. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const FOLDER = join(ROOT, 'examples');
const examples = (await readdir(FOLDER)).filter((name) => name.endsWith('.mjs'));
const run = promisify(execFile);

describe('the examples', () => {
  it('are there', () => expect(examples.length).toBeGreaterThanOrEqual(2));

  it.each(examples)(
    '%s prints what it should',
    async (name) => {
      const { stdout, stderr } = await run(process.execPath, [join(FOLDER, name)], { cwd: ROOT });
      expect(stderr).toBe('');
      expect(stdout).toBe(await readFile(join(FOLDER, name.replace(/\.mjs$/, '.txt')), 'utf8'));
    },
    60_000,
  );
});
