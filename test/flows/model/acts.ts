/**
 * What the processes of a play do: add flows and add them again, claim and settle, sweep, operate, deliver.
 *
 * Invariants: what is done depends on the draw and on the model, never on time. Does not: decide what becomes of a call.
 */
import type { Rng } from '../../../src/parity/prng.js';
import { need } from '../../../src/parity/node.js';
import { rng } from '../../../src/parity/prng.js';
import { Courier } from '../../../src/queue/flow-delivery.js';
import { Flows, type AddedFlow } from '../../../src/queue/flows.js';
import { Jobs, type Wire } from '../../../src/queue/jobs.js';
import { QueueRunner } from '../../../src/queue/runner.js';
import type { EmqError } from '../../../src/wire/errors.js';
import { landSlowly } from './lander.js';
import { QUEUES, type Hand, type Play, type Wanted } from './play.js';
import type { End } from './stage.js';
import { idOf, tree } from './trees.js';

const LEASE_MS = 3_600_000;
const MOST_FLOWS = 5;
/** Codes that say that a call did not get through, or that nobody knows. */
const LOST: readonly string[] = ['EMQ_CONNECTION', 'EMQ_TIMEOUT', 'EMQ_UNKNOWN_OUTCOME'];

const NOWHERE: Wire = {
  run: () => Promise.reject(new Error('nothing is sent')),
  runAll: () => Promise.reject(new Error('nothing is sent')),
};

/** How often which act is drawn. */
const ACTS: readonly (readonly [number, (play: Play, draw: Rng) => Promise<void> | void])[] = [
  [10, plan],
  [8, addAgain],
  [18, claim],
  [34, settle],
  [5, lapse],
  [8, drawSweep],
  [14, operate],
  [10, deliver],
  [2, quiet],
];
const TOTAL = ACTS.reduce((sum, [weight]) => sum + weight, 0);

/** Starts something. */
export async function act(play: Play, draw: Rng): Promise<void> {
  let at = draw.below(TOTAL);
  for (const [weight, doIt] of ACTS) {
    at -= weight;
    if (at >= 0) continue;
    await doIt(play, draw);
    break;
  }
  await play.idle();
}

/** Ends that are no surprise. */
function expected(end: End<unknown>, ...refusals: readonly RegExp[]): EmqError | undefined {
  if (end.ok) return undefined;
  const { error } = end;
  if (!LOST.includes(error.code) && !refusals.some((one) => one.test(error.reason))) throw error;
  return error;
}

/** A new flow. */
async function plan(play: Play, draw: Rng): Promise<void> {
  if (play.wanted.length >= MOST_FLOWS) return;
  const root = draw.pick(QUEUES);
  const flow = await new Flows(NOWHERE, root).prepare(tree(draw, () => idOf(++play.ids), QUEUES));
  const wanted = { flow, added: false, cut: false };
  play.wanted.push(wanted);
  add(play, wanted, draw);
}

function addAgain(play: Play, draw: Rng): void {
  const open = play.wanted.filter(({ added }) => !added);
  const from = open.length > 0 && draw.chance(80) ? open : play.wanted;
  if (from.length === 0) return;
  const wanted = draw.pick(from);
  // one at a time: the next when the one before has ended
  if (play.stage.count(`add ${wanted.flow.id}`) === 0) add(play, wanted, draw);
}

/** One process that adds the flow: as the product does, or as another client might. */
export function add(play: Play, wanted: Wanted, draw: Rng): void {
  const { flow } = wanted;
  const name = `add ${flow.id}`;
  const killed = (): void => {
    wanted.cut = true;
  };
  const ended = (end: End<AddedFlow | void>): void => {
    // a parent may have been removed, cancelled or let go meanwhile, or all be done already
    if (expected(end, /^EMQSTATE flow parent gone/) !== undefined) return killed();
    wanted.added = true;
    const root = play.model.queue(flow.queue).jobs.get(flow.id);
    if (root?.landing !== undefined) throw new Error(`${name} says that it is added, and it has not landed whole`);
    // a flow of one queue is asked for in one step: marks that a client of another kind left there stay for their day
    const asked = flow.oneQueue && end.ok && end.value?.outcome === 'duplicate';
    if (!asked) wanted.cut = false;
  };
  const other = rng(draw.below(2 ** 31));
  if (draw.chance(40)) play.stage.start(`${name} slowly`, (wire) => landSlowly(wire, flow, other), ended, killed);
  else play.stage.start(name, (wire) => new Flows(wire, flow.queue).add(flow), ended, killed);
}

function claim(play: Play, draw: Rng): void {
  const waiting = QUEUES.filter((name) => play.model.queue(name).in('pending').length > 0);
  if (waiting.length > 0) take(play, draw.pick(waiting), 1 + draw.below(3), draw.chance(50));
}

export function take(play: Play, queue: string, count: number, flat: boolean): void {
  play.stage.start(
    `claim ${queue}`,
    async (wire) => {
      const jobs = new Jobs(wire, queue);
      const claimed = flat
        ? [await jobs.claim({ leaseMs: LEASE_MS })]
        : await jobs.take({ leaseMs: LEASE_MS, count, source: 'both' });
      return claimed.filter((job) => job !== null);
    },
    (end) => {
      if (end.ok) play.hands.push(...end.value.map(({ id, token }) => ({ queue, id, token })));
      else expected(end);
    },
  );
}

function settle(play: Play, draw: Rng): void {
  if (play.hands.length === 0) return;
  const [hand] = play.hands.splice(draw.below(play.hands.length), 1);
  if (hand === undefined) return;
  const luck = draw.below(100);
  const word = luck < 58 ? 'complete' : luck < 85 ? 'fail' : luck < 95 ? 'retry' : 'release';
  finish(play, hand, word, draw.chance(12));
}

/** @param again the worker settles once more later, whatever it was told */
export function finish(play: Play, hand: Hand, word: 'complete' | 'fail' | 'retry' | 'release', again: boolean): void {
  play.stage.start(
    `${word} ${hand.id}`,
    (wire): Promise<unknown> => {
      const jobs = new Jobs(wire, hand.queue);
      if (word === 'complete') return jobs.complete(hand, { result: { by: hand.id, run: hand.token } });
      if (word === 'release') return jobs.release(hand);
      // in the past: due at once
      const failure = { delayMs: -1_000, maxAttempts: word === 'fail' ? 1 : 1_000, error: 'it went wrong' };
      return jobs.fail(hand, failure);
    },
    (end) => {
      const error = expected(end, /^EMQSTALE /, /^EMQSTATE (complete|retry|release) not active/);
      if (again || (error !== undefined && LOST.includes(error.code))) play.hands.push(hand);
    },
  );
}

function lapse(play: Play, draw: Rng): Promise<void> {
  return lapseSome(play, () => draw.chance(50));
}

/** Leases of active jobs lapse. */
export async function lapseSome(play: Play, which: () => boolean): Promise<void> {
  const active = play.model.all().filter(({ job }) => job.state === 'active' && job.lapsed === undefined);
  for (const { queue, job } of active.filter(which)) {
    play.lapses += 1;
    job.lapsed = play.lapses;
    await need(play.node.client, ['ZADD', `emq:{${queue.name}}:active`, 'XX', String(play.lapses), job.id]);
    play.note(`the lease of ${job.id} has lapsed`);
  }
}

function drawSweep(play: Play, draw: Rng): void {
  sweep(play, draw.pick(QUEUES), draw.pick(['reap', 'stalled', 'promote', 'promote'] as const), 1 + draw.below(2));
}

export function sweep(play: Play, queue: string, word: 'reap' | 'stalled' | 'promote', maxStalled = 3): void {
  play.stage.start(
    `${word} ${queue}`,
    (wire): Promise<unknown> => {
      const jobs = new Jobs(wire, queue);
      if (word === 'reap') return jobs.reap({ limit: 1_000 });
      if (word === 'promote') return jobs.promote({ limit: 1_000 });
      return jobs.stalledCheck({ maxStalled, limit: 1_000 });
    },
    (end) => void expected(end),
  );
}

function operate(play: Play, draw: Rng): void {
  const dead = play.model.all().filter(({ job }) => job.state === 'dead');
  const jobs = dead.length > 0 && draw.chance(70) ? dead : play.model.all();
  if (jobs.length === 0) return;
  const { queue, job } = draw.pick(jobs);
  const word = job.state === 'dead' && draw.chance(75) ? 'reprocess' : draw.pick(['remove', 'cancel'] as const);
  run(play, queue.name, job.id, word);
}

export function run(play: Play, queue: string, id: string, word: 'reprocess' | 'remove' | 'cancel'): void {
  play.stage.start(
    `${word} ${id}`,
    (wire): Promise<unknown> => {
      const jobs = new Jobs(wire, queue);
      return word === 'cancel' ? jobs.cancel(id, 'not wanted') : jobs[word](id);
    },
    (end) => void expected(end, /^EMQSTATE not dead/),
  );
}

/** Two pumps at a queue, no more. */
function deliver(play: Play, draw: Rng): void {
  const posted = QUEUES.filter((name) => play.model.queue(name).outbox.length > 0);
  const queue = draw.pick(posted.length > 0 ? posted : QUEUES);
  if (play.stage.count(`deliver ${queue}`) < 2) pump(play, queue);
}

export function pump(play: Play, queue: string): void {
  play.stage.start(
    `deliver ${queue}`,
    (wire) => new Courier(new QueueRunner(wire), queue).deliver(),
    (end) => {
      if (!end.ok) throw end.error;
      const { poison, errors } = end.value;
      if (poison.length > 0) throw new Error(`a letter was moved aside: ${poison[0]?.why}`);
      for (const error of errors) expected({ ok: false, error });
    },
  );
}

/** All processes end, all letters are delivered, all orders carried out. */
export async function quiet(play: Play, draw: Rng): Promise<void> {
  await play.finish(draw);
  for (let pass = 0; pass < 50; pass++) {
    const posted = QUEUES.filter((name) => play.model.queue(name).outbox.length > 0);
    if (posted.length === 0) return play.quiet();
    for (const queue of [...posted, ...posted]) pump(play, queue);
    await play.idle();
    await play.finish(draw);
  }
  play.fail('letters', ['there are still some after 50 passes']);
}
