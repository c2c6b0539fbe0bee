/**
 * A claimed job, as the wire gives it.
 *
 * Does not: decode a payload.
 */
import { integer, unexpected } from './fields.js';
import type { Reply } from './call.js';

/** A job that was claimed, as the wire gives it. `attempts` is the fencing token. */
export interface Claim {
  readonly id: string;
  /** null for a row without a payload, which no verb of ours writes. */
  readonly payload: Buffer | null;
  readonly attempts: number;
}

/** A job that was taken: a claim with what a consumer needs besides. */
export interface Taken extends Claim {
  /** The lane it belongs to, null for a flat job. */
  readonly group: string | null;
  /** The row's `opts`, JSON as it was given at admission; null when none was. */
  readonly opts: Buffer | null;
  /** Claims that do not count against the cap. */
  readonly credit: number;
}

/** Reads [id, payload, attempts ...]. */
export function claim(reply: Reply[]): Claim {
  const [id, payload, attempts] = reply;
  if (!Buffer.isBuffer(id) || typeof attempts !== 'number') return unexpected('claim', reply);
  return { id: id.toString(), payload: Buffer.isBuffer(payload) ? payload : null, attempts };
}

/** Reads [id, payload, attempts, group, opts, credit]. */
export function taken(reply: Reply[]): Taken {
  const [, , , group, opts, credit] = reply;
  return {
    ...claim(reply),
    group: Buffer.isBuffer(group) ? group.toString() : null,
    opts: Buffer.isBuffer(opts) ? opts : null,
    credit: integer('take', credit ?? null),
  };
}
