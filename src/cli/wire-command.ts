/**
 * `emq wire`: which wire a node or cluster serves, and moving it to the other one.
 *
 * Invariants: without `upgrade` or `downgrade`, and with `--dry-run`, it writes nothing; a move asks first, and a refusal
 * leaves no trace. Does not: touch any key but brands, start or stop clients, or load the module.
 */
import { Argument, type Command } from 'commander';

import { EmqError, inputError } from '../wire/errors.js';
import { BRANDS, wireOfBrand } from '../wire/fence.js';
import { Keyspace } from '../wire/keyspace.js';
import { EXIT, scrub, type ExitCode } from './exit.js';
import { confirm, type Consent } from './operate/confirm.js';
import { consentOptions } from './operate/operation.js';
import { addCommand, type Run } from './program.js';
import { addTarget, readTarget, type TargetOptions } from './target.js';
import { quoted, type Terminal } from './terminal.js';
import {
  demandMovable,
  exitOf,
  moduleText,
  moveAll,
  nameOf,
  plan,
  STEPS,
  type Outcome,
  type Step,
} from './wire/move.js';
import { inFlight, lookAt, type Branded, type Place } from './wire/place.js';

interface WireOptions extends TargetOptions, Consent {
  readonly queue?: string;
}

const EXAMPLES = `
Wire 4 is scripts, wire 6 the native commands of the module. A brand says which of the two a node serves: {emq}:version, in a
cluster that of each queue. Moving changes the brand and nothing else, in one step, and only from the value that is expected.

  upgrade    4 -> 6. The module must be on every primary. Connected wire 4 clients work on until they reconnect, new ones
             are refused: start the wire 6 clients, then stop the wire 4 ones.
  downgrade  6 -> 4, the way back; it needs no module. Wire 6 clients are refused at once: close their workers first, since
             what is in flight then runs again when its lease lapses.

Both ask first; --yes does it without asking. In a cluster all queues are moved, one by one, or that of --queue; cut short, the
same command goes on from there. docs/upgrade.md has the whole way.

Examples:
  emq wire --url valkey://127.0.0.1:6379
  emq wire upgrade --dry-run --url valkey://127.0.0.1:6379
  emq wire downgrade --yes --json --queue mail --url valkey://10.0.0.1:7000`;

type StepName = keyof typeof STEPS;

export function addWire(program: Command, run: Run): void {
  const command = addCommand(
    program,
    'wire',
    'show which wire a node serves, or move it to the other',
    EXAMPLES,
  ).addArgument(new Argument('[step]', 'the move to make (default: only show)').choices(Object.keys(STEPS)));
  consentOptions(addTarget(command, 'the node, or one of a cluster; it must be given'))
    .option('--queue <name>', 'in a cluster, only this queue (default: all of them)')
    .action((name: StepName | undefined, given: WireOptions & { json?: boolean }) =>
      run(async (options: WireOptions, terminal) => {
        const target = readTarget(options);
        const { queue } = options;
        if (queue !== undefined) new Keyspace(scrub(queue));
        if (name === undefined && (options.yes || options.dryRun)) {
          throw inputError('--yes and --dry-run belong to a move: emq wire upgrade, or emq wire downgrade');
        }
        return lookAt(target, queue, terminal.signal, async (place) => {
          if (queue !== undefined && !place.cluster) {
            throw inputError(`${place.where} is no cluster: its one brand is for all queues; leave --queue out`);
          }
          return name === undefined ? show(place, terminal) : move(place, name, options, terminal);
        });
      })(given),
    );
}

function show(place: Place, terminal: Terminal): ExitCode {
  const { where, cluster, nodes, branded } = place;
  const brands = branded.map((one) => ({ queue: one.queue, brand: one.brand, wire: wireOf(one) }));
  const wrong = branded.filter((one) => problemOf(one, place) !== undefined);
  const [only] = brands;
  const own = cluster ? { queues: brands } : { brand: only?.brand ?? null, wire: only?.wire ?? null };
  terminal.emit({ where, cluster, ...own, nodes, replicasKnown: !place.replicasUnknown, ok: wrong.length === 0 });
  terminal.print(terminal.style('bold', where));
  if (cluster && branded.length === 0) terminal.print('  no queue is here yet');
  for (const one of branded) {
    const problem = problemOf(one, place);
    terminal.print(`  ${nameOf(one)} ${brandText(one, place)}${problem === undefined ? '' : `: ${problem}`}`);
  }
  for (const node of nodes) terminal.print(`  ${moduleText(node)}`);
  if (place.replicasUnknown) terminal.print('  whether it has replicas cannot be told: grant +info');
  return wrong.length === 0 ? EXIT.ok : EXIT.notInOrder;
}

async function move(place: Place, name: StepName, consent: Consent, terminal: Terminal): Promise<ExitCode> {
  const step = STEPS[name];
  demandMovable(place, step);
  const planned = plan(place, step);
  const movable = planned.filter(({ outcome }) => outcome === 'movable');
  const head = { where: place.where, step: name, from: BRANDS[step.from], to: BRANDS[step.to], nodes: place.nodes };
  const finish = (outcomes: readonly Outcome[], more: object): void =>
    terminal.emit({ ...head, replicasKnown: !place.replicasUnknown, ...more, outcomes });
  if (movable.length === 0) {
    for (const one of planned) terminal.print(outcomeText(one, step));
    if (planned.length === 0) terminal.print(`no queue on ${place.where}`);
    finish(planned, { dryRun: consent.dryRun === true });
    return exitOf(planned);
  }
  if (!(await confirm(terminal, { text: await planText(place, step, movable) }, consent))) {
    for (const one of planned) terminal.print(outcomeText(one, step));
    finish(planned, { dryRun: true });
    return exitOf(planned);
  }
  const outcomes = await moveAll(place, step, terminal.signal, (one) => terminal.print(outcomeText(one, step)));
  const cutShort = outcomes.length < place.branded.length;
  finish(outcomes, { dryRun: false, cutShort });
  if (cutShort) throw new EmqError('EMQ_CLOSED', 'EMQ_CLOSED interrupted: the same command goes on from there');
  return exitOf(outcomes);
}

async function planText(place: Place, { from, to }: Step, movable: readonly Outcome[]): Promise<string> {
  const what = place.cluster
    ? `${movable.length} queue${movable.length === 1 ? '' : 's'} of ${place.where}`
    : place.where;
  const flight = await inFlight(place);
  const jobs = flight === undefined ? 'jobs' : flight === 1 ? 'the 1 job' : `the ${flight} jobs`;
  const bare = place.nodes.filter(({ module }) => module !== 'loaded');
  const notes =
    to === 6
      ? [
          `wire 4 clients that are connected work on until they reconnect, new ones are refused`,
          ...bare.map(
            (node) => `${moduleText(node)}: were it to become the primary, no wire 6 client could work there`,
          ),
          ...(place.replicasUnknown
            ? ['whether there are replicas, and have the module, cannot be told (grant +info)']
            : []),
        ]
      : [`wire 6 clients are refused at once; ${jobs} in flight there run again when their leases lapse`];
  return [`moves ${what} from ${BRANDS[from]} to ${BRANDS[to]}`, ...notes].join('; ');
}

function outcomeText({ queue, outcome, brand, code, reason }: Outcome, { from, to }: Step): string {
  const name = nameOf({ queue });
  switch (outcome) {
    case 'movable':
      return `${name}: would be moved to ${BRANDS[to]}`;
    case 'moved':
      return `${name}: moved to ${BRANDS[to]}`;
    case 'already':
      return `${name}: is ${BRANDS[to]} already`;
    case 'unbranded':
      return `${name}: is unbranded, nothing to move; the first connector brands it`;
    case 'foreign':
      return `${name}: not moved, it has the foreign brand ${quoted(brand ?? '', 60)}, not ${BRANDS[from]}`;
    case 'failed':
      return `${name}: not moved: ${quoted(reason ?? code ?? '', 300)}; the same command tries again`;
  }
}

function wireOf({ brand }: Branded): 4 | 6 | null {
  return brand === null ? null : (wireOfBrand(brand) ?? null);
}

function brandText(one: Branded, place: Place): string {
  if (one.brand === null) {
    const loaded = place.nodes.some(({ role, module }) => role === 'primary' && module === 'loaded');
    return `is unbranded: the first connector brands it, with wire: 4${loaded ? ' or wire: 6' : ''}`;
  }
  const wire = wireOf(one);
  if (wire === null) return `has the brand ${quoted(one.brand, 60)}`;
  return `is ${one.brand}: clients connect with wire: ${wire}`;
}

/** What is not in order about it. */
function problemOf(one: Branded, { nodes }: Place): string | undefined {
  if (one.brand === null) return undefined;
  const wire = wireOf(one);
  if (wire === null) return 'foreign, every connector is refused (emq doctor says more)';
  const bare = nodes.some(({ role, module }) => role === 'primary' && (module === 'missing' || module === 'older'));
  if (wire === 6 && bare) return 'the module is wanting, no connector gets past (load it, or emq wire downgrade)';
  return undefined;
}
