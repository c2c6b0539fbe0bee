/**
 * What the doctor finds in one queue: keys of a wrong type, how many jobs are where, and what nobody sees to.
 *
 * Invariants: a fixed number of calls that write nothing and cost no more in a long queue than in a short one (the
 * lapsed and due are counted by rank). Does not: read all rows or lanes, whose number has no bound. Flows are in flows.ts,
 * limits, lanes and repeats in controls.ts.
 */
import { FIXED as TYPES } from '../../queue/audit/keys.js';
import type { Arg } from '../../wire/call.js';
import type { Keyspace } from '../../wire/keyspace.js';
import type { PlainNode } from '../node.js';
import { quoted } from '../terminal.js';
import { duration } from './checks.js';
import { isRefusal } from './facts.js';
import { bad, ok, warn, type Finding } from './findings.js';
import { checkControls, CONTROL_RIGHTS } from './controls.js';
import { checkFlows } from './flows.js';

/** The jobs of a set whose time has come, and how long ago the first one's did. */
interface Overdue {
  readonly count: number;
  readonly ago: string;
}

/** Looks into a queue. @param signal ends a wait; then it rejects. @throws EmqError when the connection is lost. */
export async function checkQueue(node: PlainNode, keys: Keyspace, signal: AbortSignal): Promise<Finding[]> {
  const { queue } = keys;
  try {
    return (await look(node, keys, signal)).map((finding) => ({ ...finding, queue }));
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const { code, reason } = error;
    // the finding on the brand says where the queue lives
    if (code === 'MOVED') return [];
    const rights = `grant +type +time +zcard +zcount +zrange +llen +lindex +hexists +hget ${CONTROL_RIGHTS} and %R~${keys.base}*`;
    const mend = code === 'NOPERM' ? rights : 'see first to what the server says';
    return [{ ...warn('queue', `queue ${queue} was not looked into: ${quoted(reason)}`, mend), queue }];
  }
}

async function look(node: PlainNode, keys: Keyspace, signal: AbortSignal): Promise<Finding[]> {
  const names = Object.keys(TYPES);
  // all at once: they travel as one write
  const types = await Promise.all(names.map(async (name) => String(await node.ask('TYPE', `${keys.base}${name}`))));
  const wrong = new Map<string, string>();
  for (const [i, name] of names.entries()) {
    const type = types[i] ?? 'none';
    if (type !== 'none' && type !== TYPES[name]) wrong.set(name, type);
  }
  const count = async (name: string, command: string, ...args: Arg[]): Promise<number> =>
    wrong.has(name) ? 0 : Number(await node.ask(command, `${keys.base}${name}`, ...args));
  const now = clock(await node.ask('TIME'));
  const overdue = async (name: string): Promise<Overdue> => {
    if (wrong.has(name)) return { count: 0, ago: '' };
    const key = `${keys.base}${name}`;
    const [found, head] = await Promise.all([
      node.ask('ZCOUNT', key, '-inf', String(now)),
      node.ask('ZRANGE', key, '0', '0', 'WITHSCORES'),
    ]);
    const late = now - Number(String(Array.isArray(head) ? head[1] : undefined));
    // whoever wrote another score than a time says nothing about when
    const ago = Number.isFinite(late) ? `, the first ${duration(Math.max(0, Math.floor(late / 1000)))} ago` : '';
    return { count: Number(found), ago };
  };
  const [pending, active, scheduled, dead, held, lanes, paused, lapsed, due, flows] = await Promise.all([
    count('pending', 'ZCARD'),
    count('active', 'ZCARD'),
    count('schedule', 'ZCARD'),
    count('dead', 'ZCARD'),
    count('flow:held', 'ZCARD'),
    count('ring', 'LLEN'),
    count('meta', 'HEXISTS', 'paused'),
    overdue('active'),
    overdue('schedule'),
    checkFlows(node, keys, { wrong, now, signal }),
  ]);

  const waiting =
    held === 0 ? '' : `; ${held} flow parent${held === 1 ? ' waits for its' : 's wait for their'} children`;
  const ready = lanes === 0 ? '' : `; ${lanes} lane${lanes === 1 ? '' : 's'} with jobs to claim`;
  const counts = `${pending} pending, ${active} active, ${scheduled} scheduled, ${dead} dead${waiting}${ready}`;
  const findings = [ok('queue', `queue ${keys.queue}: ${counts}`)];
  for (const [name, type] of wrong) {
    const text = `${keys.base}${name} is a ${type} and must be a ${TYPES[name]}: every call that needs it is refused (WRONGTYPE)`;
    findings.push(bad('types', text, 'find out who wrote it, and RENAME it to a name outside the queue'));
  }
  if (paused > 0)
    findings.push(warn('paused', 'the queue is paused: no job is claimed', `emq resume ${keys.queue} when it is time`));
  if (lapsed.count > 0) {
    const text = `${lapsed.count} of ${active} leases ${lapsed.count === 1 ? 'has' : 'have'} lapsed${lapsed.ago}: nobody sweeps, or too seldom`;
    const mend = `start a consumer of queue ${keys.queue}: it recovers them; in code, call reap() or stalledCheck() on a timer`;
    findings.push(warn('leases', text, mend));
  }
  if (due.count > 0) {
    const text = `${due.count} of ${scheduled} scheduled jobs ${due.count === 1 ? 'is' : 'are'} due${due.ago}: nobody promotes, or too seldom`;
    const mend = `start a consumer of queue ${keys.queue}: it promotes them; in code, call promote() on a timer`;
    findings.push(warn('schedule', text, mend));
  }
  const controls = await checkControls(node, keys, { wrong, now, pending, active, dead, lanes });
  return [...findings, ...controls, ...flows];
}

/** The server's clock in whole ms, as the scripts take it. */
function clock(reply: unknown): number {
  const [seconds, micros] = Array.isArray(reply) ? (reply as unknown[]) : [];
  return Number(String(seconds)) * 1000 + Math.floor(Number(String(micros)) / 1000);
}
