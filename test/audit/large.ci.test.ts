/**
 * A million keys: every step of a check is short at the server, also where a ring, a set or a parent is long.
 *
 * What is measured is the time that the server itself ran for each call, which does not grow with what else the machine
 * does: Linux tells it of a thread in nanoseconds.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Connector } from '../../src/index.js';
import { checkQueues } from '../../src/queue/audit/check.js';
import { sourceOf } from '../../src/queue/audit/source.js';
import type { AuditSource } from '../../src/queue/audit/walk.js';
import { startNode, type TestNode } from '../parity/nodes.js';

const FLAT = 920_000;
const LANES = 20_000;
const ACTIVE = 2_000;
const CHILDREN = 20_000;
const B = 'emq:{large}:';
/** What no step takes, ms. */
const LONG_MS = 10;
/** So many of all calls may: a machine that is short of memory or of caches is slower now and then. */
const SPARED = 3;

let node: TestNode;
let connector: Connector;
beforeAll(async () => {
  node = await startNode('script');
  connector = await Connector.connect({ url: `unix://${node.server.socketPath}` });
});
afterAll(async () => {
  await connector.close();
  await node[Symbol.asyncDispose]();
});

/** Jobs as their admissions leave them: `flat`, in a lane of its own, or at work in such a lane. */
const FILL = `
local b, what, from, to = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
for n = from, to - 1 do
  local id, group = string.format('JOB%011d', n), string.format('TEN%011d', n)
  local row = b .. 'job:' .. id
  redis.call('HSET', row, 'state', what == 'active' and 'active' or 'pending', 'attempts', '1', 'payload', '1')
  if what ~= 'flat' then redis.call('HSET', row, 'group', group) end
  if what == 'flat' then
    redis.call('ZADD', b .. 'pending', 0, id)
    if n % 20 == 0 then redis.call('RPUSH', row .. ':logs', 'a line') end
  elseif what == 'lane' then
    redis.call('ZADD', b .. 'g:' .. group .. ':pending', 0, id)
    redis.call('RPUSH', b .. 'ring', group)
  else
    redis.call('ZADD', b .. 'active', 4e12, id)
    redis.call('HSET', b .. 'gactive', group, '1')
  end
end`;

async function fill(b: string, what: 'flat' | 'lane' | 'active', from: number, count: number): Promise<void> {
  for (let n = from; n < from + count; n += 20_000)
    await node.client.eval(FILL, 1, b, what, n, Math.min(n + 20_000, from + count));
}

async function fillAll(): Promise<void> {
  const { client } = node;
  await fill(B, 'flat', 0, FLAT);
  await fill(B, 'lane', FLAT, LANES);
  await fill(B, 'active', FLAT + LANES, ACTIVE);
  const parent = 'JOB99999999999';
  await client.hset(`${B}job:${parent}`, 'state', 'awaiting_children', 'attempts', '0', 'payload', '1');
  await client.zadd(`${B}flow:held`, 5, parent);
  await client.set(`${B}job:${parent}:dependencies`, String(CHILDREN));
  const children = Array.from({ length: CHILDREN }, (_, n) => [`JOB${String(n).padStart(11, 'x')}`, 'elsewhere']);
  await client.hset(`${B}job:${parent}:children`, ...children.flat());
}

/** How long the server's own thread has run, ms. */
function ranMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
}

/** A source whose long calls are measured: those of which the walk makes one at a time. */
function measured(source: AuditSource, calls: { name: string; ms: number }[]): AuditSource {
  const { pid } = node.server;
  const time = async <T>(name: string, call: () => Promise<T>): Promise<T> => {
    const before = ranMs(pid);
    const reply = await call();
    calls.push({ name, ms: ranMs(pid) - before });
    return reply;
  };
  return {
    ask: (command, args) =>
      /^(SCAN|HSCAN|LRANGE)$/.test(command)
        ? time(command, () => source.ask(command, args))
        : source.ask(command, args),
    runs: (queue) => {
      const runs = source.runs(queue);
      return { run: (transition, input) => time(transition.name, () => runs.run(transition, input)) };
    },
  };
}

// what is measured is the kernel's word
const isLinux = process.platform === 'linux';
if (!isLinux) console.log('not run: a million keys in short steps (it needs the /proc of Linux)');

test.runIf(isLinux)('a million keys in short steps', { timeout: 300_000 }, async () => {
  await fillAll();
  await node.client.zrem(`${B}pending`, 'JOB00000000077');
  const calls: { name: string; ms: number }[] = [];
  const source = measured(await sourceOf('check', connector, 'large'), calls);

  const { findings, looked, skipped } = await checkQueues(source, 'large');

  expect(findings.map(({ kind, subject }) => [kind, subject])).toEqual([['orphan', 'JOB00000000077']]);
  expect(skipped).toEqual([]);
  expect(looked.keys).toBeGreaterThan(1_000_000);
  expect(looked.jobs).toBe(FLAT + LANES + ACTIVE + 1);
  expect(looked.lanes).toBe(LANES + ACTIVE);
  const slow = calls.filter(({ ms }) => ms > LONG_MS);
  const longest = Math.max(...calls.map(({ ms }) => ms));
  const shown = slow.map(({ name, ms }) => `${name} ${ms.toFixed(1)}`).join(', ');
  console.log(`${calls.length} calls, the longest ${longest.toFixed(1)} ms; over ${LONG_MS} ms: ${shown || 'none'}`);
  expect(calls.length).toBeGreaterThan(FLAT / 100);
  expect(slow.length).toBeLessThanOrEqual(SPARED);
});

test.runIf(isLinux)('a long ring and many counts that are all wrong', { timeout: 120_000 }, async () => {
  const b = 'emq:{wrong}:';
  await node.client.flushall();
  await fill(b, 'lane', 0, LANES);
  await fill(b, 'active', LANES, ACTIVE);
  await node.client.del(`${b}gactive`);
  await node.client.lpop(`${b}ring`, LANES / 100);
  await node.client.eval("for n = 1, 100 do redis.call('RPUSH', KEYS[1], 'TEN00000000xxx') end", 1, `${b}ring`);
  const calls: { name: string; ms: number }[] = [];
  const source = measured(await sourceOf('check', connector, 'wrong'), calls);

  const { found, findings } = await checkQueues(source, 'wrong', { most: 3 });

  expect(found).toBe(ACTIVE + LANES / 100 + 1);
  expect(findings).toHaveLength(3);
  const slow = calls.filter(({ ms }) => ms > LONG_MS);
  const shown = slow.map(({ name, ms }) => `${name} ${ms.toFixed(1)}`).join(', ');
  console.log(`${calls.length} calls; over ${LONG_MS} ms: ${shown || 'none'}`);
  expect(slow.length).toBeLessThanOrEqual(SPARED);
});
