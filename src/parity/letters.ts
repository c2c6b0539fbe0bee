/**
 * The letters of flows as the battery reads them: the parts of one, and what of a flow still hangs on it.
 *
 * Does not: serve the product, which has a reader of its own; a mistake that both shared would not be seen.
 */
import type { Bytes, Keys } from './keyspace-dump.js';

export type Letter =
  | {
      readonly kind: 'done' | 'fail' | 'gone';
      readonly queue: Bytes;
      readonly parent: Bytes;
      readonly child: Bytes;
      /** Empty for `done`. */
      readonly policy: Bytes;
      /** Result or error. */
      readonly text: Bytes;
    }
  | { readonly kind: 'cancel'; readonly parent: Bytes; readonly reason: Bytes };

/** The parts of a letter; undefined for one that cannot be read. */
export function parseLetter(letter: Bytes): Letter | undefined {
  const [first = '', ...rest] = letter.split('\0');
  if (first !== '') {
    const [parent, child, ...text] = rest;
    if (parent === undefined || child === undefined || text.length === 0) return undefined;
    return { kind: 'done', queue: first, parent, child, policy: '', text: text.join('\0') };
  }
  const [kind, ...parts] = rest;
  if (kind === 'cancel') {
    const [parent, ...reason] = parts;
    return parent === undefined || reason.length === 0 ? undefined : { kind, parent, reason: reason.join('\0') };
  }
  const [queue, parent, child, policy, ...text] = parts;
  if (kind !== 'fail' && kind !== 'gone') return undefined;
  if (queue === undefined || parent === undefined || child === undefined || policy === undefined) return undefined;
  return text.length === 0 ? undefined : { kind, queue, parent, child, policy, text: text.join('\0') };
}

/** Whether the letter has nothing left to say: it was delivered, or nobody waits to hear it. */
export function isHeard(letter: Bytes, base: Bytes, keys: Keys): boolean {
  const parts = parseLetter(letter);
  if (parts === undefined) return true;
  if (parts.kind === 'cancel') return !keys.has(`${base}flow:cancel:${parts.parent}`);
  const row = `emq:{${parts.queue}}:job:${parts.parent}`;
  const has = (end: Bytes): boolean => {
    const entry = keys.get(row + end);
    return entry?.type === 'hash' && entry.fields.has(parts.child);
  };
  const waits = parts.kind === 'fail' && parts.policy === 'fp';
  return !has(':children') || (waits && has(':failed'));
}
