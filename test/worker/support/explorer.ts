/**
 * Tries all orders in which the steps of a few worker processes and a producer can interleave, on a real server.
 *
 * A depth-first walk over the steps that are possible; after each end it begins anew and repeats the way to the last
 * branch. Orders that differ only in steps which do not concern each other are tried once (sleep sets).
 * Invariants: in every end no job waits while a live process has a free slot, unless a token was lost with a process
 * that died; then one beat of a live process claims it. Does not: know how the worker works; it asks the puppets.
 */
import { Redis } from 'ioredis';
import { vi } from 'vitest';
import { encodeId, Keyspace, transitions } from '../../../src/index.js';
import { BRANDS } from '../../../src/wire/fence.js';
import { executorOf, type Wire } from '../../../src/wire/executor.js';
import { NODE_VERSION_KEY } from '../../../src/wire/keyspace.js';
import { enqueue, Puppet, turn, type Strings } from './puppet.js';

/** What may happen in one scenario. */
export interface Scenario {
  /** The slots of each process. All are parked at the start. */
  readonly processes: readonly number[];
  readonly enqueues: number;
  /** Jobs that wait already, in a queue that is paused; it is resumed at some moment. Default none. */
  readonly paused?: number;
  /** How many processes may die, each at any moment. Default 0. */
  readonly deaths?: number;
  /** How many claims may be refused. Default 0. */
  readonly refusals?: number;
  /** How many blocking reads may end without a token. Default 0. */
  readonly timeouts?: number;
  /** How many beats may come by themselves, at any moment. Default 0. */
  readonly beats?: number;
}

export interface Explored {
  /** Orders that were run to their end. */
  readonly interleavings: number;
  readonly steps: number;
  /** Ends in which a token was lost and a beat was needed. */
  readonly beats: number;
}

interface Step {
  readonly name: string;
  /** What it concerns: steps that have nothing in common here may be taken in either order. */
  readonly touches: readonly string[];
  /** False: it may happen or not. */
  readonly must: boolean;
  readonly take: () => Promise<void> | void;
}

interface Blocker {
  readonly client: Redis;
  readonly id: string;
}

const RETRY_MS = 60;
const BEAT_MS = 1_000_001;

/** The server and the connections of all puppets; serves any number of scenarios. */
export class Explorer implements AsyncDisposable {
  readonly #wire: Wire;
  readonly #server: Redis;
  readonly #blockers: Blocker[];
  readonly #keys = new Keyspace('explored');
  #puppets: Puppet[] = [];
  #left = { enqueues: 0, deaths: 0, refusals: 0, timeouts: 0, beats: 0, resumes: 0 };
  #retries = false;
  #steps = 0;
  #interleavings = 0;
  #beats = 0;
  #minted = 0;

  private constructor(wire: Wire, server: Redis, blockers: Blocker[]) {
    this.#wire = wire;
    this.#server = server;
    this.#blockers = blockers;
  }

  /** @param path the socket of a server that is nobody else's. Clocks are stopped until it is disposed of. */
  static async start(wire: Wire, path: string, processes = 3): Promise<Explorer> {
    const open = () => new Redis({ path, protocol: 2, retryStrategy: () => null });
    const server = open();
    for (const { script } of Object.values(transitions)) await server.script('LOAD', script.source);
    const blockers: Blocker[] = [];
    for (let n = 0; n < processes; n++) {
      const client = open();
      blockers.push({ client, id: String(await client.client('ID')) });
    }
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    return new Explorer(wire, server, blockers);
  }

  /** @throws Error with the steps that led to a job that waits and a process that could have had it. */
  async explore(scenario: Scenario): Promise<Explored> {
    this.#interleavings = this.#steps = this.#beats = 0;
    await this.#begin(scenario);
    await this.#visit(scenario, [], new Set());
    return { interleavings: this.#interleavings, steps: this.#steps, beats: this.#beats };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#puppets.map((puppet) => puppet.release()));
    vi.useRealTimers();
    for (const { client } of this.#blockers) client.disconnect();
    this.#server.disconnect();
    await turn();
  }

  async #visit(scenario: Scenario, path: readonly string[], sleep: ReadonlySet<string>): Promise<void> {
    const possible = this.#possible();
    const touches = new Map(possible.map((step) => [step.name, step.touches]));
    let here = true;
    if (!possible.some(({ must }) => must)) {
      this.#interleavings++;
      here = await this.#judge(path);
    }
    const done: string[] = [];
    for (const { name, touches: mine } of possible) {
      if (sleep.has(name)) continue;
      if (!here) await this.#repeat(scenario, path);
      here = false;
      await this.#take(name, path);
      const aside = (other: string) => !(touches.get(other) ?? mine).some((one) => mine.includes(one));
      await this.#visit(scenario, [...path, name], new Set([...sleep, ...done].filter(aside)));
      done.push(name);
    }
  }

  async #repeat(scenario: Scenario, path: readonly string[]): Promise<void> {
    await this.#begin(scenario);
    for (const [n, name] of path.entries()) await this.#take(name, path.slice(0, n));
  }

  async #take(name: string, path: readonly string[]): Promise<void> {
    const step = this.#possible().find((one) => one.name === name);
    if (step === undefined) throw new Error(`not repeatable: no step ${name} after ${path.join(', ')}`);
    this.#steps++;
    await step.take();
    await this.#rest(step.touches.includes('server'));
  }

  /** What concerns nobody else is done, and whom a push at the server has woken is known. */
  async #rest(served = true): Promise<void> {
    await turn();
    for (const puppet of this.#puppets) {
      await puppet.aside();
      if (served) await puppet.settleBlock();
    }
  }

  async #begin(scenario: Scenario): Promise<void> {
    const { processes, enqueues, deaths = 0, refusals = 0, timeouts = 0, paused = 0, beats: ownBeats = 0 } = scenario;
    for (const puppet of this.#puppets) await puppet.release();
    vi.clearAllTimers();
    await this.#server.multi().flushall('SYNC').set(NODE_VERSION_KEY, BRANDS[this.#wire]).exec();
    this.#left = { enqueues, deaths, refusals, timeouts, beats: ownBeats, resumes: paused > 0 ? 1 : 0 };
    this.#retries = false;
    // the same ids each time, so that a way can be repeated by the names of its steps
    this.#minted = 0;
    if (paused > 0) await this.#server.hset(this.#keys.meta, 'paused', '1');
    for (let n = 0; n < paused; n++) await this.#enqueue();
    if (paused > 0) await this.#server.del(this.#keys.wake);
    this.#puppets = processes.map((slots, n) => {
      const { client: blocker, id: blockerId } = this.#blockers[n] as Blocker;
      return new Puppet({ ...this.#strings, blocker, blockerId, slots });
    });
    await this.#beat();
  }

  async #enqueue(): Promise<void> {
    await enqueue({ ...this.#strings, blocker: this.#server, blockerId: '' }, encodeId('JOB', BigInt(++this.#minted)));
  }

  get #strings(): Pick<Strings, 'keys' | 'executor' | 'server'> {
    return { keys: this.#keys, executor: executorOf(this.#wire), server: this.#server };
  }

  /** The first beat of every process, and all that follows from it, in some order: until all are parked or at work. */
  async #beat(): Promise<void> {
    vi.advanceTimersByTime(BEAT_MS);
    await this.#rest();
    for (let busy = true; busy;) {
      busy = false;
      for (const puppet of this.#puppets) {
        if (puppet.dead) continue;
        if (puppet.answered.length > 0) await puppet.hear();
        else if (puppet.next !== undefined) await puppet.run();
        else if (puppet.block === 'sent') await puppet.park();
        else if (puppet.block === 'token' || puppet.block === 'timeout') await puppet.wake();
        else continue;
        busy = true;
        await this.#rest();
      }
    }
  }

  #possible(): Step[] {
    const steps: Step[] = [];
    const left = this.#left;
    const add = (name: string, touches: readonly string[], take: Step['take'], must = true): void =>
      void steps.push({ name, touches, take, must });
    if (left.enqueues > 0) {
      add('enqueue', ['server', 'producer'], async () => {
        left.enqueues--;
        await this.#enqueue();
      });
    }
    if (left.resumes > 0) {
      add('resume', ['server', 'operator'], async () => {
        left.resumes--;
        const { executor, keys, server } = this.#strings;
        const transition = transitions.resume;
        const { command, args } = executor({ transition, queue: keys.queue, ...transition.layout(keys, undefined) });
        await server.call(command, ...args);
      });
    }
    for (const [n, puppet] of this.#puppets.entries()) {
      if (puppet.dead) continue;
      const [self, calls, block] = [`self ${n}`, `calls ${n}`, `block ${n}`];
      if (puppet.next !== undefined) add(`run ${n}`, ['server', calls], () => puppet.run());
      if (puppet.answered.length > 0) add(`hear ${n}`, [self], () => puppet.hear());
      if (puppet.block === 'sent') add(`park ${n}`, ['server', block], () => puppet.park());
      if (puppet.block === 'token' || puppet.block === 'timeout') add(`wake ${n}`, [self, block], () => puppet.wake());
      for (const id of puppet.running) add(`finish ${n} ${id}`, [self], () => puppet.finish(id));
      if (left.deaths > 0) {
        add(
          `die ${n}`,
          ['server', 'deaths', self, calls, block],
          () => {
            left.deaths--;
            puppet.die();
          },
          false,
        );
      }
      if (left.refusals > 0 && puppet.next === 'take') {
        add(
          `refuse ${n}`,
          ['refusals', calls],
          () => {
            left.refusals--;
            this.#retries = true;
            puppet.refuse();
          },
          false,
        );
      }
      if (left.timeouts > 0 && puppet.block === 'parked') {
        add(
          `expire ${n}`,
          ['server', 'timeouts', block],
          async () => {
            left.timeouts--;
            await puppet.expire();
          },
          false,
        );
      }
    }
    const selves = this.#puppets.map((_, n) => `self ${n}`);
    if (left.beats > 0) {
      add(
        'beat',
        ['beats', ...selves],
        () => {
          left.beats--;
          vi.advanceTimersByTime(BEAT_MS);
        },
        false,
      );
    }
    // A refused claim is made again after a while, of whatever length, once the process has heard of it.
    const heard = !this.#puppets.some(({ answered }) => answered.some(({ reply }) => reply instanceof Error));
    if (this.#retries && heard) {
      add('a while', selves, () => {
        this.#retries = false;
        vi.advanceTimersByTime(RETRY_MS);
      });
    }
    return steps;
  }

  /** Nothing more will happen by itself. True if the world is as it was. */
  async #judge(path: readonly string[]): Promise<boolean> {
    const waiting = await this.#server.zcard(this.#keys.pending);
    const live = this.#puppets.filter(({ dead }) => !dead);
    const free = () => live.reduce((sum, { consumer }) => sum + consumer.free, 0);
    if (live.some(({ consumer, block }) => consumer.free > 0 && block !== 'parked')) {
      throw new Error(`a process with a free slot is not parked, after ${path.join(', ')}`);
    }
    if (waiting === 0 || free() === 0) return true;
    if (!this.#puppets.some(({ tokenLost }) => tokenLost)) {
      throw new Error(`${waiting} jobs wait and ${free()} slots are free, after ${path.join(', ')}`);
    }
    this.#beats++;
    await this.#beat();
    const after = await this.#server.zcard(this.#keys.pending);
    if (after > 0 && free() > 0) throw new Error(`${after} jobs wait after a beat, after ${path.join(', ')}`);
    return false;
  }
}
