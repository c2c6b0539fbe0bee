/** A server in trouble: some of the troubles that are over soon, on one executor. All: abuse-server.ci.test.ts. */
import { serverTroubles } from './abuse-server.js';

serverTroubles(
  [['wire 6, native', 6]],
  [
    'CLIENT PAUSE WRITE: calls take so much longer',
    'a script of a stranger that does not end: BUSY, until it is killed',
    'a server that becomes a replica: READONLY',
    'full memory, with nothing to evict: OOM for who adds jobs, and the consumer drains',
  ],
);
