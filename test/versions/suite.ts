/**
 * All that is shown of one version of the server.
 *
 * The suites of other folders are used as they are: what they start is looked for in the environment, so each version has a
 * test file, which is a process, of its own. Does not: fetch where the version is in our folder already.
 */
import { describe, expect, test } from 'vitest';

import { startServer } from '../../src/dev/index.js';
import { conformanceSuite } from '../conformance/suite.js';
import { EXECUTORS } from '../conformance/stage.js';
import { modelSuite } from '../parity/model-suite.js';
import { printSeed } from '../parity/seed.js';
import { BOUNDED, bouts } from './bouts.js';
import { clientSuite } from './clients.js';
import { doctorSuite } from './doctor.js';
import { moduleSuite } from './module.js';
import { clusterRefusalSuite } from './refusals-cluster.js';
import { refusalSuite } from './refusals.js';
import { take, VERSIONS, type Version } from './servers.js';
import { vectorSuite } from './vectors.js';

/** The suites of other folders that are about the server, wire by wire. */
const BORROWED = {
  'calls and connections': () => import('../wire/basics.test.js'),
  'scripts that are not there': () => import('../wire/scripts.test.js'),
  'lost replies, servers and peers': () => import('../wire/loss.test.js'),
  'blocking reads and subscriptions': () => import('../wire/dedicated.test.js'),
} as const;
const BORROWED_NATIVE = {
  'keyspace events': () => import('../parity/events.test.js'),
  replication: () => import('../parity/replication.test.js'),
  'the native commands': () => import('../parity/native.test.js'),
  'a function that is hidden': () => import('../module/load.test.js'),
  'a full server': () => import('../parity/full-server.test.js'),
  'a slot on the move': () => import('../parity/moving-slot.test.js'),
} as const;

export async function versionSuite(version: Version): Promise<void> {
  const path = await take(version);
  if (path === undefined) return;
  const { name } = version;
  printSeed(name);
  process.env['VALKEY_SERVER'] = path;

  describe(name, () => {
    test('is what is started', async () => {
      await using server = await startServer();
      expect(server.version).toMatch(version.number);
    });

    vectorSuite(version);
    refusalSuite(version);
    clusterRefusalSuite(version);
    clientSuite(version);
    moduleSuite(version);
    doctorSuite(version);
    conformanceSuite(
      EXECUTORS.filter(([, wire]) => version.wires.includes(wire)),
      version === VERSIONS.valkey9 ? 'hash field expiry' : undefined,
    );
    bouts(version);
    borrow(BORROWED);
    if (version.wires.includes(6)) {
      modelSuite(BOUNDED);
      borrow(BORROWED_NATIVE);
    }
  });
}

function borrow(suites: Readonly<Record<string, () => Promise<unknown>>>): void {
  for (const [what, load] of Object.entries(suites)) describe(what, async () => void (await load()));
}
