/**
 * What the doctor says: findings.
 * Does not: look at anything (facts.ts) or judge (checks.ts, rights.ts).
 */

/** `bad`: jobs cannot be run, or may be lost, as things are. `warn`: something to decide on. */
export type Level = 'ok' | 'warn' | 'bad';

export interface Finding {
  readonly check: string;
  readonly level: Level;
  /** What is so, in a sentence. */
  readonly text: string;
  /** How to mend it; for `warn` and `bad` only. */
  readonly mend?: string;
  /** Whose it is; without, the node's. */
  readonly queue?: string;
}

export const ok = (check: string, text: string): Finding => ({ check, level: 'ok', text });
export const warn = (check: string, text: string, mend: string): Finding => ({ check, level: 'warn', text, mend });
export const bad = (check: string, text: string, mend: string): Finding => ({ check, level: 'bad', text, mend });
