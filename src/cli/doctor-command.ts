/**
 * `emq doctor`: what is wrong with a node, and how to mend it; with `--check` or `--repair`, with what its queues hold.
 *
 * Invariants: read-only but for `--repair`: it writes nothing and brands nothing. Every finding that is not `ok` says how to
 * mend it. Ends with 1 when one is `bad`. Does not: judge (doctor/).
 */
import { Option, type Command } from 'commander';

import type { Wire } from '../wire/executor.js';
import { Keyspace } from '../wire/keyspace.js';
import { audit, checkAuditOptions, type AuditCommand } from './doctor/audit.js';
import { checkAll } from './doctor/checks.js';
import { openPrimaries } from './doctor/cluster.js';
import { readFacts } from './doctor/facts.js';
import { intendedWire } from './doctor/fence-checks.js';
import type { Finding, Level } from './doctor/findings.js';
import { checkQueue } from './doctor/queue.js';
import { checkQueues } from './doctor/queues.js';
import { checkRights } from './doctor/rights.js';
import { EXIT, scrub } from './exit.js';
import { openNode, type PlainNode } from './node.js';
import { addCommand, type Run } from './program.js';
import { addTarget, readTarget, type Target, type TargetOptions } from './target.js';
import { wrap, type Terminal } from './terminal.js';

interface DoctorOptions extends TargetOptions, AuditCommand {
  readonly wire?: string;
  readonly user?: string;
}

const EXAMPLES = `
A URL is valkey://[user:password@]host[:port][/db], valkeys://... for TLS, or unix:///path.
A password in EMQ_URL is not seen in the list of processes, as one on the command line is.

Examples:
  emq doctor --url valkey://127.0.0.1:6379
  emq doctor --url unix:///run/valkey.sock --wire 6 --queue mail
  EMQ_URL=valkey://admin:secret@10.0.0.1 emq doctor --user app --json
  emq doctor --check --url valkey://127.0.0.1:6379
  emq doctor --repair --queue mail --dry-run --url valkey://127.0.0.1:6379`;

const STYLES: Readonly<Record<Level, 'green' | 'yellow' | 'red'>> = { ok: 'green', warn: 'yellow', bad: 'red' };
const LABEL = 23;
const WIDTH = 100;

export function addDoctor(program: Command, run: Run): void {
  const command = addCommand(program, 'doctor', 'say what is wrong with a node, and how to mend it', EXAMPLES);
  addTarget(command, 'the node; it must be given')
    .addOption(
      new Option('--wire <n>', 'the wire it is meant for (default: by its brand and module)').choices(['4', '6']),
    )
    .option(
      '--queue <name>',
      'a queue to look into, whose keys must be usable; in a cluster, whose brand is read (default: all queues of the node or cluster, a hundred at most)',
    )
    .option('--user <name>', "the ACL user whose rights are checked (default: the URL's)")
    .option('--check', 'hold all that the queues have against what must always be so, instead; also on a replica')
    .option('--repair', 'the same, and mend what can be mended')
    .option('--dry-run', 'with --repair: only tell')
    .option('--yes', 'with --repair: do not ask')
    .action(
      run(async (options: DoctorOptions, terminal) => {
        const { queue, user } = options;
        const target = readTarget(options);
        const keys = queue === undefined ? undefined : new Keyspace(scrub(queue));
        checkAuditOptions(options);
        const node = await openNode(target, terminal.signal, 'EMQ_URL');
        try {
          if (options.check === true || options.repair === true)
            return await audit(node, target, { ...options, queue: keys?.queue }, terminal);
          const facts = await readFacts(node, queue);
          const wire = intendedWire(facts, options.wire === undefined ? undefined : (Number(options.wire) as Wire));
          const rights = await checkRights(node, facts, { wire, queue, user });
          // behind the node's, since they are many
          const inside = await (keys !== undefined
            ? checkQueue(node, keys, terminal.signal)
            : facts.cluster
              ? checkCluster(node, target, terminal.signal)
              : checkQueues([node], terminal.signal));
          const findings = [...checkAll(facts, wire), rights, ...inside];
          const counts = { ok: 0, warn: 0, bad: 0 };
          for (const { level } of findings) counts[level] += 1;
          const self = 'value' in facts.user ? facts.user.value : null;
          terminal.emit({ where: node.where, user: self, wire, ok: counts.bad === 0, counts, findings });
          terminal.print(`${terminal.style('bold', node.where)}, looked at for wire ${wire}\n`);
          for (const finding of findings) terminal.print(draw(finding, terminal));
          terminal.print(`\n${counts.ok} ok, ${counts.warn} to decide on, ${counts.bad} bad`);
          return counts.bad === 0 ? EXIT.ok : EXIT.notInOrder;
        } finally {
          await node.close();
        }
      }),
    );
}

/** All queues of all primaries. */
async function checkCluster(node: PlainNode, target: Target, signal: AbortSignal): Promise<Finding[]> {
  const primaries = await openPrimaries(node, target, signal);
  try {
    return [...primaries.away, ...(await checkQueues(primaries.nodes, signal))];
  } finally {
    await primaries.close();
  }
}

function draw({ level, check, text, mend }: Finding, terminal: Terminal): string {
  const head = `  ${terminal.style(STYLES[level], level.padEnd(5))} ${check.padEnd(LABEL - 8)}`;
  const lines = wrap(text.split(' '), WIDTH - LABEL);
  const mending = mend === undefined ? [] : wrap(`mend: ${mend}`.split(' '), WIDTH - LABEL);
  const rest = [...lines.slice(1), ...mending].map((line) => `${''.padEnd(LABEL)}${line}`);
  return [`${head}${lines[0] ?? ''}`, ...rest].join('\n');
}
