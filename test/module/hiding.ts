/**
 * A server that seems to lack a function of the module API: what trafikey needs by name, and its load with one of them
 * hidden (hiding-module.c). Does not: start a server; it must be started with `HIDING_ARGS`.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Redis } from 'ioredis';

import { defaultModulePath } from '../../src/dev/index.js';
import { ask, type Answer } from '../../src/parity/node.js';

const here = dirname(fileURLToPath(import.meta.url));

/** What a server needs for MODULE LOAD to be allowed. */
export const HIDING_ARGS = ['--enable-module-command', 'yes'];

/** The names of all functions that trafikey asks a server for, as the server knows them. */
export function requiredFunctions(): string[] {
  const header = readFileSync(join(here, '..', '..', 'module', 'valkeymodule_api.h'), 'utf8');
  return [...header.matchAll(/^ {4}F\([^,]+, (\w+), \(/gm)].map(([, name]) => `ValkeyModule_${name}`);
}

/** Compiles the hiding module into a folder; answers its path. */
export function buildHidingModule(folder: string): string {
  const out = join(folder, 'hiding.so');
  execFileSync('cc', ['-O1', '-fPIC', '-shared', '-o', out, join(here, 'hiding-module.c'), '-ldl']);
  return out;
}

/** MODULE LOAD of trafikey on a server that seems to lack the function; `none` hides nothing. */
export function loadHiding(client: Redis, hidingModule: string, hidden: string): Promise<Answer> {
  return ask(client, ['MODULE', 'LOAD', hidingModule, defaultModulePath(), hidden]);
}
