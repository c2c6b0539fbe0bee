/**
 * What a node does when its memory is full. With an `allkeys-*` policy it throws jobs, and whole queues, away without a
 * word; with any other it refuses admissions, or takes only keys that would have ended by themselves (dedup names,
 * rate windows).
 *
 * Invariants: the question leaves in the write in which the caller asks something else anyway, and is a read. A node is
 * judged before anything is written to it. What a user may not know is no reason to warn, and is asked once only, so that
 * the server's ACL LOG is not filled; whoever wants to refuse has to know. Each node and policy is told of once.
 * Does not: change a setting, or notice one that is changed between two connections.
 */
import type { EvictionRule } from './connector-options.js';
import { EmqError } from './errors.js';
import type { Ask } from './fence.js';

/** What a node said of itself: its INFO, or why it did not say. */
export type Sight = { readonly where: string } & ({ readonly info: string } | { readonly refused: EmqError });

export class EvictionWatch {
  readonly #rule: EvictionRule;
  readonly #warn: (warning: EmqError) => void;
  /** The policy that each node was last told of to have. */
  readonly #told = new Map<string, string>();
  #mayNotAsk = false;

  constructor(rule: EvictionRule, warn: (warning: EmqError) => void) {
    this.#rule = rule;
    this.#warn = warn;
  }

  /** Whether a node may be written to only after it was looked at. */
  get mustKnow(): boolean {
    return this.#rule === 'refuse';
  }

  /** Asks in this very turn. Undefined where there is nothing to ask. Rejects only when there was no answer at all. */
  async look(ask: Ask, where: string): Promise<Sight | undefined> {
    if (this.#rule === 'ignore' || this.#mayNotAsk) return undefined;
    try {
      return { where, info: String(await ask('INFO', ['memory'])) };
    } catch (error) {
      if (!(error instanceof EmqError) || error.code.startsWith('EMQ_')) throw error;
      return { where, refused: error };
    }
  }

  /**
   * @throws EmqError with `refuse`: `EMQ_EVICTION` for a node that throws away what it likes, or that does not say whether
   *   it does; the node's own word where it could not answer now (`BUSY` ...).
   */
  judge(sight: Sight | undefined): void {
    if (sight === undefined) return;
    const { where } = sight;
    if ('refused' in sight) return this.#unknown(where, sight.refused);
    const [policy, maxmemory] = [field(sight.info, 'maxmemory_policy'), field(sight.info, 'maxmemory')];
    if (policy === undefined) return this.#unknown(where, undefined);
    if (!policy.startsWith('allkeys-')) return void this.#told.delete(where);
    const when = maxmemory === '0' ? 'as soon as maxmemory is set and reached' : 'when its memory is full';
    const text = `${where} has maxmemory-policy ${policy}: ${when}, jobs and whole queues are thrown away without a word`;
    const mend =
      'CONFIG SET maxmemory-policy noeviction, and the same in its configuration file; keep caches elsewhere';
    if (this.#rule === 'refuse') throw new EmqError('EMQ_EVICTION', `${text}: ${mend}`);
    if (this.#told.get(where) === policy) return;
    this.#told.set(where, policy);
    this.#warn(new EmqError('EMQ_EVICTION', `${text}: ${mend}, or connect with eviction: 'ignore'`));
  }

  #unknown(where: string, refused: EmqError | undefined): void {
    if (this.#rule === 'warn') {
      if (refused?.code === 'NOPERM') this.#mayNotAsk = true;
      return;
    }
    if (refused !== undefined && refused.code !== 'NOPERM') throw refused;
    const why = refused === undefined ? 'its INFO does not tell it' : 'this user may not ask (it needs +info)';
    const text = `eviction: 'refuse' has to know the maxmemory-policy of ${where}, and ${why}`;
    throw new EmqError('EMQ_EVICTION', text, { cause: refused });
  }
}

function field(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:([^\\r\\n]*)`, 'm').exec(info)?.[1];
}
