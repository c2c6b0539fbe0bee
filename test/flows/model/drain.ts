/**
 * The end of a play: everything that is left is driven to its end, as producers, workers, sweepers, pumps and an operator
 * would, and then nothing is left.
 *
 * Does not: let anything go wrong on the way.
 */
import type { Rng } from '../../../src/parity/prng.js';
import { add, finish, lapseSome, quiet, run, sweep, take } from './acts.js';
import { dump } from './dump.js';
import type { Job, Queue } from './model.js';
import { QUEUES, type Play } from './play.js';

const ROUNDS = 60;
/** So many rounds in which jobs fail now and then, and are brought back. */
const ROUGH = 8;

/** Rejects when jobs are left that no round brings on, or keys when all jobs are gone. */
export async function drain(play: Play, draw: Rng): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    await quiet(play, draw);
    const left = play.model.all();
    if (left.length === 0) return nothingIsLeft(play);
    // an operator clears away what nobody waits for and nobody can land any more; all else has to go by itself
    for (const { queue, job } of left) if (isForsaken(play, queue, job)) run(play, queue.name, job.id, 'remove');
    for (const { queue, job } of left) {
      if (job.state === 'dead')
        run(play, queue.name, job.id, draw.chance(round < ROUGH ? 60 : 0) ? 'reprocess' : 'remove');
    }
    await on(play, draw);
    await lapseSome(play, () => true);
    for (const queue of QUEUES) {
      sweep(play, queue, 'reap');
      sweep(play, queue, 'promote');
    }
    await on(play, draw);
    for (const queue of QUEUES) take(play, queue, 100, false);
    await on(play, draw);
    for (const hand of play.hands.splice(0)) {
      const fails = round < ROUGH && draw.chance(25);
      finish(play, hand, fails ? draw.pick(['fail', 'fail', 'retry']) : 'complete', false);
    }
    await on(play, draw);
    // while letters are under way
    for (const wanted of play.wanted) {
      const root = play.model.queue(wanted.flow.queue).jobs.get(wanted.flow.id);
      if (root === undefined ? !wanted.added : root.landing !== undefined) add(play, wanted, draw);
    }
    await on(play, draw);
  }
  const stuck = play.model.all().map(({ queue, job }) => `${queue.name}/${job.id} is ${job.state} for ever`);
  play.fail(`the end after ${ROUNDS} rounds`, stuck);
}

async function on(play: Play, draw: Rng): Promise<void> {
  await play.idle();
  await play.finish(draw);
}

/** A parent that has not landed whole, and that its own parent does not wait for: adding its flow again does not reach it. */
function isForsaken(play: Play, queue: Queue, job: Job): boolean {
  if (!job.waits() || job.landing === undefined || job.link === undefined) return false;
  const above = play.model.queue(job.link.queue || queue.name).jobs.get(job.link.parent);
  return above === undefined || !above.children.has(job.id);
}

async function nothingIsLeft(play: Play): Promise<void> {
  const keys = [...(await dump(play.node.client)).keys()];
  // marks of children whose flow was never added to the end stay for a day; of all others quiet() has found none
  const left = keys.filter((key) => !/^emq:\{[^}]+\}:(meta|wake|metrics:(completed|failed)|flow:landed)$/.test(key));
  if (left.length > 0)
    play.fail(
      'the end',
      left.map((key) => `${key} is left`),
    );
}
