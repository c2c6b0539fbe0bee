/**
 * `emq doctor --check` and `--repair`: on any node, also a replica and for a user who may only read, and what is refused.
 */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Connector, Jobs, mint } from '../../src/index.js';
import { snapshot } from '../../src/parity/keyspace-dump.js';
import { ROLE_OBSERVER } from '../../src/wire/rights.js';
import { emq } from '../fleets/command.js';
import { WorkerNode } from '../worker/support/nodes.js';

let node: WorkerNode;
let replica: WorkerNode;
let url: string;
beforeAll(async () => {
  node = await WorkerNode.start(4);
  replica = await node.replica();
  url = `valkey://127.0.0.1:${node.port}`;
});
afterAll(async () => {
  await replica[Symbol.asyncDispose]();
  await node[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await node.admin.flushall();
});

/** Two queues, of which `mail` has an orphan and a ghost, and a key that nobody knows. */
async function broken(): Promise<string> {
  await using connector = await Connector.connect({ url });
  const mail = new Jobs(connector, 'mail');
  await new Jobs(connector, 'other').enqueue({ a: 1 });
  const { id } = await mail.enqueue({ a: 1 });
  await mail.enqueue({ a: 2 });
  await node.admin.zrem(mail.keys.pending, id);
  await node.admin.zadd(mail.keys.dead, 5, mint('JOB'));
  await node.admin.set(`${mail.keys.base}notes`, 'x');
  return id;
}

const kinds = (findings: readonly { kind: string }[]): string[] => findings.map(({ kind }) => kind).sort();

describe('--check', () => {
  test('of a node in order ends with 0', async () => {
    const { code, stdout } = await emq(['doctor', '--check', '--url', url]);
    expect(stdout).toContain('0 keys, 0 jobs and 0 lanes looked at; nothing is wrong');
    expect(code).toBe(0);
  });

  test('tells of all queues, and ends with 1', async () => {
    const id = await broken();
    const { code, json, stderr } = await emq(['doctor', '--check', '--url', url, '--json']);
    expect(stderr).toBe('');
    expect(json[0]).toMatchObject({ ok: false, found: 3, looked: { jobs: 3 }, skipped: [], away: [] });
    expect(kinds(json[0].findings)).toEqual(['ghost', 'orphan', 'stray']);
    expect(json[0].findings).toContainEqual({
      ...{ kind: 'orphan', queue: 'mail', subject: id, mends: true },
      text: `${id} says pending and is in no place`,
    });
    expect(code).toBe(1);
  });

  test('tells a person line by line, and what to do next', async () => {
    const id = await broken();
    const { stdout, code } = await emq(['doctor', '--check', '--url', url, '--queue', 'mail']);
    expect(stdout).toContain(`wrong mail: ${id} says pending and is in no place`);
    expect(stdout).toContain('mail: notes is no key of a queue: find out who wrote it');
    expect(stdout).toMatch(/6 keys, 2 jobs and 0 lanes looked at; 3 wrong\nemq doctor --repair --dry-run/);
    expect(code).toBe(1);
    const other = await emq(['doctor', '--check', '--url', url, '--queue', 'other']);
    expect(other).toMatchObject({ code: 0, stdout: expect.stringContaining('nothing is wrong') as string });
  });

  test('writes nothing, on a replica by a user who may only read', async () => {
    await broken();
    const rules = [...ROLE_OBSERVER, '+scan'].map((rule) => rule.replace('{a}', '*'));
    const own = new Redis({ host: '127.0.0.1', port: replica.port });
    await own.call('ACL', 'SETUSER', 'looks', 'reset', 'on', '>secret', ...rules);
    await expect.poll(async () => (await own.dbsize()) === (await node.admin.dbsize())).toBe(true);
    const before = await snapshot(own);

    const at = `valkey://looks:secret@127.0.0.1:${replica.port}`;
    const { code, json, stderr } = await emq(['doctor', '--check', '--url', at, '--json']);

    expect(stderr).toBe('');
    expect(code).toBe(1);
    expect(kinds(json[0].findings)).toEqual(['ghost', 'orphan', 'stray']);
    expect(await snapshot(own)).toEqual(before);
    own.disconnect();
  });

  test('says which right is wanting', async () => {
    await node.admin.call('ACL', 'SETUSER', 'less', 'reset', 'on', '>secret', '~*', '+get', '+scan', '+info');
    await broken();
    const at = `valkey://less:secret@127.0.0.1:${node.port}`;
    const { code, stderr } = await emq(['doctor', '--check', '--url', at]);
    expect(stderr).toMatch(/NOPERM.*'type'.*a check needs \+scan \+zscan \+type \+eval_ro/s);
    expect(code).toBe(4);
  });
});

describe('--repair', () => {
  test('--dry-run tells what it would do, and does nothing', async () => {
    const id = await broken();
    const before = await snapshot(node.admin);
    const { code, stdout } = await emq(['doctor', '--repair', '--dry-run', '--url', url]);
    expect(stdout).toContain(`would mail: ${id} says pending and is in no place: put into pending`);
    expect(stdout).toContain('2 would be mended; 3 wrong');
    expect(code).toBe(1);
    expect(await snapshot(node.admin)).toEqual(before);
  });

  test('--yes mends, says what it did, and what it leaves', async () => {
    const id = await broken();
    const { code, json } = await emq(['doctor', '--repair', '--yes', '--url', url, '--queue', 'mail', '--json']);
    expect(json[0]).toMatchObject({ ok: false, dryRun: false, mended: 2, found: 1 });
    expect(json[0].done).toContainEqual({
      queue: 'mail',
      text: `${id} says pending and is in no place: put into pending`,
    });
    expect(kinds(json[0].findings)).toEqual(['stray']);
    expect(code).toBe(1);
    await node.admin.del('emq:{mail}:notes');
    expect(await emq(['doctor', '--check', '--url', url])).toMatchObject({ code: 0 });
    expect(await node.admin.zcard('emq:{mail}:pending')).toBe(2);
  });

  test('asks first, where somebody can be asked', async () => {
    await broken();
    const before = await snapshot(node.admin);
    const { code, stderr } = await emq(['doctor', '--repair', '--url', url]);
    expect(stderr).toContain('--yes does it, --dry-run only tells');
    expect(code).toBe(2);
    expect(await snapshot(node.admin)).toEqual(before);
  });

  test('is refused on a replica, and where the brand is a stranger’s', async () => {
    await broken();
    const at = `valkey://127.0.0.1:${replica.port}`;
    const refused = await emq(['doctor', '--repair', '--yes', '--url', at]);
    expect(refused).toMatchObject({ code: 4, stderr: expect.stringContaining('repair on its primary') as string });
    await node.admin.set('{emq}:version', 'echomq:9.0.0');
    const before = await snapshot(node.admin);
    const foreign = await emq(['doctor', '--repair', '--yes', '--url', url]);
    expect(foreign.stderr).toContain('a brand that this emq does not know');
    expect(foreign.code).toBe(4);
    expect(await snapshot(node.admin)).toEqual(before);
  });
});

test('options that do not go together', async () => {
  for (const [args, text] of [
    [['--check', '--repair'], 'give --check or --repair'],
    [['--check', '--yes'], '--yes and --dry-run go with --repair'],
    [['--dry-run'], '--yes and --dry-run go with --repair'],
    [['--check', '--queue', 'a b'], 'queue name "a b"'],
  ] as const) {
    const { code, stderr } = await emq(['doctor', ...args, '--url', url]);
    expect(stderr).toContain(text);
    expect(code).toBe(2);
  }
});
