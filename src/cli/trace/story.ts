/**
 * The story that `emq trace` plays: one job through the happy path, one through the failure fork, one through
 * recovery, one that is handed back.
 *
 * Invariants: every call is laid out by the transition table, none by hand; a step says where the job is to be
 * afterwards, so that two executors that agree on something wrong are found out. Time passes by writing past scores,
 * not by waiting. Does not: send anything (play.ts).
 */
import { mint } from '../../ids/index.js';
import type { Arg, Call, Reply, Transition } from '../../wire/call.js';
import type { EmqCode } from '../../wire/errors.js';
import type { Keyspace } from '../../wire/keyspace.js';
import { transitions, type Claim } from '../../wire/transitions.js';

/** Where a job is, by the set that holds it; `gone` is a job without a row. */
export type Place = 'pending' | 'active' | 'schedule' | 'dead' | 'gone';

/** What a player of the story holds in hand on one node: the tokens of the claims so far, first one first. */
export interface Hand {
  readonly id: string;
  readonly tokens: number[];
}

interface Told {
  readonly path: string;
  readonly title: string;
  /** Where the job is to be after this step. */
  readonly place: Place;
}

/** A transition, called as any client calls it. */
export interface CallStep extends Told {
  readonly kind: 'call';
  readonly transition: Pick<Transition<never, unknown>, 'name' | 'script' | 'native' | 'keyNames' | 'argNames'>;
  /** The refusal that is meant to come, if one is. */
  readonly refusal?: EmqCode;
  call(keys: Keyspace, hand: Hand): Call;
  /** Takes what the reply gives into the hand, and says what the client's verb would return. @throws on an odd reply */
  read(reply: Reply, hand: Hand): unknown;
}

/** A plain command, in place of something that no client does: the passing of time. */
export interface TimeStep extends Told {
  readonly kind: 'time';
  command(keys: Keyspace, hand: Hand): readonly [string, ...Arg[]];
}

export type Step = CallStep | TimeStep;

/** One of the ways of a job, with a job of its own. */
export interface Path {
  readonly name: string;
  readonly about: string;
  readonly id: string;
  readonly steps: readonly Step[];
}

const LEASE_MS = 30_000;
const RETRY_MS = 1_000;
const MAX_ATTEMPTS = 2;
const MAX_STALLED = 3;
/** A score that has long passed on every clock. */
const PAST = '1';

interface Telling<I, R> {
  readonly title: string;
  readonly place: Place;
  readonly input: (hand: Hand) => I;
  readonly refusal?: EmqCode;
  readonly learn?: (result: R, hand: Hand) => void;
}

function call<I, R>(path: string, transition: Transition<I, R>, telling: Telling<I, R>): CallStep {
  const { title, place, input, refusal, learn } = telling;
  return {
    kind: 'call',
    ...{ path, title, place, transition },
    ...(refusal === undefined ? {} : { refusal }),
    call: (keys, hand) => ({ transition, queue: keys.queue, ...transition.layout(keys, input(hand)) }),
    read: (reply, hand) => {
      const result = transition.read(reply);
      learn?.(result, hand);
      return result;
    },
  };
}

function time(path: string, title: string, set: 'active' | 'schedule'): TimeStep {
  const command = (keys: Keyspace, hand: Hand) => ['ZADD', keys[set], 'XX', PAST, hand.id] as const;
  return { kind: 'time', path, title, place: set, command };
}

const payload = JSON.stringify({ to: 'ada@example.org' });
const hold = (claim: Claim | null | undefined, hand: Hand): void => void (claim && hand.tokens.push(claim.attempts));
/** The token of the n-th claim; 0, which fences nothing, if there was none. */
const held = (hand: Hand, nth: number) => ({ id: hand.id, token: hand.tokens[nth - 1] ?? 0 });

const enqueue = (path: string): CallStep =>
  call(path, transitions.enqueue, {
    title: 'a job is added and waits',
    place: 'pending',
    input: ({ id }) => ({ id, payload }),
  });

const claim = (path: string, title: string): CallStep =>
  call(path, transitions.claim, { title, place: 'active', input: () => ({ leaseMs: LEASE_MS }), learn: hold });

const take = (path: string, title: string): CallStep =>
  call(path, transitions.take, {
    title,
    place: 'active',
    input: () => ({ leaseMs: LEASE_MS, count: 2, source: 'both' }),
    learn: ([first], hand) => hold(first, hand),
  });

const complete = (path: string, title: string, nth: number): CallStep =>
  call(path, transitions.complete, { title, place: 'gone', input: (hand) => held(hand, nth) });

const fail = (path: string, title: string, nth: number, place: Place): CallStep =>
  call(path, transitions.fail, {
    title,
    place,
    input: (hand) => ({ ...held(hand, nth), delayMs: RETRY_MS, maxAttempts: MAX_ATTEMPTS, error: 'mailbox full' }),
  });

/** The story, with new ids; both wires play it with the same ones. */
export function story(): Path[] {
  const happy = 'happy path';
  const failure = 'failure fork';
  const recovery = 'recovery';
  const handBack = 'hand-back';
  const batch = 'batch';
  return [
    {
      name: happy,
      about: 'enqueue, claim, complete',
      id: mint(),
      steps: [
        enqueue(happy),
        claim(happy, `a worker takes it under a lease of ${LEASE_MS} ms; attempts 1 is its fencing token`),
        complete(happy, 'the work is done: the job leaves no key behind', 1),
      ],
    },
    {
      name: failure,
      about: `a handler that throws, with at most ${MAX_ATTEMPTS} attempts`,
      id: mint(),
      steps: [
        enqueue(failure),
        claim(failure, 'the first attempt'),
        fail(failure, `it fails below the cap: again in ${RETRY_MS} ms`, 1, 'schedule'),
        time(failure, 'its time comes: a past score is written in place of waiting', 'schedule'),
        call(failure, transitions.promote, {
          title: 'a client promotes what is due',
          place: 'pending',
          input: () => ({ limit: 100 }),
        }),
        claim(failure, 'the second attempt: the token moves'),
        fail(failure, 'it fails at the cap: into the morgue, with its last error', 2, 'dead'),
      ],
    },
    {
      name: recovery,
      about: 'two workers that crash, and one that comes back late',
      id: mint(),
      steps: [
        enqueue(recovery),
        claim(recovery, 'worker A takes it, and crashes'),
        time(recovery, 'its lease lapses: a past score is written in place of waiting', 'active'),
        call(recovery, transitions.reap, {
          title: 'nothing moves by itself: a client sweeps',
          place: 'pending',
          input: () => ({ limit: 100 }),
        }),
        claim(recovery, 'worker B takes it: the token moves'),
        call(recovery, transitions.complete, {
          title: 'worker A comes back with the old token: refused, nothing written',
          place: 'active',
          refusal: 'EMQSTALE',
          input: (hand) => held(hand, 1),
        }),
        time(recovery, 'worker B crashes too, and its lease lapses', 'active'),
        call(recovery, transitions.stalledCheck, {
          title: `the counted sweep: stalled once, dead would be at ${MAX_STALLED}`,
          place: 'pending',
          input: () => ({ maxStalled: MAX_STALLED, limit: 100 }),
        }),
        claim(recovery, 'worker C takes it'),
        complete(recovery, 'and is done with it', 3),
      ],
    },
    {
      name: handBack,
      about: 'a consumer that closes, and the one that goes on',
      id: mint(),
      steps: [
        enqueue(handBack),
        take(handBack, 'a consumer takes jobs for its free slots, with all that it must know of them'),
        call(handBack, transitions.release, {
          title: 'it closes before the handler is done: the job waits again at once, the claim does not count',
          place: 'pending',
          input: (hand) => held(hand, 1),
        }),
        take(handBack, 'another one takes it: the token moves'),
        complete(handBack, 'and is done with it', 2),
      ],
    },
    {
      name: batch,
      about: 'a batch consumer that crashes, and a program that claims many',
      id: mint(),
      steps: [
        enqueue(batch),
        call(batch, transitions.takeBatch, {
          title: 'a batch consumer takes up to 10 jobs',
          place: 'active',
          input: () => ({ leaseMs: LEASE_MS, size: 10, min: 1, source: 'flat' as const }),
          learn: ([first], hand) => hold(first, hand),
        }),
        time(batch, 'it crashes, and its leases lapse', 'active'),
        call(batch, transitions.reap, {
          title: 'a client sweeps',
          place: 'pending',
          input: () => ({ limit: 100 }),
        }),
        call(batch, transitions.claimBatch, {
          title: 'a program claims up to 10 jobs: the token moves',
          place: 'active',
          input: () => ({ leaseMs: LEASE_MS, size: 10 }),
          learn: ([first], hand) => hold(first, hand),
        }),
        complete(batch, 'and is done with it', 2),
      ],
    },
  ];
}
