/** `emq flow` as its users run it: text and JSON, how it ends, watching it with and without a terminal. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { onChange, watch } from '../../src/cli/flow/watch.js';
import { Connector, Flows } from '../../src/index.js';
import { TestCluster } from '../wire/nodes.js';
import type { EmbeddedServer } from '../../src/dev/index.js';
import { emq, finish, on, ROOT, start, stateOf, urlFor, type Ran } from './emq.js';
import { id, job, LEASE, take, world } from './flow-world.js';

function flow(server: EmbeddedServer, job: string, ...args: string[]): Promise<Ran> {
  return emq('flow', job, '--url', server.url, '--queue', 'mail', ...args);
}

test('as JSON: one object, with whole errors and no results', async () => {
  const { server, flows, mail } = await world(4);
  await flows.add({
    ...job(1, { name: 'report' }),
    children: [
      { ...job(2, { priority: 1 }), onFailure: 'ignore' },
      { ...job(3, { priority: 2 }), children: [{ ...job(4), queue: 'thumbs', onFailure: 'continue' }] },
      job(5, { priority: 1 }),
    ],
  });
  await mail.fail(await take(mail), { delayMs: 0, maxAttempts: 1, error: 'boom\n  at once' });
  await mail.complete(await take(mail), { result: 'secret' });
  const before = await stateOf(server);
  const { code, stdout, json } = await flow(server, id(1), '--json');
  expect([code, stdout.split('\n').length]).toEqual([0, 2]);
  const none = { open: 0, failed: 0, ignored: 0, done: 0 };
  const child = { landed: true, attempts: 0, name: null, error: null };
  expect(json).toEqual([
    {
      where: `127.0.0.1:${server.port}`,
      id: id(1),
      queue: 'mail',
      parent: null,
      flow: {
        ...{ ...child, id: id(1), queue: 'mail', state: 'awaiting_children', name: 'report', policy: null },
        family: {
          ...{ open: 1, total: 3, landing: 0, failed: 0, ignored: 1, done: 1, toCancel: 0, more: none },
          children: {
            open: [
              {
                ...{ ...child, id: id(3), queue: 'mail', state: 'awaiting_children', policy: 'fail' },
                family: {
                  ...{ open: 1, total: 1, landing: 0, failed: 0, ignored: 0, done: 0, toCancel: 0, more: none },
                  children: {
                    open: [
                      {
                        ...{ ...child, id: id(4), queue: 'thumbs', state: 'pending', policy: 'continue' },
                        family: null,
                      },
                    ],
                    ...{ failed: [], ignored: [], done: [] },
                  },
                },
              },
            ],
            failed: [],
            ignored: [{ id: id(2), error: 'boom\n  at once' }],
            done: [id(5)],
          },
        },
      },
    },
  ]);
  expect(await stateOf(server)).toEqual(before);
  const below = (await emq('flow', id(4), '--url', server.url, '--queue', 'thumbs', '--json')).json[0];
  expect(below.parent).toEqual({ id: id(3), queue: 'mail', policy: 'continue' });
  expect(below.flow.family).toBeNull();
});

test('a child says whose it is, and --up shows the whole flow', async () => {
  const { server, flows, mail } = await world(6);
  await flows.add({
    ...job(1),
    children: [{ ...job(2), queue: 'thumbs', children: [{ ...job(3), queue: 'mail' }] }],
  });
  const { stdout } = await flow(server, id(3));
  const note = `${id(3)} is a child of ${id(2)} in queue thumbs: --up shows the whole flow`;
  expect(stdout.split('\n').slice(1)).toEqual([note, `${id(3)}  pending`, '']);
  const whole = [
    `queue mail on 127.0.0.1:${server.port}`,
    `${id(1)}  awaiting_children, 1 of 1 open`,
    `└─ ${id(2)} in thumbs  awaiting_children, 1 of 1 open`,
    `   └─ ${id(3)} in mail  pending`,
    '',
  ].join('\n');
  expect((await flow(server, id(3), '--up')).stdout).toBe(whole);
  expect((await flow(server, id(1), '--up')).stdout).toBe(whole);
  await mail.remove(id(1));
  const cut = await flow(server, id(3), '--up');
  expect(cut.stdout.split('\n').slice(0, 3)).toEqual([
    `queue thumbs on 127.0.0.1:${server.port}`,
    `the tree begins at ${id(2)}: its parent ${id(1)} in queue mail is gone`,
    `${id(2)}  awaiting_children, 1 of 1 open`,
  ]);
});

test('--watch: a tree for every change, until the root is gone', async () => {
  const { server, flows, mail } = await world(6);
  await flows.add({ ...job(1), children: [job(2), job(3, { priority: 1 })] });
  const child = start(['flow', id(1), '--url', server.url, '--queue', 'mail', '--watch']);
  const watched = finish(child);
  const other = start(['flow', id(1), '--url', server.url, '--queue', 'mail', '--watch', '--json']);
  const json = finish(other);
  await Promise.all([child, other].map((one) => once(one.stdout!, 'data')));
  const settle = async (): Promise<void> => {
    const told = Promise.all([child, other].map((one) => once(one.stdout!, 'data')));
    await mail.complete(await take(mail));
    await told;
  };
  await settle();
  await settle();
  await settle();
  const { code, stdout, stderr } = await watched;
  expect([code, stderr]).toEqual([0, '']);
  const [first, ...rest] = stdout.split('\n\n');
  expect(first).toContain(`\n${id(1)}  awaiting_children, 2 of 2 open\n├─ ${id(2)}  pending\n└─ ${id(3)}  pending`);
  expect(rest[0]).toMatch(/^queue mail on /);
  const pictures = [first, ...rest];
  expect(new Set(pictures).size).toBe(pictures.length);
  expect(pictures.join('\n')).toContain('awaiting_children, 1 of 2 open');
  expect(stdout).toMatch(new RegExp(`${id(1)} is gone: it has completed, or was removed\n$`));
  const lines = (await json).json;
  expect(lines[0].flow.family.open).toBe(2);
  expect(lines.at(-1)).toMatchObject({ id: id(1), flow: null });
  expect(new Set(lines.map((line) => JSON.stringify(line))).size).toBe(lines.length);
});

test('--watch of a flow that dies ends with 1', async () => {
  const { server, flows, mail } = await world(4);
  await flows.add({ ...job(1), children: [job(2)] });
  const child = start(['flow', id(1), '--url', server.url, '--queue', 'mail', '--watch']);
  const watched = finish(child);
  await once(child.stdout!, 'data');
  await mail.fail(await take(mail), { delayMs: 0, maxAttempts: 1, error: 'boom' });
  const { code, stdout } = await watched;
  expect(code).toBe(1);
  expect(stdout).toContain(`${id(1)}  dead, 1 of 1 open, 1 failed: "child ${id(2)} failed: boom"`);
  expect((await flow(server, id(1))).code).toBe(0);
  expect((await flow(server, id(1), '--watch')).code).toBe(1);
});
test('Ctrl-C ends it with 130, and a lost node with 3', async () => {
  const { server, flows } = await world(4);
  await flows.add({ ...job(1), children: [job(2)] });
  const args = ['flow', id(1), '--url', server.url, '--queue', 'mail', '--watch'];
  const first = start(args);
  const ended = finish(first);
  await once(first.stdout!, 'data');
  first.kill('SIGINT');
  expect(await ended).toMatchObject({ code: 130, stderr: 'emq: ended by SIGINT\n' });
  const second = start([...args, '--json']);
  const lost = finish(second);
  await once(second.stdout!, 'data');
  await server.stop();
  const { code, json } = await lost;
  expect([code, json.at(-1).error.exit]).toEqual([3, 3]);
});

test('a job that is no flow is a tree of one; one that is not there is said so', async () => {
  const { server, mail } = await world(4);
  await mail.enqueue(1, { id: id(1), name: 'alone' });
  expect((await flow(server, id(1))).stdout).toBe(`queue mail on 127.0.0.1:${server.port}\n${id(1)} alone  pending\n`);
  const reason = `queue mail on 127.0.0.1:${server.port} has no job ${id(2)}: it has completed or was removed, it has not landed yet (ask for its root), or it is in another queue (--queue) or on another node (--url)`;
  for (const more of [[], ['--up'], ['--watch']]) {
    expect(await flow(server, id(2), ...more)).toMatchObject({ code: 1, stdout: '', stderr: `emq: ${reason}\n` });
    expect((await flow(server, id(2), '--json', ...more)).json).toEqual([
      { error: { code: 'EMQSTATE', reason, exit: 1 } },
    ]);
  }
});

test('a user who may only read the queue can look; one who may not is told what is wanting', async () => {
  const { server, flows } = await world(6);
  await flows.add({ ...job(1), children: [job(2), { ...job(3), queue: 'thumbs' }] });
  const rights = ['+exists', '+hmget', '+hget', '+get', '+hlen', '+hscan', '%R~emq:{mail}:*'];
  await on(server, (redis) => redis.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>secret', ...rights));
  const args = ['flow', id(1), '--url', urlFor(server, 'app', 'secret'), '--queue', 'mail'];
  const shown = await emq(...args);
  expect(shown.code).toBe(0);
  expect(shown.stdout).toMatch(new RegExp(`├─ ${id(2)}  pending\n└─ ${id(3)} in thumbs  not read: .*NOPERM`));
  await on(server, (redis) => redis.call('ACL', 'SETUSER', 'app', '-hscan', 'resetkeys'));
  const { code, stderr } = await emq(...args);
  expect([code, stderr]).toEqual([
    4,
    expect.stringContaining(`grant ${rights.slice(0, -1).join(' ')} and %R~emq:{mail}:*`),
  ]);
});

test('in a cluster: what another node has is named with that node', async () => {
  await using cluster = await TestCluster.start();
  await using connector = await Connector.connect({ cluster: { nodes: cluster.start } });
  const [queue, far] = [cluster.queueOn(0), cluster.queueOn(1)];
  await new Flows(connector, queue).add({ ...job(1), children: [job(2), { ...job(3), queue: far }] });
  const [here, there] = [cluster.node(0), cluster.node(1)].map(({ port }) => `127.0.0.1:${port}`);
  const shown = await emq('flow', id(1), '--queue', queue, '--url', `valkey://${here}`);
  expect(shown).toMatchObject({ code: 0, stderr: '' });
  expect(shown.stdout.split('\n').slice(1)).toEqual([
    `${id(1)}  awaiting_children, 2 of 2 open`,
    `├─ ${id(2)}  pending`,
    `└─ ${id(3)} in ${far}  not read: "its queue is on node ${there} of the cluster: ask that one"`,
    '',
  ]);
  const { code, stderr } = await emq('flow', id(1), '--queue', queue, '--url', `valkey://${there}`);
  expect([code, stderr]).toEqual([
    4,
    `emq: MOVED queue ${queue} is on node ${here} of the cluster: ask that one (--url)\n`,
  ]);
});

test('a picture is written again only when it is another', () => {
  const written: [string, boolean][] = [];
  const screen = onChange((text, first) => written.push([text, first]));
  for (const line of ['a', 'a', 'b', 'b', 'a']) screen([line]);
  expect(written).toEqual([
    ['a', true],
    ['b', false],
    ['a', false],
  ]);
});

test('looks that take long are made less often', async () => {
  const begun: number[] = [];
  const ended = await watch(async () => {
    begun.push(performance.now());
    await pause(200);
    return begun.length === 2 ? 'ended' : undefined;
  }, new AbortController().signal);
  expect(ended).toBe('ended');
  // 200 ms of looking, four times that of waiting, but for what timers round off
  expect(begun[1]! - begun[0]!).toBeGreaterThan(980);
});

/** What a terminal shows at the end of what was written to it: cursor up, clear below, and colours. */
function screenOf(text: string): string[] {
  const lines = [''];
  let at = 0;
  for (const [, up, clear, , newline, plain] of text.matchAll(
    /\x1b\[(\d+)A|(\x1b\[J)|(\x1b\[[?\d;]*[a-z]|\r)|(\n)|([^\x1b\r\n]+)/g,
  )) {
    if (up !== undefined) at -= Number(up);
    else if (clear !== undefined) lines.splice(at, Infinity, '');
    else if (newline !== undefined) lines[++at] ??= '';
    else if (plain !== undefined) lines[at] += plain;
  }
  return lines;
}

test('--watch on a terminal: one picture, drawn in place and cut to its height, until Ctrl-C', async () => {
  const { server, flows, mail } = await world(6);
  await flows.add({ ...job(1), children: [1, 2, 3, 4, 5].map((n) => job(1 + n, { priority: n })) });
  const command = `stty rows 6 cols 40; exec "${process.execPath}" "${join(ROOT, 'dist', 'cli', 'main.js')}" flow ${id(1)} --watch --queue mail`;
  // the two kinds of script(1) take their words in another order
  const words = process.platform === 'darwin' ? ['/dev/null', 'sh', '-c', command] : ['-ec', command, '/dev/null'];
  // without CI: colours are left out there
  const env = { ...process.env, EMQ_URL: server.url, TERM: 'xterm', CI: undefined };
  const child = spawn('script', ['-q', ...words], { env });
  onTestFinished(() => void child.kill());
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (more: string) => (text += more));
  await expect.poll(() => text, { timeout: 15_000 }).toContain('... and 3 more lines');
  const before = screenOf(text);
  expect(before.slice(1)).toEqual([
    `${id(1)}  awaiting_children, 5 of 5 open`,
    `├─ ${id(2)}  pending`,
    `├─ ${id(3)}  pending`,
    '... and 3 more lines',
    '',
  ]);
  expect(before[0]).toMatch(/^queue mail on 127/);
  await mail.claim(LEASE);
  await expect.poll(() => screenOf(text)[2], { timeout: 15_000 }).toBe(`├─ ${id(2)}  active, 1 attempt`);
  expect(screenOf(text).length).toBe(before.length);
  expect(text).toContain('\x1b[?7l');
  expect(text).toContain('\x1b[36mactive\x1b[39m');
  child.stdin.write('\x03');
  const [code] = (await once(child, 'exit')) as [number];
  expect(code).toBe(130);
  expect(text.endsWith('emq: ended by SIGINT\r\n')).toBe(true);
});
