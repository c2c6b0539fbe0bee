/**
 * Users with few rights on a stage of their own, and what becomes of a verb that such a user calls.
 *
 * Invariants: the scene of a verb is set with all rights, on a queue that was emptied before; the verdict looks at every
 * key of the server, so a refusal that left something is told from one that did not.
 */
import { expect } from 'vitest';
import type { Connector } from '../../src/index.js';
import { EmqError, Jobs, type ConnectorOptions, type EnqueuedMany, type Wire } from '../../src/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { Stage, type StageOptions, type Wire as WireNumber } from '../conformance/stage.js';
import type { Act } from './acts.js';

export const USER = 'worker';
export const SECRET = 'correct-horse-battery';
const BRANDS = { 4: 'echomq:4.0.0', 6: 'echomq:6.0.0' } as const;

/** How a call went: it did its work, it was refused and left nothing, or it was refused and left something. */
export type Verdict = 'done' | 'refused' | 'half';

export class Users implements AsyncDisposable {
  private constructor(readonly stage: Stage) {}

  static async start(wire: WireNumber, options: StageOptions = {}): Promise<Users> {
    return new Users(await Stage.start(wire, options));
  }

  /** The user has exactly these rights from now on, also on connections that are there already. */
  async grant(rules: readonly string[]): Promise<void> {
    await this.stage.raw.call('ACL', 'SETUSER', USER, 'reset', 'on', `>${SECRET}`, ...rules);
  }

  /** A connector of the user; closed with the stage. */
  async connect(options: ConnectorOptions = {}): Promise<Connector> {
    const redis = { path: this.stage.server.socketPath, username: USER, password: SECRET };
    return this.stage.connect({ redis, ...options });
  }

  /** Whether the user can connect. Fails on any refusal that is not a typed NOPERM. */
  async connects(): Promise<boolean> {
    try {
      await (await this.connect()).close();
      return true;
    } catch (error) {
      expect(error).toMatchObject({ name: 'EmqError', code: 'NOPERM' });
      return false;
    }
  }

  /** The node carries the stage's brand, or none. */
  async brand(branded: boolean): Promise<void> {
    if (branded) await this.stage.raw.set('{emq}:version', BRANDS[this.stage.wire]);
    else await this.stage.raw.del('{emq}:version');
  }

  /** Sets a verb's scene on the queue, and gives the call. What was on any queue before is gone. */
  async scene({ scene }: Act, queue: string): Promise<(jobs: Jobs<unknown>) => Promise<unknown>> {
    const keys = await this.stage.raw.keys('emq:*');
    if (keys.length > 0) await this.stage.raw.del(...keys);
    return scene({ jobs: this.stage.jobs(queue), raw: this.stage.raw });
  }

  /** Sets the scene on the queue and lets the user call the verb. Fails on any refusal that is not a typed NOPERM. */
  async judge(verb: Act, queue: string, wire: Wire): Promise<Verdict> {
    const act = await this.scene(verb, queue);
    const before = await snapshot(this.stage.raw);
    const error = await refusalOf(act, new Jobs(wire, queue));
    if (error === undefined) return 'done';
    expect(error).toMatchObject({ name: 'EmqError', code: 'NOPERM' });
    expect(error.message).not.toContain(SECRET);
    return changedKeys(before, await snapshot(this.stage.raw)).length === 0 ? 'refused' : 'half';
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stage[Symbol.asyncDispose]();
  }
}

/** The error of the call, or of the first item of a call that refuses item by item. */
async function refusalOf(
  act: (jobs: Jobs<unknown>) => Promise<unknown>,
  jobs: Jobs<unknown>,
): Promise<EmqError | undefined> {
  try {
    const answer = await act(jobs);
    if (!Array.isArray(answer)) return undefined;
    const failed = (answer as EnqueuedMany[]).find((item) => item.outcome === 'failed');
    return failed?.outcome === 'failed' ? failed.error : undefined;
  } catch (error) {
    if (error instanceof EmqError) return error;
    throw error;
  }
}
