/**
 * The doctor's judgements on servers that no test can start: other products, old versions, broken disks, far clocks.
 */
import { expect, test } from 'vitest';
import { checkAll } from '../../src/cli/doctor/checks.js';
import type { Facts } from '../../src/cli/doctor/facts.js';
import { intendedWire } from '../../src/cli/doctor/fence-checks.js';
import type { Finding } from '../../src/cli/doctor/findings.js';
import { wordsOfScripts } from '../../src/cli/doctor/rights.js';
import { NATIVE_COMMANDS } from '../../src/wire/fence.js';
import { EmqError, transitions } from '../../src/index.js';

const INFO = {
  valkey_version: '8.0.1',
  uptime_in_seconds: '60',
  role: 'master',
  maxmemory: '1000000000',
  used_memory: '1000000',
  maxmemory_policy: 'noeviction',
  aof_enabled: '1',
  connected_clients: '3',
  maxclients: '10000',
};

function facts(info: Record<string, string | undefined> = {}, others: Partial<Facts> = {}): Facts {
  const fields = Object.entries({ ...INFO, ...info }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  return {
    info: { value: new Map(fields) },
    user: { value: 'default' },
    missingCommands: { value: [] },
    brandKey: '{emq}:version',
    brand: { value: 'echomq:6.0.0' },
    cluster: false,
    clusterState: undefined,
    appendfsync: 'everysec',
    save: '',
    skewMs: { value: 0 },
    roundTripMs: 0.2,
    ...others,
  };
}

const BARE = { missingCommands: { value: NATIVE_COMMANDS } };
const FOUR = { brand: { value: 'echomq:4.0.0' }, ...BARE };
const UNBRANDED = { brand: { value: null } };
const REPLICA = { role: 'slave', master_host: '10.0.0.9', master_port: '6379', master_link_status: 'up' };
const FULL = { used_memory: '1000000000' };

function notOk(given: Facts, wire: 4 | 6 = 6): string[] {
  return checkAll(given, wire).flatMap(({ level, check, text }) =>
    level === 'ok' ? [] : [`${level} ${check}: ${text}`],
  );
}

test('the facts that the others are made worse from are in order', () => {
  expect(notOk(facts())).toEqual([]);
});

test.each<[string, Facts, 4 | 6, RegExp]>([
  ['Redis 7.2', facts({ valkey_version: undefined, redis_version: '7.2.4' }, FOUR), 4, /^warn server: Redis 7\.2\.4/],
  ['Redis 7.2 for wire 6', facts({ valkey_version: undefined, redis_version: '7.2.4' }), 6, /^bad server: .*8\.0/],
  ['Redis 6.2', facts({ valkey_version: undefined, redis_version: '6.2.1' }, FOUR), 4, /^bad server: .*too old/],
  ['Valkey 7.2 for wire 6', facts({ valkey_version: '7.2.5' }), 6, /^bad server: .*8\.0/],
  [
    'a server without a version',
    facts({ valkey_version: undefined }, FOUR),
    4,
    /^bad server: Redis of an unknown version/,
  ],
  ['a replica without a link', facts({ role: 'slave', master_link_status: 'down' }), 6, /^bad role: .*link.*down/],
  ['keys thrown away', facts({ evicted_keys: '5' }), 6, /^warn evicted: 5 keys/],
  ['a policy that is not told', facts({ maxmemory_policy: undefined }), 6, /^warn eviction/],
  ['an append-only file that fails', facts({ aof_last_write_status: 'err' }), 6, /^bad persistence: .*append-only/],
  ['a snapshot that fails', facts({ rdb_last_bgsave_status: 'err' }), 6, /^bad persistence: .*snapshot/],
  ['too many clients', facts({ connected_clients: '9500' }), 6, /^warn clients: .*nearly all/],
  ['clients turned away', facts({ rejected_connections: '2' }), 6, /^warn clients: .*2 were turned away/],
  ['a clock ahead', facts({}, { skewMs: { value: 90_000 } }), 6, /^warn clock: .*90\.0 s ahead of/],
  ['a clock behind', facts({}, { skewMs: { value: -2_500 } }), 6, /^warn clock: .*2\.5 s behind/],
  ['a far server', facts({}, { roundTripMs: 50 }), 6, /^warn latency: .*at most 10 jobs a second/],
  ['half a module', facts({}, { missingCommands: { value: ['EMQ.FAIL'] } }), 6, /^bad module: .*no EMQ\.FAIL/],
])('%s', (_what, given, wire, found) => {
  expect(notOk(given, wire)).toEqual([expect.stringMatching(found)]);
});

test.each<[string, Facts, 4 | 6, RegExp[]]>([
  [
    'unbranded, with the module',
    facts({}, UNBRANDED),
    6,
    [
      /^warn brand: the node is unbranded: the first connector decides; this node has the module, so connect with wire: 6 first \(the default is wire: 4\)/,
    ],
  ],
  ['the same, meant for wire 4', facts({}, UNBRANDED), 4, []],
  ['unbranded, without the module', facts({}, { ...UNBRANDED, ...BARE }), 4, []],
  [
    'unbranded, wanted for wire 6 without the module',
    facts({}, { ...UNBRANDED, ...BARE }),
    6,
    [/^bad module: .*connect with wire: 4$/, /^warn brand: .*no wire 6 connector brands it/],
  ],
  [
    'wire 4 with the module',
    facts({}, { ...FOUR, missingCommands: { value: [] } }),
    4,
    [/^warn module: .*not used.*mend: emq wire upgrade moves it, under load too, and then connect with wire: 6/],
  ],
  [
    'wire 6 that lost its module',
    facts({}, BARE),
    6,
    [
      /^bad module: the node is branded for wire 6 but the module is not loaded .*--loadmodule.*was it lost in a restart\?/,
    ],
  ],
  [
    'the same, asked about for wire 4',
    facts({}, BARE),
    4,
    [/^bad module: the node is branded for wire 6/, /^bad brand: .*connect with wire: 6, with the module$/],
  ],
  [
    'the same on a server too old for it',
    facts({ valkey_version: '7.2.5' }, BARE),
    6,
    [/^bad server: .*upgrade the server$/, /^bad module: the node is branded for wire 6/],
  ],
  [
    'a replica without the module',
    facts(REPLICA, BARE),
    6,
    [/^bad role/, /^bad module: .*mend: connect to the primary, 10\.0\.0\.9:6379; for this node: start the server/],
  ],
  [
    'an unbranded replica',
    facts(REPLICA, UNBRANDED),
    6,
    [/^bad role/, /^bad brand: .*it is a replica mend: connect to the primary, 10\.0\.0\.9:6379$/],
  ],
  [
    'a foreign brand without the module',
    facts({}, { ...BARE, brand: { value: 'other' } }),
    6,
    [/^bad module: trafikey is not loaded/, /^bad brand: .*foreign/],
  ],
  ['full', facts(FULL), 6, [/^bad memory: .*full: enqueues are refused now \(OOM\)/]],
  ['full but for buffers that do not count', facts({ ...FULL, mem_not_counted_for_evict: '200000000' }), 6, []],
  [
    'full, but it may evict keys with a time',
    facts({ ...FULL, maxmemory_policy: 'volatile-lru' }),
    6,
    [/^warn eviction/, /^warn memory: .*full: it evicts/],
  ],
  [
    'full and unbranded',
    facts(FULL, { ...UNBRANDED, ...BARE }),
    4,
    [/^bad brand: .*no connector can brand it: its memory is full/, /^bad memory/],
  ],
  [
    'unbranded, and the append-only file fails',
    facts({ aof_last_write_status: 'err' }, { ...UNBRANDED, ...BARE }),
    4,
    [/^bad brand: .*no connector can brand it: its append-only file fails/, /^bad persistence/],
  ],
])('%s: each finding agrees with the others', (_what, given, wire, found) => {
  const told = checkAll(given, wire).flatMap(({ level, check, text, mend }) =>
    level === 'ok' ? [] : [`${level} ${check}: ${text} mend: ${mend}`],
  );
  const wanted = found.map((pattern) => expect.stringMatching(pattern) as string);
  expect(told).toHaveLength(wanted.length);
  expect(told).toEqual(expect.arrayContaining(wanted));
  const branded = given.brand !== undefined && 'value' in given.brand ? given.brand.value : null;
  if (branded !== null && branded !== 'echomq:4.0.0') expect(told.join()).not.toContain('wire: 4');
});

test('Valkey 7.2 is good for wire 4', () => {
  expect(notOk(facts({ valkey_version: '7.2.5' }, FOUR), 4)).toEqual([]);
});

test('what cannot be read is never ok', () => {
  const refused = { refused: new EmqError('NOPERM', 'NOPERM no') };
  const blind = facts(
    {},
    { info: refused, user: refused, missingCommands: refused, brand: refused, skewMs: refused, roundTripMs: undefined },
  );
  expect(checkAll(blind, 6).map(({ level }: Finding) => level)).not.toContain('ok');
});

test('the wire is the one asked for, else the brand’s, else what the module allows', () => {
  expect(intendedWire(facts(), 4)).toBe(4);
  expect(intendedWire(facts({}, FOUR), undefined)).toBe(4);
  expect(intendedWire(facts({}, { brand: { value: null } }), undefined)).toBe(6);
  expect(
    intendedWire(facts({}, { brand: { value: 'other' }, missingCommands: { value: ['EMQ.FAIL'] } }), undefined),
  ).toBe(4);
});

test('every command that a script calls is asked about', () => {
  const words = new Set(wordsOfScripts());
  for (const { script } of Object.values(transitions)) {
    for (const [, command] of script.source.matchAll(/redis\.p?call\(\s*'(\w+)'/g)) expect(words).toContain(command);
  }
});
