/** The tree of a flow in every state, on both wires: what is read and what is drawn of it. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { drawTree, treeJson } from '../../src/cli/flow/draw.js';
import { readBooks } from '../../src/cli/flow/books.js';
import { climb, readTree, type Shown } from '../../src/cli/flow/tree.js';
import { openNode, type PlainNode } from '../../src/cli/node.js';
import type { EmbeddedServer } from '../../src/dev/index.js';
import { EmqError, Flows, Keyspace, transitions, type Call, type Wire } from '../../src/index.js';
import { on, stateOf } from './emq.js';
import { id, job, LEASE, take, world } from './flow-world.js';

const NO_SIGNAL = new AbortController().signal;

async function plain(server: EmbeddedServer): Promise<PlainNode> {
  const node = await openNode(server.url, NO_SIGNAL);
  onTestFinished(() => node.close());
  return node;
}

async function look(server: EmbeddedServer, job: string, most = 50): Promise<Shown> {
  const shown = await readTree(await plain(server), 'mail', job, most);
  if (shown === null) throw new Error(`no job ${job}`);
  return shown;
}

/** The lines of a tree, without colours. */
async function lines(server: EmbeddedServer, job: string, most?: number): Promise<string[]> {
  return drawTree(await look(server, job, most), (_style, text) => text);
}

/** A connection that is lost for good when a transition is to be sent. */
function until(wire: Wire, name: string): Wire {
  let lost = false;
  return {
    run: async (call: Call) => {
      lost ||= call.transition.name === name;
      if (lost) throw new EmqError('EMQ_CONNECTION', 'the connection is lost');
      return wire.run(call);
    },
    runAll: (calls) => wire.runAll(calls),
  };
}

describe.each([4, 6] as const)('wire %i', (wire) => {
  test('a tree: names, queues, states, attempts, counters, policies, errors', async () => {
    const { server, flows, mail, thumbs } = await world(wire);
    await flows.add({
      ...job(1, { name: 'report' }),
      children: [
        job(2, { priority: 1, name: 'two words' }),
        job(3, { priority: 2 }),
        { ...job(4, { priority: 3 }), onFailure: 'ignore' },
        job(5, { priority: 4 }),
        { ...job(6), onFailure: 'remove', queue: 'thumbs' },
        {
          ...job(7),
          onFailure: 'ignore',
          children: [{ ...job(8), queue: 'thumbs', children: [{ ...job(9), onFailure: 'continue' }] }],
        },
      ],
    });
    expect(await lines(server, id(1))).toEqual([
      `${id(1)} report  awaiting_children, 6 of 6 open`,
      `├─ ${id(2)} "two words"  pending`,
      `├─ ${id(3)}  pending`,
      `├─ ${id(4)}  pending, onFailure ignore`,
      `├─ ${id(5)}  pending`,
      `├─ ${id(6)} in thumbs  pending, onFailure remove`,
      `└─ ${id(7)}  awaiting_children, 1 of 1 open, onFailure ignore`,
      `   └─ ${id(8)} in thumbs  awaiting_children, 1 of 1 open`,
      `      └─ ${id(9)}  pending, onFailure continue`,
    ]);
    await mail.complete(await take(mail), { result: { secret: 1 } });
    await mail.fail(await take(mail), { delayMs: 600_000, maxAttempts: 3, error: 'the mail\x1b[2J is\nbusy' });
    await mail.fail(await take(mail), { delayMs: 0, maxAttempts: 1, error: `no address ${'x'.repeat(100)}` });
    await take(mail);
    await thumbs.claim(LEASE);
    const before = await stateOf(server);
    expect(await lines(server, id(1))).toEqual([
      `${id(1)} report  awaiting_children, 4 of 6 open, 1 ignored`,
      `├─ ${id(3)}  scheduled, 1 attempt: "the mail\\x1b[2J is"`,
      `├─ ${id(5)}  active, 1 attempt`,
      `├─ ${id(6)} in thumbs  active, 1 attempt, onFailure remove`,
      `├─ ${id(7)}  awaiting_children, 1 of 1 open, onFailure ignore`,
      `│  └─ ${id(8)} in thumbs  awaiting_children, 1 of 1 open`,
      `│     └─ ${id(9)}  pending, onFailure continue`,
      `├─ ${id(4)}  ignored: "no address ${'x'.repeat(68)}…"`,
      `└─ ${id(2)}  done`,
    ]);
    expect(await stateOf(server)).toEqual(before);
  });

  test('a death that takes its parents along, and a dead child that was removed', async () => {
    const { server, flows, mail } = await world(wire);
    await flows.add({
      ...job(1),
      children: [{ ...job(2), children: [job(3, { priority: 1 }), job(4, { priority: 2 })] }],
    });
    const dead = await take(mail);
    await mail.fail(dead, { delayMs: 0, maxAttempts: 1, error: 'boom' });
    await mail.fail(await take(mail), { delayMs: 0, maxAttempts: 1, error: 'bang' });
    expect(await lines(server, id(1))).toEqual([
      `${id(1)}  dead, 1 of 1 open, 1 failed: "child ${id(2)} failed: boom"`,
      `└─ ${id(2)}  dead, 2 of 2 open, 2 failed: "child ${id(3)} failed: boom"`,
      `   ├─ ${id(3)}  dead, 1 attempt: "boom"`,
      `   └─ ${id(4)}  dead, 1 attempt: "bang"`,
    ]);
    await mail.remove(id(3));
    // until its letter is delivered the parent waits for it
    expect((await lines(server, id(2))).slice(0, 2)).toEqual([
      `${id(2)}  dead, 2 of 2 open, 2 failed: "child ${id(3)} failed: boom"`,
      `├─ ${id(3)}  gone, its parent has not heard of it`,
    ]);
    await flows.deliver();
    expect(await lines(server, id(2))).toEqual([
      `${id(2)}  dead, 1 of 2 open, 2 failed: "child ${id(3)} failed: boom"`,
      `├─ ${id(4)}  dead, 1 attempt: "bang"`,
      `└─ ${id(3)}  failed: "removed"`,
    ]);
  });

  test('children that have not landed, or have and nobody heard, or whose row is gone or another’s', async () => {
    const { server, connector, flows } = await world(wire);
    const prepared = await flows.prepare({
      ...job(1),
      children: [job(2), { ...job(3), queue: 'thumbs' }, { ...job(4), queue: 'thumbs', children: [job(5)] }],
    });
    const cut = new Flows(until(connector, 'flow_landed'), 'mail');
    await expect(cut.add(prepared)).rejects.toThrow('the connection is lost');
    expect(await lines(server, id(1))).toEqual([
      `${id(1)}  awaiting_children, 3 of 3 open, 2 not landed`,
      `├─ ${id(2)}  pending`,
      `├─ ${id(3)} in thumbs  pending, its parent has not heard that it landed`,
      `└─ ${id(4)} in thumbs  not landed`,
    ]);
    // a flow that somebody else adds under the same id is not a part of this one
    await new Flows(connector, 'thumbs').add({ ...job(4), children: [job(5)] });
    const keys = new Keyspace('mail');
    await on(server, (redis) => redis.del(keys.job(id(2))));
    expect(await lines(server, id(1))).toEqual([
      `${id(1)}  awaiting_children, 3 of 3 open, 2 not landed`,
      `├─ ${id(2)}  gone, its parent has not heard of it`,
      `├─ ${id(3)} in thumbs  pending, its parent has not heard that it landed`,
      `└─ ${id(4)} in thumbs  awaiting_children, its parent has not heard that it landed, its row says nothing of this parent`,
    ]);
    const open = (await look(server, id(1))).family?.open.map((child) => treeJson(child));
    expect(open?.map((child) => (child as { state: string }).state)).toEqual(['gone', 'pending', 'awaiting_children']);
  });

  test('a parent that went on without its other children', async () => {
    const { server, flows, mail } = await world(wire);
    await flows.add({
      ...job(1),
      children: [
        { ...job(2, { priority: 1 }), onFailure: 'continue' },
        job(3, { priority: 2 }),
        job(4, { priority: 3 }),
      ],
    });
    await mail.fail(await take(mail), { delayMs: 0, maxAttempts: 1, error: 'boom' });
    expect(await lines(server, id(1))).toEqual([
      `${id(1)}  pending, 0 of 1 open, 1 ignored, 2 to be cancelled`,
      `└─ ${id(2)}  ignored: "boom"`,
    ]);
  });

  test('a climb to the root, over queues, as far as there are rows', async () => {
    const { server, flows, mail } = await world(wire);
    await flows.add({
      ...job(1),
      children: [{ ...job(2), queue: 'thumbs', children: [{ ...job(3), queue: 'mail' }] }],
    });
    const node = await plain(server);
    expect(await climb(node, 'mail', id(3))).toEqual({ queue: 'mail', id: id(1), stopped: null });
    expect(await climb(node, 'mail', id(1))).toEqual({ queue: 'mail', id: id(1), stopped: null });
    expect(await climb(node, 'mail', id(2))).toBeNull();
    await mail.remove(id(1));
    const stopped = `its parent ${id(1)} in queue mail is gone`;
    expect(await climb(node, 'mail', id(3))).toEqual({ queue: 'thumbs', id: id(2), stopped });
  });
});

test('a large flow: the smallest ids of each kind, the rest counted, and no hash read at one go', async () => {
  const { server, connector } = await world(4);
  const keys = new Keyspace('mail');
  const base = { payload: 'x', children: Array.from({ length: 3 }, (_, i) => ({ id: id(10 + i), queue: null })) };
  await connector.run({
    transition: transitions.flowHold,
    queue: 'mail',
    ...transitions.flowHold.layout(keys, { id: id(1), count: 3, ...base }),
  });
  await on(server, async (redis) => {
    const done = Array.from({ length: 5_000 }, (_, i) => [id(9_000 - i), 'x'.repeat(100)]);
    await redis.hset(`${keys.job(id(1))}:processed`, Object.fromEntries(done) as Record<string, string>);
    await redis.config('RESETSTAT');
  });
  expect(await lines(server, id(1), 2)).toEqual([
    `${id(1)}  awaiting_children, 3 of 5003 open, 3 not landed`,
    `├─ ${id(10)}  not landed`,
    `├─ ${id(11)}  not landed`,
    '├─ ... and 1 more open',
    `├─ ${id(4_001)}  done`,
    `├─ ${id(4_002)}  done`,
    '└─ ... and 4998 more done',
  ]);
  const stats = await on(server, (redis) => redis.info('commandstats'));
  expect(Number(/cmdstat_hscan:calls=(\d+)/.exec(stats)?.[1])).toBeGreaterThan(5);
  expect(stats).not.toMatch(/cmdstat_(hgetall|hkeys|hvals|eval|evalsha|multi)/);
  expect((await lines(server, id(1))).at(-1)).toBe('└─ ... and 4950 more done');
});

test('what strangers wrote is shown, and cannot steer the terminal', async () => {
  const { server, flows } = await world(4);
  await flows.add({ ...job(1, { name: 'a\x1b[2J' }), children: [job(2), job(3)] });
  const keys = new Keyspace('mail');
  await on(server, async (redis) => {
    const row = keys.job(id(1));
    await redis.hset(row, 'state', 'odd\x1b[2J');
    await redis.hset(`${row}:children`, '\x1b]0;x\x07', '', id(4), 'no\nqueue', id(5), '');
    await redis.hset(`${row}:processed`, Buffer.from([0xff, 0x1b]), 'x');
    await redis.set(keys.job(id(5)), 'no hash');
    await redis.hset(keys.job(id(3)), 'attempts', 'many', 'opts', '{');
    // a ring: a child is its own parent's parent
    await redis.hset(keys.job(id(2)), 'landing', '1');
    await redis.hset(`${keys.job(id(2))}:children`, id(1), '');
    await redis.hset(row, 'parent', id(2));
  });
  const shown = await lines(server, id(1));
  expect(shown.join('')).not.toMatch(/[\x00-\x1f\x7f-\x9f]/);
  expect(shown).toEqual([
    `${id(1)} "a\\x1b[2J"  "odd\\x1b[2J", 5 of 6 open`,
    `├─ "\\x1b]0;x\\x07"  not read: "its id is none"`,
    `├─ ${id(2)}  pending, 1 of 1 open, 1 not landed`,
    `│  └─ ${id(1)} "a\\x1b[2J"  "odd\\x1b[2J"`,
    `├─ ${id(3)}  pending`,
    `├─ ${id(4)} in "no\\nqueue"  not read: "queue name \\"no\\\\nqueue\\" must be 1 to 128 of A-Z a-z 0-9 . _ - and not \\"emq\\""`,
    `├─ ${id(5)}  not read: "WRONGTYPE Operation against a key holding the wrong kind of value"`,
    '└─ "ÿ\\x1b"  done',
  ]);
  expect((await climb(await plain(server), 'mail', id(1)))?.stopped).toContain(
    'is not looked at: the links go on too far',
  );
});

test('a child that ends while its parent is read is not shown as gone', async () => {
  const { server, flows, mail } = await world(4);
  await flows.add({ ...job(1), children: [job(2, { priority: 1 }), job(3)] });
  const held = await take(mail);
  const node = await plain(server);
  let ended = false;
  // between the books and the row
  const racing: PlainNode = {
    ...node,
    ask: async (command, ...args) => {
      if (command === 'EXISTS' && String(args[0]).endsWith(held.id) && !ended) {
        ended = true;
        await mail.complete(held);
      }
      return node.ask(command, ...args);
    },
  };
  const shown = await readTree(racing, 'mail', id(1), 50);
  expect(ended).toBe(true);
  expect(drawTree(shown!, (_style, text) => text)).toEqual([
    `${id(1)}  awaiting_children, 1 of 2 open`,
    `├─ ${id(held.id === id(2) ? 3 : 2)}  pending`,
    `└─ ${held.id}  done`,
  ]);
});

test('a parent of another client, that keeps no list: its children are counted', async () => {
  const { server, mail } = await world(4);
  await mail.enqueue(1, { id: id(1) });
  await on(server, (redis) => redis.set(`${new Keyspace('mail').job(id(1))}:dependencies`, '3'));
  expect(await lines(server, id(1))).toEqual([`${id(1)}  pending, 3 of 3 open`, '└─ ... and 3 more open']);
});

test('a tree is bounded as a whole, its upper levels first', async () => {
  const { server, flows } = await world(4);
  let n = 1;
  // 1 + 2 + 4 + ... + 64 jobs, of which 20 are shown below the root with --limit 1, and 40 with --limit 2
  const below = (depth: number): object[] =>
    depth === 0 ? [] : [1, 2].map(() => ({ ...job((n += 1)), children: below(depth - 1) }));
  await flows.add({ ...job(1), children: below(6) as never });
  expect(await lines(server, id(1), 1)).toHaveLength(1 + 6 * 2);
  const shown = await lines(server, id(1), 2);
  const jobs = shown.filter((line) => line.includes('JOB'));
  expect(jobs).toHaveLength(1 + 2 + 4 + 8 + 16);
  expect(shown.filter((line) => line.includes('... and 2 more open'))).toHaveLength(16);
});

test('a server that knows no NOVALUES is read all the same', async () => {
  const { server, flows, mail } = await world(4);
  await flows.add({ ...job(1), children: [job(2, { priority: 1 }), job(3)] });
  const { id: done } = await take(mail);
  const node = await plain(server);
  const old: PlainNode = {
    ...node,
    ask: async (command, ...args) => {
      if (args.at(-1) === 'NOVALUES') throw new EmqError('ERR', 'ERR syntax error');
      return node.ask(command, ...args);
    },
  };
  await mail.complete({ id: done, token: 1 }, { result: 'x' });
  const books = await readBooks(old, new Keyspace('mail'), id(1), 50);
  expect(books.done).toEqual([done]);
});
