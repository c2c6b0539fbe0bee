/** The demo: each file below a folder hashed once, what went wrong named, and a check that finds what is wrong. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { runDemo } from '../../src/demo/demo.js';
import { findFiles, hashByStream, hashDirectly, showPath } from '../../src/demo/files.js';
import { Progress } from '../../src/demo/progress.js';
import { judge } from '../../src/demo/verdict.js';
import { enqueueFiles, fileQueue, newLedger, workAll } from '../../src/demo/work.js';
import { Connector, mint } from '../../src/index.js';
import { node, ROOT } from './emq.js';

const SET_UP_MS = 180_000;
/** No UTF-8: the system keeps it all the same. */
const ODD_NAME = Buffer.concat([Buffer.from('odd-'), Buffer.from([0xff])]);

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'emq-demo-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'sub', 'empty'), { recursive: true });
  await writeFile(join(folder, 'one'), 'one');
  await writeFile(join(folder, 'none'), '');
  await writeFile(join(folder, 'sub', 'ü "two"\n'), 'two');
  await writeFile(join(folder, 'sub', 'large'), Buffer.alloc(1_000_000, 'x'));
  await writeFile(Buffer.concat([Buffer.from(`${folder}/`), ODD_NAME]), 'odd');
  await symlink(folder, join(folder, 'sub', 'loop'));
});

class Lines {
  text = '';
  readonly isTTY = false;
  write(text: string): void {
    this.text += text;
  }
}

test('all files are found, links are not followed, names keep their bytes', async () => {
  const found = await findFiles(folder);
  expect(found).toMatchObject({ folders: 3, leftOut: 1, unreadable: [] });
  const names = found.files.map((file) => showPath(file).replace(`${folder}/`, '')).sort();
  expect(names).toEqual(['"odd-ÿ"', '"sub/ü \\"two\\"\\n"', 'none', 'one', 'sub/large']);
  await expect(findFiles(join(folder, 'nowhere'))).rejects.toThrow('ENOENT');
});

test('both ways of hashing give the hash', async () => {
  for (const [name, bytes] of [
    ['none', ''],
    ['one', 'one'],
    ['sub/large', Buffer.alloc(1_000_000, 'x')],
  ] as const) {
    const file = { path: join(folder, name) };
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    expect(await hashByStream(file)).toMatchObject({ sha256, size: bytes.length });
    expect(await hashDirectly(file)).toMatchObject({ sha256, size: bytes.length });
  }
});

test('every file is a job, completed once; a file that vanished is a dead job, named', async () => {
  const out = new Lines();
  const verdict = await runDemo({ folder, out, onEnqueued: () => rm(join(folder, 'one')) });
  expect(verdict).toMatchObject({
    jobs: 5,
    completed: 4,
    lost: [],
    doubled: [],
    unequal: [],
    changed: [],
    miscounted: [],
    ok: true,
  });
  expect(verdict.dead).toEqual([`${folder}/one: ENOENT`]);
  expect(out.text).toContain(`dead      ${folder}/one: ENOENT\n`);
  expect(out.text).toContain('5 jobs: 4 completed, 1 dead, 0 lost, 0 doubled, 0 unequal, 0 changed');
  expect(out.text).not.toContain('\r');
});

test('an empty folder is no error', async () => {
  const verdict = await runDemo({ folder: join(folder, 'sub', 'empty'), out: new Lines() });
  expect(verdict).toMatchObject({ jobs: 0, completed: 0, ok: true });
});

describe('the check finds', () => {
  async function worked() {
    const server = await node({ module: true });
    const connector = await Connector.connect({ url: server.url, wire: 6 });
    onTestFinished(() => connector.close());
    const jobs = fileQueue(connector);
    const ledger = newLedger();
    await enqueueFiles(jobs, (await findFiles(folder)).files, ledger, () => {});
    await workAll(jobs, 4, ledger, () => {});
    const ids = [...ledger.enqueued.keys()];
    return { jobs, ledger, id: ids[0]!, other: ids[1]!, verdict: () => judge(jobs, ledger, () => {}) };
  }

  test('nothing where nothing is wrong', async () => {
    const { verdict } = await worked();
    expect(await verdict()).toMatchObject({ jobs: 5, completed: 5, dead: [], ok: true });
  });

  test('a lost job', async () => {
    const { ledger, id, verdict } = await worked();
    ledger.completed.delete(id);
    expect(await verdict()).toMatchObject({
      lost: [expect.any(String)],
      miscounted: [expect.stringContaining('5 completed, not 4')],
      ok: false,
    });
  });

  test('a job that was completed twice, and a file with two jobs', async () => {
    const { ledger, id, other, verdict } = await worked();
    ledger.completed.set(id, [...ledger.completed.get(id)!, ...ledger.completed.get(id)!]);
    expect(await verdict()).toMatchObject({ doubled: [expect.any(String)], ok: false });
    const again = await worked();
    again.ledger.enqueued.set(again.other, again.ledger.enqueued.get(again.id)!);
    expect((await again.verdict()).doubled).toHaveLength(1);
    expect(other).not.toBe(id);
  });

  test('a wrong hash, but not where the file was changed', async () => {
    const { ledger, id, verdict } = await worked();
    const [digest] = ledger.completed.get(id)!;
    ledger.completed.set(id, [{ ...digest!, sha256: '0'.repeat(64) }]);
    expect(await verdict()).toMatchObject({ unequal: [expect.any(String)], changed: [], ok: false });
    ledger.completed.set(id, [digest!]);
    await writeFile(join(folder, 'one'), 'another text');
    expect(await verdict()).toMatchObject({ unequal: [], changed: [`${folder}/one`], ok: true });
  });

  test('a job that died for no reason, and one that nobody enqueued', async () => {
    const { ledger, id, verdict } = await worked();
    ledger.completed.delete(id);
    ledger.dead.set(id, 'EIO');
    ledger.dead.set(mint(), 'EIO');
    const found = await verdict();
    expect(found).toMatchObject({ unequal: [expect.stringContaining('it can be read')], ok: false });
    expect(found.miscounted).toContainEqual(expect.stringContaining('was never enqueued'));
  });

  test('work that was left undone', async () => {
    const { jobs, verdict } = await worked();
    await jobs.enqueue({ path: 'left' });
    expect(await verdict()).toMatchObject({ miscounted: ['the server counts 1 pending, not 0'], ok: false });
  });
});

test('on a terminal the progress is one bar that goes away', () => {
  const out = { isTTY: true, text: '', write: (text: string) => void (out.text += text) };
  const bar = new Progress(out, 'hashed', 4);
  bar.at(2);
  expect(out.text).toMatch(/^\r\x1b\[K\[█{15}·{15}\] hashed +2\/4 {2}\d/);
  bar.end();
  expect(out.text.endsWith('\r\x1b[K')).toBe(true);
});

describe('npm run demo', () => {
  function demo(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    return new Promise((resolve) => {
      execFile(process.execPath, ['scripts/demo.mjs', ...args], { cwd: ROOT }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
      });
    });
  }

  test(
    'sets up, traces, works and checks; twice',
    async () => {
      for (const round of [1, 2]) {
        const { code, stdout, stderr } = await demo(folder);
        expect({ round, code, stderr }).toEqual({ round, code: 0, stderr: '' });
        expect(stdout).toContain('Both executors agree.');
        expect(stdout).toContain('5 jobs: 5 completed, 0 dead, 0 lost, 0 doubled, 0 unequal, 0 changed');
        expect(stdout.trimEnd()).toMatch(/ok +none lost, none doubled, all equal$/);
      }
    },
    SET_UP_MS,
  );

  test('a folder that is none is one line, before anything is set up', async () => {
    const none = await demo(join(folder, 'nowhere'));
    expect(none).toEqual({ code: 2, stdout: '', stderr: `demo: there is no folder ${folder}/nowhere\n` });
    const file = await demo(join(folder, 'one'));
    expect(file).toEqual({ code: 2, stdout: '', stderr: `demo: ${folder}/one is not a folder\n` });
    expect((await demo(folder, folder)).code).toBe(2);
  });
});
