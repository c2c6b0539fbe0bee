/**
 * How a payload and its options become what an admission writes: checked, encoded, measured.
 *
 * Invariants: everything is judged here, before the wire; bytes given as a payload pass as they are.
 * Does not: send anything, or mint ids.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Needs } from '../wire/durable.js';
import { inputError, show } from '../wire/errors.js';
import { checkDedupId, checkGroup, checkId } from '../wire/keyspace.js';
import type { DedupClaim, DedupMode } from '../wire/lane-transitions.js';
import { encodePayload, jsonCodec, type Codec } from './codec.js';
import { readDurability, type Durability, type DurabilityOption } from './durability.js';
import { checkPriority, known, positive, said } from './input.js';
import { LIMIT_NAMES, optsText, type JobLimits } from './opts.js';

export interface JobsOptions<T, Input = T> {
  /** Default: JSON. Both ends of a queue must use the same. */
  codec?: Codec<T>;
  /**
   * Any Standard Schema (zod, valibot, arktype ...): types the payload, and checks it before it is enqueued. What the
   * schema makes of the input (defaults, coercions) is what is enqueued; it is not run again on a claimed payload.
   */
  schema?: StandardSchemaV1<Input, T>;
  /** The most bytes that a payload may have, and its `opts` as JSON. Default 1 MiB each. */
  maxPayloadBytes?: number;
  /**
   * What has to have a job before a verb that adds one resolves; a verb's own `durability` wins. Default: nothing but the
   * server's memory. Of a flow: that of its parent's queue. A repeat is put, and fires, without.
   */
  durability?: Durability | false;
}

/** What every job may be given, one of a flow too. */
export interface JobOptions extends JobLimits {
  /** A branded id of your own, `JOB` + 11 digits; enqueueing it again answers `duplicate`. Default: a new one. */
  id?: string | undefined;
  /** 0 (first, the default) to 2097152. */
  priority?: number | undefined;
  /** Anything JSON that is kept in the row, for the handler. The names of the limits above mean the same here. */
  opts?: Readonly<Record<string, unknown>> | undefined;
}

/** A name of which a queue has one job at a time. */
export interface DedupOptions {
  /** 1 to 255 of `A-Z a-z 0-9 . _ -`. */
  id: string;
  /**
   * What an admission does when another job has the name:
   * - `drop` (default): nothing, as long as that job waits, runs or is put off.
   * - `throttle`: nothing, until `ttlMs` after that job was admitted, even if it is done by then.
   * - `replace`: gives that job this payload (and these opts, if any) while it waits or is scheduled, and the new time if it
   *   is scheduled again; when it runs already, the new job is admitted and has the name from then on.
   */
  mode?: DedupMode | undefined;
  /** The name is free again after so many ms at the latest. Default: it has no end but its job's. `throttle` needs it. */
  ttlMs?: number | undefined;
  /**
   * The name outlives its job's completion, until `ttlMs` is over: an idempotency key. A job that dies, or is removed, frees
   * it all the same. Default: only with `throttle`.
   */
  keep?: boolean | undefined;
}

export interface EnqueueItem extends JobOptions {
  /** The lane it goes to: a branded id of any namespace, say a tenant's. Default: none. */
  group?: string | undefined;
  /** A job with the same dedup id is not admitted twice at a time. */
  dedup?: DedupOptions | undefined;
}

/** Of a job that is enqueued or scheduled by itself. */
export interface EnqueueOptions extends EnqueueItem, DurabilityOption {}

/** What an admission writes, but for the id. */
export interface Admitted {
  readonly payload: Buffer;
  readonly priority: number | undefined;
  readonly opts: string | undefined;
  readonly group?: string | undefined;
  readonly dedup?: DedupClaim | undefined;
}

/** The options of every job. */
export const ADMISSION = ['id', 'priority', 'opts', ...LIMIT_NAMES] as const;
/** The options of a job that is enqueued or scheduled by itself. */
export const ENQUEUE = [...ADMISSION, 'group', 'dedup', 'durability'] as const;
/** The options of one of many. */
export const ITEM = [...ADMISSION, 'group', 'dedup', 'payload'] as const;
/** The same where the lane is an argument of its own. */
export const LANE_ENQUEUE = [...ADMISSION, 'dedup', 'durability'] as const;

export class Admission<T, Input> {
  readonly codec: Codec<T>;
  /** Undefined: none. */
  readonly durability: Needs | undefined;
  readonly #schema: StandardSchemaV1<Input, T> | undefined;
  readonly #maxPayloadBytes: number;

  constructor(options: JobsOptions<T, Input>) {
    const names = ['codec', 'schema', 'maxPayloadBytes', 'durability'] as const;
    const { codec, schema, maxPayloadBytes, durability } = known('Jobs', options, names);
    this.codec = codec ?? jsonCodec<T>();
    this.#schema = schema;
    this.#maxPayloadBytes = positive('maxPayloadBytes', maxPayloadBytes ?? 1_048_576);
    this.durability = readDurability(durability);
  }

  /** What a verb's own option makes of the default. @throws EmqError `EMQ_INPUT`. */
  needs({ durability }: DurabilityOption): Needs | undefined {
    return durability === undefined ? this.durability : readDurability(durability);
  }

  /** @throws EmqError `EMQ_INPUT`. */
  async of(
    payload: Input | Uint8Array,
    options: EnqueueItem,
    trace?: Readonly<Record<string, string>>,
  ): Promise<Admitted> {
    const { id, group, dedup } = options;
    if (id !== undefined) checkId(id);
    if (group !== undefined) checkGroup(group);
    const claim = dedup === undefined ? undefined : checkDedup(dedup);
    return {
      payload: await this.payload(payload),
      priority: checkPriority(options.priority),
      opts: this.#opts(options, trace),
      ...(group === undefined ? {} : { group }),
      ...(claim === undefined ? {} : { dedup: claim }),
    };
  }

  /** @throws EmqError `EMQ_INPUT`. */
  async payload(value: Input | Uint8Array): Promise<Buffer> {
    const checked = value instanceof Uint8Array ? value : await this.#check(value);
    const encoded = encodePayload(this.codec, checked);
    if (encoded.length > this.#maxPayloadBytes) {
      throw inputError(
        `the payload has ${encoded.length} bytes, the limit is ${this.#maxPayloadBytes}: store it elsewhere and enqueue where it is, or raise maxPayloadBytes`,
      );
    }
    return encoded;
  }

  #opts(options: EnqueueItem, trace?: Readonly<Record<string, string>>): string | undefined {
    const text = optsText(options, trace);
    const bytes = text === undefined ? 0 : Buffer.byteLength(text);
    if (bytes <= this.#maxPayloadBytes) return text;
    throw inputError(
      `opts have ${bytes} bytes as JSON, the limit is ${this.#maxPayloadBytes}: they are read with every claim, so give what is large as payload, or raise maxPayloadBytes`,
    );
  }

  async #check(value: Input): Promise<T> {
    // without a schema the two types are one
    if (!this.#schema) return value as unknown as T;
    let result: StandardSchemaV1.Result<T>;
    try {
      result = await this.#schema['~standard'].validate(value);
    } catch (cause) {
      throw inputError(`the schema failed on the payload: ${said(cause)}`);
    }
    if (!result.issues) return result.value;
    const issue = result.issues[0];
    const path = issue?.path?.map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
    throw inputError(`the payload does not fit its schema${path ? ` at ${path}` : ''}: ${issue?.message ?? 'invalid'}`);
  }
}

/** With the defaults in. @throws EmqError `EMQ_INPUT`. */
function checkDedup(dedup: DedupOptions): DedupClaim {
  const {
    id,
    mode = 'drop',
    ttlMs,
    keep = mode === 'throttle',
  } = known('dedup', dedup, ['id', 'mode', 'ttlMs', 'keep']);
  checkDedupId(id);
  if (!['drop', 'throttle', 'replace'].includes(mode)) {
    throw inputError(`the mode of dedup must be drop, throttle or replace, got ${show(mode)}`);
  }
  if (typeof keep !== 'boolean') throw inputError(`keep of dedup must be true or false, got ${show(keep)}`);
  if (ttlMs === undefined) {
    if (mode === 'throttle')
      throw inputError('dedup in mode throttle needs ttlMs: for how long no other job is admitted');
    if (keep) throw inputError('dedup with keep needs ttlMs: for how long the name outlives the job at most');
    return { id, mode, ttlMs: 0, keep };
  }
  return { id, mode, ttlMs: positive('ttlMs of dedup', ttlMs), keep };
}
