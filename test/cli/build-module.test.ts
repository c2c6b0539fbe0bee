/** `emq build-module`: a module that loads, and what it says where it cannot be built. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { emq, finish, node, on, start } from './emq.js';

async function folder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'emq-cli-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

test('builds by the compiler alone, and the result loads', async () => {
  const out = join(await folder(), 'm.so');
  const { code, json } = await emq('build-module', '--via', 'cc', '--out', out, '--json');
  expect({ code, json }).toEqual({ code: 0, json: [{ path: out, via: 'cc' }] });
  const again = await emq('build-module', '--out', out);
  expect(again.code).toBe(0);
  expect(again.stdout).toContain('newer than its sources');
  const server = await node({ module: out });
  expect(
    await on(server, (redis) => redis.call('EMQ.CLAIM', '3', 'emq:{q}:pending', 'emq:{q}:active', 'emq:{q}:', '1')),
  ).toEqual([]);
});

test('without a compiler it ends with 3 and says what to install', async () => {
  const out = join(await folder(), 'm.so');
  const { code, json } = await finish(start(['build-module', '--out', out, '--json'], { PATH: '', CC: '' }));
  expect(code).toBe(3);
  expect(json[0].error).toMatchObject({
    code: 'EMQ_ENVIRONMENT',
    exit: 3,
    reason: expect.stringContaining('compiler'),
  });
});
