#!/usr/bin/env node
/**
 * The command `emq`: its table of contents. What each command does is in the file of its name; the operator's are in
 * operate/.
 * Does not: end the process by force; it ends when nothing is left to do, so that all output arrives.
 */
import { readFileSync } from 'node:fs';

import { addBuildModule } from './build-module-command.js';
import { addDev } from './dev-command.js';
import { addDoctor } from './doctor-command.js';
import { addFlow } from './flow-command.js';
import { addBulkCommands } from './operate/bulk-commands.js';
import { addJobCommands } from './operate/job-commands.js';
import { addLaneCommands } from './operate/lane-commands.js';
import { addLimitCommands } from './operate/limit-commands.js';
import { addQueueCommands } from './operate/queue-commands.js';
import { addReadCommands } from './operate/read-commands.js';
import { addParity } from './parity-command.js';
import { runProgram } from './program.js';
import { watchEnds } from './terminal.js';
import { addTrace } from './trace-command.js';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

process.exitCode = await runProgram(process.argv.slice(2), version, watchEnds(), (program, run) => {
  addDev(program, run);
  addTrace(program, run);
  addParity(program, run);
  addDoctor(program, run);
  addFlow(program, run);
  addBuildModule(program, run);
  addQueueCommands(program, run);
  addReadCommands(program, run);
  addLaneCommands(program, run);
  addLimitCommands(program, run);
  addJobCommands(program, run);
  addBulkCommands(program, run);
});
