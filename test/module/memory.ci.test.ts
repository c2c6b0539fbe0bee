/**
 * The module in a stock server under valgrind, through all scenarios of the contract, those of the scripts too: no read
 * or write of memory that is not there, none of memory that has been given back, and no block lost that was asked for
 * on the way through the module. A handle that outlives its key shows only so: the read happens in the server's own
 * code, where a sanitizer built into the module does not look.
 *
 * Needs valgrind, a C compiler and a server whose libraries fit this system's loader; where one is missing the suite
 * says so by name and does not run. In CI that is a failure.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { loadVectors, runVectors } from '../../src/parity/index.js';
import { WatchedServer } from './preloaded.js';
import { missingTools, runs } from './tools.js';

const missing = missingTools('valgrind', 'cc');
if (process.platform !== 'linux') missing.push('Linux');

/** valgrind's report: for each error its kind, its words and the files that its stacks go through. */
interface Reported {
  readonly kind: string;
  readonly what: string;
  readonly stack: string;
  readonly ours: boolean;
}

function errorsOf(report: string): Reported[] {
  const texts = (xml: string, tag: string): string[] =>
    [...xml.matchAll(new RegExp(`<${tag}>([^<]*)</${tag}>`, 'g'))].map(([, text]) => text ?? '');
  return [...report.matchAll(/<error>[^]*?<\/error>/g)].map(([error]) => ({
    kind: texts(error, 'kind')[0] ?? '',
    what: [...texts(error, 'what'), ...texts(error, 'text')].join(' '),
    stack: [...error.matchAll(/<frame>([^]*?)<\/frame>/g)]
      .map(([, frame = '']) => ['fn', 'file', 'line'].map((tag) => texts(frame, tag)[0] ?? '?').join(' '))
      .join('\n'),
    ours: texts(error, 'obj').some((path) => path.endsWith('/trafikey.so')),
  }));
}

describe.runIf(runs('memory tests under valgrind', missing))('the module under valgrind', () => {
  let server: WatchedServer;
  beforeAll(async () => {
    server = await WatchedServer.start({
      flags: ['-O1'],
      under: (folder) => [
        'valgrind',
        '--leak-check=full',
        // What the server keeps by a pointer into the middle of a block would be told of by the thousand.
        '--show-leak-kinds=definite,indirect',
        '--errors-for-leak-kinds=none',
        '--error-exitcode=9',
        '--num-callers=40',
        '--xml=yes',
        `--xml-file=${join(folder, 'report.xml')}`,
      ],
    });
  }, 120_000);
  afterAll(() => server[Symbol.asyncDispose]());

  it('goes through all scenarios and ends without an error or a leak', { timeout: 300_000 }, async () => {
    const { client } = server;
    const vectors = await loadVectors();
    const results = [
      ...(await runVectors({ client, executor: 'native', own: true }, vectors)),
      // On this very node: the scripts, beside a module that is loaded.
      ...(await runVectors({ client, executor: 'script', own: true }, vectors)),
    ];
    // A slow machine's clock is not what is judged here; that a scenario ran to its end is.
    expect(new Set(results.map(({ name }) => name)).size).toBe(vectors.scenarios.length);
    expect(results.filter(({ outcome }) => outcome === 'not run')).toEqual([]);
    const code = await server.end();
    const report = await readFile(join(server.folder, 'report.xml'), 'utf8');
    expect(report, 'valgrind came to its end').toContain('</valgrindoutput>');
    const errors = errorsOf(report).filter(({ kind, ours }) => !kind.startsWith('Leak_') || ours);
    expect(errors).toEqual([]);
    expect(code).toBe(0);
  });
});
