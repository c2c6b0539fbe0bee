/**
 * Rows are written in batches: one insert for many jobs, with a verdict for each of them.
 *
 * Run it in a checkout after `npm run setup`: node examples/ledger.mjs
 * It starts a Valkey of its own. What it prints is in ledger.txt, and a test compares the two.
 */
import { once } from 'node:events';
import { Connector, Queue } from 'echomq';
import { startServer } from 'echomq/dev';

const server = await startServer({ module: true });
const emq = await Connector.connect({ url: server.url, wire: 6 });
/** @type {Queue<{ account: string, cents: number }>} */
const entries = new Queue(emq, 'entries');

// A table that writes many rows at once, and says which it cannot take. The token keeps an older run's rows out.
const table = new Map();
const insert = (rows) => rows.filter(({ cents }) => !Number.isInteger(cents)).map(({ id }) => id);

await entries.pause();
await entries.enqueueMany(
  Array.from({ length: 120 }, (_, i) => ({
    payload: { account: `A${i % 7}`, cents: i === 60 ? 0.5 : 100 * i },
    maxAttempts: 1,
  })),
);

const consumer = entries.consumeBatch(
  (jobs) => {
    const rows = jobs.map(({ id, token, payload }) => ({ id, token, ...payload }));
    const refused = new Set(insert(rows));
    for (const row of rows) if (!refused.has(row.id)) table.set(row.id, row);
    return new Map(jobs.map(({ id }) => [id, refused.has(id) ? { fail: 'no whole number of cents' } : 'complete']));
  },
  { minSize: 50, maxSize: 50, timeoutMs: 200 },
);
let done = 0;
consumer.on('batch', ({ completed, dead }) => {
  done += completed.length + dead.length;
  console.log(`${completed.length} written, ${dead.length} refused`);
});
await entries.resume();
while (done < 120) await once(consumer, 'batch');

console.log(`rows in the table: ${table.size}`);
const [dead] = await entries.browse('dead');
console.log(`and one to look at: ${(await entries.get(dead)).lastError}`);

await consumer.close();
await emq.close();
await server.stop();
