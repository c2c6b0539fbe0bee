/** A node with two queues for the tests of `emq flow`, and jobs whose ids and order are known. Gone with the test. */
import { onTestFinished } from 'vitest';
import type { EmbeddedServer } from '../../src/dev/index.js';
import { Connector, Flows, Jobs, type EnqueueOptions } from '../../src/index.js';
import { node } from './emq.js';

export const LEASE = { leaseMs: 600_000 };

export interface World {
  readonly server: EmbeddedServer;
  readonly connector: Connector;
  /** The flows, and the jobs, of queue mail. */
  readonly flows: Flows;
  readonly mail: Jobs;
  readonly thumbs: Jobs;
}

export async function world(wire: 4 | 6): Promise<World> {
  const server = await node({ module: wire === 6 });
  const connector = await Connector.connect({ url: server.url, wire });
  onTestFinished(() => connector.close());
  return {
    server,
    connector,
    flows: new Flows(connector, 'mail'),
    mail: new Jobs(connector, 'mail'),
    thumbs: new Jobs(connector, 'thumbs'),
  };
}

/** The id of a number. */
export function id(n: number): string {
  return `JOB0${String(n).padStart(10, '0')}`;
}

export function job(
  n: number,
  more: Omit<EnqueueOptions, 'id'> = {},
): Omit<EnqueueOptions, 'id'> & { id: string; payload: number } {
  return { ...more, id: id(n), payload: n };
}

/** Claims the first job that waits in a queue. */
export async function take(jobs: Jobs): Promise<{ id: string; token: number }> {
  const held = await jobs.claim(LEASE);
  if (held === null) throw new Error('no job waits');
  return held;
}
