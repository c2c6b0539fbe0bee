/**
 * Where this package lies: the folder that holds `module/`, `build/` and `package.json`, in a checkout as in an
 * installed package. Does not: guess. A bundle that left the package behind gets an error.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inputError } from '../wire/errors.js';

/** @throws EmqError `EMQ_INPUT` when no folder above this file is the package `echomq`. */
export function packageRoot(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  for (let folder = here; ; folder = dirname(folder)) {
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest) && (JSON.parse(readFileSync(manifest, 'utf8')) as { name?: unknown }).name === 'echomq') {
      return folder;
    }
    if (folder === dirname(folder)) {
      throw inputError(
        'the folder of the package echomq was not found (bundled?): give the path of the module yourself',
      );
    }
  }
}
