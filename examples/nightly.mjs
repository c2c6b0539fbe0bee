/**
 * A report every night at two, in the time zone of those who read it; and a check every 50 ms, five times.
 *
 * Run it in a checkout after `npm run setup`: node examples/nightly.mjs
 * It starts a Valkey of its own. What it prints is in nightly.txt, and a test compares the two.
 */
import { once } from 'node:events';
import { Connector, Queue, Repeats } from 'echomq';
import { startServer } from 'echomq/dev';

const server = await startServer({ module: true });
const emq = await Connector.connect({ url: server.url, wire: 6 });
/** @type {Queue<{ kind: string }>} */
const reports = new Queue(emq, 'reports');
/** @type {Repeats<{ kind: string }>} */
const repeats = new Repeats(emq, 'reports');

const clock = new Intl.DateTimeFormat('en-GB', { timeZone: 'Europe/Berlin', timeStyle: 'short' });
const nightly = { cron: '0 2 * * *', timeZone: 'Europe/Berlin' };

// Every process says so when it starts: only the first time does it make a difference.
const first = await repeats.upsert('nightly', nightly, { payload: { kind: 'sales' } });
const again = await repeats.upsert('nightly', nightly, { payload: { kind: 'sales' } });
console.log(`${first.outcome}, next at ${clock.format(first.next)} in Berlin`);
console.log(`said again: ${again.outcome}, the same slot: ${again.next === first.next}`);

await repeats.upsert('check', { everyMs: 50, limit: 5, immediately: true }, { payload: { kind: 'check' } });
const slots = [];
const consumer = reports.consume((job) => {
  slots.push(job.opts.repeat.slot);
  console.log(`${job.payload.kind} ${slots.length}`);
});
while (slots.length < 5) await once(consumer, 'completed');

const distances = slots.slice(1).map((slot, i) => slot - slots[i]);
console.log(`every slot in its place: ${distances.every((ms) => ms > 0 && ms % 50 === 0)}`);
for await (const { name, next, count } of repeats.list()) {
  console.log(`${name}: ${count} so far, ${next === null ? 'over' : 'goes on'}`);
}

await consumer.close();
await emq.close();
await server.stop();
