/**
 * A bout: random steps on one or several nodes in lockstep, each step held against the reference model and against the
 * other nodes.
 *
 * After each step the replies are those that the model predicts and equal among the nodes, a refused call has changed
 * nothing, and every keyspace is the one that the model predicts. Times that a server's own clock wrote may be off by
 * some milliseconds; they are then made equal on all nodes, so that later steps meet the same order everywhere.
 * Invariants: the bout works in two queues of random names, most of the time in the first, and leaves no key of them
 * behind. It never waits for a time.
 * Does not: flush, reconfigure, or brand a node (its caller does what is allowed there).
 */
import { randomBytes } from 'node:crypto';

import type { Reply } from '../wire/call.js';
import { apart, differences, ordered, timeless, timely } from './compare.js';
import { flowViolations } from './flow-invariants.js';
import { claimViolations, violations } from './invariants.js';
import { bytesOf, keysOf, latin1, readKeys, removeKeys, type Bytes, type Keys } from './keyspace-dump.js';
import { isRefusal, predict, type ModelCall, type ModelReply, type Prediction } from './model/index.js';
import { ask, clockOf, perform, runIdOf, type Answer, type ParityNode } from './node.js';
import { rng } from './prng.js';
import type { About, Mode, Scene } from './scene.js';
import { draw, showStep, type Step } from './steps.js';

/** A step after which a node was not where it had to be. The message tells the whole story. */
export class ParityError extends Error {
  override readonly name = 'ParityError';
}

export interface BoutOptions {
  readonly mode: Mode;
  /** Default `all`. */
  readonly about?: About;
  /** Leases of another run of the server: only where all nodes have the same executor. Default false. */
  readonly foreignEpochs?: boolean;
  /** Called before each step, when all of the last one is done. */
  readonly begin?: () => Promise<void>;
  /** Called after each step, before times are made equal. What it rejects with ends the bout. */
  readonly observe?: (step: Step) => Promise<void>;
}

interface Side {
  readonly node: ParityNode;
  readonly runId: string;
  keys: Keys;
}

/** How far a server's clock may be from where the model takes it, ms: the time that a step may take. */
const STEP_MS = 1500;
/** Nodes whose clocks differ by more cannot be compared. */
const CLOCKS_MS = 10_000;

/** How many of 100 steps are about the second queue. */
const SECOND_QUEUE = 25;

export class Bout {
  readonly base: Bytes;
  readonly #second: Bytes;
  readonly #sides: Side[];
  readonly #options: BoutOptions;
  readonly #toleranceMs: number;
  readonly #story: string[] = [];
  #now = 0;

  private constructor(sides: Side[], options: BoutOptions, toleranceMs: number) {
    const name = `parity-${randomBytes(8).toString('hex')}`;
    this.base = `emq:{${name}}:`;
    this.#second = `emq:{${name}-2}:`;
    this.#sides = sides;
    this.#options = options;
    this.#toleranceMs = toleranceMs;
  }

  /** @throws ParityError when the clocks of the nodes are too far apart. */
  static async open(nodes: readonly ParityNode[], options: BoutOptions): Promise<Bout> {
    const clocks = await Promise.all(nodes.map((node) => clockOf(node.client)));
    const offset = Math.max(...clocks) - Math.min(...clocks);
    if (offset > CLOCKS_MS)
      throw new ParityError(`the clocks of the nodes are ${offset} ms apart: set them right first`);
    const sides = await Promise.all(
      nodes.map(async (node): Promise<Side> => ({ node, runId: await runIdOf(node.client), keys: new Map() })),
    );
    return new Bout(sides, options, STEP_MS + offset);
  }

  /** The keyspace of the bout's queues after the last step, as on the first node. */
  get keys(): Keys {
    return this.#first.keys;
  }

  /** Draws a step from a seed, takes it on all nodes and judges it. @throws ParityError when something is not as it must be. */
  async step(seed: number): Promise<Step> {
    const clock = await clockOf(this.#first.node.client);
    // strictly growing, so that no two steps write the same time
    this.#now = Math.max(clock, this.#now + 1);
    const step = draw(this.#scene(seed));
    this.#story.push(showStep(step));
    await this.#options.begin?.();
    const before = this.keys;
    if (step.kind === 'call') await this.#call(step.call);
    else await this.#plant(step);
    try {
      await this.#options.observe?.(step);
    } catch (error) {
      this.#fail('what was observed', [String(error)]);
    }
    await this.#settle();
    if (this.#options.mode === 'clean') {
      const claimed = step.kind === 'call' ? [this.base, this.#second] : [];
      const wrong = [
        ...claimed.flatMap((base) => claimViolations(before, this.keys, base)),
        ...violations(this.keys, this.base),
        ...violations(this.keys, this.#second),
        ...flowViolations(this.keys, [this.base, this.#second]),
      ];
      if (wrong.length > 0) this.#fail('invariants', wrong);
    }
    return step;
  }

  /** Removes the keys of the bout from all nodes. */
  async close(): Promise<void> {
    for (const { node } of this.#sides) await removeKeys(node.client, await keysOf(node.client, this.#pattern));
  }

  get #first(): Side {
    const [side] = this.#sides;
    if (side === undefined) throw new RangeError('a bout needs a node');
    return side;
  }

  #scene(seed: number): Scene {
    const { mode, about = 'all', foreignEpochs = false } = this.#options;
    const seeds = rng(seed);
    const [base, other] = seeds.chance(SECOND_QUEUE) ? [this.#second, this.base] : [this.base, this.#second];
    return { rng: seeds, keys: this.keys, base, other, now: this.#now, mode, about, foreignEpochs };
  }

  async #call(call: ModelCall): Promise<void> {
    const { transition } = call;
    const sent = { transition, keys: call.keys.map(bytesOf), args: call.args.map(bytesOf) };
    const answers = await Promise.all(this.#sides.map(({ node }) => perform(node, sent)));
    const dumps = await Promise.all(this.#sides.map(({ node }) => readKeys(node.client, this.#scope(node))));
    for (const [i, side] of this.#sides.entries()) {
      const { executor } = side.node;
      const prediction = predict(side.keys, call, { now: this.#now, executor, runId: side.runId });
      const answer = answers[i];
      const wrong = answer === undefined ? 'no answer' : wrongAnswer(call, prediction, answer, this.#toleranceMs);
      if (wrong !== undefined) this.#fail(`${executor} against the model`, [wrong]);
      const leeway = { toleranceMs: this.#toleranceMs, anyEpoch: false };
      const lines = differences(prediction.keys, withoutBrand(dumps[i]), leeway);
      if (lines.length > 0) this.#fail(`the model, but on ${executor}`, lines);
      side.keys = prediction.keys;
    }
    this.#compareAnswers(call, answers);
  }

  /** Between executors: replies are equal; refusals too, but for the words that each has for a flow child. */
  #compareAnswers(call: ModelCall, answers: readonly Answer[]): void {
    const shown = answers.map((answer) => JSON.stringify(comparable(call, answer)));
    if (new Set(shown).size > 1) this.#fail('the executors answer differently', shown);
  }

  async #plant(step: Extract<Step, { kind: 'raw' }>): Promise<void> {
    for (const side of this.#sides) {
      for (const command of step.commands) {
        const answer = await ask(side.node.client, command);
        if (!answer.ok) this.#fail(`what a plant sends to ${side.node.executor}`, [answer.text]);
      }
      side.keys = withoutBrand(await readKeys(side.node.client, this.#scope(side.node)));
    }
  }

  /** Makes the clock's times equal on all nodes, and proves that all keyspaces are. */
  async #settle(): Promise<void> {
    for (const side of this.#sides) {
      const real = withoutBrand(await readKeys(side.node.client, this.#scope(side.node)));
      for (const command of apart(side.keys, real)) {
        const answer = await ask(side.node.client, command);
        if (!answer.ok) this.#fail('a time cannot be made equal', [answer.text]);
      }
    }
    for (const side of this.#sides.slice(1)) {
      const lines = differences(this.#first.keys, side.keys, { toleranceMs: 0, anyEpoch: true });
      if (lines.length > 0) this.#fail(`${this.#first.node.executor}, but on ${side.node.executor}`, lines);
    }
  }

  /** A server of the battery's own is watched whole: a key outside the queue is a fault as well. */
  #scope(node: ParityNode): string {
    return node.own ? '*' : this.#pattern;
  }

  /** What the keys of both queues begin with. */
  get #pattern(): string {
    return `${this.base.slice(0, -'}:'.length)}*`;
  }

  #fail(what: string, lines: readonly string[]): never {
    const story = this.#story.slice(-12).map((line, i, all) => `  ${this.#story.length - all.length + i + 1}. ${line}`);
    throw new ParityError([`${what}:`, ...lines.map((line) => `  ${line}`), 'after', ...story].join('\n'));
  }
}

function withoutBrand(keys: Keys | undefined): Keys {
  const left: Keys = new Map(keys);
  left.delete('{emq}:version');
  return left;
}

function wrongAnswer(call: ModelCall, prediction: Prediction, answer: Answer, toleranceMs: number): string | undefined {
  if (!prediction.ok) {
    const { refusal } = prediction;
    if (answer.ok) return `expected ${refusal}, got ${JSON.stringify(toModel(answer.reply))}`;
    return isRefusal(refusal, answer.text) ? undefined : `expected ${refusal}, got ${answer.text}`;
  }
  const wanted = JSON.stringify(prediction.reply);
  if (!answer.ok) return `expected ${wanted}, got ${answer.text}`;
  const found = toModel(answer.reply);
  const told = timely(call.transition, ordered(call, found, false), prediction.reply, toleranceMs);
  const got = JSON.stringify(told);
  return got === wanted ? undefined : `expected ${wanted}, got ${got}`;
}

/** What of an answer has to be the same on both executors. */
function comparable(call: ModelCall, answer: Answer): unknown {
  if (answer.ok) {
    return { reply: timeless(call.transition, ordered(call, toModel(answer.reply), true)) };
  }
  // the server's own texts tell where in a script an error was raised
  if (!/^(EMQ|ERR)/.test(answer.text)) return { error: answer.text.split(' ', 1)[0] };
  return {
    error: answer.text.replace(/^EMQSTATE (complete|retry|fail) flow (keys|not native)$/, 'EMQSTATE flow child'),
  };
}

function toModel(reply: Reply): ModelReply {
  if (reply === null || typeof reply === 'number') return reply;
  return Array.isArray(reply) ? reply.map(toModel) : latin1(reply);
}
