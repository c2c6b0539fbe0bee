/**
 * The scenario vectors, one test case each: on both executors, by RESP2 and RESP3.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keysOf } from '../../src/parity/keyspace-dump.js';
import { loadVectors, parseVectors, type Scenario } from '../../src/parity/vector-format.js';
import { runVectors } from '../../src/parity/vectors.js';
import { transitions } from '../../src/wire/transitions.js';
import { EXECUTORS, startNode, type TestNode } from './nodes.js';

const vectors = await loadVectors();
const only = (scenario: Scenario) => ({ ...vectors, scenarios: [scenario] });

for (const executor of EXECUTORS) {
  for (const protocol of [2, 3] as const) {
    describe(`vectors, ${executor}, RESP${protocol}`, () => {
      let node: TestNode;
      beforeAll(async () => {
        node = await startNode(executor, { protocol });
      });
      afterAll(() => node[Symbol.asyncDispose]());

      for (const scenario of vectors.scenarios.filter(({ executors }) => executors.includes(executor))) {
        test(`${scenario.name}: ${scenario.note}`, async () => {
          expect(await runVectors(node, only(scenario))).toEqual([{ name: scenario.name, outcome: 'passed' }]);
        });
      }
    });
  }
}

describe('the vectors as a whole', () => {
  test('every transition of the table has a scenario that succeeds and one that is refused', () => {
    const covered = (kind: 'reply' | 'error') =>
      new Set(
        vectors.scenarios.flatMap(({ call, [kind]: outcome }) =>
          outcome !== undefined && 'transition' in call ? [call.transition] : [],
        ),
      );
    const names = Object.values(transitions).map(({ name }) => name);
    expect(names.filter((name) => !covered('reply').has(name))).toEqual([]);
    expect(names.filter((name) => !covered('error').has(name))).toEqual([]);
  });

  test('a file of another format, with an unknown field or with a name twice is refused', () => {
    const scenario = {
      name: 'a',
      note: '',
      executors: [],
      setup: [],
      call: { raw: ['PING'] },
      reply: 'PONG',
      after: [],
    };
    const file = (scenarios: object[], format = 1) => JSON.stringify({ format, tolerance_ms: 1, names: {}, scenarios });
    expect(parseVectors(file([scenario])).scenarios).toHaveLength(1);
    expect(() => parseVectors(file([scenario], 2))).toThrow('format 2');
    expect(() => parseVectors(file([{ ...scenario, expect: 1 }]))).toThrow('unknown expect');
    expect(() => parseVectors(file([scenario, scenario]))).toThrow('two scenarios');
    expect(() => parseVectors(file([{ ...scenario, error: { class: 'ERR' } }]))).toThrow('one of reply and error');
  });
});

describe('the runner', () => {
  let node: TestNode;
  beforeAll(async () => {
    node = await startNode('script');
  });
  afterAll(() => node[Symbol.asyncDispose]());

  const enqueue = vectors.scenarios.find(({ name }) => name === 'enqueue/new');
  const spoilt: Record<string, Partial<Scenario>> = {
    'another reply': { reply: 2 },
    'a refusal that does not come': { error: { class: 'EMQKIND' } },
    'a value after the call': { after: [[['HGET', '<b>job:<id1>', 'payload'], 'other']] },
    'a field too many': { after: [[['HGETALL', '<b>job:<id1>'], { hash: { state: 'pending' } }]] },
    'a keyspace that was to stay': { unchanged: true },
    'a setup that fails': { setup: [['HSET', '<b>x']] },
  };
  for (const [what, change] of Object.entries(spoilt)) {
    test(`sees ${what}`, async () => {
      expect(enqueue).toBeDefined();
      const { reply, ...rest } = enqueue!;
      const scenario = { ...rest, ...('error' in change ? {} : { reply: reply ?? null }), ...change };
      const [result] = await runVectors(node, only(scenario));
      expect(result).toMatchObject({ name: 'enqueue/new', outcome: 'failed' });
    });
  }

  test('refuses a placeholder that stands for nothing', async () => {
    const scenario = { ...enqueue!, setup: [['SET', '<b>x', '<nobody>']] };
    await expect(runVectors(node, only(scenario))).rejects.toThrow('<nobody> stands for nothing');
  });
});

describe('a node that somebody gave us', () => {
  for (const executor of EXECUTORS) {
    test(`is neither flushed nor reconfigured, and keeps no key: ${executor}`, async () => {
      await using node = await startNode(executor);
      await node.client.call('FLUSHALL', 'SYNC');
      await node.client.set('theirs', 'stays');
      const results = await runVectors({ ...node, own: false }, vectors);
      expect(await keysOf(node.client)).toEqual(['theirs']);
      expect(results.filter(({ outcome }) => outcome === 'failed')).toEqual([]);
      const notRun = results.filter(({ outcome }) => outcome === 'not run');
      expect(notRun.every(({ detail }) => /user|settings|brand/.test(detail ?? ''))).toBe(true);
      expect(notRun.map(({ name }) => name)).toEqual(
        executor === 'script'
          ? []
          : [
              'native/unbranded',
              'native/wire 4 node',
              'native/acl',
              'native/acl outbox',
              'native/out of memory',
              'native/number before fence',
              'native/fence before types',
            ],
      );
      const commands = await node.client.info('commandstats');
      expect(commands).not.toMatch(/cmdstat_(config\|set|acl\|)/);
      expect(/cmdstat_flushall:calls=(\d+)/.exec(commands)?.[1]).toBe('2');
    });
  }

  test('of a foreign brand is refused', async () => {
    await using node = await startNode('script');
    await node.client.set('{emq}:version', 'echomq:6.0.0');
    await expect(runVectors({ ...node, own: false }, vectors)).rejects.toThrow('EMQWIRE node is "echomq:6.0.0"');
  });
});
