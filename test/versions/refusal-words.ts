/**
 * The words of the refusals as they were seen, by version; `all` where the versions agree. What changes from call to call is
 * `<sha>`, `<line>` and `<port>`. The suites of the versions hold them against the real servers.
 */
export interface Seen {
  readonly all?: string;
  readonly 'Redis 7.0'?: string;
  readonly 'Valkey 8.0'?: string;
  readonly 'Valkey 8.1'?: string;
  readonly 'Valkey 9'?: string;
}

export const WORDS: Readonly<Record<string, Seen>> = {
  'a key of another type, in a script': {
    all: 'WRONGTYPE Operation against a key holding the wrong kind of value script: <sha>, on @user_script:<line>.',
    'Valkey 9': 'WRONGTYPE Operation against a key holding the wrong kind of value script: on @user_script:<line>.',
  },
  'a full server, to a script': {
    all: "OOM command not allowed when used memory > 'maxmemory'.",
  },
  'a full server, to a plain command': {
    all: "OOM command not allowed when used memory > 'maxmemory'.",
  },
  'a full server, inside a script': {
    all: "OOM command not allowed when used memory > 'maxmemory'. script: <sha>, on @user_script:<line>.",
    'Valkey 9': "OOM command not allowed when used memory > 'maxmemory'. script: on @user_script:<line>.",
  },
  'a user who may not run scripts': {
    all: "NOPERM User someone has no permissions to run the 'evalsha' command",
    'Redis 7.0': "NOPERM this user has no permissions to run the 'evalsha' command",
  },
  'a user who may not run a command of the script': {
    all: "ERR ACL failure in script: User someone has no permissions to run the 'zadd' command script: <sha>, on @user_script:<line>.",
    'Redis 7.0':
      "ERR The user executing the script can't run this command or subcommand script: <sha>, on @user_script:<line>.",
    'Valkey 9':
      "ERR ACL failure in script: User someone has no permissions to run the 'zadd' command script: on @user_script:<line>.",
  },
  'a user who may not have a key that is declared': {
    all: 'NOPERM No permissions to access a key',
    'Redis 7.0': 'NOPERM this user has no permissions to access one of the keys used as arguments',
  },
  'a user who may not have a key that the script finds': {
    all: 'ERR ACL failure in script: No permissions to access a key script: <sha>, on @user_script:<line>.',
    'Redis 7.0':
      "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: <sha>, on @user_script:<line>.",
    'Valkey 9': 'ERR ACL failure in script: No permissions to access a key script: on @user_script:<line>.',
  },
  'a user who may not have a channel that the script tells': {
    all: 'ERR ACL failure in script: No permissions to access a channel script: <sha>, on @user_script:<line>.',
    'Redis 7.0':
      "ERR The user executing the script can't publish to the channel mentioned in the command script: <sha>, on @user_script:<line>.",
    'Valkey 9': 'ERR ACL failure in script: No permissions to access a channel script: on @user_script:<line>.',
  },
  'a user of that name whom nobody knows': {
    all: 'WRONGPASS invalid username-password pair or user is disabled.',
  },
  'nobody in particular, where a name is wanted': {
    all: 'NOAUTH Authentication required.',
  },
  'a replica, to a script': {
    all: "READONLY You can't write against a read only replica.",
  },
  'a replica that has lost its primary, to a read': {
    all: "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
  },
  'a primary with too few replicas': {
    all: 'NOREPLICAS Not enough good replicas to write.',
  },
  'a script that nobody has loaded': {
    all: 'NOSCRIPT No matching script.',
    'Redis 7.0': 'NOSCRIPT No matching script. Please use EVAL.',
  },
  'a command that is not there': {
    all: "ERR unknown command 'EMQ.NOTHING', with args beginning with: '1' ",
  },
  'a script that runs for too long': {
    all: 'BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
    'Redis 7.0': 'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
  },
  'the end of a script that was killed': {
    all: 'ERR Script killed by user with SCRIPT KILL... script: <sha>, on @user_script:<line>.',
    'Valkey 8.1': 'ERR Script killed by user with SCRIPT KILL. script: <sha>, on @user_script:<line>.',
    'Valkey 9': 'ERR Script killed by user with SCRIPT KILL. script: on @user_script:<line>.',
  },
  'a script that cannot be killed, since it has written': {
    all: 'UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.',
  },
  'a key of another type, in a command': {
    all: 'WRONGTYPE Operation against a key holding the wrong kind of value',
  },
  'a user who may not run the command': {
    all: "NOPERM User someone has no permissions to run the 'emq.claim' command",
  },
  'a user who may not have a key that the command finds': {
    all: 'NOPERM No permissions to access a key',
  },
  'a replica, to a command': {
    all: "READONLY You can't write against a read only replica.",
  },
  'a slot that nobody serves': {
    all: 'CLUSTERDOWN Hash slot not served',
  },
  'a slot that another node serves': {
    all: 'MOVED 11390 127.0.0.1:<port>',
  },
  'keys of two slots': {
    all: "CROSSSLOT Keys in request don't hash to the same slot",
  },
  'a slot on the move, and none of the keys is here': {
    all: 'ASK 11390 127.0.0.1:<port>',
  },
  'a slot on the move, and some of the keys are here': {
    all: 'TRYAGAIN Multiple keys request during rehashing of slot',
  },
  'a slot on the move, and a key that the script finds is not here': {
    all: 'ERR Script attempted to access a non local key in a cluster node script: <sha>, on @user_script:<line>.',
    'Valkey 9': 'ERR Script attempted to access a non local key in a cluster node script: on @user_script:<line>.',
  },
};

/** What a version said. */
export function wordsOf(what: string, version: string): string | undefined {
  const seen = WORDS[what];
  return seen?.[version as keyof Seen] ?? seen?.all;
}

/** A reply as it is kept here. */
export function asSeen(text: string): string {
  return text
    .replace(/script: [0-9a-f]{40}, /, 'script: <sha>, ')
    .replace(/@user_script:\d+/, '@user_script:<line>')
    .replace(/127\.0\.0\.1:\d+$/, '127.0.0.1:<port>');
}

/** The reply again. */
export function asSent(seen: string): string {
  return seen.replace('<sha>', '0123456789'.repeat(4)).replace('<line>', '119').replace('<port>', '6379');
}
