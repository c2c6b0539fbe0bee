/**
 * The names of a queue's keys (wire contract, section 2), and the grammar of what goes into them.
 *
 * Invariants: every key starts with the base `emq:{q}:` and so lies in one cluster slot; a name outside the grammar
 * is refused here, before the wire. Does not: talk to a server.
 */
import { isBranded } from '../ids/brand.js';
import { inputError, show } from './errors.js';

/** The key that holds the node's brand (wire contract, section 8). */
export const NODE_VERSION_KEY = '{emq}:version';

/** What decides on the slot of the keys that belong to no queue; no queue may have that name. */
export const NO_QUEUE = 'emq';

/** The names of queues, a sorted set (wire contract, section 2). */
export const REGISTRY_KEY = '{emq}:queues';

const QUEUE = /^[A-Za-z0-9._-]{1,128}$/;
const DEDUP = /^[A-Za-z0-9._-]{1,255}$/;

/** The keys of one queue. Construct it once per queue; every getter is a stored string. */
export class Keyspace {
  readonly queue: string;
  readonly base: string;
  readonly pending: string;
  readonly active: string;
  readonly schedule: string;
  readonly dead: string;
  /** Groups whose lane can be served now, a list. */
  readonly ring: string;
  readonly wake: string;
  /** Groups whose lane is paused, a set. */
  readonly paused: string;
  /** The bucket of the queue's rate, a string. */
  readonly limiter: string;
  /** Names of repeats, a sorted set. */
  readonly repeat: string;
  readonly meta: string;
  readonly version: string;
  /** Flow parents that wait for their children, a sorted set. */
  readonly held: string;
  /** Letters that this queue's flow children leave, a list. */
  readonly outbox: string;
  /** Children here whose parents, elsewhere, have not been told yet that they have landed; a set. */
  readonly landed: string;
  /** The pub/sub channel of lifecycle events; not a key. */
  readonly events: string;
  /** The pub/sub channel on which whoever runs a job is told to stop; not a key. */
  readonly cancel: string;

  /** @throws EmqError `EMQ_INPUT` for a name that is not 1 to 128 of `A-Z a-z 0-9 . _ -`, or is `emq`. */
  constructor(queue: string) {
    if (typeof queue !== 'string' || !QUEUE.test(queue) || queue === 'emq') {
      throw inputError(`queue name ${show(queue)} must be 1 to 128 of A-Z a-z 0-9 . _ - and not "emq"`);
    }
    this.queue = queue;
    this.base = `emq:{${queue}}:`;
    this.pending = `${this.base}pending`;
    this.active = `${this.base}active`;
    this.schedule = `${this.base}schedule`;
    this.dead = `${this.base}dead`;
    this.ring = `${this.base}ring`;
    this.wake = `${this.base}wake`;
    this.paused = `${this.base}paused`;
    this.limiter = `${this.base}limiter`;
    this.repeat = `${this.base}repeat`;
    this.meta = `${this.base}meta`;
    this.version = `${this.base}version`;
    this.held = `${this.base}flow:held`;
    this.outbox = `${this.base}flow:outbox`;
    this.landed = `${this.base}flow:landed`;
    this.events = `${this.base}events`;
    this.cancel = `${this.base}cancel`;
  }

  /** The row of a job. @throws EmqError `EMQ_INPUT` unless `id` is a branded id (14 bytes). */
  job(id: string): string {
    return `${this.base}job:${checkId(id)}`;
  }

  /** The waiting jobs of a lane, a sorted set. The group is not checked: a row may name any. */
  lane(group: string): string {
    return `${this.base}g:${group}:pending`;
  }

  /** The log lines of a job, a list. */
  logs(id: string): string {
    return `${this.job(id)}:logs`;
  }

  /** The key under which a dedup id is parked. @throws EmqError `EMQ_INPUT` outside the grammar. */
  dedup(id: string): string {
    return `${this.base}de:${checkDedupId(id)}`;
  }

  /** Children of a flow parent that are to be cancelled, a hash. @throws EmqError `EMQ_INPUT` for an ill-formed id. */
  toCancel(id: string): string {
    return `${this.base}flow:cancel:${checkId(id)}`;
  }

  /** A counter of finished jobs, a hash with the field `count`. */
  metrics(outcome: 'completed' | 'failed'): string {
    return `${this.base}metrics:${outcome}`;
  }
}

/** @throws EmqError `EMQ_INPUT` unless `id` is a branded id. The namespace is the server's business (`EMQKIND`). */
export function checkId(id: string): string {
  if (!isBranded(id)) {
    throw inputError(
      `job id ${show(id)} must be a branded id: 3 letters A-Z and 11 base62 digits, at most AzL8n0Y58m7`,
    );
  }
  return id;
}

/** @throws EmqError `EMQ_INPUT` unless `group` is a branded id: a lane is named by one, of any namespace. */
export function checkGroup(group: string): string {
  if (!isBranded(group)) {
    throw inputError(
      `group ${show(group)} must be a branded id, of any namespace: 3 letters A-Z and 11 base62 digits (mint('TEN') makes one)`,
    );
  }
  return group;
}

/** @throws EmqError `EMQ_INPUT` outside the grammar. */
export function checkDedupId(id: string): string {
  if (typeof id !== 'string' || !DEDUP.test(id)) {
    throw inputError(`dedup id ${show(id)} must be 1 to 255 of A-Z a-z 0-9 . _ -`);
  }
  return id;
}

/** @throws EmqError `EMQ_INPUT` outside the grammar, which is that of dedup ids. */
export function checkRepeatName(name: string): string {
  if (typeof name !== 'string' || !DEDUP.test(name)) {
    throw inputError(`name of a repeat ${show(name)} must be 1 to 255 of A-Z a-z 0-9 . _ -`);
  }
  return name;
}
