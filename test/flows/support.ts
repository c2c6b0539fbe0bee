/**
 * What the tests of flows share: flows and queues on a stage, jobs taken in hand by id, and wires that die on demand.
 *
 * Invariants: nothing here sleeps; a scene's queues begin with its own name, so that tests may share a server.
 * Does not: deliver letters by itself: the test says when.
 */
import {
  EmqError,
  Flows,
  type Call,
  type Connector,
  type Flow,
  type FlowChild,
  type HeldJob,
  type Jobs,
  type JobsOptions,
  type Outcome,
  type Reply,
  type Wire,
} from '../../src/index.js';
import { MINUTE, type Stage } from '../conformance/stage.js';

export const LEASE = { leaseMs: MINUTE };
/** A failure that is death. */
export const DEATH = { delayMs: 0, maxAttempts: 1, error: 'broken' } as const;
export const PATIENCE = { timeout: 15_000, interval: 5 };

let scenes = 0;

/** Everything that waits in a queue, claimed; by id. */
export async function claimAll(jobs: Jobs<unknown>): Promise<Map<string, HeldJob>> {
  const found = new Map<string, HeldJob>();
  for (;;) {
    const batch = await jobs.claimBatch({ ...LEASE, size: 1000 });
    for (const job of batch) found.set(job.id, job);
    if (batch.length < 1000) return found;
  }
}

export class FlowScene {
  /** The name of the parents' queue; others are its with a word behind. */
  readonly queue: string;
  readonly stage: Stage;
  readonly flows: Flows<unknown>;
  readonly jobs: Jobs<unknown>;
  readonly #held = new Map<string, HeldJob>();

  constructor(stage: Stage, what = 'flow') {
    this.stage = stage;
    this.queue = `${what}-${++scenes}`;
    this.flows = new Flows(stage.connector, this.queue);
    this.jobs = stage.jobs(this.queue);
  }

  /** Another queue of this scene. */
  name(word: string): string {
    return `${this.queue}.${word}`;
  }

  /** The verbs of a queue of this scene; without a word of the parents' own. */
  at(word = '', options: JobsOptions<unknown> = {}): Jobs<unknown> {
    return word === '' ? this.jobs : this.stage.jobs(this.name(word), options);
  }

  /** The job in hand: it must wait, and what waits beside it is claimed with it and kept in hand. */
  async take(id: string, jobs: Jobs<unknown> = this.jobs): Promise<HeldJob> {
    const known = this.#held.get(id);
    if (known !== undefined) return known;
    for (const job of (await claimAll(jobs)).values()) this.#held.set(job.id, job);
    const found = this.#held.get(id);
    if (found === undefined) throw new Error(`${id} cannot be claimed: it is ${await jobs.state(id)}`);
    return found;
  }

  /** The job is done. */
  async done(id: string, result?: unknown, jobs: Jobs<unknown> = this.jobs): Promise<HeldJob> {
    const job = await this.take(id, jobs);
    const now = await jobs.complete(job, { result });
    if (now !== 'completed') throw new Error(`${id} did not complete: ${now}`);
    this.#held.delete(id);
    return job;
  }

  /** The job dies. */
  async dies(id: string, error = DEATH.error as string, jobs: Jobs<unknown> = this.jobs): Promise<HeldJob> {
    const job = await this.take(id, jobs);
    const now = await jobs.fail(job, { ...DEATH, maxAttempts: 1, error });
    if (now !== 'dead') throw new Error(`${id} did not die: ${now}`);
    this.#held.delete(id);
    return job;
  }

  /** Delivers the letters of the queues, in turn, until none is left that can be. */
  async deliverAll(...words: string[]): Promise<void> {
    for (;;) {
      let delivered = 0;
      for (const word of ['', ...words]) {
        const queue = word === '' ? this.queue : this.name(word);
        const report = await new Flows(this.stage.connector, queue).deliver();
        if (report.errors.length > 0 || report.poison.length > 0) throw new Error(JSON.stringify(report));
        delivered += report.delivered;
      }
      if (delivered === 0) return;
    }
  }

  deliver(word = ''): ReturnType<Flows['deliver']> {
    const queue = word === '' ? this.queue : this.name(word);
    return new Flows(this.stage.connector, queue).deliver();
  }

  /** What is left of the scene: keys of its queues but for counters, `meta.letters` among them, and wake tokens. */
  async remains(): Promise<string[]> {
    const keys = await this.stage.raw.keys(`emq:{${this.queue}*`);
    return keys.filter((key) => !/:(wake|meta|metrics:\w+)$/.test(key)).sort();
  }

  /** The letters of a queue, as text. */
  async letters(word = ''): Promise<string[]> {
    return this.stage.raw.lrange(this.at(word).keys.outbox, 0, -1);
  }
}

/** Dies at one call: before it is sent, or after it took effect; everything that comes later is dead too. */
export class DyingWire implements Wire {
  /** The calls that took effect. */
  calls = 0;
  dead = false;
  readonly names: string[] = [];
  readonly #inner: Connector;
  readonly #at: number;
  readonly #when: 'before' | 'after';

  constructor(inner: Connector, at: number, when: 'before' | 'after') {
    this.#inner = inner;
    this.#at = at;
    this.#when = when;
  }

  async run(call: Call): Promise<Reply> {
    const last = this.#admit(call);
    const reply = await this.#inner.run(call);
    if (last) throw this.#end();
    return reply;
  }

  async runAll(calls: readonly Call[]): Promise<Outcome[]> {
    return Promise.all(
      calls.map(async (call): Promise<Outcome> => {
        try {
          return { ok: true, reply: await this.run(call) };
        } catch (error) {
          return { ok: false, error: error as EmqError };
        }
      }),
    );
  }

  /** Whether this call is the last one. */
  #admit(call: Call): boolean {
    if (this.dead) throw gone();
    if (this.calls === this.#at && this.#when === 'before') throw this.#end();
    this.names.push(call.transition.name);
    return this.calls++ === this.#at && this.#when === 'after';
  }

  #end(): Error {
    this.dead = true;
    return gone();
  }
}

/** As a process that is gone: not an answer that may be asked for again. */
function gone(): EmqError {
  return new EmqError('EMQ_CLOSED', 'the process is gone');
}

/** A flow that is a chain of so many jobs, the root first; `queues` are gone through in turn. */
export function chain(depth: number, queues: readonly string[] = []): Flow {
  const at = (level: number): FlowChild => ({
    payload: level,
    queue: queues[level % queues.length],
    children: level === depth - 1 ? [] : [at(level + 1)],
  });
  return { payload: 0, children: at(0).children ?? [] };
}

/** The ids of a chain, from the root down. */
export function idsDown(added: { readonly id: string; readonly children: readonly unknown[] }): string[] {
  const [child] = added.children as (typeof added)[];
  return child === undefined ? [added.id] : [added.id, ...idsDown(child)];
}
