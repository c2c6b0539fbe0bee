/**
 * `emq dev`: a node for development, ready to use, until Ctrl-C.
 *
 * Invariants: when the URL is printed the node answers and is branded; when the command has ended the node is gone,
 * and with it all data unless `--dir` named a folder to keep them in. Loopback only.
 */
import type { Command } from 'commander';

import type { EmbeddedServer, Ended } from '../dev/index.js';
import { CliError, EXIT } from './exit.js';
import { startPrivateNode } from './private-node.js';
import { addCommand, wholeNumber, type Run } from './program.js';
import { word } from './terminal.js';

interface DevOptions {
  readonly port?: number;
  readonly socket?: string;
  readonly dir?: string;
  readonly module: boolean;
}

const EXAMPLES = `
Examples:
  emq dev                        on a free port
  emq dev --port 6380 --dir ./q  on a port of your choice; jobs are kept in ./q
  emq dev --no-module            for wire 4: scripts only
  emq dev --json                 one JSON line when it is ready, one when it has ended`;

export function addDev(program: Command, run: Run): void {
  addCommand(program, 'dev', 'start a node with the module, until Ctrl-C', EXAMPLES)
    .option('--port <n>', 'the TCP port on 127.0.0.1 (default: any free one)', wholeNumber('port', 1, 65_535))
    .option('--socket <path>', 'the path of the unix socket (default: in the folder)')
    .option('--dir <dir>', 'keep the data there, in an append-only file (default: nothing is kept)')
    .option('--no-module', 'without the module: wire 4 only')
    .action(
      run(async ({ port, socket, dir, module }: DevOptions, terminal) => {
        const wire = module ? 6 : 4;
        // a place that is named for data is meant to keep them
        const args = dir === undefined ? [] : ['--appendonly', 'yes'];
        const server = await startPrivateNode(wire, terminal, { port: port ?? 'free', socket, dir, args });
        try {
          const { url, socketPath, pid, version } = server;
          terminal.emit({ event: 'ready', url, socket: socketPath, pid, version, wire, module, dir: dir ?? null });
          terminal.print(
            `${terminal.style('bold', url)}  Valkey ${version}${module ? ' with trafikey' : ''}, wire ${wire}`,
          );
          terminal.print(`socket ${word(socketPath)}`);
          terminal.print(`\n  await Connector.connect({ url: '${url}', wire: ${wire} })`);
          terminal.print(`  emq doctor --url ${url}\n`);
          terminal.print(
            `${dir === undefined ? 'Nothing is kept.' : `Jobs are kept in ${word(server.dir)}.`} Ctrl-C ends it.`,
          );
          const ended = await untilEnd(server, terminal.signal);
          if (ended !== undefined) {
            const how = ended.signal ?? `exit code ${ended.code}`;
            throw new CliError(EXIT.environment, 'EMQ_ENVIRONMENT', `the server ended by itself (${how})`);
          }
        } finally {
          await server.stop();
        }
        terminal.emit({ event: 'ended' });
        return EXIT.ok;
      }),
    );
}

/**
 * Resolves with how the server ended, or with undefined at the signal. Keeps the process alive: the server alone does
 * not.
 */
async function untilEnd(server: EmbeddedServer, signal: AbortSignal): Promise<Ended | undefined> {
  const alive = setInterval(() => {}, 2 ** 30);
  try {
    const told = new Promise<undefined>((resolve) => {
      if (signal.aborted) resolve(undefined);
      else signal.addEventListener('abort', () => resolve(undefined), { once: true });
    });
    const ended = await Promise.race([server.ended, told]);
    // the signal stops the server too, and may be seen second
    return signal.aborted ? undefined : ended;
  } finally {
    clearInterval(alive);
  }
}
