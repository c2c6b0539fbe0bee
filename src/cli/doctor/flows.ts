/**
 * What the doctor finds of a queue's flows: letters that nobody delivers or that could not be delivered, and parents whose
 * adding was cut short.
 *
 * Invariants: a fixed number of calls that write nothing; of the held parents only the oldest are looked at. Where letters
 * wait it looks a second time, behind a few beats of a consumer. Does not: read letters, or follow a flow (`emq flow` does).
 */
import { setTimeout as pause } from 'node:timers/promises';

import { isBranded } from '../../ids/brand.js';
import type { Reply } from '../../wire/call.js';
import type { Keyspace } from '../../wire/keyspace.js';
import type { PlainNode } from '../node.js';
import { duration } from './checks.js';
import { bad, warn, type Finding } from './findings.js';

/** A consumer delivers at every beat, one a second unless it is told otherwise. */
const LOOK_AGAIN_MS = 2_500;
/** How many of the held parents are looked at, the oldest. */
const OLDEST = 100;
/** An adding that is not done after so long was cut short. */
const ADDING_MS = 60_000;

export interface Look {
  /** Keys of another type, which are told of elsewhere. */
  readonly wrong: ReadonlyMap<string, string>;
  /** The server's clock, Unix ms. */
  readonly now: number;
  readonly signal: AbortSignal;
}

/** @throws EmqError when the connection is lost, or what the signal says. */
export async function checkFlows(node: PlainNode, keys: Keyspace, look: Look): Promise<Finding[]> {
  const { wrong, now, signal } = look;
  const of = async (name: string, find: () => Promise<Finding[]>): Promise<Finding[]> =>
    wrong.has(name) ? [] : find();
  const findings = await Promise.all([
    of('flow:poison', () => poison(node, keys)),
    of('flow:held', () => landing(node, keys, now)),
    of('flow:outbox', () => outbox(node, keys, signal)),
  ]);
  return findings.flat();
}

async function poison(node: PlainNode, keys: Keyspace): Promise<Finding[]> {
  const key = `${keys.base}flow:poison`;
  const count = Number(await node.ask('LLEN', key));
  if (count === 0) return [];
  const text = `${count} letter${count === 1 ? '' : 's'} of flow children could not be delivered: their parents may wait for ever`;
  const back = `LMOVE ${key} ${keys.outbox} RIGHT RIGHT sends the oldest again, DEL throws all away`;
  return [bad('flow letters', text, `LRANGE ${key} 0 9 shows the newest; mend the parents' keys, then ${back}`)];
}

/** Letters that wait are no finding as long as they leave. */
async function outbox(node: PlainNode, keys: Keyspace, signal: AbortSignal): Promise<Finding[]> {
  const look = (): Promise<[Reply, Reply]> =>
    Promise.all([node.ask('LLEN', keys.outbox), node.ask('LINDEX', keys.outbox, '0')]);
  const [, before] = await look();
  if (before === null) return [];
  await pause(LOOK_AGAIN_MS, undefined, { signal });
  const [count, after] = await look();
  if (String(after) !== String(before)) return [];
  const many = `${String(count)} letter${count === 1 ? '' : 's'} of flow children wait${count === 1 ? 's' : ''}`;
  const text = `${many} to be delivered and the first did not leave in ${LOOK_AGAIN_MS / 1000} s: no consumer runs here, or it may not reach the parents`;
  const mend = 'run a consumer of this queue, or call flows.deliver() on a timer; its warnings say what it meets';
  return [warn('flow outbox', text, mend)];
}

async function landing(node: PlainNode, keys: Keyspace, now: number): Promise<Finding[]> {
  const reply = await node.ask('ZRANGE', keys.held, '0', String(OLDEST - 1), 'WITHSCORES');
  const flat = Array.isArray(reply) ? reply.map(String) : [];
  const held = flat.flatMap((id, i) => (i % 2 === 0 && isBranded(id) ? [{ id, since: Number(flat[i + 1]) }] : []));
  const old = held.filter(({ since }) => now - since > ADDING_MS);
  const open = await Promise.all(old.map(({ id }) => node.ask('HGET', keys.job(id), 'landing')));
  const cut = old.filter((_, i) => open[i] !== null);
  const [first] = cut;
  if (first === undefined) return [];
  const which = held.length < OLDEST ? '' : ` of the ${OLDEST} that are held longest`;
  const many = cut.length === 1 ? `1 flow parent${which} has` : `${cut.length} flow parents${which} have`;
  const ago = duration(Math.floor((now - first.since) / 1000));
  const text = `${many} not landed whole, ${first.id} since ${ago}: the adding was cut short, so no parent of it runs`;
  const mend = 'add the same flow again (with the same ids), or remove() its root; emq flow ID shows what is missing';
  return [warn('flow landing', text, mend)];
}
