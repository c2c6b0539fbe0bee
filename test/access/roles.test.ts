/**
 * The users that `emq acl` makes: each role may do its job and nothing else. The transitions are those of the table, in all
 * situations of the refusal suite, called one by one: what a role may not do is refused with no byte changed, never half
 * done. A new transition has to be sorted in here, else it fails.
 *
 * What the rights of the server cannot tell apart is said as it is (`ALONG`): a role may do it although nobody asked for it,
 * since it takes no command and no key that its job does not take.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rulesOf, FROM_NOTHING, type Asked, type Role } from '../../src/cli/acl/roles.js';
import { EmqError, Jobs, transitions, type Connector } from '../../src/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { EXECUTORS } from '../conformance/stage.js';
import { cases } from '../parity/situations/index.js';
import { actsOf, titleOf, type Act } from './acts.js';
import { USER, Users } from './users.js';

const words = (text: string) => text.split(/\s+/).filter((word) => word !== '');

const READS = words(`get state browse counts metrics logs agenda consult limits lanes lane_info dedup repeats repeat_get
  history flow_letters flow_unlanded flow_link flow_children flow audit`);
const CLAIMS = words('claim claim_batch take take_batch');
const NATIVE_SETTLES = words('release complete fail stalled_check');
const SETTLES = words('delay extend extend_many back_off complete_child fail_child');
const SWEEPS = words(
  'promote reap reap_group stalled_check quarantine purge repeat_fire metrics_roll recovery lane_mend',
);
const LETTERS = words('flow_deliver flow_ack flow_cancelled cancel');
const TELLS = words('update_progress add_log wake publish');
const ADDS = words('enqueue schedule admit');
const FLOWS = words('enqueue_flow flow_hold flow_list flow_land flow_landed flow_clear');
const LANES = words('lane_set lane_pause lane_resume');
const CONTROLS = words(`pause resume set_limits reassign remove reprocess promote_now reschedule dedup_free update_data
  repeat_put repeat_pause repeat_resume repeat_remove mend touch`);

/** A read, and a message to whoever listens. */
const CHANGE_NOTHING: ReadonlySet<string> = new Set([...READS, 'publish']);

interface Rights {
  /** Its job. */
  readonly job: readonly string[];
  /** What comes along. */
  readonly along: readonly string[];
  /** What is done in some situations, and refused in those that touch more: reads of lanes that are not its own to see. */
  readonly partly?: readonly string[];
}

const producer: Rights = {
  job: [...ADDS, 'touch'],
  along: words('wake update_data reschedule dedup flow_link'),
  partly: ['browse', 'lanes', 'audit', 'mend'],
};
const RIGHTS: Readonly<Record<Role | 'producer of flows', Rights>> = {
  producer,
  'producer of flows': { ...producer, job: [...producer.job, ...FLOWS, 'flow_unlanded'] },
  consumer: {
    job: [...CLAIMS, ...NATIVE_SETTLES, ...SETTLES, ...SWEEPS, ...LETTERS, ...TELLS, ...without(READS, 'lanes')],
    along: [...ADDS, ...FLOWS, ...CONTROLS],
    partly: ['lanes'],
  },
  operator: {
    job: [...READS, ...LANES, ...CONTROLS, 'obliterate', 'purge', 'cancel', 'quarantine', 'lane_mend'],
    along: [...SETTLES, ...SWEEPS, ...LETTERS, ...TELLS, ...ADDS, ...FLOWS, ...NATIVE_SETTLES],
  },
  observer: { job: READS, along: [] },
};

/** In the source of a script by way of a shared part, and never run by it. */
const SPARED: Readonly<Record<string, readonly string[]>> = {
  producer: words('admit+lrange admit+hincrby admit+hdel admit+lrem admit+del admit+zrem'),
  'producer of flows': words('admit+lrange admit+hincrby admit+lrem admit+del'),
};

function without(list: readonly string[], ...spared: readonly string[]): readonly string[] {
  return list.filter((one) => !spared.includes(one));
}

/** All calls of the table; the list of queues is no queue's own. */
const calls: readonly Act[] = Object.values(transitions).flatMap(({ name }) => {
  const own = cases[name];
  return name === 'register' || own === undefined ? [] : actsOf(name, own);
});

const asked = (role: Role | 'producer of flows', wire: 4 | 6): Asked => ({
  roles: [role === 'producer of flows' ? 'producer' : role],
  ...{ queues: ['a'], prefixes: [], wire, cluster: false, durable: false, mayBrand: false },
  flows: role === 'producer of flows',
});

describe.each(EXECUTORS)('%s', (_executor, wire) => {
  let users: Users;
  beforeAll(async () => {
    users = await Users.start(wire);
  });
  afterAll(() => users[Symbol.asyncDispose]());

  /** Sets the scene and makes the call; what became of it, and whether any key of the server changed. */
  async function become(act: Act, queue: string, by: Connector): Promise<'done' | 'idle' | 'refused' | 'half'> {
    const call = await users.scene(act, queue);
    const before = await snapshot(users.stage.raw);
    let refused = false;
    try {
      await call(new Jobs(by, queue));
    } catch (error) {
      expect(error).toBeInstanceOf(EmqError);
      expect((error as EmqError).code).toBe('NOPERM');
      refused = true;
    }
    const changed = changedKeys(before, await snapshot(users.stage.raw)).length > 0;
    return refused ? (changed ? 'half' : 'refused') : changed ? 'done' : 'idle';
  }

  describe.each(Object.keys(RIGHTS) as (keyof typeof RIGHTS)[])('%s', (role) => {
    const rules = rulesOf(asked(role, wire));
    const { job, along, partly = [] } = RIGHTS[role];
    // on wire 6 these are commands of the module, which the operator does not have
    const lacks = wire === 6 && role === 'operator' ? NATIVE_SETTLES : [];
    const may = new Set(without([...job, ...along], ...lacks));
    let connector: Connector;

    beforeAll(async () => {
      await users.grant([...FROM_NOTHING, ...rules]);
      connector = await users.connect();
    });
    afterAll(() => connector.close());

    it('may do its job, and all that it may not do is refused with no byte changed', async () => {
      const wrong: string[] = [];
      const done = new Set<string>();
      for (const act of calls) {
        const { verb } = act;
        const fate = await become(act, 'a', connector);
        if (fate === 'done' || (fate === 'idle' && CHANGE_NOTHING.has(verb))) done.add(verb);
        // what changes nothing may be answered: that there is no such job, say
        const good = may.has(verb) ? ['done', 'idle'] : ['refused', 'idle'];
        if (!good.includes(fate)) wrong.push(`${titleOf(act)}: ${fate}`);
        // and a read is refused as any other call is
        if (fate === 'idle' && READS.includes(verb) && !may.has(verb) && !partly.includes(verb))
          wrong.push(titleOf(act));
      }
      expect(wrong).toEqual([]);
      const known = new Set(calls.map(({ verb }) => verb));
      expect([...may].filter((verb) => known.has(verb) && !done.has(verb))).toEqual([]);
    });

    it('is refused on another queue, in everything', async () => {
      const wrong: string[] = [];
      for (const act of calls) {
        const fate = await become(act, 'b', connector);
        if (fate !== 'refused') wrong.push(`${titleOf(act)}: ${fate}`);
      }
      expect(wrong).toEqual([]);
    });

    // an observer runs no script that writes
    if (role !== 'observer')
      it('has every command that is in the scripts of its job, but for those of parts that it does not come to', () => {
        const own = Object.values(transitions).filter(({ name }) => job.includes(name));
        const run = own.filter((one) => wire === 4 || !('native' in one));
        const words = run.flatMap(({ name, script }) =>
          [...script.source.matchAll(/redis\.call\('([A-Z]+)'/g)].map(
            ([, word = '']) => [name, `+${word.toLowerCase()}`] as const,
          ),
        );
        const granted = rules.join(' ');
        const lacks = words.filter(([, word]) => !new RegExp(`\\${word}( |$)`).test(granted));
        expect(words.length).toBeGreaterThan(20);
        expect([...new Set(lacks.map(([name, word]) => `${name}${word}`))]).toEqual(SPARED[role] ?? []);
      });

    it('has no command of the server that reaches beyond queues', async () => {
      const list = (await users.stage.raw.call('COMMAND', 'LIST')) as string[];
      const info = (await users.stage.raw.call('COMMAND', 'INFO', ...list)) as [string, number, string[]][];
      const strong = info.filter(([, , flags]) => flags.some((flag) => ['admin', 'write', 'pubsub'].includes(flag)));
      expect(strong.length).toBeGreaterThan(100);
      const allowed: string[] = [];
      for (const [name, arity] of strong) {
        const parts = name.split('|');
        const args = Array<string>(Math.abs(arity) - parts.length).fill('1');
        const answer = String(await users.stage.raw.call('ACL', 'DRYRUN', USER, ...parts, ...args));
        // what is refused for its keys only may be run
        if (!/no permissions to run/.test(answer)) allowed.push(name);
      }
      if (role === 'observer') expect(allowed.filter((name) => !/^(un)?subscribe$/.test(name))).toEqual([]);
      const granted = new Set(rules.flatMap((rule) => [...rule.matchAll(/\+([a-z|]+)/g)].map(([, name]) => name)));
      const native = rules.includes('+@emq');
      const beyond = allowed.filter((name) => !granted.has(name) && !(native && name.startsWith('emq.')));
      expect(beyond).toEqual([]);
    });
  });
});
