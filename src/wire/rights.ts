/**
 * The fewest rights (Valkey ACL) with which a user can do its work: section 12 of docs/wire.md, as data. `emq acl` makes its
 * users of it; test/access proves that each list is enough and that none of its rules can be spared, and that the document
 * says the same, word for word.
 *
 * Invariants: `{a}` stands for the queue, and for nothing else. Does not: know roles (src/cli/acl), or hold what a server
 * wants besides a rule, such as a password.
 */
import { transitions } from './transitions.js';

/** The verbs of `Jobs` with a native command, and its name. */
export const NATIVE_VERBS: readonly (readonly [string, string])[] = Object.entries(transitions).flatMap(
  ([verb, transition]) => ('native' in transition ? [[verb, transition.native] as const] : []),
);

/** The commands that the scripts of all verbs run, one by one. */
const SCRIPT_COMMANDS = [
  ...['+time', '+publish', '+exists', '+del', '+rename', '+pexpireat', '+pttl'],
  ...['+set', '+decr'],
  ...['+hget', '+hset', '+hdel', '+hlen', '+hmget', '+hgetall', '+hexists', '+hincrby', '+hscan'],
  ...['+zadd', '+zrem', '+zcard', '+zscore', '+zrange', '+zpopmin', '+zremrangebyscore'],
  ...['+llen', '+lpush', '+rpush', '+lrange', '+ltrim', '+lrem', '+lpos'],
  ...['+sadd', '+srem', '+sismember', '+sscan'],
];

/** To connect to a node that carries the brand, and to run scripts that the node may have forgotten. */
const CONNECT = ['+get', '%R~{emq}:version', '+evalsha', '+eval'];

/** Every verb of `Jobs` and `Flows` on queue a, wire 4. */
export const WIRE_4 = [...CONNECT, '~emq:{a}:*', '&emq:{a}:events', '&emq:{a}:cancel', ...SCRIPT_COMMANDS];

/** What it takes to run the native commands, and to see that they are there. */
export const NATIVE = ['+@emq'];
export const PROOF = ['+command|info'];

const without = (rules: readonly string[], ...spared: readonly string[]): string[] =>
  rules.filter((rule) => !spared.includes(rule));

/** The same on wire 6. */
export const WIRE_6 = [...WIRE_4, ...NATIVE, ...PROOF];

/** What a consumer needs besides: to wait for work, and to hear of cancels. */
export const CONSUMER = ['+blpop', '+subscribe'];

/** The rows of a queue, and nothing that hangs on them: an id has 14 characters. */
const ROWS = '~emq:{a}:job:??????????????';

/** enqueue, enqueueMany and schedule on queue a, wire 4. */
export const PRODUCER = [
  ...CONNECT,
  ...[ROWS, '~emq:{a}:pending', '~emq:{a}:schedule', '~emq:{a}:wake'],
  ...['+time', '+hlen', '+hset', '+zcard', '+zrange', '+zadd', '+llen', '+lpush'],
];

/** What a producer needs besides on wire 6. */
export const PRODUCER_6 = [...PRODUCER, ...PROOF];

/** The same for jobs of lanes, jobs with dedup ids, and reschedule, wire 4. */
export const LANE_PRODUCER = [
  ...PRODUCER,
  ...['~emq:{a}:', '~emq:{a}:de:*', '~emq:{a}:g:*:pending', '%R~emq:{a}:gactive', '%R~emq:{a}:glimit'],
  ...['%R~emq:{a}:gwait', '%R~emq:{a}:paused', '~emq:{a}:ring'],
  ...['+hget', '+hmget', '+zscore', '+lpos', '+sismember', '+set', '+pexpireat', '+pttl', '+rpush'],
];

/** To be named in the list of queues, as consumers do where they may. */
export const NAMED = ['~{emq}:queues'];

/** To list the queues: those that are named, and those that have keys. */
export const LISTS = ['+zrange', '%R~{emq}:queues', '+scan'];

/** The native commands on queue a, without a connector. */
export const RAW_NATIVE = ['+@emq', '~emq:{a}:*'];

/** What it takes to brand a node that has no brand; a connector that may run every script has the first. */
export const MAY_BRAND = ['+set', '%RW~{emq}:version'];

/** The brand in a cluster, where that is not among a user's keys already: to read it, or to set it where there is none. */
export const BRAND_OF_QUEUE = ['%R~emq:{a}:version'];
export const MAY_BRAND_QUEUE = ['+set', '~emq:{a}:version'];

/** What a cluster's client needs besides, to learn which node serves which slot. */
export const CLUSTER = ['+cluster|slots'];

/** Commands whose refusal is borne in silence: without these rules all works, and the server's ACL LOG fills. */
export const QUIET = ['+ping', '+client|setinfo', '+script|load', '+info', '+unsubscribe'];

/** The same in a cluster. */
export const QUIET_CLUSTER = [...QUIET, '+client|setname'];

/** What a producer needs besides to have its jobs confirmed by replicas (`+wait`) or on disk (`+waitaof`). */
export const DURABLE = ['+wait', '+waitaof', '+hget'];

/** What a producer for lanes needs besides to add flows of this queue, and their parts of other queues. */
export const FLOW_PRODUCER = [
  ...LANE_PRODUCER,
  ...[`${ROWS}:children`, `${ROWS}:dependencies`, '~emq:{a}:flow:held', '~emq:{a}:flow:landed', '+exists', '+hexists'],
  ...[`(+hdel ${ROWS})`, '(+zrem +zremrangebyscore ~emq:{a}:flow:landed)'],
];

/** The keys of a queue that workers write, and those that they only read: what an operator sets for lanes. */
const WORKER_KEYS = [
  ...['~emq:{a}:', '~emq:{a}:job:*', '~emq:{a}:pending', '~emq:{a}:active', '~emq:{a}:schedule', '~emq:{a}:dead'],
  ...['~emq:{a}:g:*', '~emq:{a}:ring', '~emq:{a}:gactive', '~emq:{a}:gwait', '~emq:{a}:limiter', '~emq:{a}:meta'],
  ...[
    '~emq:{a}:wake',
    '~emq:{a}:de:*',
    '~emq:{a}:repeat',
    '~emq:{a}:repeat:*',
    '~emq:{a}:flow:*',
    '~emq:{a}:metrics:*',
  ],
  ...['%R~emq:{a}:paused', '%R~emq:{a}:glimit', '%R~emq:{a}:gweight', '%R~emq:{a}:gmax', '%R~emq:{a}:gduration'],
];

/** A consumer that sets nothing for lanes and cannot end the queue, wire 4. */
export const ROLE_CONSUMER = [
  ...CONNECT,
  ...WORKER_KEYS,
  ...['&emq:{a}:events', '&emq:{a}:cancel'],
  ...without(SCRIPT_COMMANDS, '+sadd', '+srem', '+sscan'),
  ...CONSUMER,
];

/** Whoever controls a queue, looks into it with `emq doctor`, and claims nothing; on either wire. */
export const ROLE_OPERATOR = [
  ...without(WIRE_4, '+zpopmin'),
  ...['+subscribe', '+type', '+zscan', '+eval_ro'],
  // of obliterate; on no set of jobs
  '(+zpopmin ~emq:{a}:flow:landed)',
];

/** Who may only look, on either wire: not one command that writes. */
export const ROLE_OBSERVER = [
  ...CONNECT,
  ...['~emq:{a}:*', '&emq:{a}:events', '+subscribe', '+eval_ro'],
  ...['+time', '+exists', '+pttl', '+type', '+hget', '+hlen', '+hmget', '+hgetall', '+hexists', '+hscan'],
  ...['+zcard', '+zscore', '+zrange', '+zscan', '+llen', '+lrange', '+lpos', '+sismember', '+sscan'],
];

/** What `emq doctor` and `emq wire` read of a node besides; they do without what they may not read. */
export const LOOKS = ['+info', '+acl|whoami', ...PROOF];

/** The same in a cluster. */
export const LOOKS_CLUSTER = ['+cluster|myid'];

/** What moves a node from one wire to the other, besides `+get +eval` and `LOOKS`. In a cluster `+set` is enough. */
export const MOVES = MAY_BRAND;
