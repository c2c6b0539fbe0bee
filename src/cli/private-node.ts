/**
 * The private nodes that commands start for themselves: one without the module for wire 4, one with it for wire 6.
 *
 * Invariants: the node is gone when the command is (`startServer`); the module is built first where it was never built.
 * A missing server or compiler is the machine's affair (exit code 3), a wrong option the user's (2).
 */
import { existsSync } from 'node:fs';

import { buildModule, defaultModulePath, findServer, startServer } from '../dev/index.js';
import type { EmbeddedServer, StartServerOptions } from '../dev/index.js';
import type { Wire } from '../wire/executor.js';
import { missing } from './exit.js';
import type { Terminal } from './terminal.js';

/** Starts a node for a wire, branded for it. `options` win over what is taken here. */
export async function startPrivateNode(
  wire: Wire,
  terminal: Terminal,
  options: StartServerOptions = {},
): Promise<EmbeddedServer> {
  const { signal, note: log } = terminal;
  let server: string;
  try {
    server = (await findServer({ signal, log })).path;
    if (wire === 6 && !existsSync(defaultModulePath())) await buildModule({ log });
  } catch (error) {
    throw missing(error);
  }
  return startServer({ server, module: wire === 6, brand: wire, signal, ...options });
}
