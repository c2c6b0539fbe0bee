/**
 * The keys of a queue by their names (wire contract, section 2): which there are, of what type, and what each belongs to.
 *
 * Invariants: names are latin1, one character a byte, without the queue's base. Does not: ask a server.
 */

/** The keys of fixed names below a queue's base, and their types. */
export const FIXED: Readonly<Record<string, string>> = {
  pending: 'zset',
  active: 'zset',
  schedule: 'zset',
  dead: 'zset',
  repeat: 'zset',
  wake: 'list',
  ring: 'list',
  'flow:outbox': 'list',
  'flow:poison': 'list',
  'flow:held': 'zset',
  'flow:landed': 'zset',
  paused: 'set',
  meta: 'hash',
  glimit: 'hash',
  gactive: 'hash',
  gweight: 'hash',
  gmax: 'hash',
  gduration: 'hash',
  gwait: 'zset',
  'metrics:completed': 'hash',
  'metrics:failed': 'hash',
  'metrics:completed:data': 'list',
  'metrics:failed:data': 'list',
  'metrics:rolled': 'hash',
  limiter: 'string',
  version: 'string',
  'stream:completions': 'stream',
};

const SUBKEYS: Readonly<Record<string, string>> = {
  logs: 'list',
  lock: 'string',
  dependencies: 'string',
  children: 'hash',
  processed: 'hash',
  unsuccessful: 'hash',
  failed: 'hash',
};

/** What a key is. `type` is what it must be; a row's is not told, since the audit of the job looks at it. */
export type KeyRole =
  | { readonly role: 'row'; readonly id: string }
  | { readonly role: 'subkey'; readonly id: string; readonly name: string; readonly type: string }
  | { readonly role: 'lane' | 'limiter'; readonly group: string; readonly type: string }
  | { readonly role: 'dedup' | 'repeat' | 'cancel'; readonly name: string; readonly type: string }
  | { readonly role: 'other'; readonly type: string }
  /** The contract knows no key of that name. */
  | { readonly role: 'stray' };

/** @param name the key without the queue's base. */
export function roleOf(name: string): KeyRole {
  const fixed = Object.hasOwn(FIXED, name) ? FIXED[name] : undefined;
  if (fixed !== undefined) return { role: 'other', type: fixed };
  const [, id = '', sub] = /^job:(JOB[^:]*)(?::([a-z]+))?$/s.exec(name) ?? [];
  if (id !== '' && sub === undefined) return { role: 'row', id };
  const type = sub !== undefined && Object.hasOwn(SUBKEYS, sub) ? SUBKEYS[sub] : undefined;
  if (sub !== undefined && type !== undefined) return { role: 'subkey', id, name: sub, type };
  const [, group, end] = /^g:(.*):(pending|limiter)$/s.exec(name) ?? [];
  if (group !== undefined)
    return end === 'pending' ? { role: 'lane', group, type: 'zset' } : { role: 'limiter', group, type: 'string' };
  for (const [start, role, kind] of [
    ['de:', 'dedup', 'string'],
    ['repeat:', 'repeat', 'hash'],
    ['flow:cancel:', 'cancel', 'hash'],
  ] as const) {
    if (name.startsWith(start) && name.length > start.length)
      return { role, name: name.slice(start.length), type: kind };
  }
  if (/^stream:.+:archived$/s.test(name)) return { role: 'other', type: 'string' };
  return /^stream:.+$/s.test(name) ? { role: 'other', type: 'stream' } : { role: 'stray' };
}
