/**
 * All commands of `emq`: what each does is in the file of its name; the operator's are in operate/.
 */
import type { Command } from 'commander';

import { addAcl } from './acl-command.js';
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
import { addTrace } from './trace-command.js';
import { addWire } from './wire-command.js';
import type { Run } from './program.js';

/** Adds them to the program, in the order of its help. */
export function addCommands(program: Command, run: Run): void {
  addDev(program, run);
  addTrace(program, run);
  addParity(program, run);
  addDoctor(program, run);
  addFlow(program, run);
  addWire(program, run);
  addAcl(program, run);
  addBuildModule(program, run);
  addQueueCommands(program, run);
  addReadCommands(program, run);
  addLaneCommands(program, run);
  addLimitCommands(program, run);
  addJobCommands(program, run);
  addBulkCommands(program, run);
}
