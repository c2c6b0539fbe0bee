/**
 * A process of the soak: a producer, or a consumer of all its queues. Bundled and started by soak-fleet.ts.
 *
 * Invariants: what it notes in its ledger is in the file before it goes on: an id before it is sent, a run before its work,
 * a completion before it is sent. It ends with its parent. It keeps nothing of a job in memory when that is over.
 * Does not: judge.
 */
import { openSync, readdirSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import {
  Connector,
  DelayError,
  EmqError,
  Flows,
  mint,
  Queue,
  UnrecoverableError,
  type ConsumedJob,
  type Consumer,
  type FlowChild,
  type Verdict,
} from '../../src/index.js';
import { rng } from '../../src/parity/prng.js';
import { BULK, LANES, MAIN, SIDE, type Fate, type SoakHealth, type SoakOrder, type SoakPlan } from './soak-words.js';

interface Payload {
  readonly fate: Fate;
  readonly ms: number;
}

const plan = JSON.parse(process.argv[2] ?? '') as SoakPlan;
const { wire, url } = plan;
const ledger = openSync(join(plan.folder, `${plan.role}-${process.pid}.log`), 'a');
/** One line: what, and of which job. */
const note = (what: string, id: string, more: string | number = ''): void =>
  void writeSync(ledger, `${what} ${id} ${more}\n`);
const draw = rng(plan.seed);
/** Faults are no reason to die. */
const MANY = 1_000_000;
/** Faults are what this is about: no warning is news. */
const ignore = (): void => {};

const connector = await Connector.connect({ url, wire, reconnectMaxMs: 500 });
const queues = {
  main: new Queue<Payload>(connector, MAIN),
  side: new Queue<Payload>(connector, SIDE),
  bulk: new Queue<Payload>(connector, BULK),
};
const closing: (() => Promise<void>)[] = [];
let stopped = false;
let added = 0;

// ---- a consumer -----------------------------------------------------------------------------------------------------

async function work({ id, token, credit, attempts, payload }: ConsumedJob<Payload>): Promise<string> {
  note('start', id, token);
  if (payload.ms > 0) await pause(payload.ms);
  if (payload.fate === 'retry' && attempts - credit < 2) throw new Error('try again');
  if (payload.fate === 'delay' && credit === 0) throw new DelayError(50);
  if (payload.fate === 'die') throw new UnrecoverableError('as it was to be');
  note('done', id, token);
  return id;
}

function consume(): void {
  const recovery = { recovery: 'stalled', maxStalled: MANY, deadLetter: false } as const;
  const options = { ...recovery, leaseMs: 3_000, beatMs: 250, retryDelayMs: 20, maxAttempts: MANY };
  const consumers = [
    queues.main.consume(work, { ...options, concurrency: 8 }),
    queues.side.consume(work, { ...options, concurrency: 4 }),
    queues.bulk.consumeBatch(
      async (jobs) => {
        const settled = await Promise.allSettled(jobs.map((job) => work(job)));
        return new Map(jobs.map(({ id }, i) => [id, verdictOf(settled[i])]));
      },
      { ...options, minSize: 2, maxSize: 20, timeoutMs: 200 },
    ),
  ];
  for (const consumer of consumers) {
    const one = consumer as Consumer<Payload>;
    one.on('warning', ignore);
    closing.push(() => one.close());
  }
}

function verdictOf(settled: PromiseSettledResult<string> | undefined): Verdict {
  if (settled === undefined) throw new Error('no verdict');
  if (settled.status === 'fulfilled') return { complete: settled.value };
  const thrown = settled.reason as Error;
  return thrown instanceof DelayError ? { delay: thrown.runAt } : { fail: thrown };
}

// ---- a producer -----------------------------------------------------------------------------------------------------

function job(): { readonly id: string; readonly payload: Payload } {
  const roll = draw.below(100);
  const fate = roll < 80 ? 'ok' : roll < 88 ? 'retry' : roll < 96 ? 'delay' : 'die';
  const id = mint();
  note('intend', id, fate);
  return { id, payload: { fate, ms: draw.below(20) } };
}

/** Notes what an admission came to. One whose answer was lost is noted as nothing. */
async function admit(ids: readonly string[], add: () => Promise<boolean>): Promise<void> {
  let what = 'unknown';
  try {
    if (await add()) what = 'added';
  } catch (error) {
    const code = error instanceof EmqError ? error.code : String(error);
    if (code === 'EMQ_CONNECTION') what = 'refused';
    else if (!/^(EMQ_UNKNOWN_OUTCOME|EMQ_TIMEOUT|LOADING|BUSY)$/.test(code)) what = `trouble:${String(error)}`;
    await pause(50);
  }
  for (const id of ids) {
    note(what === 'unknown' ? 'unanswered' : what.replace(/\s+/g, '_'), id);
    if (what === 'added') added++;
  }
}

async function addOne(): Promise<void> {
  const { id, payload } = job();
  const group = draw.chance(50) ? { group: draw.pick(LANES) } : {};
  await admit([id], async () => (await queues.main.enqueue(payload, { id, ...group })).outcome === 'enqueued');
}

async function addLater(): Promise<void> {
  const { id, payload } = job();
  const when = { inMs: draw.below(2_000) };
  await admit([id], async () => (await queues.main.schedule(payload, when, { id })).outcome === 'scheduled');
}

async function addMany(): Promise<void> {
  const jobs = Array.from({ length: 1 + draw.below(15) }, job);
  for (const one of await queues.bulk.enqueueMany(jobs)) {
    await admit([one.id], async () => {
      if (one.outcome === 'failed') throw one.error;
      return one.outcome === 'enqueued';
    });
  }
}

/** A parent here with children here and there: it lands in steps, which are made until all are done. */
async function addFlow(flows: Flows<Payload>): Promise<void> {
  const root = job();
  const children = Array.from({ length: 1 + draw.below(3) }, (): FlowChild & { readonly id: string } => {
    const { id, payload } = job();
    return { id, payload, queue: draw.pick([MAIN, SIDE]), onFailure: draw.pick(['fail', 'ignore', 'remove'] as const) };
  });
  const ids = [root.id, ...children.map(({ id }) => id)];
  const flow = await flows.prepare({ ...root, children });
  for (const id of ids) note('flow', id);
  for (let tries = 0; ; tries++) {
    try {
      await flows.add(flow);
      for (const id of ids) note('added', id);
      added += ids.length;
      return;
    } catch (error) {
      // it may have been done meanwhile, and is added anew then
      if (tries === 0) for (const id of ids) note('again', id);
      if (!(error instanceof EmqError) || error.code === 'EMQSTATE') {
        for (const id of ids) note(`trouble:${String(error).replace(/\s+/g, '_')}`, id);
        return;
      }
      await pause(100);
    }
  }
}

async function produce(): Promise<void> {
  const flows = new Flows<Payload>(connector, MAIN);
  while (!stopped) {
    const roll = draw.below(100);
    if (roll < 60) await addOne();
    else if (roll < 75) await addLater();
    else if (roll < 90) await addMany();
    else await addFlow(flows);
    await pause(plan.pauseMs * (0.5 + draw.below(100) / 100));
  }
}

// ---- orders ---------------------------------------------------------------------------------------------------------

function health(): SoakHealth {
  (globalThis as { gc?: () => void }).gc?.();
  const { rss, heapUsed, external } = process.memoryUsage();
  return {
    ...{ added, rss, heap: heapUsed + external },
    handles: process.getActiveResourcesInfo().length,
    // the one that reads the folder is among them
    fds: readdirSync('/proc/self/fd').length,
  };
}

let producing: Promise<void> | undefined;
if (plan.role === 'consumer') consume();
process.on('message', (order: SoakOrder) => {
  if (order === 'health') process.send?.({ health: health() });
  if (order === 'go') producing = produce();
  if (order === 'stop') {
    stopped = true;
    void Promise.resolve(producing).then(() => process.send?.({ stopped: true }));
  }
  if (order === 'close') {
    void Promise.all(closing.map((close) => close()))
      .then(() => connector.close())
      // from here on nothing but what was left open keeps this process alive
      .then(() => process.channel?.unref());
  }
});
process.on('disconnect', () => process.exit(0));
process.send?.({ ready: true });
