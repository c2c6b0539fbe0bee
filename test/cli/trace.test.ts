/** `emq trace`: what it shows is what was sent, both executors agree, and a given node is left as it was. */
import { describe, expect, test } from 'vitest';
import { differences } from '../../src/cli/trace/agree.js';
import type { Played } from '../../src/cli/trace/play.js';
import { story } from '../../src/cli/trace/story.js';
import { EmqError, transitions } from '../../src/index.js';
import { client, emq, finish, firstLine, node, on, start, stateOf, urlFor } from './emq.js';

const COLUMNS = 100;

describe('on private nodes', () => {
  test('every step agrees, and the JSON tells call, reply, sets and row', async () => {
    const { code, json, stderr } = await emq('trace', '--json');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const steps = json.slice(0, -1);
    expect(json.at(-1)).toEqual({ summary: { steps: steps.length, agree: true, differences: [] } });
    expect(new Set(steps.map((step) => step.path))).toEqual(
      new Set(['happy path', 'failure fork', 'recovery', 'hand-back', 'batch']),
    );
    for (const step of steps) {
      expect(step).toMatchObject({ agree: true, differences: [] });
      for (const wire of [step.wires[4], step.wires[6]]) {
        expect(Object.keys(wire.sets)).toEqual(['pending', 'active', 'schedule', 'dead']);
        expect('reply' in wire || 'error' in wire).toBe(true);
        expect(wire).toHaveProperty('row');
      }
    }
    const claim = steps.find((step) => step.transition === 'claim');
    const { sha } = transitions.claim.script;
    const operands = ['3', 'emq:{trace}:pending', 'emq:{trace}:active', 'emq:{trace}:', '30000'];
    expect(claim.wires[4].command).toEqual(['EVALSHA', sha, ...operands]);
    expect(claim.wires[6].command).toEqual(['EMQ.CLAIM', ...operands]);
    expect(claim.wires[4].row).not.toHaveProperty('lease_epoch');
    expect(claim.wires[6].row).toHaveProperty('lease_epoch');
    const late = steps.find((step) => step.wires[6].error);
    const stale = { error: { code: 'EMQSTALE', reason: 'EMQSTALE complete token mismatch' } };
    expect(late).toMatchObject({ transition: 'complete', wires: { 4: stale, 6: stale } });
  });

  test('every transition with a native twin is on the way', () => {
    const played = new Set(
      story().flatMap(({ steps }) => steps.flatMap((s) => (s.kind === 'call' ? s.transition.name : []))),
    );
    for (const transition of Object.values(transitions)) {
      if ('native' in transition) expect(played).toContain(transition.name);
    }
  });

  test('the text fits 100 columns, without colour where there is no terminal', async () => {
    const { code, stdout } = await emq('trace', '--queue', 'q'.repeat(20));
    expect(code).toBe(0);
    expect(stdout).not.toContain('\x1b');
    const wide = stdout.split('\n').filter((line) => [...line].length > COLUMNS);
    expect(wide).toEqual([]);
    expect(stdout).toContain('(error) EMQSTALE complete token mismatch');
    expect(stdout.trimEnd()).toMatch(/Both executors agree\.$/);
  });
});

describe('on given nodes', () => {
  test('what is shown is what the server got, and nothing is left behind', async () => {
    const server = await node({ module: true });
    const before = await stateOf(server);
    const monitor = await client(server).monitor();
    const seen: string[][] = [];
    monitor.on(
      'monitor',
      (_time: string, args: string[], source: string) => void (source !== 'lua' && seen.push(args)),
    );
    const { code, json } = await emq('trace', '--url6', server.url, '--json', '--queue', 'mine');
    monitor.disconnect();
    expect(code).toBe(0);
    const shown = json.slice(0, -1).map((step) => step.wires[6].command as string[]);
    const isCall = ([name = '']: string[]): boolean => /^(evalsha|emq\.|zadd)/i.test(name);
    // what a native command does inside is told to a monitor only where it is replicated, as core commands in MULTI
    const told = seen.filter(isCall).map(([name = '', ...args]) => [name.toUpperCase(), ...args]);
    expect(told).toEqual(shown);
    expect(await stateOf(server)).toEqual(before);
  });

  test('a wire 4 node of yours and one of wire 6', async () => {
    const [four, six] = [await node({ brand: 4 }), await node({ module: true })];
    const { code, json } = await emq('trace', '--url4', four.url, '--url6', six.url, '--json');
    expect(code).toBe(0);
    expect(json.at(-1).summary.agree).toBe(true);
  });

  test.each([
    ['a queue in use', 6 as const, 'emq:{trace}:pending', 'is in use'],
    ['a paused queue', 6 as const, 'emq:{trace}:meta', 'is in use'],
    ['an unbranded node', false as const, 'else', 'unbranded'],
    ['a node of the other wire', 4 as const, 'else', '--url6 points to a wire 4 node'],
  ])('%s is refused with 4, and left as it is', async (_what, brand, key, reason) => {
    const server = await node({ module: true, brand });
    await on(server, (redis) => (key.endsWith('meta') ? redis.hset(key, 'paused', 1) : redis.zadd(key, 1, 'x')));
    const before = await stateOf(server);
    const { code, json } = await emq('trace', '--url6', server.url, '--json');
    expect(code).toBe(4);
    expect(json.at(-1).error.reason).toContain(reason);
    expect(await stateOf(server)).toEqual(before);
  });

  test('a wire 6 node as --url4, and a --url6 without the module, are told in the words of the options', async () => {
    const [six, bare] = [await node({ module: true }), await node({ brand: 6 })];
    const first = await emq('trace', '--url4', six.url);
    expect([first.code, first.stderr]).toEqual([4, expect.stringContaining('--url4 points to a wire 6 node')]);
    const second = await emq('trace', '--url6', bare.url);
    expect([second.code, second.stderr]).toEqual([
      4,
      expect.stringContaining('--url6 points to a node without the module'),
    ]);
    expect(first.stderr + second.stderr).not.toContain('wire: 4');
  });

  test('Ctrl-C ends it cleanly: nothing stays on the node', async () => {
    const server = await node({ module: true });
    const before = await stateOf(server);
    const child = start(['trace', '--url6', server.url, '--json']);
    const ended = finish(child);
    await firstLine(child);
    child.kill('SIGINT');
    const { code, json } = await ended;
    expect(code).toBe(130);
    expect(json.at(-1)).toEqual({ error: { code: 'EMQ_CLOSED', reason: 'ended by SIGINT', exit: 130 } });
    expect(await stateOf(server)).toEqual(before);
  });

  test('executors that do not agree end it with 1', async () => {
    const server = await node({ module: true });
    await on(server, (redis) => redis.call('ACL', 'SETUSER', 'half', 'on', '>pass', '~*', '&*', '+@all', '-emq.fail'));
    const { code, json } = await emq('trace', '--url6', urlFor(server, 'half', 'pass'), '--json');
    expect(code).toBe(1);
    const { summary } = json.at(-1);
    expect(summary.agree).toBe(false);
    expect(summary.differences.join('\n')).toContain('NOPERM');
    const human = await emq('trace', '--url6', urlFor(server, 'half', 'pass'));
    expect(human.code).toBe(1);
    expect(human.stdout).toMatch(/the executors do not agree in step 6, /);
  });
});

describe('agreement', () => {
  const path = story()[0]!;
  const step = path.steps[1]!; // the claim
  const now = 1_800_000_000_000;

  function played(
    wire: 4 | 6,
    change: Partial<{ score: number; now: number; reply: number; row: [string, string][] }> = {},
  ): Played {
    const clock = change.now ?? now;
    const rest = { wake: 1, completed: 0, failed: 0 };
    const none = new Map<string, number>();
    const sets = { pending: none, active: none, schedule: none, dead: none };
    const row = new Map((change.row ?? [['attempts', '1']]).map(([field, value]) => [field, Buffer.from(value)]));
    const score = change.score ?? clock + 30_000;
    return {
      wire,
      frame: { command: 'X', args: ['3'] },
      answer: { ok: true, reply: change.reply ?? 1, result: null },
      before: { now: clock, sets: { ...sets, pending: new Map([[path.id, 0]]) }, row, ...rest },
      after: { now: clock + 2, sets: { ...sets, active: new Map([[path.id, score]]) }, row, ...rest },
      runId: 'ab',
    };
  }
  const judge = (a: Played, b: Played): string => differences(path, step, [a, b]).join('\n');

  test('the same on two clocks is the same', () => {
    expect(judge(played(4), played(6, { now: now + 987_654_321 }))).toBe('');
  });

  test.each<[string, Played, RegExp]>([
    ['another lease', played(6, { score: now + 31_000 }), /^active .*wire 4.*wire 6/],
    ['another reply', played(6, { reply: 2 }), /^reply: \(integer\) 1 on wire 4, \(integer\) 2/],
    ['another field', played(6, { row: [['attempts', '2']] }), /^row attempts: "1".*"2"/],
    [
      'a field too many',
      played(6, {
        row: [
          ['attempts', '1'],
          ['x', ''],
        ],
      }),
      /^row x: absent .*""/,
    ],
    [
      'an epoch of another run',
      played(6, {
        row: [
          ['attempts', '1'],
          ['lease_epoch', 'cd'],
        ],
      }),
      /lease_epoch "cd"/,
    ],
    ['other operands', { ...played(6), frame: { command: 'Y', args: ['4'] } }, /^operands/],
    [
      'a refusal',
      { ...played(6), answer: { ok: false, error: new EmqError('EMQSTALE', 'EMQSTALE x') } },
      /expects no refusal/,
    ],
  ])('%s is found', (_what, other, found) => {
    expect(judge(played(4), other)).toMatch(found);
    expect(judge(played(4), played(6))).toBe('');
  });

  test('two that agree on the wrong place are found', () => {
    const lost = (wire: 4 | 6): Played => {
      const one = played(wire);
      return { ...one, after: { ...one.after, sets: one.before.sets } };
    };
    expect(judge(lost(4), lost(6))).toMatch(/the job is pending on wire 4, the story has it active/);
  });
});
