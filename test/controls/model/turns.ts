/**
 * Claims in the reference model: whose turn it is (TURN), and what a take gives.
 *
 * Invariants: a job is claimed with all that goes with it, or not at all. Does not: settle.
 */
import { before, type Job, type Model } from './model.js';
import type { Answer } from './steps.js';

const PASSED_OVER = 64;

/** The walk along the ring of one call. */
class Walk {
  readonly #model: Model;
  /** Heads that this call has not come upon. */
  fresh: number;

  constructor(model: Model) {
    this.#model = model;
    this.fresh = model.ring.length;
  }

  /** The lane whose turn it is; lanes that cannot be served leave the ring on the way. */
  head(): string | undefined {
    const { ring, waits } = this.#model;
    for (let group = ring[0]; group !== undefined; group = ring[0]) {
      if (this.#model.servable(group) && this.#model.tokens(group) >= 1) return group;
      if (this.#model.tokens(group) < 1 && !waits.has(group)) this.rest(group);
      this.#pass();
    }
    return undefined;
  }

  /** The lane waits for its next token. */
  rest(group: string): void {
    this.#model.waits.set(group, { hours: this.#model.nextToken(group) });
  }

  /** The head has given a job; `over`: its turn ends whatever its weight. */
  gave(group: string, over = false): void {
    const model = this.#model;
    if (model.turn?.group !== group) model.turn = { group, given: 0 };
    model.turn.given += 1;
    const can = model.servable(group);
    if (can && !over && model.turn.given < (model.own('weight', group) ?? 1)) return;
    model.turn = undefined;
    this.#pass();
    if (can) model.ring.push(group);
  }

  /** The head goes to the tail unserved. */
  passOver(group: string): void {
    if (this.#model.turn?.group === group) this.#model.turn = undefined;
    this.#pass();
    this.#model.ring.push(group);
  }

  /** A turn goes on only at the head. */
  end(): void {
    if (this.#model.turn?.group !== this.#model.ring[0]) this.#model.turn = undefined;
  }

  #pass(): void {
    this.#model.ring.shift();
    this.fresh -= 1;
  }
}

function start(model: Model, job: Job): Answer {
  job.place = 'active';
  job.attempts += 1;
  model.spend('', 1);
  if (job.group !== undefined) model.spend(job.group, 1);
  return [job.id, 'p', job.attempts, job.group ?? null, null, job.credit];
}

/** A job of the lane at the head is claimed. */
function startOf(model: Model, walk: Walk, group: string, job: Job): Answer {
  const answer = start(model, job);
  if (model.tokens(group) < 1) walk.rest(group);
  return answer;
}

export function claim(model: Model): Answer {
  const [job] = model.allowance() < 1 ? [] : model.waiting();
  if (job === undefined) return [];
  return (start(model, job) as Answer[]).slice(0, 3);
}

export function claimBatch(model: Model, [, size]: readonly string[]): Answer {
  const jobs = model.waiting().slice(0, Math.min(Number(size), model.allowance()));
  return jobs.map((job) => (start(model, job) as Answer[]).slice(0, 3));
}

export function take(model: Model, [, count, source]: readonly string[]): Answer {
  const allowed = model.allowance();
  if (allowed < 1) return [];
  const most = Math.min(Number(count), allowed);
  const ringed = model.ring.length > 0 && source !== 'flat';
  const walk = new Walk(model);
  const jobs: Answer[] = [];
  while (jobs.length < most) {
    const [flat] = source === 'lanes' ? [] : model.waiting();
    const group = source === 'flat' ? undefined : walk.head();
    const [first] = group === undefined ? [] : model.waiting(group);
    if (first !== undefined && group !== undefined && (flat === undefined || before(first, flat) < 0)) {
      jobs.push(startOf(model, walk, group, first));
      walk.gave(group);
    } else if (flat !== undefined) jobs.push(start(model, flat));
    else break;
  }
  if (source !== 'flat' && jobs.length === Number(count) && jobs.length < allowed) {
    // it looks whether more could be served, but for a flat job it need not walk on
    if (source === 'lanes' || model.waiting().length === 0) walk.head();
  }
  if (ringed) walk.end();
  return jobs;
}

/** How many jobs of the lane could be claimed now. */
function gives(model: Model, group: string): number {
  const limit = model.own('limit', group) ?? Infinity;
  return Math.min(model.waiting(group).length, limit - model.active(group), model.tokens(group));
}

export function takeBatch(model: Model, [, sizeText, minText, source]: readonly string[]): Answer {
  const allowed = model.allowance();
  const [size, min] = [Number(sizeText), Number(minText)];
  if (allowed < min) return [];
  const most = Math.min(size, allowed);
  if (source === 'flat') {
    const flat = model.waiting();
    return flat.length < min ? [] : flat.slice(0, most).map((job) => start(model, job));
  }
  const ringed = model.ring.length > 0;
  const walk = new Walk(model);
  const jobs: Answer[] = [];
  let group = walk.head();
  for (let over = 1; group !== undefined && gives(model, group) < min; over += 1) {
    walk.passOver(group);
    group = over < PASSED_OVER && walk.fresh > 0 ? walk.head() : undefined;
  }
  if (group !== undefined) {
    for (const job of model.waiting(group)) {
      if (jobs.length >= most || !model.servable(group)) break;
      jobs.push(startOf(model, walk, group, job));
    }
    walk.gave(group, true);
  }
  if (jobs.length === size && size < allowed) walk.head();
  if (ringed) walk.end();
  return jobs;
}
