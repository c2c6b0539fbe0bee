/**
 * Jobs in lanes, written row by row as an admission into a lane leaves them. Does not: pass through any verb.
 */
import { Redis } from 'ioredis';
import { encodeId, type Keyspace } from '../../src/index.js';
import type { TestNode } from '../../src/testing/index.js';

/** Where a lane stands: served in its turn, or not at all until something changes. */
export type Stand = 'ring' | 'paused' | 'limit' | 'waits';

let numbers = 0n;

/** Puts a job with this payload into a lane of its own. Gives the job's id and the lane's. */
export async function putInLane(
  node: TestNode,
  queue: { readonly keys: Keyspace },
  payload: unknown,
  stand: Stand,
): Promise<{ readonly id: string; readonly group: string }> {
  const [id, group] = [encodeId('JOB', (numbers += 1n)), encodeId('GRP', numbers)];
  const { base } = queue.keys;
  const raw = new Redis({ path: node.server.socketPath });
  const row = ['state', 'pending', 'attempts', '0', 'payload', JSON.stringify(payload), 'group', group];
  await raw.hset(queue.keys.job(id), ...row);
  await raw.zadd(`${base}g:${group}:pending`, 0, id);
  if (stand === 'ring') await raw.rpush(`${base}ring`, group);
  if (stand === 'paused') await raw.sadd(`${base}paused`, group);
  if (stand === 'limit') await raw.hset(`${base}gactive`, group, '1');
  if (stand === 'waits') await raw.zadd(`${base}gwait`, Date.now() + 3_600_000, group);
  raw.disconnect();
  return { id, group };
}
