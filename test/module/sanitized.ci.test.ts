/**
 * The module built with the address and the undefined-behaviour sanitizer, in a stock server, through all native
 * scenarios: what the fake server of test/fuzz cannot be wrong about, since here the server is the real one. Leaks are
 * looked for at the end.
 *
 * Needs cc with the sanitizers' libraries and a server whose libraries fit this system's loader; where one is missing
 * the suite says so by name and does not run. In CI that is a failure.
 */
import { execFileSync } from 'node:child_process';
import { isAbsolute } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { loadVectors, runVectors } from '../../src/parity/index.js';
import { WatchedServer } from './preloaded.js';
import { missingTools, runs } from './tools.js';

const FLAGS = ['-O1', '-fno-omit-frame-pointer', '-fsanitize=address,undefined', '-fno-sanitize-recover=all'];

/** The library that must be there before the server's own; cc answers the bare name when it has none. */
function sanitizerLibrary(): string {
  return execFileSync('cc', ['-print-file-name=libasan.so'], { encoding: 'utf8' }).trim();
}

const missing = missingTools('cc');
if (process.platform !== 'linux') missing.push('Linux');
if (missing.length === 0 && !isAbsolute(sanitizerLibrary())) missing.push('libasan beside cc');

describe.runIf(runs('the sanitized module in a server', missing))('the module with sanitizers in it', () => {
  let server: WatchedServer;
  beforeAll(async () => {
    server = await WatchedServer.start({
      flags: FLAGS,
      preload: [sanitizerLibrary()],
      env: {
        ASAN_OPTIONS: 'verify_asan_link_order=0:detect_leaks=1:exitcode=9',
        UBSAN_OPTIONS: 'halt_on_error=1:print_stacktrace=1:exitcode=9',
      },
    });
  }, 120_000);
  afterAll(() => server[Symbol.asyncDispose]());

  it('goes through all native scenarios without a report', { timeout: 120_000 }, async () => {
    const ended = server.ended.then(async (code) => {
      throw new Error(`the server ended with ${code}: ${await server.written()}`);
    });
    ended.catch(() => {});
    const node = { client: server.client, executor: 'native', own: true } as const;
    const results = await Promise.race([runVectors(node, await loadVectors()), ended]);
    expect(results.length).toBeGreaterThan(500);
    // A slow machine's clock is not what is judged here; that a scenario ran to its end is.
    expect(results.filter(({ outcome }) => outcome === 'not run')).toEqual([]);
    const code = await server.end();
    expect(code, await server.written()).toBe(0);
  });
});
