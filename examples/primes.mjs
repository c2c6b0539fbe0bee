/**
 * Work that blocks the event loop, in child processes: primes are counted, and a job that never ends is ended.
 *
 * Run it in a checkout after `npm run setup`: node examples/primes.mjs
 * It starts a Valkey of its own. What it prints is in primes.txt, and a test compares the two.
 */
import { Connector, Queue } from 'echomq';
import { startServer } from 'echomq/dev';

const server = await startServer({ module: true });
const emq = await Connector.connect({ url: server.url, wire: 6 });
/** @type {Queue<{ below: number }>} */
const queue = new Queue(emq, 'primes');

const consumer = queue.consume(new URL('./primes/count.mjs', import.meta.url), {
  concurrency: 2,
  processor: 'process',
  killAfterMs: 200,
  maxAttempts: 1,
});

/** @type {Map<number, unknown>} */
const found = new Map();
/** @type {string[]} */
const dead = [];
const all = new Promise((resolve) => {
  const ended = () => found.size + dead.length === 5 && resolve(undefined);
  consumer.on('completed', (job, { result }) => (found.set(job.payload.below, result), ended()));
  consumer.on('failed', (_job, { error }) => (dead.push(error.message), ended()));
});

const sizes = [1_000, 10_000, 100_000, 1_000_000];
for (const below of sizes) await queue.enqueue({ below });
await queue.enqueue({ below: Infinity }, { timeoutMs: 500 });
await all;
for (const below of sizes) console.log(`${found.get(below)} primes below ${below}, counted directly: ${direct(below)}`);
console.log(`dead: ${dead.join(', ')}`);
await consumer.close();
console.log(`${(await queue.counts()).active} jobs active after the end`);
await emq.close();
await server.stop();

/** Another way of counting, to compare with. @param {number} below */
function direct(below) {
  const sieve = new Uint8Array(below).fill(1);
  let count = 0;
  for (let n = 2; n < below; n++) {
    if (sieve[n] === 0) continue;
    count++;
    for (let multiple = n * n; multiple < below; multiple += n) sieve[multiple] = 0;
  }
  return count;
}
