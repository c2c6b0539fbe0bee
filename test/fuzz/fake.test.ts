/**
 * The module over the fake server, under the sanitizers: the cases that are written by hand (cases/), the load with
 * whatever may be missing, and that the fake finds what a command must not do.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { runs } from '../module/tools.js';
import { build, here, missingForPrograms, run } from './programs.js';

const ran = runs('the module over a fake server', missingForPrograms());

let folder: string;
let play: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'emq-fake-'));
  if (ran) play = build('play', folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.runIf(ran)('cases', () => {
  const files = readdirSync(join(here, 'cases'));

  test('every command has its cases', () => {
    const commands = ['claim', 'claim_batch', 'complete', 'fail', 'release', 'stalled_check', 'take', 'take_batch'];
    expect(files.map((name) => name.replace('.scenes', '')).sort()).toEqual(commands);
  });

  for (const file of files) {
    test(file, async () => {
      const { stdout, stderr } = await run(play, [join(here, 'cases', file)]);
      expect(stdout.split('\n').filter((line) => line.startsWith('failed '))).toEqual([]);
      // A finding ends it at once; what it was, and where, is said last.
      expect(stdout, stderr.slice(-4000)).toMatch(/^[1-9]\d* played, 0 failed$/m);
    });
  }
});

describe.runIf(ran)('a server that is strict', () => {
  const said = async (word: string): Promise<{ code: number | string; text: string }> => {
    const { code, stdout, stderr } = await run(play, ['--strict', word]);
    return { code, text: stdout + stderr };
  };

  test('finds nothing in a call that is as it should be', async () => {
    expect(await said('decent')).toEqual({ code: 0, text: ':1\n' });
  });

  const FOUND: Readonly<Record<string, string>> = {
    silent: 'answered 0 times',
    twice: 'answered 2 times',
    half: '1 arrays unfinished',
    late_refusal: 'refused after a write',
    late_write: 'a write after a refusal',
    lost_block: 'left 1 blocks',
    lost_string: 'left 1 strings',
    lost_key: 'left 1 keys',
    lost_reply: 'left 1 replies of calls',
    lost_user: 'left 1 users',
    foreign_string: "a string is freed that is not the call's",
    freed_string: 'heap-use-after-free',
    past_the_end: 'heap-buffer-overflow',
    stale_handle: 'heap-use-after-free',
    blind_handle: 'a key has come behind its handle',
    unasked: "the caller's right to read emq:{q}:wake was not asked for",
    of_another_queue: 'a key of another queue: emq:{p}:pending',
    for_reading: 'a write by a handle for reading',
    another_type: 'a key is used as what it is not',
    under_an_iterator: 'a write under an iterator',
    from_elsewhere: 'may be where the slot is moving to',
    unsignalled: 'changed emq:{q}:pending and told no watcher',
    without_event: 'changed emq:{q}:pending without an event',
    unreplicated: 'a replica of unreplicated is not the same',
    replicated_otherwise: 'a replica of replicated_otherwise is not the same',
  };
  for (const [deed, found] of Object.entries(FOUND)) {
    test(`finds: ${deed}`, async () => {
      const { code, text } = await said(deed);
      expect(text).toContain(found);
      expect(code).not.toBe(0);
    });
  }

  test('refuses the load, in one line, for each function that is missing and each step that fails', async () => {
    const { code, text } = await said('load');
    expect(text).toMatch(/^\d\d functions, 9 faults\n$/);
    expect(code).toBe(0);
  });

  test('INFO counts calls and refusals', async () => {
    const { code, text } = await said('info');
    expect(text).toMatch(/^brand:echomq:6\.0\.0\nrun_id:\w{40}\ncalls_claim:2\n/);
    expect(text).toMatch(/\nrefused_emqstate:2\n/);
    expect(code).toBe(0);
  });
});
