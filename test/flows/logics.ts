/**
 * Two ways to run flows, for the hazards: ours, and the public original's as the fact sheet tells it, in words of our own
 * and without lanes. A hazard is a story that is told on both: it must end well on ours and badly on the original's, or
 * it shows nothing.
 *
 * Invariants: both write the same keys, and leave claims, leases and reads to the package, so a story differs in nothing
 * else. Does not: repeat the original's code, or more of it than the hazards need.
 */
import type { Redis } from 'ioredis';
import { EmqError, Flows, Keyspace, type Call, type HeldJob, type Jobs, type OnFailure } from '../../src/index.js';
import type { Stage } from '../conformance/stage.js';
import { DEATH } from './support.js';

/** A flow with ids of its own; `queue` is the root's where none is given. */
export interface Tree {
  readonly id: string;
  readonly queue: string;
  readonly onFailure?: OnFailure;
  readonly children?: readonly Tree[];
}

export interface Logic {
  add(tree: Tree): Promise<void>;
  complete(queue: string, job: HeldJob, result?: string): Promise<void>;
  /** @param crash the process that settles is gone when the settle's own step has been made. */
  die(queue: string, job: HeldJob, crash?: 'crash'): Promise<void>;
  /** Delivers what the queue's children have left; `beforeRemoval` happens between the delivery and the removal. */
  pump(queue: string, beforeRemoval?: () => Promise<void>): Promise<void>;
  /** The counted sweep, which kills at once. */
  sweep(queue: string): Promise<void>;
  remove(queue: string, id: string): Promise<void>;
  reprocess(queue: string, id: string): Promise<void>;
}

/** Thrown by a story's `beforeRemoval` to say that the pump's process is gone. */
export const CRASH = new EmqError('EMQ_CLOSED', 'the process is gone');

export class Ours implements Logic {
  readonly #stage: Stage;

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  async add({ id, queue, children = [] }: Tree): Promise<void> {
    const child = (one: Tree): object => ({
      payload: 1,
      id: one.id,
      queue: one.queue,
      ...(one.onFailure && { onFailure: one.onFailure }),
      ...(one.children && { children: one.children.map(child) }),
    });
    const flow = { payload: 1, id, children: children.map(child) as { payload: number }[] };
    await new Flows(this.#stage.connector, queue).add(flow);
  }

  async complete(queue: string, job: HeldJob, result?: string): Promise<void> {
    await this.#jobs(queue).complete(job, { result: result === undefined ? undefined : Buffer.from(result) });
  }

  async die(queue: string, job: HeldJob): Promise<void> {
    await this.#jobs(queue).fail(job, DEATH);
  }

  async pump(queue: string, beforeRemoval?: () => Promise<void>): Promise<void> {
    const { connector } = this.#stage;
    const wire = {
      run: async (call: Call) => {
        if (call.transition.name === 'flow_ack') await beforeRemoval?.();
        return connector.run(call);
      },
      runAll: (calls: readonly Call[]) => connector.runAll(calls),
    };
    await new Flows(wire, queue).deliver();
  }

  async sweep(queue: string): Promise<void> {
    await this.#jobs(queue).stalledCheck({ maxStalled: 1 });
  }

  async remove(queue: string, id: string): Promise<void> {
    await this.#jobs(queue).remove(id);
  }

  async reprocess(queue: string, id: string): Promise<void> {
    await this.#jobs(queue).reprocess(id);
  }

  #jobs(queue: string): Jobs {
    return this.#stage.jobs(queue);
  }
}

/** What each script of the original does, as far as flows go. `parent` is absent for a job without one. */
const SCRIPTS = {
  // KEYS parent row, :dependencies   ARGV number of children: whatever was there is overwritten
  hold: `
    redis.call('HSET', KEYS[1], 'state', 'awaiting_children', 'attempts', '0', 'payload', '1')
    redis.call('SET', KEYS[2], ARGV[1])`,
  // KEYS row, pending   ARGV id, parent, parent's queue or empty, policy
  land: `
    redis.call('HSET', KEYS[1], 'state', 'pending', 'attempts', '0', 'payload', '1', 'parent', ARGV[2])
    if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'parent_queue', ARGV[3]) end
    redis.call('HSET', KEYS[1], 'parent_policy', ARGV[4])
    redis.call('ZADD', KEYS[2], 0, ARGV[1])`,
  // KEYS active, pending, row, outbox, parent row   ARGV id, token, result, parent, parent's queue or empty
  // A child counts only if it was active.
  complete: `
    if redis.call('HGET', KEYS[3], 'attempts') ~= ARGV[2] then return redis.error_reply('EMQSTALE complete') end
    local active = redis.call('ZREM', KEYS[1], ARGV[1]) == 1
    if not active then redis.call('ZREM', KEYS[2], ARGV[1]) end
    if active and ARGV[5] ~= '' then
      redis.call('RPUSH', KEYS[4], table.concat({ ARGV[5], ARGV[4], ARGV[1], ARGV[3] }, '\\0'))
    elseif active and ARGV[4] ~= '' then
      redis.call('HSET', KEYS[5] .. ':processed', ARGV[1], ARGV[3])
      if redis.call('DECR', KEYS[5] .. ':dependencies') <= 0 then
        redis.call('ZADD', KEYS[2], 0, ARGV[4])
        redis.call('HSET', KEYS[5], 'state', 'pending')
      end
    end
    redis.call('DEL', KEYS[3])`,
  // KEYS active, pending, row, outbox, parent row, dead, metrics   ARGV id, token, error, parent, queue, policy
  // The state of the job is not looked at.
  die: `
    if redis.call('HGET', KEYS[3], 'attempts') ~= ARGV[2] then return redis.error_reply('EMQSTALE retry') end
    redis.call('ZREM', KEYS[1], ARGV[1])
    redis.call('HSET', KEYS[3], 'state', 'dead', 'last_error', ARGV[3])
    redis.call('ZADD', KEYS[6], 0, ARGV[1])
    redis.call('HINCRBY', KEYS[7], 'count', 1)
    if ARGV[5] ~= '' then
      redis.call('RPUSH', KEYS[4], table.concat({ '', 'fail', ARGV[5], ARGV[4], ARGV[1], ARGV[6], ARGV[3] }, '\\0'))
    elseif ARGV[4] ~= '' and ARGV[6] == 'fp' then
      redis.call('HSET', KEYS[5] .. ':failed', ARGV[1], ARGV[3])
      redis.call('HSET', KEYS[5], 'state', 'dead')
      redis.call('ZADD', KEYS[6], 0, ARGV[4])
      redis.call('ZREM', KEYS[2], ARGV[4])
    elseif ARGV[4] ~= '' then
      redis.call('HSET', KEYS[5] .. ':unsuccessful', ARGV[1], ARGV[3])
      if redis.call('DECR', KEYS[5] .. ':dependencies') <= 0 then
        redis.call('ZADD', KEYS[2], 0, ARGV[4])
        redis.call('HSET', KEYS[5], 'state', 'pending')
      end
    end`,
  // KEYS parent row, pending, dead   ARGV child, text, kind, parent: the parent's row is not looked at
  deliver: `
    local book = ({ done = ':processed', fp = ':failed' })[ARGV[3]] or ':unsuccessful'
    if redis.call('HSETNX', KEYS[1] .. book, ARGV[1], ARGV[2]) == 0 then return end
    if ARGV[3] == 'fp' then
      redis.call('HSET', KEYS[1], 'state', 'dead')
      redis.call('ZADD', KEYS[3], 0, ARGV[4])
      redis.call('ZREM', KEYS[2], ARGV[4])
    elseif redis.call('DECR', KEYS[1] .. ':dependencies') <= 0 then
      redis.call('ZADD', KEYS[2], 0, ARGV[4])
      redis.call('HSET', KEYS[1], 'state', 'pending')
    end`,
  // KEYS active, dead   ARGV base: no word of parents
  sweep: `
    for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
      redis.call('ZREM', KEYS[1], id)
      redis.call('HSET', ARGV[1] .. 'job:' .. id, 'state', 'dead', 'last_error', 'stalled')
      redis.call('ZADD', KEYS[2], 0, id)
    end`,
  // KEYS row, its places   ARGV id: no word of parents
  remove: `
    for i = 2, #KEYS do redis.call('ZREM', KEYS[i], ARGV[1]) end
    redis.call('DEL', KEYS[1])`,
  // KEYS row, dead, pending   ARGV id: it waits for nobody
  reprocess: `
    redis.call('ZREM', KEYS[2], ARGV[1])
    redis.call('HDEL', KEYS[1], 'last_error')
    redis.call('HSET', KEYS[1], 'state', 'pending')
    redis.call('ZADD', KEYS[3], 0, ARGV[1])`,
} as const;

export class Original implements Logic {
  readonly #raw: Redis;

  constructor(stage: Stage) {
    this.#raw = stage.raw;
  }

  /** Parent first, then child after child, each a step; nothing is asked for that is there already. */
  async add({ id, queue, children = [] }: Tree): Promise<void> {
    const keys = new Keyspace(queue);
    const row = keys.job(id);
    await this.#run('hold', [row, `${row}:dependencies`], [String(children.length)]);
    for (const child of children) {
      const below = new Keyspace(child.queue);
      const parentQueue = child.queue === queue ? '' : queue;
      const policy = child.onFailure === 'ignore' ? 'id' : 'fp';
      if (child.children !== undefined) {
        await this.add(child);
        await this.#raw.hset(below.job(child.id), 'parent', id, 'parent_policy', policy);
        if (parentQueue !== '') await this.#raw.hset(below.job(child.id), 'parent_queue', parentQueue);
      } else await this.#run('land', [below.job(child.id), below.pending], [child.id, id, parentQueue, policy]);
    }
  }

  async complete(queue: string, { id, token }: HeldJob, result = id): Promise<void> {
    const keys = new Keyspace(queue);
    const { parent, parentQueue } = await this.#link(keys, id);
    const above = parent === '' ? keys.job(id) : keys.job(parent);
    await this.#run(
      'complete',
      [keys.active, keys.pending, keys.job(id), keys.outbox, above],
      [id, String(token), result, parent, parentQueue],
    );
  }

  /** The script, and then the host's own step: whether the parent is dead of it, and its parent to be told. */
  async die(queue: string, { id, token }: HeldJob, crash?: 'crash'): Promise<void> {
    const keys = new Keyspace(queue);
    const { parent, parentQueue, policy } = await this.#link(keys, id);
    const above = parent === '' ? keys.job(id) : keys.job(parent);
    await this.#run(
      'die',
      [keys.active, keys.pending, keys.job(id), keys.outbox, above, keys.dead, keys.metrics('failed')],
      [id, String(token), DEATH.error, parent, parentQueue, policy],
    );
    if (crash === undefined && parent !== '' && parentQueue === '' && (await this.#isDead(above))) {
      await this.#tellAbove(keys, parent);
    }
  }

  /** Reads the head, delivers letter by letter up to the first that cannot be, and trims as many away. */
  async pump(queue: string, beforeRemoval?: () => Promise<void>): Promise<void> {
    const { outbox } = new Keyspace(queue);
    let delivered = 0;
    for (const letter of await this.#raw.lrange(outbox, 0, 99)) {
      const [first, ...rest] = letter.split('\0');
      const [kind, to = '', parent = '', child = '', text = ''] =
        first === '' ? [rest[4], rest[1], rest[2], rest[3], rest[5]] : ['done', first, ...rest];
      if (kind === undefined || !/^[A-Z]{3}\w{11}$/.test(parent)) break;
      const keys = new Keyspace(to);
      const wasDead = await this.#isDead(keys.job(parent));
      await this.#run('deliver', [keys.job(parent), keys.pending, keys.dead], [child, text, kind, parent]);
      delivered += 1;
      if (kind === 'done') continue;
      try {
        await beforeRemoval?.();
      } catch (error) {
        if (error === CRASH) return;
        throw error;
      }
      // whatever the policy was: only that it was not dead before is asked for
      if (!wasDead) await this.#tellAbove(keys, parent);
    }
    try {
      await beforeRemoval?.();
    } catch (error) {
      if (error === CRASH) return;
      throw error;
    }
    if (delivered > 0) await this.#raw.ltrim(outbox, delivered, -1);
  }

  async sweep(queue: string): Promise<void> {
    const keys = new Keyspace(queue);
    await this.#run('sweep', [keys.active, keys.dead], [keys.base]);
  }

  async remove(queue: string, id: string): Promise<void> {
    const keys = new Keyspace(queue);
    await this.#run('remove', [keys.job(id), keys.pending, keys.active, keys.schedule, keys.dead], [id]);
  }

  async reprocess(queue: string, id: string): Promise<void> {
    const keys = new Keyspace(queue);
    await this.#run('reprocess', [keys.job(id), keys.dead, keys.pending], [id]);
  }

  async #tellAbove(keys: Keyspace, id: string): Promise<void> {
    const { parent, parentQueue, policy } = await this.#link(keys, id);
    if (parent === '') return;
    const to = parentQueue === '' ? keys.queue : parentQueue;
    await this.#raw.rpush(keys.outbox, ['', 'fail', to, parent, id, policy, DEATH.error].join('\0'));
  }

  async #isDead(row: string): Promise<boolean> {
    return (await this.#raw.hget(row, 'state')) === 'dead';
  }

  async #link(keys: Keyspace, id: string): Promise<{ parent: string; parentQueue: string; policy: string }> {
    const [parent, parentQueue, policy] = await this.#raw.hmget(
      keys.job(id),
      'parent',
      'parent_queue',
      'parent_policy',
    );
    return { parent: parent ?? '', parentQueue: parentQueue ?? '', policy: policy ?? 'fp' };
  }

  async #run(script: keyof typeof SCRIPTS, keys: readonly string[], args: readonly string[]): Promise<void> {
    await this.#raw.eval(SCRIPTS[script], keys.length, ...keys, ...args);
  }
}
