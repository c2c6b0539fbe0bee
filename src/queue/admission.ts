/**
 * How a payload and its options become what an admission writes: checked, encoded, measured.
 *
 * Invariants: everything is judged here, before the wire; bytes given as a payload pass as they are.
 * Does not: send anything, or mint ids.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { inputError, show } from '../wire/errors.js';
import { checkId } from '../wire/keyspace.js';
import { encodePayload, jsonCodec, type Codec } from './codec.js';
import { checkPriority, known, positive } from './input.js';
import { LIMIT_NAMES, optsText, type JobLimits } from './opts.js';

export interface JobsOptions<T, Input = T> {
  /** Default: JSON. Both ends of a queue must use the same. */
  codec?: Codec<T>;
  /**
   * Any Standard Schema (zod, valibot, arktype ...): types the payload, and checks it before it is enqueued. What the
   * schema makes of the input (defaults, coercions) is what is enqueued; it is not run again on a claimed payload.
   */
  schema?: StandardSchemaV1<Input, T>;
  /** The most bytes a payload may have. Default 1 MiB. */
  maxPayloadBytes?: number;
}

export interface EnqueueOptions extends JobLimits {
  /** A branded id of your own, `JOB` + 11 digits; enqueueing it again answers `duplicate`. Default: a new one. */
  id?: string | undefined;
  /** 0 (first, the default) to 2097152. */
  priority?: number | undefined;
  /** Anything JSON that is kept in the row, for the handler. The names of the limits above mean the same here. */
  opts?: Readonly<Record<string, unknown>> | undefined;
}

/** What an admission writes, but for the id. */
export interface Admitted {
  readonly payload: Buffer;
  readonly priority: number | undefined;
  readonly opts: string | undefined;
}

/** The options of an admission. */
export const ADMISSION = ['id', 'priority', 'opts', ...LIMIT_NAMES] as const;

export class Admission<T, Input> {
  readonly codec: Codec<T>;
  readonly #schema: StandardSchemaV1<Input, T> | undefined;
  readonly #maxPayloadBytes: number;

  constructor(options: JobsOptions<T, Input>) {
    known('Jobs', options, ['codec', 'schema', 'maxPayloadBytes']);
    this.codec = options.codec ?? jsonCodec<T>();
    this.#schema = options.schema;
    this.#maxPayloadBytes = positive('maxPayloadBytes', options.maxPayloadBytes ?? 1_048_576);
  }

  /** @throws EmqError `EMQ_INPUT`. */
  async of(
    payload: Input | Uint8Array,
    options: EnqueueOptions,
    trace?: Readonly<Record<string, string>>,
  ): Promise<Admitted> {
    if (options.id !== undefined) checkId(options.id);
    return {
      payload: await this.payload(payload),
      priority: checkPriority(options.priority),
      opts: optsText(options, trace),
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

  async #check(value: Input): Promise<T> {
    // without a schema the two types are one
    if (!this.#schema) return value as unknown as T;
    let result: StandardSchemaV1.Result<T>;
    try {
      result = await this.#schema['~standard'].validate(value);
    } catch (cause) {
      throw inputError(`the schema failed on the payload: ${cause instanceof Error ? cause.message : show(cause)}`);
    }
    if (!result.issues) return result.value;
    const issue = result.issues[0];
    const path = issue?.path?.map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
    throw inputError(`the payload does not fit its schema${path ? ` at ${path}` : ''}: ${issue?.message ?? 'invalid'}`);
  }
}
