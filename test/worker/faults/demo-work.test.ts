/**
 * The demo's work through consumers: a job a file, 1, 4 and 16 consumers in 1 and 4 processes. Delivery is exact, and
 * judged as the demo judges itself: every file against a direct computation, the ledger against the server's own counts.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Digest, FilePath } from '../../../src/demo/files.js';
import { judge } from '../../../src/demo/verdict.js';
import { enqueueFiles, newLedger } from '../../../src/demo/work.js';
import { rng } from '../../../src/parity/prng.js';
import { printSeed, seed } from '../../parity/seed.js';
import { story } from '../support/ledger.js';
import { WIRES, WorkerNode, freshQueue } from '../support/nodes.js';
import { WorkerProgram, freshFolder } from '../support/processes.js';

const FILES = 400;
const MOST_BYTES = 20_000;
const draw = rng(seed);

let program: WorkerProgram;
let folder: Awaited<ReturnType<typeof freshFolder>>;
let files: FilePath[];
beforeAll(async () => {
  program = await WorkerProgram.build();
  folder = await freshFolder();
  files = Array.from({ length: FILES }, (_, i) => ({ path: join(folder.path, String(i)) }));
  for (const file of files) {
    if ('path' in file) await writeFile(file.path, Buffer.alloc(draw.below(MOST_BYTES), draw.below(256)));
  }
});
afterEach(() => program.endAll());
afterAll(async () => {
  await folder[Symbol.asyncDispose]();
  await program[Symbol.asyncDispose]();
});

printSeed('worker/faults/demo-work');
describe.each(WIRES)('wire %i', (wire) => {
  let node: WorkerNode;
  beforeAll(async () => {
    node = await WorkerNode.start(wire);
  });
  afterAll(() => node[Symbol.asyncDispose]());

  const cases = [1, 4].flatMap((processes) => [1, 4, 16].map((consumers) => ({ processes, consumers })));
  it.each(cases)(
    '$consumers consumers in each of $processes processes: exact delivery',
    async ({ processes, consumers }) => {
      await using notes = await freshFolder();
      const queue = await node.queue<FilePath>(freshQueue('files'));
      const plan = { queue: queue.queue, work: 'hash', consumers, ledger: notes.path } as const;
      const connector = { url: node.server.url, wire };
      await Promise.all(Array.from({ length: processes }, () => program.start({ ...plan, connector })));

      const ledger = newLedger();
      await enqueueFiles(queue, files, ledger, () => {});
      const completed = async (): Promise<number> => (await queue.metrics('completed')).count;
      await vi.waitUntil(async () => (await completed()) >= FILES, { timeout: 60_000, interval: 10 });

      const pids = new Set<number>();
      for (const [id, ofJob] of story(notes.path)) {
        // one run a job, since nothing went wrong
        expect(ofJob.map(({ token, starts }) => [token, starts.length])).toEqual([[1, 1]]);
        const dones = ofJob.flatMap(({ dones: done }) => done);
        for (const { pid } of dones) pids.add(pid);
        ledger.completed.set(
          id,
          dones.map(({ result }) => result as Digest),
        );
      }
      const verdict = await judge(queue, ledger, () => {});
      expect(verdict).toEqual({
        ...{ jobs: FILES, completed: FILES, ok: true },
        ...{ dead: [], lost: [], doubled: [], unequal: [], changed: [], miscounted: [] },
      });
      expect(pids.size).toBeGreaterThan(processes === 1 ? 0 : 1);
    },
    90_000,
  );
});
