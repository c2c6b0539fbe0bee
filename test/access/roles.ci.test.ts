/**
 * None of the rules of the roles' lists can be spared: without it some call of the job is refused, or what is named beside
 * it does not come. At length, since each rule is tried by all calls until one is refused.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { transitions, type Connector } from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { cases } from '../parity/situations/index.js';
import { actsOf } from './acts.js';
import { DURABLE, FLOW_PRODUCER, NATIVE, PROOF, ROLE_CONSUMER, ROLE_OBSERVER, ROLE_OPERATOR } from './rules.js';
import { Users } from './users.js';

const calls = Object.values(transitions).flatMap(({ name }) => {
  const own = cases[name];
  return name === 'register' || own === undefined ? [] : actsOf(name, own);
});

/** What no transition runs: the connections of a consumer's own, events, and what `emq doctor` sends. */
const BESIDES: ReadonlySet<string> = new Set([
  '+blpop',
  '+subscribe',
  '+type',
  '+zscan',
  '+eval_ro',
  '&emq:{a}:events',
  ...DURABLE,
]);

describe.each(EXECUTORS)('%s', (_executor, wire) => {
  let users: Users;
  beforeAll(async () => {
    users = await Users.start(wire);
  });
  afterAll(() => users[Symbol.asyncDispose]());

  describe.each([
    ['producer of flows', FLOW_PRODUCER],
    ['consumer', [...ROLE_CONSUMER, ...(wire === 6 ? NATIVE : [])]],
    ['operator', ROLE_OPERATOR],
    ['observer', ROLE_OBSERVER],
  ])('%s', (role, list) => {
    const rules = [...list, ...(wire === 6 ? PROOF : [])];
    let connector: Connector;
    let may: typeof calls;
    beforeAll(async () => {
      await users.grant(rules);
      connector = await users.connect();
      may = [];
      for (const call of calls) if ((await users.judge(call, 'a', connector)) === 'done') may.push(call);
    });

    // the list is one for both wires, and only the claims by script pop
    const spared = wire === 6 && role === 'consumer' ? ['+zpopmin'] : [];
    it.each(rules.filter((rule) => !BESIDES.has(rule) && !spared.includes(rule)))('%s is needed', async (rule) => {
      await users.grant(rules.filter((one) => one !== rule));
      let refused = !(await users.connects());
      await users.stage.raw.script('FLUSH');
      for (const call of may) {
        if (refused) break;
        refused = (await users.judge(call, 'a', connector)) !== 'done';
      }
      expect(refused).toBe(true);
    });
  });
});
