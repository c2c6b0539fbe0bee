#!/usr/bin/env node
/**
 * The command `emq` (commands.ts lists what it can do).
 * Does not: end the process by force; it ends when nothing is left to do, so that all output arrives.
 */
import { readFileSync } from 'node:fs';

import { addCommands } from './commands.js';
import { runProgram } from './program.js';
import { watchEnds } from './terminal.js';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

process.exitCode = await runProgram(process.argv.slice(2), version, watchEnds(), addCommands);
