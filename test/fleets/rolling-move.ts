/**
 * A node in use is moved from wire 4 to wire 6 and back, while producers add and consumers work: what docs/upgrade.md tells
 * an operator to do, step by step.
 *
 * Invariants checked: each job that was acknowledged ends, none is lost, none is dead; where all clients are closed in
 * good order no job runs twice; where a client is cut off only what it held may run again. Nobody waits for time but for
 * the leases of a client that was cut off.
 */
import { expect } from 'vitest';
import { Connector, Lanes, Queue, type Consumer, type EmqError } from '../../src/index.js';
import { defaultModulePath } from '../../src/dev/index.js';
import { readKeys } from '../../src/parity/keyspace-dump.js';
import { violations } from '../../src/parity/invariants.js';
import type { Wire } from '../conformance/stage.js';
import { TestServer } from '../wire/server.js';
import { emq } from './command.js';

/** How much of it. */
export interface Amounts {
  /** Jobs that have to be done in each of the phases, before the next one begins. */
  readonly jobsPerPhase: number;
  readonly producers: number;
  readonly consumers: number;
}

const GROUPS = ['TEN00000000001', 'TEN00000000002', 'TEN00000000003'];
/** Where nobody is cut off no lease lapses, however slow the machine is; where somebody is, this long is waited for. */
const [LONG_LEASE_MS, SHORT_LEASE_MS] = [60_000, 1_000];
const QUEUE = 'orders';
const PATIENT = { timeout: 60_000, interval: 20 };

/** Who adds jobs, one after the other, until it is stopped. */
class Producer {
  #stopped = false;
  readonly over: Promise<void>;

  constructor(
    readonly connector: Connector,
    readonly fleet: Fleet,
  ) {
    this.over = this.#run();
  }

  async #run(): Promise<void> {
    const [queue, lanes] = [new Queue<number>(this.connector, QUEUE), new Lanes<number>(this.connector, QUEUE)];
    while (!this.#stopped) {
      // far ahead of the consumers it would only fill the server
      if (this.fleet.open > 200) {
        await new Promise((resolve) => setImmediate(resolve));
        continue;
      }
      const n = this.fleet.next();
      const group = GROUPS[n % (GROUPS.length + 1)];
      try {
        if (group === undefined) await queue.enqueue(n);
        else await lanes.enqueue(group, n);
        this.fleet.acknowledged.add(n);
      } catch (error) {
        // refused by the fence: it has not been added, and whoever adds it again does so elsewhere
        this.fleet.refusals.push(error as EmqError);
        return;
      }
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.over;
    await this.connector.close();
  }
}

class Worker {
  done = 0;

  constructor(
    readonly connector: Connector,
    readonly consumer: Consumer<number>,
  ) {}

  /** @param timeoutMs for the jobs in hand; 0 where they cannot be taken back to the server. */
  async stop(timeoutMs = 30_000): Promise<void> {
    await this.consumer.close({ timeoutMs });
    await this.connector.close();
  }
}

class Fleet implements AsyncDisposable {
  #n = 0;
  readonly acknowledged = new Set<number>();
  readonly refusals: EmqError[] = [];
  /** How often each job's handler ran to its end. */
  readonly runs = new Map<number, number>();
  readonly producers: Producer[] = [];
  readonly workers: Worker[] = [];

  constructor(
    readonly server: TestServer,
    readonly leaseMs: number,
  ) {}

  next(): number {
    return this.#n++;
  }

  get open(): number {
    return this.acknowledged.size - this.runs.size;
  }

  async connect(wire: Wire): Promise<Connector> {
    return Connector.connect({ url: this.server.url, wire, reconnectMinMs: 5, reconnectMaxMs: 50 });
  }

  async addProducer(wire: Wire): Promise<Producer> {
    const producer = new Producer(await this.connect(wire), this);
    this.producers.push(producer);
    return producer;
  }

  async addWorker(wire: Wire): Promise<Worker> {
    const connector = await this.connect(wire);
    const options = { concurrency: 5, leaseMs: this.leaseMs, beatMs: 50, recovery: 'stalled', maxStalled: 3 } as const;
    const worker: Worker = new Worker(
      connector,
      new Queue<number>(connector, QUEUE).consume(async ({ payload }) => {
        // a handler that gives way, so that jobs are in flight at every moment
        await new Promise((resolve) => setImmediate(resolve));
        this.runs.set(payload, (this.runs.get(payload) ?? 0) + 1);
        worker.done += 1;
      }, options),
    );
    worker.consumer.on('warning', () => {});
    this.workers.push(worker);
    return worker;
  }

  /** So many more jobs are done by each of them. */
  async until(workers: readonly Worker[], more: number): Promise<void> {
    const goals = workers.map(({ done }) => done + more);
    await expect.poll(() => workers.every(({ done }, i) => done >= (goals[i] ?? 0)), PATIENT).toBe(true);
  }

  async move(step: 'upgrade' | 'downgrade'): Promise<void> {
    expect(await emq(['wire', step, '--yes', '--url', this.server.url])).toMatchObject({ code: 0 });
  }

  /** All that was acknowledged is done, and nothing is left of it. */
  async finish(): Promise<void> {
    for (const producer of this.producers) await producer.stop();
    await expect.poll(() => [...this.acknowledged].filter((n) => !this.runs.has(n)), PATIENT).toEqual([]);
    const { admin } = this.server;
    const left = async () =>
      Promise.all([
        ...['pending', 'active', 'schedule', 'dead'].map((set) => admin.zcard(`emq:{${QUEUE}}:${set}`)),
        ...GROUPS.map((group) => admin.zcard(`emq:{${QUEUE}}:g:${group}:pending`)),
        admin.hlen(`emq:{${QUEUE}}:gactive`),
        admin.keys(`emq:{${QUEUE}}:job:*`).then((keys) => keys.length),
      ]);
    await expect.poll(left, PATIENT).toEqual(Array(9).fill(0));
    expect(violations(await readKeys(admin), `emq:{${QUEUE}}:`)).toEqual([]);
    for (const worker of this.workers) await worker.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { connector } of [...this.producers, ...this.workers]) await connector.close();
    await this.server[Symbol.asyncDispose]();
  }
}

async function startFleet(leaseMs: number): Promise<Fleet> {
  return new Fleet(await TestServer.start('--enable-module-command', 'local'), leaseMs);
}

const each = async <T>(count: number, make: () => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, make));

/** From 4 to 6 and back, every client closed in good order: no job is lost, none runs twice, none is refused. */
export async function moveThereAndBack({ jobsPerPhase, producers, consumers }: Amounts): Promise<void> {
  await using fleet = await startFleet(LONG_LEASE_MS);
  const { admin } = fleet.server;
  const oldWorkers = await each(consumers, () => fleet.addWorker(4));
  const oldProducers = await each(producers, () => fleet.addProducer(4));
  await fleet.until(oldWorkers, jobsPerPhase);

  // up: the module, the brand, new clients beside the old ones, then the old ones go one by one
  await admin.call('MODULE', 'LOAD', defaultModulePath());
  await fleet.move('upgrade');
  await fleet.until(oldWorkers, jobsPerPhase);
  const newWorkers = await each(consumers, () => fleet.addWorker(6));
  const newProducers = await each(producers, () => fleet.addProducer(6));
  await fleet.until([...oldWorkers, ...newWorkers], jobsPerPhase);
  for (const old of [...oldWorkers, ...oldProducers]) {
    await old.stop();
    await fleet.until(newWorkers, Math.ceil(jobsPerPhase / 4));
  }
  const native = await admin.info('commandstats');
  expect(native).toMatch(/cmdstat_EMQ.TAKE:calls=[1-9]/i);

  // down: workers of wire 6 first, since their commands are refused at once; the producers' scripts are not
  for (const worker of newWorkers) await worker.stop();
  await fleet.move('downgrade');
  const lastWorkers = await each(consumers, () => fleet.addWorker(4));
  await each(producers, () => fleet.addProducer(4));
  await fleet.until(lastWorkers, jobsPerPhase);
  for (const old of newProducers) await old.stop();
  await fleet.until(lastWorkers, jobsPerPhase);

  await fleet.finish();
  expect(fleet.refusals).toEqual([]);
  expect(fleet.runs.size).toBe(fleet.acknowledged.size);
  expect([...fleet.runs].filter(([, times]) => times > 1)).toEqual([]);
}

/**
 * The same with clients that are cut off: in the upgrade a wire 4 worker and a producer lose their connections and cannot
 * come back, in the downgrade the wire 6 workers are at work. Nothing is lost; what was held may run again.
 */
export async function moveWithLosses({ jobsPerPhase, producers, consumers }: Amounts): Promise<void> {
  await using fleet = await startFleet(SHORT_LEASE_MS);
  const { admin } = fleet.server;
  await admin.call('MODULE', 'LOAD', defaultModulePath());
  const oldWorkers = await each(consumers, () => fleet.addWorker(4));
  await each(producers, () => fleet.addProducer(4));
  await fleet.until(oldWorkers, jobsPerPhase);
  await fleet.move('upgrade');
  const newWorkers = await each(consumers, () => fleet.addWorker(6));
  await fleet.until(newWorkers, jobsPerPhase);
  const refused = oldWorkers.map(({ connector }) => new Promise((resolve) => connector.once('refused', resolve)));
  await fleet.server.killClients();
  await Promise.all(refused);
  await expect.poll(() => fleet.refusals.length, PATIENT).toBe(producers);
  for (const { code } of fleet.refusals) expect(['EMQWIRE', 'EMQ_UNKNOWN_OUTCOME', 'EMQ_CONNECTION']).toContain(code);
  fleet.refusals.length = 0;
  for (const old of oldWorkers) await old.stop(0);
  await each(producers, () => fleet.addProducer(6));
  await fleet.until(newWorkers, jobsPerPhase);

  await fleet.move('downgrade');
  const lastWorkers = await each(consumers, () => fleet.addWorker(4));
  await fleet.until(lastWorkers, jobsPerPhase);
  await expect
    .poll(() => newWorkers.every(({ connector }) => connector.stats().state === 'refused'), PATIENT)
    .toBe(true);
  for (const worker of newWorkers) await worker.stop(0);
  await fleet.finish();
}
