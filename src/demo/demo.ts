/**
 * The second half of `npm run demo`: every file below a folder becomes a job on a private wire 6 node, and the
 * results are checked.
 *
 * Invariants: the node is gone when this ends; what is printed at the end is what was found, and the exit code says
 * the same.
 * Does not: set anything up (scripts/demo.mjs).
 */
import { startServer } from '../dev/index.js';
import { Connector } from '../index.js';
import { findFiles } from './files.js';
import { count, Progress, type Output } from './progress.js';
import { judge, type Verdict } from './verdict.js';
import { enqueueFiles, fileQueue, newLedger, workAll } from './work.js';

export interface DemoOptions {
  readonly folder: string;
  readonly out: Output;
  /** Ends the demo early. */
  readonly signal?: AbortSignal;
  /** Files that are hashed at once. Default 16. */
  readonly concurrency?: number;
  /** Called between the enqueueing and the work. */
  readonly onEnqueued?: () => Promise<void>;
}

const CONCURRENCY = 16;
/** How many names a list shows. */
const NAMES = 10;

/** Runs it; resolves with what was found. Rejects with an `EmqError`, or the system's error for the folder. */
export async function runDemo(options: DemoOptions): Promise<Verdict> {
  const { folder, out, signal, concurrency = CONCURRENCY, onEnqueued } = options;
  const say = (label: string, text: string): void => void out.write(`${label.padEnd(10)}${text}\n`);
  const names = (label: string, list: readonly string[]): void => {
    for (const name of list.slice(0, NAMES)) say(label, name);
    if (list.length > NAMES) say(label, `... and ${count(list.length - NAMES)} more`);
  };

  const found = await findFiles(folder);
  const others = found.leftOut === 0 ? '' : `; ${count(found.leftOut)} links and other entries left out`;
  say('found', `${count(found.files.length)} files in ${count(found.folders)} folders${others}`);
  names('unread', found.unreadable);

  await using server = await startServer({ module: true, brand: 6, signal });
  await using connector = await Connector.connect({ url: server.url, wire: 6, ...(signal && { signal }) });
  say('node', `Valkey ${server.version} with trafikey, wire 6`);
  const queue = fileQueue(connector);
  const ledger = newLedger();

  const adding = new Progress(out, 'enqueued', found.files.length);
  await enqueueFiles(queue, found.files, ledger, adding.at);
  say('enqueued', `${count(ledger.enqueued.size)} jobs${rate(ledger.enqueued.size, adding.end())}`);
  await onEnqueued?.();

  const working = new Progress(out, 'hashed', ledger.enqueued.size);
  await workAll(queue, concurrency, ledger, working.at, signal);
  const settled = ledger.completed.size + ledger.dead.size;
  const size = `${(ledger.bytes / 2 ** 20).toFixed(1)} MiB`;
  say(
    'hashed',
    `${count(settled)} jobs, ${size}, ${concurrency} at once in one process${rate(settled, working.end())}`,
  );

  const checking = new Progress(out, 'checked', ledger.enqueued.size);
  const verdict = await judge(queue, ledger, checking.at);
  say('checked', `${count(verdict.jobs)} jobs against a direct computation${rate(verdict.jobs, checking.end())}`);
  for (const list of ['dead', 'changed', 'lost', 'doubled', 'unequal', 'miscounted'] as const)
    names(list, verdict[list]);
  const { dead, lost, doubled, unequal, changed } = verdict;
  const numbers = Object.entries({ dead, lost, doubled, unequal, changed }).map(
    ([what, list]) => `${list.length} ${what}`,
  );
  say('result', `${count(verdict.jobs)} jobs: ${count(verdict.completed)} completed, ${numbers.join(', ')}`);
  say(verdict.ok ? 'ok' : 'FAILED', verdict.ok ? 'none lost, none doubled, all equal' : 'see the names above');
  return verdict;
}

/** For information: the machine, the files and the disk make this number, not only the queue. */
function rate(jobs: number, seconds: number): string {
  return ` in ${seconds.toFixed(1)} s (${count(Math.round(jobs / Math.max(seconds, 0.001)))}/s)`;
}
