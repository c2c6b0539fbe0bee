/**
 * The doctor's judgements on servers that no test can start: other products, old versions, broken disks, far clocks.
 */
import { expect, test } from 'vitest';
import { checkAll, intendedWire } from '../../src/cli/doctor/checks.js';
import type { Facts } from '../../src/cli/doctor/facts.js';
import type { Finding } from '../../src/cli/doctor/findings.js';
import { wordsOfScripts } from '../../src/cli/doctor/rights.js';
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

const FOUR = { brand: { value: 'echomq:4.0.0' } };

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
