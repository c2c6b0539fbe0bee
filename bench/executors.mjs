/**
 * Native command against script, on one node in one run: what a claim and a complete cost the server.
 *
 * Rounds of both executors take turns on the same server, so that what else the machine does hits both. Two figures of
 * the server itself are read: the time spent inside the commands (INFO commandstats), and the CPU of its main thread
 * with all parsing, replying and system calls. Only ratios mean anything; their medians over the rounds are printed,
 * with the smallest and the largest.
 *
 *   npm run setup && node bench/executors.mjs [rounds] [jobs in a round]
 *
 * Does not: compare with other queues, or measure a client.
 */
import { Redis } from 'ioredis';

import { transitions, Keyspace } from '../dist/index.js';
import { startServer } from '../dist/dev/index.js';
import { executorOf } from '../dist/wire/executor.js';

const rounds = Number(process.argv[2] ?? 9);
const jobs = Number(process.argv[3] ?? 3000);
const IN_ONE_WRITE = 100;
const keys = new Keyspace('bench');
const payload = Buffer.alloc(100, 'x');

const server = await startServer({ module: true });
const client = new Redis(server.socketPath, { lazyConnect: false });
for (const { script } of Object.values(transitions)) await client.script('LOAD', script.source);

const executors = { script: executorOf(4), native: executorOf(6) };
const ids = Array.from({ length: jobs }, (_, i) => `JOB${String(i).padStart(11, '0')}`);

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

async function sendAll(frames) {
  const replies = [];
  for (let i = 0; i < frames.length; i += IN_ONE_WRITE) {
    const pipeline = client.pipeline();
    for (const { command, args } of frames.slice(i, i + IN_ONE_WRITE)) pipeline.call(command, ...args);
    for (const [error, reply] of await pipeline.exec()) {
      if (error) throw error;
      replies.push(reply);
    }
  }
  return replies;
}

const frame = (executor, transition, input) =>
  executor({ transition, queue: keys.queue, ...transition.layout(keys, input) });

async function spent() {
  const cpu = await client.info('cpu');
  const stats = await client.info('commandstats');
  const main = ['user', 'sys'].map((kind) => Number(new RegExp(`used_cpu_${kind}_main_thread:([\\d.]+)`).exec(cpu)[1]));
  const inside = [...stats.matchAll(/cmdstat_(evalsha|emq\.\w+):calls=\d+,usec=(\d+)/g)].map((m) => Number(m[2]));
  return { cpu: (main[0] + main[1]) * 1e6, inside: inside.reduce((a, b) => a + b, 0) };
}

async function round(name) {
  const executor = executors[name];
  await sendAll(ids.map((id) => frame(executor, transitions.enqueue, { id, payload })));
  const before = await spent();
  // as a busy worker does: a handful held at any time, claims and settles in turn
  for (let i = 0; i < jobs; i += IN_ONE_WRITE) {
    const size = Math.min(IN_ONE_WRITE, jobs - i);
    const claims = Array.from({ length: size }, () => frame(executor, transitions.claim, { leaseMs: 60_000 }));
    const held = (await sendAll(claims)).map((reply) => ({ id: reply[0], token: reply[2] }));
    await sendAll(held.map((job) => frame(executor, transitions.complete, job)));
  }
  const after = await spent();
  return { cpu: (after.cpu - before.cpu) / jobs, inside: (after.inside - before.inside) / jobs };
}

await round('script');
await round('native'); // both warm
const ratios = { cpu: [], inside: [] };
for (let i = 0; i < rounds; i++) {
  const order = i % 2 === 0 ? ['script', 'native'] : ['native', 'script'];
  const result = {};
  for (const name of order) result[name] = await round(name);
  for (const what of ['cpu', 'inside']) ratios[what].push(result.script[what] / result.native[what]);
}
for (const [what, title] of [
  ['inside', 'time inside the commands'],
  ['cpu', "CPU of the server's main thread"],
]) {
  const list = ratios[what];
  const range = `${Math.min(...list).toFixed(2)} to ${Math.max(...list).toFixed(2)}`;
  console.log(`claim + complete, script / native, ${title}: ${median(list).toFixed(2)} (${range}, ${rounds} rounds)`);
}
client.disconnect();
await server.stop();
