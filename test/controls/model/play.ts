/**
 * One play: a node, the model of its queue, and workers who hold jobs and may lose what they are told.
 *
 * Invariants: after every call the answer, every key and all that must hold are judged; whoever holds a job that is no longer
 * theirs may still try to settle it. Rejects with what was wrong and the last calls.
 * Does not: choose what is done (acts.ts), or start a node.
 */
import { Keyspace, transitions, type Source, type Transition } from '../../../src/index.js';
import { isDeepStrictEqual } from 'node:util';
import { latin1 } from '../../../src/parity/keyspace-dump.js';
import { clockOf, need, perform as ask, type RawCommand } from '../../../src/parity/node.js';
import type { Reply } from '../../../src/wire/call.js';
import { dump, items } from '../../flows/model/dump.js';
import type { TestNode } from '../../parity/nodes.js';
import { differences } from './compare.js';
import { CLAIMS, violations, Watch, type Happened } from './invariants.js';
import { Model, type Job } from './model.js';
import { HOUR, perform, type Answer } from './steps.js';

const QUEUE = 'lanes';
const TAIL = 40;

/** What a worker holds, or thinks it holds. */
export interface Hand {
  readonly id: string;
  readonly token: number;
}

export class Play {
  readonly k = new Keyspace(QUEUE);
  readonly model = new Model();
  readonly watch = new Watch(this.k);
  readonly hands: Hand[] = [];
  readonly node: TestNode;
  /** What was called, and answered: `take 3`, `reassign -2`. */
  readonly seen = new Set<string>();
  /** What holds for all lanes has changed, and these have not been mended. */
  mending = new Set<string>();
  #since = 0;
  #past = 0;
  readonly #story: string[] = [];

  private constructor(node: TestNode) {
    this.node = node;
  }

  /** An empty queue, in which windows are of six hours where nothing else is set. */
  static async open(node: TestNode): Promise<Play> {
    await node.reset();
    const play = new Play(node);
    play.#since = await clockOf(node.client);
    await play.call(transitions.laneSet, { group: '*', settings: [['duration', 6 * HOUR]] });
    await play.call(transitions.setLimits, { settings: [['duration', 6 * HOUR]] });
    return play;
  }

  /** A call of a client who hears of it, and what it came to. */
  async call<I, R>(transition: Transition<I, R>, input: I): Promise<R | undefined> {
    const { keys, args } = transition.layout(this.k, input);
    const { name } = transition;
    const words = args.map(String);
    this.note(`${name} ${words.map((word) => JSON.stringify(word)).join(' ')}`);
    const could = this.model.claimable();
    const should = perform(this.model, name, keys.map(String), words);
    const given = await ask(this.node, { transition: name, keys, args });
    const wrong: string[] = [];
    const answer: Answer = given.ok ? plain(given.reply) : { error: given.text };
    this.note(`    ${JSON.stringify(answer)}`);
    if (!isDeepStrictEqual(answer, should)) {
      wrong.push(`the answer is ${JSON.stringify(answer)}, the model says ${JSON.stringify(should)}`);
    }
    this.seen.add(`${name} ${brief(should)}`);
    const now = await dump(this.node.client);
    const happened: Happened = { name, args: words, given: CLAIMS.includes(name) && given.ok ? jobsOf(answer) : [] };
    wrong.push(...this.watch.step(now, happened));
    wrong.push(...violations(this.k, now, this.mending.size > 0));
    wrong.push(...differences(this.model, now, this.k, this.#since));
    const tokens = items(now, this.k.wake).length;
    const can = this.model.claimable();
    if (can && !could && tokens === 0) wrong.push('jobs can be claimed now, and nobody is woken');
    const source = fullOf(happened);
    if (source !== undefined && this.model.claimable(source) && tokens === 0) {
      wrong.push('more jobs can be claimed, and nobody is woken');
    }
    this.judge(name, wrong);
    return given.ok ? transition.read(given.reply) : undefined;
  }

  /** Leases lapse, or times come: of jobs in flight, or of scheduled ones, in the order in which this is called. */
  async pass(job: Job): Promise<void> {
    const set = job.place === 'active' ? this.k.active : this.k.schedule;
    job.due = this.#next();
    await this.#plant(['ZADD', set, 'XX', String(job.due), job.id]);
  }

  /** A lane has waited long enough. */
  async rested(group: string): Promise<void> {
    const due = this.#next();
    this.model.waits.set(group, { due });
    await this.#plant(['ZADD', `${this.k.base}gwait`, 'XX', String(due), group]);
  }

  /** Hours pass for a bucket; that of a lane, or under `` that of the queue. */
  async refill(group: string, hours: number): Promise<void> {
    const key = group === '' ? this.k.limiter : `${this.k.base}g:${group}:limiter`;
    const left = Math.max(0, this.model.missingOf(group) - hours);
    const full = Number(latin1(await need(this.node.client, ['GET', key]))) - hours * HOUR * 1000;
    this.model.setMissing(group, left);
    await this.#plant(left > 0 ? ['SET', key, String(full), 'PXAT', String(Math.ceil(full / 1000))] : ['DEL', key]);
  }

  /** Consumers look, find nothing, and go to sleep: no token is left. */
  async sleep(): Promise<void> {
    if (this.model.claimable()) return;
    await this.call(transitions.take, { leaseMs: HOUR, count: 1, source: 'both' });
    await this.#plant(['DEL', this.k.wake]);
  }

  /** The queue goes, in small steps. */
  async obliterate(): Promise<void> {
    const run = async <I, R>(transition: Transition<I, R>, input: I): Promise<R> => {
      const given = await ask(this.node, { transition: transition.name, ...transition.layout(this.k, input) });
      if (!given.ok) return this.judge(transition.name, [given.text]) as never;
      return transition.read(given.reply);
    };
    await run(transitions.pause, undefined);
    while ((await run(transitions.obliterate, { force: false, limit: 3 })) !== 'done');
  }

  note(line: string): void {
    this.#story.push(line);
    if (this.#story.length > TAIL) this.#story.shift();
  }

  /** Rejects with these lines, if there are any, and the story. */
  judge(what: string, wrong: readonly string[]): void {
    if (wrong.length === 0) return;
    throw new Error(
      `${what} (${this.node.executor}):\n${wrong.join('\n')}\nThe calls before:\n${this.#story.join('\n')}`,
    );
  }

  #next(): number {
    this.#past += 1;
    return this.#past;
  }

  async #plant(command: RawCommand): Promise<void> {
    this.note(`  ${command.map(String).join(' ')}`);
    await need(this.node.client, command);
    this.watch.see(await dump(this.node.client));
  }
}

/** What was served by a claim that gave as many as were asked for: its consumer may not look again by itself. */
function fullOf({ name, args, given }: Happened): Source | undefined {
  if ((name !== 'take' && name !== 'take_batch') || given.length < Number(args[1])) return undefined;
  return args.at(-1) as Source;
}

function plain(reply: Reply): Answer {
  if (Array.isArray(reply)) return reply.map(plain);
  return Buffer.isBuffer(reply) ? latin1(reply) : reply;
}

function jobsOf(answer: Answer): Happened['given'] {
  const list = Array.isArray(answer) ? (answer as Answer[]) : [];
  const jobs = typeof list[0] === 'string' ? [list] : list;
  return (jobs as [string, string, number, string?][]).map(([id, , attempts, group]) => ({
    ...{ id, attempts },
    group: group ?? null,
  }));
}

/** An answer without what is of one play. */
function brief(answer: Answer): string {
  if (Array.isArray(answer))
    return answer.every((one) => typeof one === 'number') ? answer.join(' ') : `of ${answer.length}`;
  return typeof answer === 'object' && answer !== null ? (answer as { error: string }).error : String(answer);
}
