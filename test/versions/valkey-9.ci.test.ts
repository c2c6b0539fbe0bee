/** Valkey 9: what is promised of it, shown on the real server. */
import { VERSIONS } from './servers.js';
import { versionSuite } from './suite.js';

await versionSuite(VERSIONS.valkey9);
