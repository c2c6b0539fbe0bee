/**
 * The package from its tarball: what is in it, what the linters of packages say, and one job run by each kind of consumer:
 * ESM, `require`, TypeScript under nodenext and under bundler resolution, and bundles of esbuild, on both wires.
 *
 * The module is built and the servers are started by `echomq/dev` of the installed package. That a job ran is read from
 * the server, not only from what the consumer says.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type * as dev from '../../src/dev/index.js';
import type * as echomq from '../../src/index.js';
import { ROOT, pack, run, type Packed } from './packed.js';

const WIRES = [4, 6] as const;

/** One job from end to end on a queue that is named on the command line. Prints what happened as one line of JSON. */
const JOB = `
async function main(queue, url, wire) {
  const emq = await Connector.connect({ url, wire });
  try {
    const jobs = new Jobs(emq, queue);
    const { id, outcome } = await jobs.enqueue({ n: 1 });
    const job = await jobs.claim({ leaseMs: 30_000 });
    if (job === null) throw new Error('nothing to claim');
    const settled = await jobs.complete(job);
    console.log(JSON.stringify({ outcome, same: job.id === id, payload: job.payload, settled }));
  } finally {
    await emq.close();
  }
}
const [queue = '', url = '', wire = ''] = process.argv.slice(2);
main(queue, url, wire === '6' ? 6 : 4).catch((error) => { console.error(error); process.exitCode = 1; });
`;
const CLIENT = `import { Connector, Jobs } from 'echomq';\n`;
const DEV = `if (typeof startServer !== 'function') throw new Error('echomq/dev has no startServer');\n`;
const IMPORTS = `${CLIENT}import { startServer } from 'echomq/dev';\n${DEV}`;
const REQUIRES = `const { Connector, Jobs } = require('echomq');\nconst { startServer } = require('echomq/dev');\n${DEV}`;
/** The same with the types written out, so that the public ones are all needed. */
const TYPED = `${IMPORTS}
import { EmqError, type ConnectorOptions, type Enqueued, type EnqueueOptions, type HeldJob, type Job } from 'echomq';
export const options: ConnectorOptions = { url: 'redis://127.0.0.1:1', wire: 6 };
export const enqueueOptions: EnqueueOptions = { priority: 1 };
export function typed(jobs: Jobs<{ n: number }>, held: HeldJob): Promise<Enqueued | 'completed' | 'gone'> {
  return held.id === '' ? jobs.enqueue({ n: 1 }, enqueueOptions) : jobs.complete(held);
}
export const payload = (job: Job<{ n: number }>): number => job.payload.n;
export const code = (error: EmqError): boolean => error.code === 'EMQSTALE' || error.code === 'EMQ_INPUT';
// @ts-expect-error a payload of another type is refused: the types are really there, not any
export const wrong = (jobs: Jobs<{ n: number }>) => jobs.enqueue({ n: 'one' });
${JOB.replace('queue, url, wire)', 'queue: string, url: string, wire: 4 | 6)').replace('(error)', '(error: unknown)')}`;

let packed: Packed;
const servers = new Map<number, dev.EmbeddedServer>();
/** The client of the installed package. */
let client: typeof echomq;

beforeAll(async () => {
  packed = await pack();
  const resolve = createRequire(join(packed.project, 'package.json')).resolve;
  const load = (name: string): Promise<unknown> => import(/* @vite-ignore */ pathToFileURL(resolve(name)).href);
  const { buildModule, startServer } = (await load('echomq/dev')) as typeof dev;
  client = (await load('echomq')) as typeof echomq;
  // From the sources in the tarball, with what this machine has.
  await buildModule();
  for (const wire of WIRES) servers.set(wire, await startServer({ module: wire === 6 }));
}, 240_000);

afterAll(async () => {
  for (const server of servers.values()) await server.stop();
  // Undefined when the packing itself failed.
  await (packed as Packed | undefined)?.remove();
});

describe('the tarball', () => {
  it('holds what was built, the module and its builders, and the documents; nothing else', () => {
    const below = (folder: string, pattern: RegExp) =>
      packed.sources.filter((file) => file.startsWith(folder) && pattern.test(file));
    // the demo is for a checkout: it hashes that checkout's own files
    const built = [...below('src/', /^src\/(?!demo\/).*\.(tsx?|js)$/), 'src/wire/scripts.generated.ts'].flatMap(
      (file) => {
        const stem = file.replace(/^src/, 'dist').replace(/\.(tsx?|js)$/, '');
        return [`${stem}.js`, `${stem}.d.ts`];
      },
    );
    const module = below('module/', /^module\/[^/]+\.[ch]$/);
    expect(module.length).toBeGreaterThan(0);
    const scripts = below('lua/', /\.lua$/);
    expect(scripts.length).toBeGreaterThan(0);
    const rest = [
      'CHANGELOG.md',
      'CMakeLists.txt',
      'LICENSE',
      'README.md',
      'docs/connecting.md',
      'docs/flows.md',
      'docs/guarantees.md',
      'docs/image.md',
      'docs/lanes.md',
      'docs/operating.md',
      'docs/repeats.md',
      'docs/security.md',
      'docs/upgrade.md',
      'docs/vectors.json',
      'docs/wire.md',
      'docs/worker.md',
      'module/binding.gyp',
      'package.json',
    ];
    expect(packed.files).toEqual([...built, ...module, ...scripts, ...rest].sort());
  });

  it('names no path that it does not hold', async () => {
    const { bin, exports } = JSON.parse(await readFile(join(packed.installed, 'package.json'), 'utf8'));
    const paths = JSON.stringify([bin, exports]).match(/(?<=")\.\/[^"]+(?=")/g) ?? [];
    // The keys of the export map look like paths too.
    const targets = paths.filter((path) => !Object.keys(exports).includes(path) || path === './package.json');
    expect(targets.length).toBeGreaterThan(3);
    for (const target of targets) expect(packed.files).toContain(target.slice(2));
  });

  it('gives the command emq', async () => {
    const said = await run(
      process.execPath,
      [join(packed.project, 'node_modules', '.bin', 'emq'), '--help'],
      packed.elsewhere,
    );
    expect(said).toMatch(/emq/);
  });

  it('publint has nothing to say', async () => {
    const tarball = await readFile(packed.tarball);
    const pkg = JSON.parse(await readFile(join(packed.installed, 'package.json'), 'utf8'));
    const { messages } = await publint({
      pack: { tarball: tarball.buffer.slice(tarball.byteOffset, tarball.byteOffset + tarball.byteLength) },
      level: 'suggestion',
      strict: true,
    });
    expect(messages.map((message) => formatMessage(message, pkg, { color: false }))).toEqual([]);
  });

  it('attw finds the types right for every way to import it', async () => {
    const attw = join(ROOT, 'node_modules', '@arethetypeswrong', 'cli', 'dist', 'index.js');
    const args = [attw, packed.tarball, '--profile', 'esm-only', '--no-definitely-typed', '--format', 'json'];
    const { analysis } = JSON.parse(await run(process.execPath, args, packed.elsewhere));
    expect(Object.keys(analysis.entrypoints).sort()).toEqual(['.', './dev', './package.json', './testing']);
    expect(analysis.types.kind).toBe('included');
  });
});

describe.each(WIRES)('one job on wire %i', (wire) => {
  /** Runs a consumer on a queue of its own, and asks the server whether the job has gone through. */
  async function runsOneJob(queue: string, file: string): Promise<void> {
    const server = servers.get(wire);
    if (server === undefined) throw new Error(`no server for wire ${wire}`);
    const said = await run(process.execPath, [file, queue, server.url, String(wire)], packed.elsewhere);
    const expected = { outcome: 'enqueued', same: true, payload: { n: 1 }, settled: 'completed' };
    expect(JSON.parse(said)).toEqual(expected);
    const emq = await client.Connector.connect({ url: server.url, wire });
    try {
      const counts = await new client.Jobs(emq, queue).counts();
      expect(counts).toMatchObject({ pending: 0, active: 0, completed: 1, failed: 0 });
    } finally {
      await emq.close();
    }
  }

  async function project(name: string, text: string): Promise<string> {
    const file = join(packed.project, name);
    await writeFile(file, text);
    return file;
  }

  it('ESM import', async () => {
    await runsOneJob('esm', await project(`job-${wire}.mjs`, IMPORTS + JOB));
  });

  it('require', async () => {
    await runsOneJob('require', await project(`job-${wire}.cjs`, REQUIRES + JOB));
  });

  it.each([
    ['nodenext', 'nodenext'],
    ['bundler', 'preserve'],
  ])('TypeScript, moduleResolution %s', async (resolution, module) => {
    const outDir = `out-${resolution}-${wire}`;
    await project(`job-${resolution}-${wire}.ts`, TYPED);
    // skipLibCheck off: the declarations of the package must hold by themselves.
    const compilerOptions = {
      target: 'es2022',
      lib: ['es2023'],
      module,
      moduleResolution: resolution,
      types: ['node'],
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      rootDir: '.',
      outDir,
    };
    const config = { compilerOptions, files: [`job-${resolution}-${wire}.ts`] };
    const tsconfig = await project(`tsconfig.${resolution}-${wire}.json`, JSON.stringify(config));
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    await run(process.execPath, [tsc, '-p', tsconfig], packed.project);
    await runsOneJob(resolution, join(packed.project, outDir, `job-${resolution}-${wire}.js`));
  });

  it('the README’s own example type-checks and does its work', async () => {
    const readme = await readFile(join(packed.installed, 'README.md'), 'utf8');
    const [, example = ''] = /## Use it[^]*?```ts\n([^]*?)```/.exec(readme) ?? [];
    expect(example).toContain("'redis://127.0.0.1:6379', wire: 4");
    // Its own words, on our node: both jobs are sent, one when its time has come.
    const text = `
      const fences: number[] = [];
      async function send(_mail: { to: string }, { fence }: { fence: number; signal: AbortSignal }): Promise<void> {
        fences.push(fence);
      }
      ${example.replace("'redis://127.0.0.1:6379', wire: 4", `process.argv[2] ?? '', wire: ${wire}`).replace(' 60_000', ' 5')}
      await new Promise<void>((resolve) => {
        let done = 0;
        consumer.on('completed', () => (done += 1) === 2 && resolve());
      });
      await consumer.close();
      const { completed, pending, scheduled, active } = await mail.counts();
      console.log(JSON.stringify({ fences, completed, left: pending + scheduled + active, minted: id.length }));
      await emq.close();
    `;
    await project(`readme-${wire}.mts`, text);
    const compilerOptions = { target: 'es2022', lib: ['es2023'], module: 'nodenext', types: ['node'], strict: true };
    const config = { compilerOptions, files: [`readme-${wire}.mts`] };
    const tsconfig = await project(`tsconfig.readme-${wire}.json`, JSON.stringify(config));
    await run(
      process.execPath,
      [join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', tsconfig],
      packed.project,
    );
    const server = servers.get(wire);
    const said = await run(process.execPath, [`readme-${wire}.mjs`, server?.url ?? ''], packed.project);
    expect(JSON.parse(said)).toEqual({ fences: [1, 1], completed: 2, left: 0, minted: 14 });
  });

  it.each(['thread', 'process'])('a processor file, run as a %s; drained by echomq/testing', async (kind) => {
    await project('double.mjs', 'export default ({ payload }) => payload * 2;');
    const file = await project(
      `processor-${kind}-${wire}.mjs`,
      `import { Connector, Queue } from 'echomq';
       import { drain } from 'echomq/testing';
       const emq = await Connector.connect({ url: process.argv[2], wire: ${wire} });
       const queue = new Queue(emq, 'processor-${kind}');
       for (const n of [1, 2]) await queue.enqueue(n);
       const ran = await drain(queue, new URL('./double.mjs', import.meta.url), { processor: '${kind}' });
       console.log(JSON.stringify(ran.map(({ outcome, result }) => [outcome, result])));
       await emq.close();`,
    );
    const said = await run(process.execPath, [file, servers.get(wire)?.url ?? ''], packed.project);
    expect(JSON.parse(said)).toEqual([
      ['completed', 2],
      ['completed', 4],
    ]);
  });

  it.each([
    ['cjs', '.cjs', {}],
    // A bundle of modules has no require; ioredis's own parts ask for one. This is esbuild's documented answer.
    [
      'esm',
      '.mjs',
      { js: `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);` },
    ],
  ] as const)('an esbuild bundle, %s, alone in a folder', async (format, ending, banner) => {
    const outfile = join(packed.elsewhere, `bundle-${wire}${ending}`);
    const { warnings } = await build({
      stdin: { contents: CLIENT + JOB, resolveDir: packed.project, loader: 'ts' },
      bundle: true,
      platform: 'node',
      target: 'node20',
      format,
      banner,
      outfile,
      logLevel: 'silent',
    });
    expect(warnings.map(({ text }) => text)).toEqual([]);
    await runsOneJob(`bundle-${format}`, outfile);
  });
});
