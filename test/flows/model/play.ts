/**
 * One play: a node, the model of it, and processes whose calls are let through one at a time, with all that can become of a
 * call on its way.
 *
 * Invariants: after every call that has reached the node its answer, the whole keyspace and all that must hold are judged; a
 * step is drawn from its own seed, so that steps can be left out of a play. Rejects with what was wrong and the last
 * calls. Does not: choose what the processes do (acts.ts), or start a node.
 */
import { perform as ask, type ExecutorName } from '../../../src/parity/node.js';
import type { Rng } from '../../../src/parity/prng.js';
import type { PlannedJob, PreparedFlow } from '../../../src/queue/flow-plan.js';
import { all } from '../../../src/queue/flow-plan.js';
import type { Call, Outcome } from '../../../src/wire/call.js';
import { EmqError, fromReply } from '../../../src/wire/errors.js';
import type { TestNode } from '../../parity/nodes.js';
import { answerDiffers, differences } from './compare.js';
import { dump } from './dump.js';
import { restless, violations, Watch } from './invariants.js';
import { Model } from './model.js';
import { Stage, type Process } from './stage.js';
import { perform } from './steps.js';

export const QUEUES: readonly string[] = ['a', 'b', 'c'];

/** What a worker holds, or thinks it holds. */
export interface Hand {
  readonly queue: string;
  readonly id: string;
  readonly token: number;
}

/** A flow that somebody wants to add. */
export interface Wanted {
  readonly flow: PreparedFlow;
  /** Somebody was told that it is there. */
  added: boolean;
  /** Adding it was cut short, and nobody has come to the end since. */
  cut: boolean;
}

const TAIL = 60;
/** Far more than any play takes. */
const MOST_CALLS = 20_000;

export class Play {
  readonly node: TestNode;
  readonly model = new Model(QUEUES);
  readonly stage = new Stage();
  readonly wanted: Wanted[] = [];
  readonly hands: Hand[] = [];
  /** Ids and lapses given so far. */
  ids = 0;
  lapses = 0;
  /** Calls that have reached the node. */
  calls = 0;
  /** What was called, and answered: `flow_deliver "known"`. */
  readonly seen = new Set<string>();
  readonly #watch = new Watch();
  readonly #story: string[] = [];

  private constructor(node: TestNode) {
    this.node = node;
  }

  static async open(node: TestNode): Promise<Play> {
    await node.reset();
    return new Play(node);
  }

  get executor(): ExecutorName {
    return this.node.executor;
  }

  /** A line of the story that a failure is told with. */
  note(line: string): void {
    this.#story.push(line);
    if (this.#story.length > TAIL) this.#story.shift();
  }

  /** Resolves when every process waits for an answer, has ended or is dead. */
  async idle(): Promise<void> {
    try {
      await this.stage.idle();
    } catch (error) {
      this.fail('a process', [(error as Error).stack ?? '']);
    }
  }

  /** Lets one call of some process through, and draws what becomes of it. */
  async let(draw: Rng): Promise<void> {
    const { busy, brisk } = this.stage;
    const process = draw.pick(brisk.length > 0 && draw.chance(93) ? brisk : busy);
    const call = process.next;
    if (call === undefined) return;
    if (this.#secondLife(call)) {
      process.kill();
      return this.idle();
    }
    const luck = draw.below(100);
    if (luck < 84) process.answer(await this.#reach(process, call, ''));
    else if (luck < 89) await this.#lose(process, call, draw);
    else if (luck < 92) this.#refuse(process, call, 'EMQ_CONNECTION');
    else if (luck < 95) {
      await this.#reach(process, call, 'answer late');
      this.#refuse(process, call, call.transition.repeatable ? 'EMQ_TIMEOUT' : 'EMQ_UNKNOWN_OUTCOME');
    } else await this.#kill(process, draw);
    await this.idle();
  }

  /** Every process goes on to its end, in any order, and nothing goes wrong. */
  async finish(draw: Rng): Promise<void> {
    while (this.stage.busy.length > 0) {
      const process = draw.pick(this.stage.busy);
      const call = process.next;
      if (call === undefined) break;
      if (this.#secondLife(call)) process.kill();
      else process.answer(await this.#reach(process, call, ''));
      await this.idle();
    }
  }

  /** What is wrong now that nobody has anything left to tell. */
  async quiet(): Promise<void> {
    const unheard = [...this.model.queues.values()].flatMap((queue) => queue.unheard);
    const wrong = unheard.map((letter) => `nobody delivered ${JSON.stringify(letter)}`);
    const marked = new Set([...this.model.queues.values()].flatMap(({ landed }) => [...landed]));
    for (const { flow, cut } of this.wanted) {
      const left = all(flow.root).filter(({ id }) => marked.has(id));
      if (!cut) wrong.push(...left.map(({ id }) => `${id} is still in flow:landed, and its flow was added to the end`));
    }
    this.#judge('all is quiet', [...wrong, ...restless(await dump(this.node.client))]);
  }

  /** Rejects with these lines and the story. */
  fail(what: string, wrong: readonly string[]): never {
    throw new Error(`${what} (${this.executor}):\n${wrong.join('\n')}\nThe calls before:\n${this.#story.join('\n')}`);
  }

  #judge(what: string, wrong: readonly string[]): void {
    if (wrong.length > 0) this.fail(what, wrong);
  }

  async #reach(process: Process, call: Call, how: string): Promise<Outcome> {
    const { name, readOnly } = call.transition;
    const words = call.args.map((arg) => JSON.stringify(arg.toString('latin1'))).join(' ');
    this.note(`${process.name} on ${call.queue}: ${name} ${words} ${how}`);
    this.calls += 1;
    if (this.calls > MOST_CALLS) this.fail(name, ['there is no end of calls']);
    let should;
    try {
      should = perform(this.model, call);
    } catch (error) {
      this.fail(name, [(error as Error).message]);
    }
    const given = await ask(this.node, { transition: name, keys: call.keys, args: call.args });
    this.seen.add(`${name} ${JSON.stringify(should)}`);
    const answer = answerDiffers(name, given, should);
    const wrong = answer === undefined ? [] : [answer];
    if (!readOnly) {
      const now = await dump(this.node.client);
      wrong.push(...this.#watch.step(now, name, call.args[0]?.toString('latin1')));
      wrong.push(...violations(now), ...differences(this.model, now));
      if (/^(enqueue_)?flow/.test(name)) wrong.push(...this.#unplanned());
    }
    this.#judge(`${process.name}: ${name}`, wrong);
    return given.ok ? { ok: true, reply: given.reply } : { ok: false, error: fromReply(given.text) };
  }

  /** The answer is lost. What may be repeated is sent again, later; of anything else the outcome is unknown. */
  async #lose(process: Process, call: Call, draw: Rng): Promise<void> {
    if (draw.chance(70)) await this.#reach(process, call, 'answer lost');
    // it takes a while until there is a connection again
    process.slow = true;
    if (!call.transition.repeatable) this.#refuse(process, call, 'EMQ_UNKNOWN_OUTCOME');
  }

  #refuse(process: Process, call: Call, code: 'EMQ_CONNECTION' | 'EMQ_TIMEOUT' | 'EMQ_UNKNOWN_OUTCOME'): void {
    this.note(`${process.name} on ${call.queue}: ${call.transition.name} hears ${code}`);
    process.answer({ ok: false, error: new EmqError(code, `${code} in this play`) });
  }

  /** The process is no more; of what it had sent some may reach the node. */
  async #kill(process: Process, draw: Rng): Promise<void> {
    const sent = draw.below(Math.min(process.waiting.length, 3) + 1);
    for (const { call } of process.waiting.slice(0, sent)) {
      if (this.#secondLife(call)) break;
      await this.#reach(process, call, 'unanswered');
    }
    process.kill();
    this.note(`${process.name} is killed`);
  }

  /** Jobs that are not what they were planned to be. */
  #unplanned(): string[] {
    const wrong: string[] = [];
    const look = (plan: PlannedJob, above?: PlannedJob): void => {
      const job = this.model.queue(plan.queue).jobs.get(plan.id);
      const queue = above?.queue === plan.queue ? '' : above?.queue;
      const should = above && [above.id, queue, plan.policy, plan.payload.toString(), plan.priority ?? ''].join(' ');
      const { parent, queue: where, policy } = job?.link ?? {};
      const is = job && [parent, where, policy, job.payload, job.priority].join(' ');
      if (is !== undefined && should !== undefined && is !== should)
        wrong.push(`${plan.id} is ${is}, planned was ${should}`);
      for (const child of plan.children) look(child, plan);
    };
    for (const { flow } of this.wanted) look(flow.root);
    return wrong;
  }

  /**
   * Whether a call would land a flow once more whose root was there and has gone, while there is still something of its first
   * life. Nothing on the server remembers that a root was there: that is for who adds a flow to know.
   */
  #secondLife(call: Call): boolean {
    const { name } = call.transition;
    const at = name === 'enqueue_flow' ? 1 : name === 'flow_hold' && call.args[5] === '' ? 1 : undefined;
    const root = at === undefined ? undefined : call.args[at]?.toString('latin1');
    if (root === undefined || this.model.queue(call.queue).jobs.has(root)) return false;
    const found = this.wanted.find(({ flow }) => flow.id === root);
    return found !== undefined && all(found.flow.root).some(({ id }) => this.#trace(id));
  }

  #trace(id: string): boolean {
    return [...this.model.queues.values()].some(
      ({ jobs, landed, outbox, orders }) =>
        jobs.has(id) || landed.has(id) || orders.has(id) || outbox.some((letter) => letter.includes(id)),
    );
  }
}
