/**
 * The fake server held against the real one: every native call of the scenario vectors and of the refusal suite's
 * situations is made on a server, recorded, and played over the fake. The reply and the whole keyspace must be the
 * same, and no rule of the fake be broken. So the fake is true, and the module has been through it all, sanitized.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { bytesOf, type Bytes } from '../../src/parity/keyspace-dump.js';
import { need, perform, type RawCommand } from '../../src/parity/node.js';
import { loadVectors } from '../../src/parity/vector-format.js';
import { runVectors } from '../../src/parity/vectors.js';
import { transitions } from '../../src/wire/transitions.js';
import { runs } from '../module/tools.js';
import { startNode, type TestNode } from '../parity/nodes.js';
import { cases, type Names } from '../parity/situations/index.js';
import { cmd } from '../parity/situations/scene.js';
import { build, missingForPrograms, run } from './programs.js';
import { Recorder } from './recorder.js';

const natives = Object.values(transitions).flatMap((transition) => ('native' in transition ? [transition.name] : []));

const b = 'emq:{recorded}:';
const plain: Names = { b, id: 'JOB0KHTOWnGLuC', other: 'JOB0KHTOWnGLuD', group: 'PRT0KHTOWnGLu1' };
const names: Readonly<Record<string, Names>> = {
  plain,
  'CR LF, NUL and invalid UTF-8': { ...plain, id: 'JOB\r\n\0\xff$-1', other: 'JOB\xc3\x28', group: 'g\r\n\0\xff' },
  'a kilobyte': { ...plain, id: `JOB${'x'.repeat(1021)}`, other: `JOB${'y'.repeat(1021)}`, group: 'z'.repeat(1024) },
  'an empty group': { ...plain, group: '' },
};

describe.runIf(runs('the fake server against a real one', missingForPrograms()))('recorded on a server', () => {
  let folder: string;
  let play: string;
  let node: TestNode;
  let recorder: Recorder;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'emq-fake-'));
    node = await startNode('native');
    play = build('play', folder);
  });
  afterAll(async () => {
    await node[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  /** Plays what was recorded. */
  async function played(): Promise<void> {
    // Bytes of a reply stand in a scene as themselves, so latin1.
    const file = join(folder, 'recorded.scenes');
    await writeFile(file, `${recorder.scenes.join('\n')}\n`, 'latin1');
    const { stdout, stderr } = await run(play, [file]);
    const failed = stdout.split('\n').filter((line) => line.startsWith('failed '));
    expect(failed.slice(0, 10)).toEqual([]);
    // A finding ends it at once; what it was, and where, is said last.
    expect(stdout, stderr.slice(-4000)).toMatch(new RegExp(`^${recorder.scenes.length} played, 0 failed$`, 'm'));
  }

  test('the scenario vectors', async () => {
    recorder = await Recorder.of(node);
    const vectors = await loadVectors();
    const recorded = { ...node, client: recorder.client };
    let ran = 0;
    for (const scenario of vectors.scenarios) {
      const calls = [...scenario.setup, scenario.call];
      const has = (one: (typeof calls)[number]): boolean =>
        'raw' in one
          ? /^"EMQ\./.test(JSON.stringify(one.raw[0]))
          : 'transition' in one && natives.includes(one.transition);
      if (!scenario.executors.includes('native') || !calls.some(has)) continue;
      recorder.title = scenario.name;
      const [result] = await runVectors(recorded, { ...vectors, scenarios: [scenario] });
      expect(result).toEqual({ name: scenario.name, outcome: 'passed' });
      ran += 1;
    }
    expect(recorder.left).toEqual([]);
    expect(recorder.scenes.length).toBeGreaterThanOrEqual(ran);
    await played();
  });

  test('the situations and refusals of each command', async () => {
    recorder = await Recorder.of(node);
    const make = async (
      title: string,
      setup: readonly RawCommand[],
      transition: string,
      call: { readonly keys: readonly Bytes[]; readonly args: readonly Bytes[] },
    ): Promise<void> => {
      await node.reset();
      for (const command of setup) await need(node.client, command);
      recorder.title = `${transition}: ${title}`.replaceAll('\n', ' ');
      const { keys, args } = call;
      await perform(node, { transition, keys: keys.map(bytesOf), args: args.map(bytesOf) }, recorder.client);
    };
    for (const transition of natives) {
      const { situations, refusals, numbers } = cases[transition]!;
      for (const [kind, scene] of Object.entries(names)) {
        for (const { name, setup, ...call } of situations(scene))
          await make(`${name} (${kind})`, setup, transition, call);
        for (const { name, setup, ...call } of refusals(scene))
          await make(`${name} (${kind})`, setup, transition, call);
      }
      for (const { name, setup, touches, counters = [], strings = [], ...more } of situations(plain)) {
        const { numbers: own = numbers, ...call } = more;
        for (const [key, type] of Object.entries(touches)) {
          const other = type === 'string' ? cmd('RPUSH', key, 'x') : cmd('SET', key, 'x');
          await make(`${name}, ${key} of another type`, [...setup, cmd('DEL', key), other], transition, call);
        }
        for (const [key, field, place] of counters) {
          const args = call.args.map((arg, i) => (i === place ? '1x' : arg));
          const counted = [...setup, cmd('HSET', key, field, '1x')];
          await make(`${name}, ${field} of ${key}`, counted, transition, { ...call, args });
        }
        for (const key of strings)
          await make(`${name}, text in ${key}`, [...setup, cmd('SET', key, '1x')], transition, call);
        for (const [place, word] of own) {
          const args = call.args.map((arg, i) => (i === place ? '4503599627370497' : arg));
          await make(`${name}, ${word}`, setup, transition, { ...call, args });
        }
      }
    }
    expect(recorder.left).toEqual([]);
    expect(recorder.scenes.length).toBeGreaterThan(300);
    await played();
  });
});
