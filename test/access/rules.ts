/**
 * The rights that are documented in section 12 of docs/wire.md, as data: connector.test.ts and native.test.ts prove that
 * each list is enough and that none of its rules can be spared, docs.test.ts that the document says the same.
 *
 * `{a}` stands for the queue. Does not: hold what is only good manners (`QUIET`).
 */
import { transitions } from '../../src/wire/transitions.js';

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

/** The same on wire 6. */
export const WIRE_6 = [...WIRE_4, '+@emq', '+command|info'];

/** What a consumer needs besides: to wait for work, and to hear of cancels. */
export const CONSUMER = ['+blpop', '+subscribe'];

/** enqueue, enqueueMany and schedule on queue a, wire 4. */
export const PRODUCER = [
  ...CONNECT,
  ...['~emq:{a}:job:*', '~emq:{a}:pending', '~emq:{a}:schedule', '~emq:{a}:wake'],
  ...['+time', '+hlen', '+hset', '+zcard', '+zrange', '+zadd', '+llen', '+lpush'],
];

/** What a producer needs besides on wire 6. */
export const PRODUCER_6 = [...PRODUCER, '+command|info'];

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

/** The six native commands on queue a, without a connector. */
export const RAW_NATIVE = ['+@emq', '~emq:{a}:*'];

/** What it takes to brand a node that has no brand; a connector that may run every script has the first. */
export const MAY_BRAND = ['+set', '%RW~{emq}:version'];

/** What a cluster's client needs besides, to learn which node serves which slot. */
export const CLUSTER = ['+cluster|slots'];

/** Commands whose refusal is borne in silence: without these rules all works, and the server's ACL LOG fills. */
export const QUIET = ['+ping', '+client|setinfo', '+script|load'];

/** The same in a cluster. */
export const QUIET_CLUSTER = [...QUIET, '+client|setname'];
