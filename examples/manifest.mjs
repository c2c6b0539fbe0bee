/**
 * A manifest of a folder: each file is hashed by a child, several at once, and the parent writes what they found.
 *
 * Run it in a checkout after `npm run setup`: node examples/manifest.mjs
 * It starts a Valkey of its own. What it prints is in manifest.txt, and a test compares the two.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Connector, Flows, Queue, UnrecoverableError } from 'echomq';
import { startServer } from 'echomq/dev';

const folder = await mkdtemp(join(tmpdir(), 'manifest-'));
const names = ['apple.txt', 'banana.txt', 'cherry.txt', 'elder.txt', 'fig.txt'];
for (const [i, name] of names.entries()) await writeFile(join(folder, name), `${name}\n`.repeat(10_000 * (i + 1)));

const server = await startServer({ module: true });
const emq = await Connector.connect({ url: server.url, wire: 6 });
/** @type {Queue<{ name: string }>} */
const files = new Queue(emq, 'files');
/** @type {Queue<{ path: string }>} */
const manifests = new Queue(emq, 'manifests');
const flows = new Flows(emq, 'manifests');

// One of them is not there: the manifest is written without it, and says so.
const listed = [...names, 'damson.txt'].sort();
const flow = await flows.add({
  payload: { path: join(folder, 'manifest.json') },
  children: listed.map((name) => ({ queue: files, payload: { name }, onFailure: 'ignore' })),
});
console.log(`${flow.outcome}: the manifest waits for ${(await flows.dependencies(flow.id)).count} files`);

const hashing = files.consume(
  async (job) => {
    const { name } = job.payload;
    if (name === 'cherry.txt' && job.attempts === 1) throw new Error(`${name}: the disk is busy`);
    const hash = createHash('sha256');
    let bytes = 0;
    const file = createReadStream(join(folder, name)).on('data', (chunk) => (bytes += chunk.length));
    await pipeline(file, hash).catch((error) => {
      throw new UnrecoverableError(`${name}: ${error.code}`);
    });
    // what a child returns is what its parent gets
    return { name, bytes, sha256: hash.digest('hex') };
  },
  { concurrency: 4, retryDelayMs: 100 },
);
/** @type {string[]} */
const told = [];
hashing.on('scheduled', (_job, { error }) => told.push(`tried again: ${error.message}`));
hashing.on('failed', (_job, { error }) => told.push(`dead: ${error.message}`));

const writing = manifests.consume(async (job, context) => {
  const { values, ignored } = await context.children();
  const manifest = {
    files: [...values.values()].sort((a, b) => (a.name < b.name ? -1 : 1)),
    missing: [...ignored.values()].map((error) => error.split('\n')[0]),
  };
  await writeFile(job.payload.path, JSON.stringify(manifest));
  return manifest.files.length;
});
const [, { result }] = await once(writing, 'completed');
await Promise.all([hashing.close(), writing.close()]);

console.log(told.sort().join('\n'));
console.log(`written with ${result} files`);
const manifest = JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8'));
for (const { name, bytes, sha256 } of manifest.files) {
  const directly = createHash('sha256').update(await readFile(join(folder, name)));
  const verdict = directly.digest('hex') === sha256 ? 'as hashed directly' : 'WRONG';
  console.log(`${name} ${bytes} bytes ${sha256.slice(0, 16)} ${verdict}`);
}
console.log(`missing: ${manifest.missing.join(', ')}`);
const left = await manifests.counts();
console.log(`${left.completed} manifest completed, ${left.pending + left.active + left.awaiting_children} left`);

await emq.close();
await server.stop();
await rm(folder, { recursive: true });
