/**
 * Repeats: a queue gets a new job at each slot of a schedule, for as long as any process consumes it.
 *
 * Invariants: slots are computed from the server's clock, never from this process's; the same schedule again keeps the next
 * slot, so that every process may upsert its repeats when it starts; a slot makes one job. Payloads are judged once, when
 * the repeat is put.
 * Does not: fire by itself: a consumer of the queue does, or whoever calls `fire`.
 */
import { EmqError, inputError } from '../wire/errors.js';
import { checkGroup, checkRepeatName } from '../wire/keyspace.js';
import type { RepeatRecord } from '../wire/repeat-transitions.js';
import { transitions } from '../wire/transitions.js';
import type { Admission, JobsOptions } from './admission.js';
import type { Runs } from './child.js';
import type { Codec } from './codec.js';
import { fields, given, known, plainObject } from './input.js';
import type { Jobs, Wire } from './jobs.js';
import { jobsOf } from './jobs-of.js';
import { LIMIT_NAMES, readOpts, type JobLimits } from './opts.js';
import { fireDue, MOST_A_PASS, type FiredRepeats } from './repeat-fire.js';
import {
  checkSchedule,
  firstSlot,
  readSpec,
  resumedSlot,
  specText,
  type RepeatSchedule,
  type RepeatSpec,
} from './repeat-spec.js';
import { QueueRunner } from './runner.js';

export type { FiredRepeats, RepeatRun } from './repeat-fire.js';
export type { Missed, RepeatSchedule, RepeatSpec } from './repeat-spec.js';

/** What each job of a repeat is. Besides `opts` it gets `opts.repeat`: the name, the slot, the count. */
export interface RepeatJob<Input> extends JobLimits {
  readonly payload: Input | Uint8Array;
  /** 0 (first, the default) to 2097152. */
  readonly priority?: number | undefined;
  /** Its lane, a branded id of any namespace. Default: none. */
  readonly group?: string | undefined;
  /** Anything JSON for the handler, but for the name `repeat`. */
  readonly opts?: Readonly<Record<string, unknown>> | undefined;
}

export interface Upserted {
  /** `kept`: it is there with this very schedule, and its next slot stands; what its jobs get is replaced. */
  readonly outcome: 'created' | 'changed' | 'kept';
  /** Unix ms; null: no slot is left. A paused repeat keeps it, and fires nothing. */
  readonly next: number | null;
}

/** A repeat as it is kept. All times are Unix ms. */
export interface RepeatInfo<T = unknown> {
  readonly name: string;
  /** Null: it is over. */
  readonly next: number | null;
  readonly paused: boolean;
  /** Jobs that it has made. */
  readonly count: number;
  /** The last slot that was fired; null: none yet. */
  readonly last: number | null;
  /** Undefined where another client wrote it in a way of its own; `specText` is always there. */
  readonly spec: RepeatSpec | undefined;
  readonly specText: string;
  /** The payload of its jobs, byte for byte. */
  readonly bytes: Buffer;
  /** The payload decoded. @throws EmqError `EMQ_INPUT` when the bytes are not of the codec. */
  payload(): T;
  readonly priority: number;
  readonly group: string | undefined;
  /** What its jobs get as `opts`, the name and the limits included. */
  readonly opts: Readonly<Record<string, unknown>>;
}

const JOB = ['payload', 'priority', 'group', 'opts', ...LIMIT_NAMES] as const;
const PAGE = 100;

/** The repeats of one queue. `T` is the payload of its jobs; `Input` is what may be given. */
export class Repeats<T = unknown, Input = T> {
  readonly queue: string;
  readonly #admission: Admission<T, Input>;
  readonly #runs: Runs;

  /**
   * @param connector a Connector, or what else runs calls.
   * @param queue its name, with options; or the `Jobs` or `Queue` itself.
   * @param options codec, schema and size limit, as those of the queue's `Jobs`.
   * @throws EmqError `EMQ_INPUT` for a queue name outside the grammar, or a wrong option.
   */
  constructor(connector: Wire, queue: string | Jobs<T, Input>, options: JobsOptions<T, Input> = {}) {
    if (fields('options', given('options', options), ['durability']).durability !== undefined) {
      throw inputError(
        'a repeat takes no durability: whoever needs it puts it again at every start, and what it has fired is fired',
      );
    }
    const jobs = jobsOf('Repeats', connector, queue, options);
    this.queue = jobs.queue;
    this.#admission = jobs.admission;
    this.#runs = new QueueRunner(connector).on(this.queue);
  }

  /**
   * Creates the repeat, or changes it. With the same schedule as before its next slot stands, however many processes say
   * so; with another one it begins anew, `count` 0. A paused repeat stays paused.
   * @param name 1 to 255 of `A-Z a-z 0-9 . _ -`.
   * @throws EmqError `EMQ_INPUT`.
   */
  async upsert(name: string, schedule: RepeatSchedule, job: RepeatJob<Input>): Promise<Upserted> {
    checkRepeatName(name);
    const spec = checkSchedule(schedule);
    const { group } = known('a job of a repeat', job, JOB);
    if (group !== undefined) checkGroup(group);
    if (job.opts !== undefined && 'repeat' in plainObject('opts', job.opts)) {
      throw inputError('opts.repeat is where each job gets its slot: give what you have there another name');
    }
    const { payload, ...limits } = job;
    const { payload: bytes, priority, opts } = await this.#admission.of(payload, withoutGroup(limits));
    const { now } = await this.#runs.run(transitions.repeatGet, { name });
    const first = firstSlot(spec, now, schedule.immediately === true);
    if (first === null) {
      throw inputError(
        `cron ${JSON.stringify(spec.cron)} in ${spec.timeZone} names no time from now on: nothing would run`,
      );
    }
    const { now: outcome, next } = await this.#runs.run(transitions.repeatPut, {
      ...{ name, spec: specText(spec), first, limit: spec.limit, end: spec.endAt },
      ...{ payload: bytes, priority, opts, group },
    });
    return { outcome, next };
  }

  /** No slot fires until `resume`. */
  async pause(name: string): Promise<'paused' | 'was paused' | 'gone'> {
    return this.#runs.run(transitions.repeatPause, { name: checkRepeatName(name) });
  }

  /** Goes on at the first slot after now: what passed meanwhile is not caught up. @throws EmqError `EMQ_INPUT`. */
  async resume(name: string): Promise<'resumed' | 'not paused' | 'gone'> {
    const { now, record } = await this.#runs.run(transitions.repeatGet, { name: checkRepeatName(name) });
    if (record === null) return 'gone';
    const { spec, specText: text, ...info } = infoOf(name, record, this.#admission.codec);
    if (!info.paused) return 'not paused';
    // what another client wrote is its to resume
    if (spec === undefined) readSpec(text);
    const next = spec && resumedSlot(spec, now, number(record, 'next') ?? info.last ?? now);
    return this.#runs.run(transitions.repeatResume, { name, next: within(spec, next, info.count) });
  }

  /** The repeat is gone; jobs that it made stay. */
  async remove(name: string): Promise<'removed' | 'gone'> {
    return this.#runs.run(transitions.repeatRemove, { name: checkRepeatName(name) });
  }

  /** One repeat, or null. */
  async get(name: string): Promise<RepeatInfo<T> | null> {
    const { record } = await this.#runs.run(transitions.repeatGet, { name: checkRepeatName(name) });
    return record && infoOf(name, record, this.#admission.codec);
  }

  /** All repeats, the next to fire first, read in steps: `for await (const repeat of repeats.list())`. */
  async *list(): AsyncGenerator<RepeatInfo<T>, void, undefined> {
    const seen = new Set<string>();
    for (let offset = 0; ; offset += PAGE) {
      const { records } = await this.#runs.run(transitions.repeats, { which: 'all', offset, limit: PAGE });
      for (const record of records) {
        // one that fired meanwhile has moved back; a member without a record is nobody
        if (seen.has(record.name) || record.fields.size === 0) continue;
        seen.add(record.name);
        yield infoOf(record.name, record, this.#admission.codec);
      }
      if (records.length < PAGE) return;
    }
  }

  /**
   * One pass over what is due: makes at most 100 jobs, and says in `more` when that was not all. Consumers make it by
   * themselves.
   * @throws EmqError when the server cannot be asked; what is wrong with one repeat is in `errors`.
   */
  async fire(): Promise<FiredRepeats> {
    return fireDue(this.#runs, MOST_A_PASS);
  }
}

function withoutGroup<L extends { group?: string | undefined }>({ group: _group, ...limits }: L): Omit<L, 'group'> {
  return limits;
}

/** No slot is left when it would be too late, or one too many. */
function within(spec: RepeatSpec | undefined, next: number | null | undefined, count: number): number | null {
  if (spec === undefined || next === null || next === undefined) return null;
  return next > (spec.endAt ?? Infinity) || count >= (spec.limit ?? Infinity) ? null : next;
}

function number({ fields }: RepeatRecord, field: string): number | null {
  const text = fields.get(field)?.toString();
  return text === undefined || text === '' ? null : Number(text);
}

function infoOf<T>(name: string, record: RepeatRecord, codec: Codec<T>): RepeatInfo<T> {
  const { fields } = record;
  const text = fields.get('spec')?.toString() ?? '';
  const bytes = fields.get('payload') ?? Buffer.alloc(0);
  let spec: RepeatSpec | undefined;
  try {
    spec = readSpec(text);
  } catch {
    // another client's
  }
  return {
    ...{ name, spec, specText: text, bytes },
    next: number(record, 'next'),
    paused: fields.has('paused'),
    count: number(record, 'count') ?? 0,
    last: number(record, 'last'),
    payload: () => {
      try {
        return codec.decode(bytes);
      } catch (cause) {
        const what = `the payload of the repeat ${name} (${bytes.length} bytes) cannot be decoded; read its bytes or set the codec`;
        throw new EmqError('EMQ_INPUT', what, { cause });
      }
    },
    priority: number(record, 'priority') ?? 0,
    group: fields.get('group')?.toString() || undefined,
    opts: readOpts(fields.get('opts') ?? null).all,
  };
}
