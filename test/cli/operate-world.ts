/** A node with a queue `mail` that has something of everything, for the tests of the operator's commands. Gone with the test. */
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { Admin, Connector, Jobs, Lanes, Repeats } from '../../src/index.js';
import type { EmbeddedServer } from '../../src/dev/index.js';
import { emq, node, ROOT, type Ran } from './emq.js';

export const LEASE = { leaseMs: 600_000 };
export const [TENANT, OTHER] = ['TEN00000000001', 'TEN00000000002'];
export const WIRES = [4, 6] as const;

export interface World {
  readonly server: EmbeddedServer;
  readonly connector: Connector;
  readonly mail: Jobs;
  readonly lanes: Lanes;
  readonly admin: Admin;
  readonly repeats: Repeats;
  /** Runs `emq` on the node. */
  readonly run: (...args: string[]) => Promise<Ran>;
}

/** The id of a number. */
export function id(n: number): string {
  return `JOB0${String(n).padStart(10, '0')}`;
}

export async function world(wire: 4 | 6): Promise<World> {
  const server = await node({ module: wire === 6 });
  const connector = await Connector.connect({ url: server.url, wire });
  onTestFinished(() => connector.close());
  return {
    ...{ server, connector, mail: new Jobs(connector, 'mail'), lanes: new Lanes(connector, 'mail') },
    ...{ admin: new Admin(connector, 'mail'), repeats: new Repeats(connector, 'mail') },
    run: (...args) => emq(...args, '--url', server.url),
  };
}

/** So many dead jobs, from number `first` on, with an error that has the number in it. */
export async function kill({ mail }: World, first: number, count: number): Promise<void> {
  for (let n = first; n < first + count; n++) {
    await mail.enqueue(n, { id: id(n), name: n % 2 === 0 ? 'even' : 'odd', priority: 0 });
    const job = await mail.claim(LEASE);
    if (job === null) throw new Error('no job waits');
    await mail.fail(job, { delayMs: 0, maxAttempts: 1, error: `boom ${n}\n  at once` });
  }
}

/** Three flat jobs (1 to 3), one scheduled (4), two dead (5, 6), two in a lane (7, 8), one in flight (9), and repeats. */
export async function fill(world: World): Promise<void> {
  const { mail, lanes, repeats } = world;
  await kill(world, 5, 2);
  await mail.enqueue('payload 9', { id: id(9) });
  await mail.claim(LEASE);
  for (const n of [1, 2, 3]) await mail.enqueue(`payload ${n}`, { id: id(n), name: 'welcome', priority: n });
  await mail.schedule('payload 4', { inMs: 3_600_000 }, { id: id(4) });
  for (const n of [7, 8]) await lanes.enqueue(TENANT, `payload ${n}`, { id: id(n) });
  await repeats.upsert('nightly', { cron: '0 3 * * *', timeZone: 'Europe/Berlin' }, { payload: 'tonight' });
  await repeats.upsert('tick', { everyMs: 90_000 }, { payload: 1 });
}

/** Runs `emq` on a terminal; what it shows is gathered in `text`. */
export function onTerminal({ server }: World, ...args: string[]): { child: ChildProcess; text: () => string } {
  const command = [process.execPath, join(ROOT, 'dist', 'cli', 'main.js'), ...args].map((one) => `'${one}'`).join(' ');
  // the two kinds of script(1) take their words in another order
  const words =
    process.platform === 'darwin'
      ? ['/dev/null', 'sh', '-c', `exec ${command}`]
      : ['-ec', `exec ${command}`, '/dev/null'];
  const env = { ...process.env, EMQ_URL: server.url, TERM: 'xterm', CI: undefined };
  const child = spawn('script', ['-q', ...words], { env });
  onTestFinished(() => void child.kill());
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (more: string) => (text += more));
  return { child, text: () => text };
}
