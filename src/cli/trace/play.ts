/**
 * Plays the story on a wire 4 node and a wire 6 node, step by step, and gives out what happened on both.
 *
 * Invariants: calls go through a Connector, as any client's do; the frame that is shown is made by the executor that
 * the connector sends with. The queue must be unused, and the keys that the story made are gone afterwards. A given
 * node is never branded. Does not: draw (draw.ts).
 */
import type { Arg, Call, Reply } from '../../wire/call.js';
import { Connector } from '../../wire/connector.js';
import { EmqError } from '../../wire/errors.js';
import { executorOf, loadFrame, type Frame, type Wire } from '../../wire/executor.js';
import { BRANDS, proveModule } from '../../wire/fence.js';
import { Keyspace, NODE_VERSION_KEY } from '../../wire/keyspace.js';
import { withClosing, type UndoLater } from '../closing.js';
import { refuse, scrub } from '../exit.js';
import { openNode, type PlainNode } from '../node.js';
import { startPrivateNode } from '../private-node.js';
import { targetOfPair, type Target, type TlsOptions } from '../target.js';
import type { Terminal } from '../terminal.js';
import { differences } from './agree.js';
import { story, type CallStep, type Hand, type Path, type Step } from './story.js';
import { look, SETS, type View } from './view.js';

/** What came back: a reply and what the client's verb makes of it, or a refusal. */
export type Answer =
  | { readonly ok: true; readonly reply: Reply; readonly result: unknown }
  | { readonly ok: false; readonly error: EmqError };

/** One step on one wire. */
export interface Played {
  readonly wire: Wire;
  readonly frame: Frame;
  readonly answer: Answer;
  readonly before: View;
  readonly after: View;
  /** The server's run_id, which native claims write into rows. */
  readonly runId: string;
}

/** One step on both. */
export interface Scene {
  readonly number: number;
  readonly path: Path;
  readonly step: Step;
  readonly played: readonly [Played, Played];
  /** What the two do not agree on, or what is not as the story has it; empty when all is well. */
  readonly differences: readonly string[];
}

export interface TraceOptions extends TlsOptions {
  /** A wire 4 node and a wire 6 node; a private one is started for each that is not given. */
  readonly url4?: string | undefined;
  readonly url6?: string | undefined;
  readonly queue: string;
}

/** Everything that one wire needs. */
interface Stage {
  readonly wire: Wire;
  readonly keys: Keyspace;
  readonly node: PlainNode;
  readonly connector: Connector;
  readonly runId: string;
  readonly hands: Map<string, Hand>;
  view: View | undefined;
}

/**
 * Plays the whole story and hands over each scene as it happens; resolves with all of them.
 * @throws CliError a queue that is in use, a node of the other wire, or one without the module for wire 6; EmqError no
 * connection, or a node of a foreign brand.
 */
export async function play(
  options: TraceOptions,
  terminal: Terminal,
  onScene: (scene: Scene) => void,
): Promise<readonly Scene[]> {
  const keys = new Keyspace(scrub(options.queue));
  const paths = story();
  return withClosing(async (later) => {
    const stages = [
      await setStage(4, targetOf(options.url4, options), keys, paths, terminal, later),
      await setStage(6, targetOf(options.url6, options), keys, paths, terminal, later),
    ] as const;
    const scenes: Scene[] = [];
    for (const path of paths) {
      for (const stage of stages) stage.view = undefined;
      for (const step of path.steps) {
        terminal.signal.throwIfAborted();
        const played = await Promise.all([playStep(stages[0], path, step), playStep(stages[1], path, step)]);
        const scene = { number: scenes.length + 1, path, step, played, differences: differences(path, step, played) };
        scenes.push(scene);
        onScene(scene);
      }
    }
    return scenes;
  });
}

function targetOf(url: string | undefined, options: TlsOptions): Target | undefined {
  return url === undefined ? undefined : targetOfPair(url, options);
}

async function setStage(
  wire: Wire,
  given: Target | undefined,
  keys: Keyspace,
  paths: readonly Path[],
  terminal: Terminal,
  later: UndoLater,
): Promise<Stage> {
  const { signal } = terminal;
  let place = given;
  if (place === undefined) {
    const server = await startPrivateNode(wire, terminal);
    later(() => server.stop());
    place = { url: server.url };
  }
  const node = await openNode(place, signal);
  later(() => node.close());
  if (given !== undefined) await demandUnused(node, wire, keys);
  // a node of somebody else's is left as it is: whoever owns it brands it
  const claim = given === undefined;
  const connector = await Connector.connect({ ...place, wire, claim, eviction: 'ignore', signal });
  later(() => connector.close());
  if (given !== undefined) later(() => removeTraces(node, keys, paths));
  // loaded now, so that the call that is shown is the one that ran, and not one that had to be healed
  for (const step of paths.flatMap((path) => path.steps)) {
    if (step.kind !== 'call') continue;
    const load = loadFrame(step.transition.script);
    await node.ask(load.command, ...load.args);
  }
  const runId = /^run_id:(\w+)/m.exec(String(await node.ask('INFO', 'server')))?.[1] ?? '';
  return { wire, keys, node, connector, runId, hands: new Map(), view: undefined };
}

async function playStep(stage: Stage, path: Path, step: Step): Promise<Played> {
  const { wire, keys, node, runId } = stage;
  const before = stage.view ?? (await look(node, keys, path.id));
  let hand = stage.hands.get(path.id);
  if (hand === undefined) stage.hands.set(path.id, (hand = { id: path.id, tokens: [] }));
  const { frame, answer } =
    step.kind === 'call' ? await send(stage, step, hand) : await perform(node, step.command(keys, hand));
  const after = await look(node, keys, path.id);
  stage.view = after;
  return { wire, frame, answer, before, after, runId };
}

async function send(stage: Stage, step: CallStep, hand: Hand): Promise<{ frame: Frame; answer: Answer }> {
  const call: Call = step.call(stage.keys, hand);
  const frame = executorOf(stage.wire)(call);
  try {
    const reply = await stage.connector.run(call);
    return { frame, answer: { ok: true, reply, result: step.read(reply, hand) } };
  } catch (error) {
    return { frame, answer: refused(error) };
  }
}

async function perform(
  node: PlainNode,
  [command, ...args]: readonly [string, ...Arg[]],
): Promise<{ frame: Frame; answer: Answer }> {
  const frame = { command, args };
  const reply = await node.ask(command, ...args);
  return { frame, answer: { ok: true, reply, result: reply } };
}

/** A refusal by the server is part of the story; anything else ends it. */
function refused(error: unknown): Answer {
  if (error instanceof EmqError && !error.code.startsWith('EMQ_')) return { ok: false, error };
  throw error;
}

/** The keys that the story touches, those of its own jobs included. */
function keysOf(keys: Keyspace, paths: readonly Path[]): string[] {
  const rows = paths.map(({ id }) => keys.job(id));
  return [...SETS.map((set) => keys[set]), keys.wake, keys.metrics('completed'), keys.metrics('failed'), ...rows];
}

async function demandUnused(node: PlainNode, wire: Wire, keys: Keyspace): Promise<void> {
  if (/^cluster_enabled:1/m.test(String(await node.ask('INFO', 'cluster')))) {
    throw refuse(`${node.where} is a node of a cluster: the trace wants a single node`);
  }
  const brand = await node.ask('GET', NODE_VERSION_KEY);
  const other = wire === 4 ? 6 : 4;
  if (String(brand) === BRANDS[other]) {
    throw refuse(
      `--url${wire} points to a wire ${other} node, ${node.where}: give it as --url${other}, or another node`,
    );
  }
  if (wire === 6) await demandModule(node);
  if (brand === null) {
    throw refuse(`${node.where} is unbranded, and a trace brands no node: connect a client with wire: ${wire} first`);
  }
  if ((await node.ask('EXISTS', ...keysOf(keys, []), keys.meta)) !== 0) {
    throw refuse(`queue "${keys.queue}" on ${node.where} is in use: name one that is not with --queue`);
  }
}

/** The fence's own words advise a connector's option, which the trace has not. */
async function demandModule(node: PlainNode): Promise<void> {
  await proveModule((command, args) => node.ask(command, ...args)).catch((error: unknown) => {
    if (!(error instanceof EmqError) || error.code !== 'EMQWIRE') throw error;
    throw refuse(
      `--url6 points to a node without the module, ${node.where}: start it with --loadmodule and the path that emq build-module prints`,
    );
  });
}

async function removeTraces(node: PlainNode, keys: Keyspace, paths: readonly Path[]): Promise<void> {
  await node.ask('DEL', ...keysOf(keys, paths));
}
