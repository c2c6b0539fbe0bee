/**
 * `emq build-module`: compiles the module `trafikey` from the sources of this package.
 * Does not: load it into a server; the text says how.
 */
import { Option, type Command } from 'commander';

import { buildModule, type BuildWay } from '../dev/index.js';
import { EXIT, missing } from './exit.js';
import { addCommand, type Run } from './program.js';
import { word } from './terminal.js';

const EXAMPLES = `
Examples:
  emq build-module                           by cmake-js, else node-gyp, else the C compiler alone
  emq build-module --via cc --out trafikey.so
  valkey-server --loadmodule "$PWD/trafikey.so"   an absolute path: the server may run elsewhere`;

export function addBuildModule(program: Command, run: Run): void {
  addCommand(program, 'build-module', 'compile the module trafikey', EXAMPLES)
    .addOption(new Option('--via <way>', 'the one way to take').choices(['cmake', 'gyp', 'cc']))
    .option('--out <file>', 'the file to write (default: build/trafikey.so of this package)')
    .option('--force', 'compile even when the file is newer than its sources')
    .action(
      run(async (options: { via?: BuildWay; out?: string; force?: boolean }, terminal) => {
        const { via, out, force } = options;
        const built = await buildModule({ via, out, force, log: terminal.note }).catch((error: unknown) => {
          throw missing(error);
        });
        terminal.emit({ path: built.path, via: built.via ?? null });
        terminal.print(built.via === undefined ? `${built.path} is newer than its sources` : built.path);
        terminal.note(`load it: valkey-server --loadmodule ${word(built.path)}`);
        return EXIT.ok;
      }),
    );
}
