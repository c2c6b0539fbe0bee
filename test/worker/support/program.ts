/**
 * A worker process of the tests: takes its plan from its arguments, consumes, tells its parent what happens, and does
 * what the parent says. Bundled and started by processes.ts.
 *
 * Invariants: it ends with its parent; what it notes in the ledger is on disk before it goes on.
 * Does not: judge.
 */
import { hashByStream, type FilePath } from '../../../src/demo/files.js';
import {
  Connector,
  DelayError,
  Queue,
  closeOnSignal,
  type ConnectorOptions,
  type ConsumedJob,
  type ConsumeOptions,
  type Consumer,
  type JobContext,
} from '../../../src/index.js';
import { Repeats } from '../../../src/queue/repeats.js';
import { note } from './ledger.js';

/** What the handler does. All but `hash` take the payload that is named with them. */
export type Work =
  /** Notes start and end in the ledger; `{ ms }` in between. */
  | 'note'
  /** The demo's work: hashes the file that the payload names. */
  | 'hash'
  /** Runs until the parent says `go`; an abort of the signal is told and fails the job. */
  | 'hold'
  /** As `hold`, after it has blocked the event loop for `{ ms }`; ends well after an abort too. */
  | 'block'
  /** Never ends, whatever the signal says. */
  | 'hang'
  /** Notes the slot of the repeat that the job is of. */
  | 'repeat'
  /** Puts itself off, due at once. */
  | 'delay';

export interface Plan {
  readonly queue: string;
  readonly work: Work;
  readonly connector: ConnectorOptions;
  readonly options?: ConsumeOptions;
  /** How many consumers. Default 1. */
  readonly consumers?: number;
  /** A repeat that it puts when it starts, as all processes of a fleet do. */
  readonly repeat?: { readonly name: string; readonly everyMs: number };
  /** The folder of the ledger. */
  readonly ledger?: string;
  /** Names of the consumers' events that are told to the parent. */
  readonly tell?: readonly string[];
  /** Close by closeOnSignal, with this time. */
  readonly closeOnSignalMs?: number;
}

/** What is told to the parent. */
export interface Told {
  readonly event: string;
  readonly id?: string;
  readonly token?: number;
  readonly text?: string;
  readonly ids?: readonly string[];
}

/** What the parent says. */
export type Order = { readonly order: 'go' | 'stats' } | { readonly order: 'close'; readonly timeoutMs: number };

const plan = JSON.parse(process.argv[2] ?? '') as Plan;
const tell = (told: Told): void => void process.send?.(told);

let sayGo: () => void = () => {};
const go = new Promise<void>((resolve) => (sayGo = resolve));

function aborted({ signal }: JobContext): Promise<Error> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason as Error);
    else signal.addEventListener('abort', () => resolve(signal.reason as Error), { once: true });
  });
}

async function work(job: ConsumedJob, context: JobContext): Promise<unknown> {
  const { id, token, credit } = job;
  const { ms = 0 } = job.payload as { ms?: number };
  if (plan.ledger !== undefined && plan.work !== 'delay') {
    const stalled = Number((await queue.get(id))?.fields.get('stalled')?.toString() ?? 0);
    note(plan.ledger, { at: 'start', id, token, credit, stalled });
  }
  const result = await does(job, context, ms);
  if (plan.ledger !== undefined && plan.work !== 'delay') note(plan.ledger, { at: 'done', id, token, result });
  return result;
}

async function does(job: ConsumedJob, context: JobContext, ms: number): Promise<unknown> {
  const told = { id: job.id, token: job.token };
  switch (plan.work) {
    case 'note':
      return ms === 0 ? null : new Promise((resolve) => setTimeout(() => resolve(null), ms));
    case 'hash':
      return hashByStream(job.payload as FilePath);
    case 'hold': {
      tell({ event: 'holding', ...told });
      const reason = await Promise.race([go, aborted(context)]);
      if (reason === undefined) return null;
      tell({ event: 'aborted', ...told, text: reason.message });
      throw reason;
    }
    case 'block': {
      tell({ event: 'blocking', ...told });
      // What was told must have left before nothing can leave any more.
      await new Promise((resolve) => setImmediate(resolve));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
      tell({ event: 'blocked', ...told });
      const reason = await Promise.race([go, aborted(context)]);
      if (reason !== undefined) tell({ event: 'aborted', ...told, text: reason.message });
      return null;
    }
    case 'hang':
      tell({ event: 'holding', ...told });
      return new Promise(() => {});
    case 'repeat':
      return job.opts['repeat'];
    case 'delay':
      throw new DelayError(0);
  }
}

function watch(consumer: Consumer): void {
  // Faults are what these tests are about: a warning is told where it is asked for, and is no news elsewhere.
  consumer.on('warning', () => {});
  for (const event of plan.tell ?? []) {
    consumer.on(event as 'completed', (...args: unknown[]) => {
      const [first, second] = args as [Record<string, unknown> | undefined, unknown];
      const { id, token, recovered, dead, message } = first ?? {};
      tell({
        event,
        ...(typeof id === 'string' && { id }),
        ...(typeof token === 'number' && { token }),
        ...(Array.isArray(recovered) && { ids: [...(recovered as string[]), ...(dead as string[])] }),
        ...(typeof message === 'string' && { text: message }),
        ...(second instanceof Error && { text: second.message }),
      });
    });
  }
}

const connector = await Connector.connect(plan.connector);
const queue = new Queue(connector, plan.queue);
if (plan.repeat !== undefined) {
  const { name, everyMs } = plan.repeat;
  await new Repeats(connector, plan.queue).upsert(name, { everyMs, missed: 'catchUp' }, { payload: {} });
}
const consumers = Array.from({ length: plan.consumers ?? 1 }, () => queue.consume(work, plan.options));
consumers.forEach(watch);
if (plan.closeOnSignalMs !== undefined) {
  closeOnSignal([...consumers, connector], { timeoutMs: plan.closeOnSignalMs });
}

async function close(timeoutMs: number): Promise<void> {
  await Promise.all(consumers.map((one) => one.close({ timeoutMs })));
  await connector.close();
  // From here on nothing but what was left open keeps this process alive.
  process.channel?.unref();
}

process.on('message', (message: Order) => {
  if (message.order === 'go') sayGo();
  if (message.order === 'stats') tell({ event: 'stats', text: JSON.stringify(consumers.map((one) => one.stats())) });
  if (message.order === 'close') void close(message.timeoutMs);
});
process.on('disconnect', () => process.exit(0));
tell({ event: 'ready' });
