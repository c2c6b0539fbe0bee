/**
 * `emq flow`: a flow as a tree: how each of its jobs stands, once or until it has ended.
 *
 * Invariants: read-only: it writes nothing, brands nothing and runs no script. With `--watch` it ends with 0 when the root is
 * gone and with 1 when it is dead. Does not: change a flow, or follow a cluster's redirects.
 */
import type { Command } from 'commander';

import { EmqError, inputError } from '../wire/errors.js';
import { checkId, Keyspace } from '../wire/keyspace.js';
import { CliError, EXIT, scrub, type ExitCode } from './exit.js';
import { drawTree, treeJson } from './flow/draw.js';
import { climb, nameOf, readTree, rowOf } from './flow/tree.js';
import { inPlace, onChange, watch } from './flow/watch.js';
import { openNode, type PlainNode } from './node.js';
import { addCommand, wholeNumber, type Run } from './program.js';
import { addTarget, readTarget, type TargetOptions } from './target.js';
import type { Terminal } from './terminal.js';

interface FlowOptions extends TargetOptions {
  readonly queue?: string;
  readonly up?: true;
  readonly watch?: true;
  readonly limit: number;
}

const EXAMPLES = `
The id is that of any job: of a flow's root for all of it, of another for what is below it, or with --up for all of it.
Children come by kind, the open ones first, then by id. Without --watch it ends with 0 whatever the state.

Examples:
  emq flow JOB0KHTOWnGLuC --queue mail --url valkey://127.0.0.1:6379
  EMQ_URL=unix:///run/valkey.sock emq flow JOB0KHTOWnGLuC --queue mail --watch
  emq flow JOB0KHTOWnGLuC --queue mail --json | jq .flow.family.open`;

const RIGHTS = '+exists +hmget +hget +get +hlen +hscan';

export function addFlow(program: Command, run: Run): void {
  const command = addCommand(
    program,
    'flow <id>',
    'show a flow as a tree: how its parents and children stand',
    EXAMPLES,
  );
  addTarget(command, 'the node; it must be given')
    .option('--queue <name>', "the job's queue; it must be given")
    .option('--up', 'climb to the root of its flow first')
    .option('--watch', 'show it anew, about twice a second, until the root is gone (ends with 0) or dead (ends with 1)')
    .option('--limit <n>', 'children of one kind shown of a parent', wholeNumber('limit', 1, 10_000), 50)
    .action((id: string, given: FlowOptions & { json?: boolean }) =>
      run(async (options: FlowOptions, terminal) => {
        const { queue } = options;
        const target = readTarget(options);
        if (queue === undefined) throw inputError("name the job's queue: --queue NAME");
        // a URL in the wrong place is not repeated with its password
        checkId(scrub(id));
        new Keyspace(scrub(queue));
        const node = await openNode(target, terminal.signal, 'EMQ_URL');
        try {
          return await show(node, { ...options, queue, id }, terminal);
        } catch (error) {
          throw explained(error, queue);
        } finally {
          await node.close();
        }
      })(given),
    );
}

interface Asked extends FlowOptions {
  readonly queue: string;
  readonly id: string;
}

async function show(node: PlainNode, asked: Asked, terminal: Terminal): Promise<ExitCode> {
  const top = asked.up ? await climb(node, asked.queue, asked.id) : { ...asked, stopped: null };
  if (top === null) throw noJob(node, asked);
  const { id, queue, stopped } = top;
  const { style, print } = terminal;
  const inPlaceOf = asked.watch && !terminal.json && process.stdout.isTTY ? process.stdout : undefined;
  const draw =
    inPlaceOf === undefined ? onChange((text, first) => print(first ? text : `\n${text}`)) : inPlace(inPlaceOf);
  const emit = onChange((text) => terminal.emit(JSON.parse(text) as object));
  let looks = 0;
  const look = async (): Promise<ExitCode | undefined> => {
    const tree = await readTree(node, queue, id, asked.limit);
    if (tree === null && looks === 0) throw noJob(node, asked);
    looks += 1;
    const row = tree === null ? null : rowOf(tree);
    const above = row?.parent ?? null;
    emit([JSON.stringify({ where: node.where, id, queue, parent: above, flow: tree && treeJson(tree) })]);
    if (tree === null) {
      print(`${id} is gone: it has completed, or was removed`);
      return EXIT.ok;
    }
    const notes = [
      ...(stopped === null ? [] : [`the tree begins at ${id}: ${stopped}`]),
      ...(above === null || asked.up ? [] : [`${id} is a child of ${nameOf(above)}: --up shows the whole flow`]),
    ];
    draw([`${style('bold', `queue ${queue}`)} on ${node.where}`, ...notes, ...drawTree(tree, style)]);
    return row?.state === 'dead' ? EXIT.notInOrder : undefined;
  };
  if (asked.watch) return watch(look, terminal.signal);
  await look();
  return EXIT.ok;
}

function noJob({ where }: PlainNode, { id, queue }: Asked): CliError {
  const why =
    'it has completed or was removed, it has not landed yet (ask for its root), or it is in another queue (--queue) or on another node (--url)';
  return new CliError(EXIT.notInOrder, 'EMQSTATE', `queue ${queue} on ${where} has no job ${id}: ${why}`);
}

/** What a user can do about a refusal. */
function explained(error: unknown, queue: string): unknown {
  if (!(error instanceof EmqError)) return error;
  const keys = `%R~emq:{${queue}}:*`;
  if (error.code === 'NOPERM') {
    return new EmqError('NOPERM', `${error.reason}: grant ${RIGHTS} and ${keys}`, { cause: error });
  }
  const moved = /^MOVED \d+ (\S+)/.exec(error.reason)?.[1];
  if (moved === undefined) return error;
  return new EmqError('MOVED', `MOVED queue ${queue} is on node ${moved} of the cluster: ask that one (--url)`);
}
