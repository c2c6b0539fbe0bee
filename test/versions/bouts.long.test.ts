/** The random bouts of all versions at length: both executors of each, and each beside Valkey 8.0. */
import { afterAll, beforeAll, describe } from 'vitest';

import { modelSuite, type Amount } from '../parity/model-suite.js';
import { printSeed, runs } from '../parity/seed.js';
import { bouts } from './bouts.js';
import { take, VERSIONS } from './servers.js';

const AT_LENGTH: Amount = { runs: runs(150), steps: 150, timeoutMs: 3_600_000 };

printSeed('versions, at length');
const given = process.env['VALKEY_SERVER'];

for (const version of Object.values(VERSIONS)) {
  const path = await take(version);
  if (path === undefined) continue;
  describe(version.name, () => {
    // Where the suites look for a server.
    beforeAll(() => {
      process.env['VALKEY_SERVER'] = path;
    });
    afterAll(() => {
      if (given === undefined) delete process.env['VALKEY_SERVER'];
      else process.env['VALKEY_SERVER'] = given;
    });

    if (version.wires.includes(6)) modelSuite(AT_LENGTH);
    bouts(version, AT_LENGTH);
  });
}
