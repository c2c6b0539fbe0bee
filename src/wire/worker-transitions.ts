/**
 * What consumers ask and say besides claims and settles: when something is due, how lapsed leases are recovered, wakes and
 * events. In the style of the transition table, of which they are a part.
 *
 * Invariants: layouts are those of docs/wire.md, key for key. Does not: keep time (src/worker does).
 */
import { integer, list, maybe, oneOf, string } from './fields.js';
import type { Arg, Transition } from './call.js';
import { scripts } from './scripts.generated.js';

/** What a consumer has to know between its beats. */
export interface Agenda {
  /** When something is due next, in ms from now, 0 or less when it is now: a job, a lane, or a token of the rate. */
  readonly dueInMs: number | null;
  /** The leg that brings back lapsed jobs; null when none is kept. */
  readonly recovery: string | null;
  /** Letters on the outbox; null when that is no list. */
  readonly letters: number | null;
  /** The queue or a lane has a rate: a claim that found nothing may find something soon. */
  readonly limited: boolean;
  /** When the next repeat is due, in ms from now. */
  readonly repeatInMs: number | null;
}

/** Which transition brings back jobs whose lease has lapsed. */
export type RecoveryLeg = 'reap' | 'stalled';

const write = { readOnly: false, repeatable: false } as const;
const repeatableWrite = { readOnly: false, repeatable: true } as const;
const read = { readOnly: true, repeatable: true } as const;

const define = <I, R>(transition: Transition<I, R>): Transition<I, R> => transition;

export const workerTransitions = {
  agenda: define<void, Agenda>({
    name: 'agenda',
    script: scripts.agenda,
    ...read,
    keyNames: ['schedule', 'b'],
    argNames: [],
    layout: (k) => ({ keys: [k.schedule, k.base], args: [] }),
    read: (reply) => {
      const [due, leg, letters, limited, repeat] = list('agenda', reply);
      const number = (part: typeof due): number | null =>
        part === null || part === undefined ? null : integer('agenda', part);
      return {
        dueInMs: number(due),
        recovery: maybe('agenda', leg),
        letters: number(letters),
        limited: limited === 1,
        repeatInMs: number(repeat),
      };
    },
  }),
  recovery: define<{ readonly leg: RecoveryLeg; readonly mode: 'keep' | 'set' }, string>({
    name: 'recovery',
    script: scripts.recovery,
    ...repeatableWrite,
    keyNames: ['meta'],
    argNames: ['leg', 'mode'],
    layout: (k, { leg, mode }) => ({ keys: [k.meta], args: [leg, mode] }),
    read: (reply) => string('recovery', reply),
  }),
  wake: define<void, 'pushed' | 'full'>({
    name: 'wake',
    script: scripts.wake,
    ...repeatableWrite,
    keyNames: ['wake'],
    argNames: [],
    layout: (k) => ({ keys: [k.wake], args: [] }),
    read: oneOf('wake', 'pushed', 0, 'full'),
  }),
  publish: define<{ readonly messages: readonly Arg[] }, number>({
    name: 'publish',
    script: scripts.publish,
    ...write,
    keyNames: ['b'],
    argNames: ['message...'],
    layout: (k, { messages }) => ({ keys: [k.base], args: messages }),
    read: (reply) => integer('publish', reply),
  }),
} as const;
