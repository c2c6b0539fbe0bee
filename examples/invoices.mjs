/**
 * Sending invoices: retries, a dead letter, a delay, and a ledger that refuses an older run's write by the token.
 *
 * Run it in a checkout after `npm run setup`: node examples/invoices.mjs
 * It starts a Valkey of its own. What it prints is in invoices.txt, and a test compares the two.
 */
import { Connector, DelayError, QueueEvents, UnrecoverableError, NamedQueue } from 'echomq';
import { startServer } from 'echomq/dev';

const server = await startServer({ module: true });
const emq = await Connector.connect({ url: server.url, wire: 6 });

/** @type {NamedQueue<{ invoice: { number: number; to: string }; reminder: { number: number } }>} */
const bills = new NamedQueue(emq, 'bills');

// Stands for your database: UPDATE ... WHERE fence < token
/** @type {Map<number, { fence: number; to: string }>} */
const ledger = new Map();
/** @param {number} number @param {string} to @param {number} token */
function book(number, to, token) {
  const row = ledger.get(number);
  if (row && row.fence >= token) throw new UnrecoverableError(`invoice ${number} was booked by a later run`);
  ledger.set(number, { fence: token, to });
}

const consumer = bills.consume(
  {
    invoice: async (job) => {
      const { number, to } = job.payload;
      if (!to.includes('@')) throw new UnrecoverableError(`no address: ${to}`);
      if (number === 3 && job.attempts === 1) throw new Error('the mail server is busy');
      if (number === 5 && job.attempts === 1) throw new DelayError(200);
      book(number, to, job.token);
      return `sent to ${to}`;
    },
    reminder: async (job) => `reminded of ${job.payload.number}`,
  },
  { concurrency: 4, retryDelayMs: 100 },
);

// What happened, in this process: each job ends in one of these.
/** @type {string[]} */
const told = [];
consumer.on('scheduled', (_job, { error }) => told.push(`tried again: ${error.message}`));
consumer.on('failed', (job, { error }) => told.push(`dead: ${error.message}`));
consumer.on('delayed', () => told.push('put off'));

// And over the queue's channel, as any other process would hear it.
const events = new QueueEvents(emq, 'bills');
await events.ready();
let ended = 0;
const all = new Promise((resolve) => {
  for (const event of ['completed', 'failed']) events.on(event, () => (ended += 1) === 8 && resolve(undefined));
});

for (const number of [1, 2, 3, 4, 5, 6]) {
  await bills.enqueue('invoice', { number, to: number === 6 ? 'nobody' : `customer${number}@example.org` });
}
await bills.enqueue('reminder', { number: 1 }, { priority: 1 });
await bills.schedule('reminder', { number: 2 }, { inMs: 150 });
await all;
await consumer.close();

console.log(told.sort().join('\n'));
for (const [number, { fence, to }] of [...ledger].sort(([a], [b]) => a - b)) {
  console.log(`invoice ${number} to ${to}, written with token ${fence}`);
}
const counts = await bills.queue.counts();
console.log(
  `${counts.completed} completed, ${counts.dead} dead, ${counts.pending + counts.active + counts.scheduled} left`,
);
const [deadId = ''] = await bills.queue.browse('dead');
console.log(`last error of the dead one: ${(await bills.queue.get(deadId))?.lastError?.toString().split('\n')[0]}`);

await events.close();
await emq.close();
await server.stop();
