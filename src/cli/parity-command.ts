/**
 * `emq parity`: the parity battery on two nodes, and a table of what came of it.
 *
 * Invariants: a given node is taken only if it holds no key but its own brand and has no other client; it is never
 * flushed or reconfigured, and left as it was found. Without URLs the nodes are private ones. Ends with 1 when
 * anything failed.
 * Does not: know the battery (src/parity).
 */
import { randomInt } from 'node:crypto';

import type { Command } from 'commander';

import {
  loadVectors,
  runRandom,
  runVectors,
  type ParityNode,
  type RandomResult,
  type VectorResult,
} from '../parity/index.js';
import type { Wire } from '../wire/executor.js';
import { BRANDS, proveModule } from '../wire/fence.js';
import { inputError } from '../wire/errors.js';
import { NODE_VERSION_KEY } from '../wire/keyspace.js';
import { withClosing, type UndoLater } from './closing.js';
import { EXIT, refuse } from './exit.js';
import { openNode, type PlainNode } from './node.js';
import { startPrivateNode } from './private-node.js';
import { addCommand, wholeNumber, type Run } from './program.js';
import { addTls, targetOfPair, type Target, type TlsOptions } from './target.js';
import { wrap, type Terminal } from './terminal.js';

interface ParityOptions extends TlsOptions {
  readonly url: readonly string[];
  readonly seed?: number;
  readonly steps: number;
}

const EXAMPLES = `
The battery: the scenarios of docs/vectors.json on each node by its executor, then random steps on both in lockstep,
each held against the other node and against a model. The first --url is the wire 4 node, the second the wire 6 node.

Examples:
  emq parity                            on two private nodes
  emq parity --seed 42 --steps 10000    the same steps again; the seed is printed at every run
  emq parity --url valkey://10.0.0.1 --url valkey://10.0.0.2`;

/** One node of the two. */
interface Side {
  readonly wire: Wire;
  readonly where: string;
  readonly version: string;
  readonly node: ParityNode;
}

interface Verdict {
  readonly sides: readonly Side[];
  readonly vectors: readonly (readonly VectorResult[])[];
  readonly random: RandomResult;
}

export function addParity(program: Command, run: Run): void {
  addTls(addCommand(program, 'parity', 'compare both executors on two nodes', EXAMPLES))
    .option('--url <url>', 'a node of yours; give two, wire 4 first', (url: string, all: string[]) => [...all, url], [])
    .option(
      '--seed <n>',
      'what the random steps are drawn from (default: a new one)',
      wholeNumber('seed', 0, 2 ** 32 - 1),
    )
    .option('--steps <n>', 'how many random steps', wholeNumber('steps', 1, 10_000_000), 2_000)
    .action(
      run(async (options: ParityOptions, terminal) => {
        const { url, seed = randomInt(2 ** 32), steps } = options;
        const at = (place: string | undefined): Target | undefined =>
          place === undefined ? undefined : targetOfPair(place, options);
        if (url.length !== 0 && url.length !== 2)
          throw inputError('give --url twice, the wire 4 node first, or not at all');
        return withClosing(async (later) => {
          const four = await open(4, at(url[0]), terminal, later);
          const six = await open(6, at(url[1]), terminal, later);
          if (url.length > 0) await demandFree([four, six]);
          const verdict = await judge([four, six], seed, steps, terminal);
          const failed = verdict.random.outcome === 'failed' || count(verdict.vectors.flat(), 'failed') > 0;
          terminal.emit(verdictJson(verdict, !failed));
          terminal.print(drawVerdict(verdict, terminal));
          return failed ? EXIT.notInOrder : EXIT.ok;
        });
      }),
    );
}

/** A side and the connection by which it is looked at. */
interface Opened {
  readonly side: Side;
  readonly plain: PlainNode;
  readonly info: string;
}

async function open(wire: Wire, given: Target | undefined, terminal: Terminal, later: UndoLater): Promise<Opened> {
  let place = given;
  if (place === undefined) {
    const server = await startPrivateNode(wire, terminal);
    later(() => server.stop());
    place = { url: server.url };
  }
  const plain = await openNode(place, terminal.signal);
  later(() => plain.close());
  const info = String(await plain.ask('INFO'));
  const version = field(info, 'valkey_version') ?? field(info, 'redis_version') ?? 'unknown';
  const node: ParityNode = {
    client: plain.client,
    executor: wire === 6 ? 'native' : 'script',
    own: given === undefined,
  };
  const where = given === undefined ? 'private' : plain.where;
  return { side: { wire, where, version, node }, plain, info };
}

/**
 * Takes only nodes that nobody uses: the battery writes into a queue of its own, but a node in use is no place for
 * it.
 */
async function demandFree([four, six]: readonly [Opened, Opened]): Promise<void> {
  if (field(four.info, 'run_id') === field(six.info, 'run_id'))
    throw inputError('both URLs name the same node: give two');
  for (const { side, plain, info } of [four, six]) {
    const no = (why: string): Error =>
      refuse(`${plain.where} ${why}: the parity battery runs on nodes that nobody uses`);
    if ((plain.client.options.db ?? 0) !== 0)
      throw inputError('the battery works in database 0: leave the database out');
    if (field(info, 'cluster_enabled') === '1') throw no('is a node of a cluster');
    if (field(info, 'role') !== 'master') throw no('is a replica');
    const others = await otherClients(plain);
    if (others > 0) throw no(`has ${others} other client${others === 1 ? '' : 's'}`);
    const keys = [...info.matchAll(/^db\d+:keys=(\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
    const brand = keys === 1 ? await plain.ask('GET', NODE_VERSION_KEY) : null;
    if (keys > 0 && brand === null) throw no(`holds ${keys} key${keys === 1 ? '' : 's'}`);
    if (brand !== null && String(brand) !== BRANDS[side.wire]) throw no(`is not branded ${BRANDS[side.wire]}`);
    if (side.wire === 6) await proveModule((command, args) => plain.ask(command, ...args));
  }
}

async function otherClients(plain: PlainNode): Promise<number> {
  const own = await plain.ask('CLIENT', 'ID');
  const list = String(await plain.ask('CLIENT', 'LIST'))
    .trim()
    .split('\n');
  return list.filter((line) => !line.startsWith(`id=${String(own)} `)).length;
}

async function judge(
  [four, six]: readonly [Opened, Opened],
  seed: number,
  steps: number,
  terminal: Terminal,
): Promise<Verdict> {
  const scenarios = await loadVectors();
  const vectors: VectorResult[][] = [];
  const goOn = (): void => terminal.signal.throwIfAborted();
  for (const { side } of [four, six]) {
    terminal.note(`wire ${side.wire}: scenarios`);
    vectors.push(await runVectors(side.node, scenarios, goOn));
  }
  terminal.note(`both: ${steps} random steps, seed ${seed}`);
  const random = await runRandom(four.side.node, six.side.node, { seed, steps, onProgress: goOn });
  return { sides: [four.side, six.side], vectors, random };
}

function count(results: readonly VectorResult[], outcome: VectorResult['outcome']): number {
  return results.filter((result) => result.outcome === outcome).length;
}

function drawVerdict({ sides, vectors, random }: Verdict, terminal: Terminal): string {
  const row = (label: string, ...cells: readonly (string | number)[]): string =>
    `${label.padEnd(20)}${cells.map((cell) => String(cell).padEnd(28)).join('')}`.trimEnd();
  const lines = [
    row('', ...sides.map(({ wire }) => (wire === 4 ? 'wire 4, scripts' : 'wire 6, native'))),
    row('node', ...sides.map(({ where }) => (where.length > 27 ? `…${where.slice(-26)}` : where))),
    row('version', ...sides.map(({ version }) => version)),
    ...(['passed', 'failed', 'not run'] as const).map((outcome) =>
      row(`scenarios ${outcome}`, ...vectors.map((results) => count(results, outcome))),
    ),
    row(`random steps`, `${random.steps} in lockstep, seed ${random.seed}: ${random.outcome}`),
    '',
  ];
  for (const [i, results] of vectors.entries()) {
    const wire = `wire ${sides[i]?.wire}`;
    for (const { name, outcome, detail = '' } of results) {
      if (outcome === 'failed') lines.push(terminal.style('red', `failed on ${wire}: ${name}`), indent(detail));
    }
    for (const [why, names] of notRun(results)) {
      lines.push(`not run on ${wire}, since ${why}:`, ...wrap(names, 96).map((line) => `    ${line}`));
    }
  }
  if (random.outcome === 'failed') {
    lines.push(terminal.style('red', 'failed in the random steps:'), indent(random.detail ?? ''));
  }
  const bad = random.outcome === 'failed' || count(vectors.flat(), 'failed') > 0;
  lines.push(
    terminal.style(bad ? 'red' : 'green', bad ? 'The executors are not in parity.' : 'The executors are in parity.'),
  );
  return lines.join('\n');
}

function notRun(results: readonly VectorResult[]): Map<string, string[]> {
  const whys = new Map<string, string[]>();
  for (const { name, outcome, detail = 'no reason was given' } of results) {
    if (outcome === 'not run') whys.set(detail, [...(whys.get(detail) ?? []), name]);
  }
  return whys;
}

function indent(text: string): string {
  return text.replace(/^/gm, '    ');
}

function verdictJson({ sides, vectors, random }: Verdict, ok: boolean): object {
  const nodes = sides.map(({ wire, where, version }, i) => {
    const results = vectors[i] ?? [];
    return {
      ...{ wire, where, version },
      passed: count(results, 'passed'),
      failed: results.filter(({ outcome }) => outcome === 'failed').map(({ name, detail }) => ({ name, detail })),
      notRun: results.filter(({ outcome }) => outcome === 'not run').map(({ name, detail }) => ({ name, detail })),
    };
  });
  return { ok, nodes, random };
}

function field(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
}
