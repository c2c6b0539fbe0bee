/**
 * A job as a worker holds it, and a job's row as an operator reads it.
 *
 * Invariants: `bytes` are the payload exactly as they were enqueued; decoding happens when `payload` is first read, so
 * that a payload that cannot be decoded can still be settled. Does not: talk to the server.
 */
import { inputError } from '../wire/errors.js';
import type { Claim, Taken } from '../wire/transitions.js';
import type { Codec } from './codec.js';
import { readOpts, type ReadOpts } from './opts.js';

/** What a settle needs of a job: its id and the token of the claim. */
export interface HeldJob {
  readonly id: string;
  readonly token: number;
}

/** A claimed job. */
export class Job<T> implements HeldJob {
  readonly id: string;
  /**
   * The fencing token: how often the job has been claimed. It grows with every claim, so a write elsewhere that
   * carries it can refuse a worker that lost its lease (wire contract, sections 3 and 10).
   */
  readonly token: number;
  /** The payload as it was enqueued, byte for byte. */
  readonly bytes: Buffer;
  readonly #codec: Codec<T>;
  #decoded: { readonly value: T } | undefined;

  constructor(claim: Claim, codec: Codec<T>) {
    this.id = claim.id;
    this.token = claim.attempts;
    this.bytes = claim.payload ?? Buffer.alloc(0);
    this.#codec = codec;
  }

  /** The same number as `token`: the claims so far, this one included. */
  get attempts(): number {
    return this.token;
  }

  /** The decoded payload. @throws EmqError `EMQ_INPUT` when the bytes are not of the codec; `bytes` are still there. */
  get payload(): T {
    this.#decoded ??= { value: decode(this.#codec, this.id, this.bytes) };
    return this.#decoded.value;
  }
}

/** A job that was claimed by `take`: with its lane and its own limits. */
export class TakenJob<T> extends Job<T> {
  /** The lane it came from; undefined for a flat job. */
  readonly group: string | undefined;
  /** Claims that do not count against the cap. */
  readonly credit: number;
  /** The row's `opts`, read: the job's name, its limits, and all that was given. */
  readonly own: ReadOpts;

  constructor(taken: Taken, codec: Codec<T>) {
    super(taken, codec);
    this.group = taken.group ?? undefined;
    this.credit = taken.credit;
    this.own = readOpts(taken.opts);
  }

  /** The name given at enqueue, if any. */
  get name(): string | undefined {
    return this.own.name;
  }

  /** All that was given as `opts` at enqueue. */
  get opts(): Readonly<Record<string, unknown>> {
    return this.own.all;
  }
}

/** A job's row (wire contract, section 3). Fields that the row does not have are undefined; `fields` holds them all. */
export interface JobRow {
  readonly id: string;
  readonly state: string;
  readonly attempts: number;
  readonly bytes: Buffer;
  readonly priority: number;
  readonly stalled: number;
  readonly credit: number;
  readonly group?: string;
  readonly lastError?: Buffer;
  readonly progress?: Buffer;
  readonly leaseEpoch?: string;
  readonly fields: ReadonlyMap<string, Buffer>;
}

export function readRow(id: string, fields: ReadonlyMap<string, Buffer>): JobRow {
  const text = (name: string): string | undefined => fields.get(name)?.toString();
  const number = (name: string): number => Number(text(name) ?? 0);
  const group = text('group');
  const lastError = fields.get('last_error');
  const progress = fields.get('progress');
  const leaseEpoch = text('lease_epoch');
  return {
    id,
    state: text('state') ?? 'unknown',
    attempts: number('attempts'),
    bytes: fields.get('payload') ?? Buffer.alloc(0),
    priority: number('priority'),
    stalled: number('stalled'),
    credit: number('credit'),
    ...(group === undefined ? {} : { group }),
    ...(lastError === undefined ? {} : { lastError }),
    ...(progress === undefined ? {} : { progress }),
    ...(leaseEpoch === undefined ? {} : { leaseEpoch }),
    fields,
  };
}

function decode<T>(codec: Codec<T>, id: string, bytes: Buffer): T {
  try {
    return codec.decode(bytes);
  } catch {
    // the bytes themselves stay out of the message: they may be anything, secrets included
    throw inputError(`the payload of ${id} (${bytes.length} bytes) cannot be decoded; read job.bytes or set the codec`);
  }
}
