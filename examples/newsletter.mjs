/**
 * A mailing for several tenants: each gets its turn, however much another has queued, and none sends faster than its rate.
 *
 * Run it in a checkout after `npm run setup`: node examples/newsletter.mjs
 * It starts a Valkey of its own. What it prints is in newsletter.txt, and a test compares the two.
 */
import { once } from 'node:events';
import { Connector, Lanes, mint, Queue } from 'echomq';
import { startServer } from 'echomq/dev';

const server = await startServer({ module: true });
const emq = await Connector.connect({ url: server.url, wire: 6 });
/** @type {Queue<{ tenant: string, to: string }>} */
const mail = new Queue(emq, 'mail');
const lanes = new Lanes(emq, mail);

// A lane is named by an id: one for each tenant, kept with the tenant.
const tenants = { acme: mint('TEN'), bluebird: mint('TEN'), corner: mint('TEN') };
const subscribers = { acme: 6, bluebird: 2, corner: 2 };

// What holds for every tenant: three mails at once, and then one in 200 ms.
await lanes.setRate('*', { max: 3, durationMs: 600 });

await mail.pause();
for (const [tenant, count] of Object.entries(subscribers)) {
  const items = Array.from({ length: count }, (_, i) => ({ tenant, to: `reader-${i + 1}@${tenant}.example` }));
  await mail.enqueueMany(items.map((payload) => ({ payload, group: tenants[tenant] })));
}
for (const [tenant, waiting] of await lanes.depths(Object.values(tenants))) {
  const [name] = Object.entries(tenants).find(([, id]) => id === tenant);
  console.log(`${name}: ${waiting} mails wait`);
}

const sent = [];
const times = [];
const consumer = mail.consume((job) => {
  sent.push(job.payload.tenant);
  times.push(performance.now());
});
await mail.resume();
while (sent.length < 10) await once(consumer, 'completed');

console.log(`in turn:  ${sent.slice(0, 7).join(' ')}`);
console.log(`the rest: ${sent.slice(7).join(' ')}`);
console.log(`acme had to wait for its rate: ${times.at(-1) - times[0] > 500}`);

await consumer.close();
for await (const { waiting, state } of lanes.list()) console.log(`one lane is left: ${waiting} jobs, it ${state}`);
await emq.close();
await server.stop();
