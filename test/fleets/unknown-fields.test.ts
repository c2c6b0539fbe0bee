/**
 * Two versions of a client on one queue: fields of rows and of `meta`, and keys of `opts`, that this version does not know
 * survive every transition, on both executors (wire contract, section 3). The transitions are those of the table, in all
 * situations of the refusal suite: a new one is walked by itself.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Connector, Queue } from '../../src/index.js';
import { bytesOf, readKeys, type Keys } from '../../src/parity/keyspace-dump.js';
import { need, perform } from '../../src/parity/node.js';
import { transitions } from '../../src/wire/transitions.js';
import { startNode, type TestNode } from '../parity/nodes.js';
import { cases, type Names } from '../parity/situations/index.js';

const b = 'emq:{fleet}:';
const names: Names = { b, id: 'JOB0KHTOWnGLuC', other: 'JOB0KHTOWnGLuD', group: 'PRT0KHTOWnGLu1' };
const ROW = /:job:JOB[0-9A-Za-z]{11}$/;
const [NEW_FIELD, NEW_VALUE] = ['x-new', 'of a later version\0\xff'];
const NEW_OPTS = '{"name":"mail","x-new":{"deep":[1]}}';

/** Who replaces the opts of a job that is there: an admission in the mode `replace` says what they are from now on. */
const REPLACES_OPTS: ReadonlySet<string> = new Set(['admit']);
/** Who ends a queue, and `meta` with it. */
const ENDS_META: ReadonlySet<string> = new Set(['obliterate']);

/** Plants them in each row, and in `meta`. */
async function plant(node: TestNode): Promise<void> {
  for (const [key, entry] of await readKeys(node.client)) {
    if (!ROW.test(key) || entry.type !== 'hash') continue;
    await need(node.client, ['HSET', bytesOf(key), NEW_FIELD, bytesOf(NEW_VALUE)]);
    await need(node.client, ['HSET', bytesOf(key), 'opts', NEW_OPTS]);
  }
  await need(node.client, ['HSET', `${b}meta`, NEW_FIELD, bytesOf(NEW_VALUE)]);
}

const fieldsOf = (keys: Keys, key: string) => {
  const entry = keys.get(key);
  return entry?.type === 'hash' ? entry.fields : undefined;
};

describe.each(['script', 'native'] as const)('what this version does not know, %s', (executor) => {
  let node: TestNode;
  beforeAll(async () => {
    node = await startNode(executor);
  });
  afterAll(() => node[Symbol.asyncDispose]());

  it.each(Object.values(transitions).map(({ name }) => name))('survives %s', async (name) => {
    const situations = cases[name]?.situations(names) ?? [];
    expect(situations.length).toBeGreaterThan(0);
    for (const { name: situation, setup, keys, args } of situations) {
      await node.reset();
      for (const command of setup) await need(node.client, command);
      await plant(node);
      const before = await readKeys(node.client);
      const answer = await perform(node, { transition: name, keys: keys.map(bytesOf), args: args.map(bytesOf) });
      const after = await readKeys(node.client);
      const lost: string[] = [];
      for (const key of before.keys()) {
        const [had, has] = [fieldsOf(before, key), fieldsOf(after, key)];
        // a row may go; one that stays keeps what it has
        if (had?.get(NEW_FIELD) === undefined) continue;
        if (has === undefined) {
          if (!ROW.test(key) && !ENDS_META.has(name)) lost.push(key);
          continue;
        }
        if (has.get(NEW_FIELD) !== NEW_VALUE) lost.push(key);
        if (had.get('opts') === NEW_OPTS && has.get('opts') !== NEW_OPTS && !REPLACES_OPTS.has(name)) {
          lost.push(`${key} opts`);
        }
      }
      expect({ situation, answer: answer.ok, lost }).toEqual({ situation, answer: true, lost: [] });
    }
  });

  it('survives a consumer: claimed, failed, tried again', async () => {
    await node.reset();
    const wire = executor === 'native' ? 6 : 4;
    await using connector = await Connector.connect({ url: node.server.url, wire });
    const queue = new Queue(connector, 'fleet');
    const { id } = await queue.enqueue('x');
    await need(node.client, ['HSET', queue.keys.job(id), NEW_FIELD, bytesOf(NEW_VALUE), 'opts', NEW_OPTS]);
    let runs = 0;
    const seen: unknown[] = [];
    const consumer = queue.consume(
      async (job) => {
        runs++;
        if (runs === 1) throw new Error('not yet');
        const fields = fieldsOf(await readKeys(node.client), queue.keys.job(job.id));
        seen.push(job.name, fields?.get(NEW_FIELD), fields?.get('opts'));
      },
      { retryDelayMs: 0, beatMs: 20 },
    );
    await expect.poll(() => seen).toEqual(['mail', NEW_VALUE, NEW_OPTS]);
    await consumer.close();
    expect(await queue.counts()).toMatchObject({ pending: 0, active: 0, dead: 0 });
  });
});
