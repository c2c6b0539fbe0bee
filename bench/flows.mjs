/**
 * What a flow costs beside the same jobs without a parent, how soon a parent runs after its last child, and the longest
 * that one call of a large flow holds the server: one run, on a private node, with the module (`native`) and without
 * (`script`).
 *
 * Adds and completions are given as ratios to those of ordinary jobs in the same run, each the median of ROUNDS; latencies
 * stand beside the same machine's round trip (a PING). What else the machine does hits all of it.
 *
 *   npm run setup && npm run build && node bench/flows.mjs [children of a flow] [children of a large flow]
 *
 * Does not: compare with other queues, or use more than one process.
 */
import { Connector, Flows, Jobs, Queue } from '../dist/index.js';
import { startServer } from '../dist/dev/index.js';
import { Redis } from 'ioredis';

const size = Number(process.argv[2] ?? 100);
const large = Number(process.argv[3] ?? 10_000);
const ROUNDS = 9;
const LATENCIES = 100;

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
let names = 0;
const fresh = () => `bench-${(names += 1)}`;
const children = (count, queue) =>
  Array.from({ length: count }, (_, payload) => ({ payload, ...(queue && { queue }) }));

async function timed(run) {
  const start = performance.now();
  await run();
  return performance.now() - start;
}

/** Adding a flow beside enqueueing as many jobs, and completing its children beside completing those jobs, one by one. */
async function costs(connector, elsewhere) {
  const adds = [];
  const completions = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const [plain, home] = [new Jobs(connector, fresh()), fresh()];
    const away = elsewhere ? fresh() : home;
    const flows = new Flows(connector, home);
    const enqueue = await timed(() => plain.enqueueMany(children(size + 1)));
    const add = await timed(() => flows.add({ payload: 0, children: children(size, away) }));
    adds.push(add / enqueue);
    const jobs = new Jobs(connector, away);
    const ordinary = await plain.claimBatch({ leaseMs: 60_000, size });
    const ofFlow = await jobs.claimBatch({ leaseMs: 60_000, size });
    const complete = async (queue, list) => {
      for (const job of list) await queue.complete(job);
    };
    const alone = await timed(() => complete(plain, ordinary));
    completions.push((await timed(() => complete(jobs, ofFlow))) / alone);
  }
  return { add: median(adds), complete: median(completions) };
}

/** From the end of the only child's handler to the call of its parent's. */
async function fanIn(connector, elsewhere) {
  const home = new Queue(connector, fresh());
  const away = elsewhere ? new Queue(connector, fresh()) : home;
  const flows = new Flows(connector, home.queue);
  const times = [];
  let ended = 0;
  let ran = () => {};
  const handler = (job) => {
    if (job.payload === 'child') ended = performance.now();
    else {
      times.push(performance.now() - ended);
      ran();
    }
  };
  const consumers = [home, ...(elsewhere ? [away] : [])].map((queue) => queue.consume(handler));
  for (let i = 0; i < LATENCIES; i += 1) {
    const parent = new Promise((resolve) => (ran = resolve));
    await flows.add({ payload: 'parent', children: [{ payload: 'child', queue: away.queue }] });
    await parent;
  }
  for (const consumer of consumers) await consumer.close();
  return median(times);
}

/**
 * The longest call of adding a large flow, and of cancelling one, in ms as the server counts; the least of three, since
 * whatever else the machine does can only add to it.
 */
async function longest(connector, client) {
  const worst = async (run) => {
    await client.config('SET', 'slowlog-log-slower-than', '500', 'slowlog-max-len', '100000');
    await client.slowlog('RESET');
    await run();
    const log = await client.slowlog('GET', '-1');
    await client.config('SET', 'slowlog-log-slower-than', '-1');
    return Math.max(0, ...log.map(([, , micros]) => micros)) / 1000;
  };
  const found = { add: [], cancel: [] };
  for (let round = 0; round < 3; round += 1) {
    const [home, away] = [fresh(), fresh()];
    const flows = new Flows(connector, home);
    const flow = await flows.prepare({
      payload: 0,
      children: children(large).map((child, i) => (i % 2 ? { ...child, queue: away } : child)),
    });
    found.add.push(await worst(() => flows.add(flow)));
    found.cancel.push(
      await worst(async () => {
        await new Jobs(connector, home).cancel(flow.id);
        while ((await flows.deliver()).more);
      }),
    );
    const { pending } = await new Jobs(connector, away).counts(['pending']);
    if (pending > 0) throw new Error(`${pending} children were not cancelled`);
  }
  return { add: Math.min(...found.add), cancel: Math.min(...found.cancel) };
}

const ms = (value, unit) => `${value.toFixed(2)} ms (${(value / unit).toFixed(1)} round trips)`;

for (const module of [true, false]) {
  const server = await startServer({ module });
  const connector = await Connector.connect({ url: server.url, wire: module ? 6 : 4 });
  const client = new Redis(server.socketPath);
  const pings = [];
  for (let i = 0; i < 300; i += 1) pings.push(await timed(() => client.ping()));
  const unit = median(pings);
  console.log(`${module ? 'native' : 'script'}: a round trip is ${unit.toFixed(3)} ms`);
  for (const elsewhere of [false, true]) {
    const { add, complete } = await costs(connector, elsewhere);
    const where = elsewhere ? 'children in another queue' : 'one queue';
    console.log(`  ${where}, ${size} children`);
    console.log(`    adding takes ${add.toFixed(2)} times what enqueueMany of as many jobs takes`);
    console.log(`    completing a child takes ${complete.toFixed(2)} times what completing an ordinary job takes`);
    console.log(`    last child's end to parent's start: ${ms(await fanIn(connector, elsewhere), unit)}`);
  }
  const { add, cancel } = await longest(connector, client);
  console.log(
    `  ${large} children: the longest call of adding took ${add.toFixed(2)} ms, of cancelling ${cancel.toFixed(2)} ms`,
  );
  client.disconnect();
  await connector.close();
  await server.stop();
}
