/**
 * How soon an idle consumer starts a job, how late a delayed one starts, and what more consumers bring: one run, on a
 * private node, with the module (`native`) and without (`script`).
 *
 * Latencies are taken from the job's enqueue, or its due time, to the call of its handler, in this one process, and stand
 * beside the same machine's round trip (a PING): the ratio says more than the ms. Throughput is that of no-op jobs, and
 * is given as a ratio to one consumer's. What else the machine does hits all of it.
 *
 *   npm run setup && npm run build && node bench/worker.mjs [jobs for a latency] [jobs for a throughput]
 *
 * Does not: compare with other queues, or use more than one process.
 */
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';

import { Connector, Queue } from '../dist/index.js';
import { startServer } from '../dist/dev/index.js';
import { Redis } from 'ioredis';

const singles = Number(process.argv[2] ?? 300);
const many = Number(process.argv[3] ?? 5000);

const at = (list, share) => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))];
const both = (list, unit) => {
  const [p50, p99] = [at(list, 0.5), at(list, 0.99)];
  const times = unit === undefined ? '' : `  (${(p50 / unit).toFixed(1)} and ${(p99 / unit).toFixed(1)} round trips)`;
  return `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms${times}`;
};

let names = 0;
const fresh = (connector) => new Queue(connector, `bench-${(names += 1)}`);

async function roundTrip(path) {
  const client = new Redis(path);
  const times = [];
  for (let i = 0; i < singles; i += 1) {
    const start = performance.now();
    await client.ping();
    times.push(performance.now() - start);
  }
  client.disconnect();
  return at(times, 0.5);
}

/** From the enqueue to the handler, of a consumer that waits and has no beat to help it. */
async function pickUp(connector) {
  const queue = fresh(connector);
  const times = [];
  let start = 0;
  const consumer = queue.consume(() => void times.push(performance.now() - start), { beatMs: 600_000 });
  await pause(200);
  for (let i = 0; i < singles; i += 1) {
    const done = once(consumer, 'completed');
    start = performance.now();
    await queue.enqueue(i);
    await done;
    await pause(2);
  }
  await consumer.close();
  return times;
}

/** From the due time to the handler, of jobs that are due one by one. */
async function lateness(connector) {
  const queue = fresh(connector);
  const times = [];
  const consumer = queue.consume(({ payload }) => void times.push(Date.now() - payload), { beatMs: 600_000 });
  await pause(200);
  const count = Math.min(singles, 100);
  const first = Date.now() + 500;
  for (let i = 0; i < count; i += 1) await queue.schedule(first + i * 20, { at: first + i * 20 });
  while (times.length < count) await pause(50);
  await consumer.close();
  return times;
}

async function throughput(connector, consumers) {
  const queue = fresh(connector);
  await queue.enqueueMany(Array.from({ length: many }, (_, payload) => ({ payload })));
  let done = 0;
  const start = performance.now();
  const all = Array.from({ length: consumers }, () => queue.consume(() => {}, { publish: false }));
  await new Promise((resolve) => {
    for (const one of all) one.on('completed', () => (done += 1) === many && resolve());
  });
  const seconds = (performance.now() - start) / 1000;
  await Promise.all(all.map((one) => one.close()));
  return many / seconds;
}

for (const [name, wire] of [
  ['script', 4],
  ['native', 6],
]) {
  const server = await startServer({ module: wire === 6 });
  const connector = await Connector.connect({ url: server.url, wire });
  const trip = await roundTrip(server.socketPath);
  console.log(`${name}: one round trip ${trip.toFixed(2)} ms`);
  console.log(`  idle consumer, enqueue to handler: ${both(await pickUp(connector), trip)}`);
  console.log(`  delayed job, due time to handler:  ${both(await lateness(connector))}`);
  const one = await throughput(connector, 1);
  const ratios = [];
  for (const consumers of [4, 16])
    ratios.push(`${consumers}: ${((await throughput(connector, consumers)) / one).toFixed(2)}`);
  console.log(`  throughput of one consumer of one slot = 1; of ${ratios.join(', of ')}`);
  await connector.close();
  await server.stop();
}
