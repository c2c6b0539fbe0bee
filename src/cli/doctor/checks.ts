/**
 * The doctor's judgements on what was read: one function for each, all pure.
 *
 * Invariants: every finding that is not `ok` says how to mend it; what could not be read is a `warn` that says which
 * right is wanting, never an `ok`. Does not: send anything. Brand and module are in fence-checks.ts, the user's rights in
 * rights.ts, a queue in queue.ts.
 */
import type { Wire } from '../../wire/executor.js';
import { quoted } from '../terminal.js';
import type { Facts } from './facts.js';
import { checkBrand, checkModule, isFull, mayBeWire4, memoryOf, primaryOf, type Info } from './fence-checks.js';
import { bad, ok, warn, type Finding } from './findings.js';

export function checkAll(facts: Facts, wire: Wire): Finding[] {
  const checks = [checkModule(facts, wire), checkBrand(facts, wire), checkClock(facts), checkLatency(facts)];
  if ('refused' in facts.info) {
    const mend = 'grant +info to see version, memory, persistence and role, or ask as a user who may';
    return [warn('server', 'this user may not run INFO: most checks were not made', mend), ...checks.flat()];
  }
  const info = facts.info.value;
  return [
    checkVersion(info, wire, mayBeWire4(facts)),
    checkRole(info),
    ...checkCluster(facts),
    ...checks.slice(0, 2).flat(),
    ...checkMemory(info),
    ...checkPersistence(info, facts),
    checkConnections(info),
    ...checks.slice(2).flat(),
  ];
}

function checkVersion(info: Info, wire: Wire, may4: boolean): Finding {
  const valkey = info.get('valkey_version');
  const version = valkey ?? info.get('redis_version') ?? '';
  const major = Number(version.split('.', 1)[0]);
  const name = `${valkey === undefined ? 'Redis' : 'Valkey'} ${version || 'of an unknown version'}`;
  const text = `${name}, up ${duration(Number(info.get('uptime_in_seconds') ?? 0))}`;
  if (!(major >= 7))
    return bad(
      'server',
      `${text}: too old, its scripts have no flags`,
      'use Valkey 7.2 or later, for wire 6 8.0 or later',
    );
  if (wire === 6 && (valkey === undefined || major < 8)) {
    const mend = `upgrade the server${may4 ? ', or connect with wire: 4' : ''}`;
    return bad('server', `${text}: wire 6 needs Valkey 8.0 or later`, mend);
  }
  if (valkey === undefined) {
    if (version.startsWith('7.0.')) return ok('server', `${text}; good for wire 4, wire 6 needs Valkey 8.0`);
    return warn(
      'server',
      `${text}: EchoMQ is tested on Valkey, and on Redis 7.0`,
      'wire 4 should work from Redis 7.0 on; run emq parity against a spare one first',
    );
  }
  return ok('server', `${text}${major < 8 ? '; good for wire 4, wire 6 needs 8.0' : ''}`);
}

function checkRole(info: Info): Finding {
  if (info.get('role') !== 'master') {
    const link = info.get('master_link_status') === 'up' ? '' : ', and its link to the primary is down';
    return bad(
      'role',
      `a replica${link}: it is read-only, every transition writes`,
      `connect to the primary, ${primaryOf(info)}`,
    );
  }
  const replicas = Number(info.get('connected_slaves') ?? 0);
  if (replicas === 0) return ok('role', 'primary, without replicas');
  return ok(
    'role',
    `primary, ${replicas} replica${replicas === 1 ? '' : 's'}; replication is asynchronous, so a failover may lose the last writes`,
  );
}

function checkCluster({ cluster, clusterState }: Facts): Finding[] {
  if (!cluster) return [];
  if (clusterState !== undefined && clusterState !== 'ok') {
    const text = `a node of a cluster that is in state ${quoted(clusterState)}: it may refuse every call`;
    return [bad('cluster', text, 'CLUSTER INFO and CLUSTER SHARDS tell which slots are not served')];
  }
  const text =
    'a node of a cluster: the brand is per queue, in the queue’s own slot; --queue NAME looks at one, emq queues lists them';
  return [ok('cluster', text)];
}

function checkMemory(info: Info): Finding[] {
  const { used, limit } = memoryOf(info);
  const policy = info.get('maxmemory_policy') ?? 'unknown';
  const evicted = Number(info.get('evicted_keys') ?? 0);
  const findings: Finding[] = [];
  const share = limit === 0 ? 0 : used / limit;
  const amount = limit === 0 ? `${size(used)} used, no limit` : `${size(used)} of ${size(limit)} used`;
  const room = 'raise maxmemory, or let the workers catch up: claims and settles go on';
  if (isFull(info)) findings.push(bad('memory', `${amount}, full: enqueues are refused now (OOM)`, room));
  else if (share >= 0.9) {
    const text =
      share < 1 ? 'nearly full, then enqueues are refused (OOM)' : 'full: it evicts, or refuses enqueues (OOM)';
    findings.push(warn('memory', `${amount}: ${text}`, room));
  } else if (limit > 0) findings.push(ok('memory', amount));
  else
    findings.push(
      warn(
        'memory',
        `${amount}: when the machine has no more, the system ends the server`,
        'CONFIG SET maxmemory to what it may take, and the same in its configuration file',
      ),
    );
  const mend =
    'CONFIG SET maxmemory-policy noeviction, and the same in its configuration file; keep caches on another node';
  if (policy === 'noeviction')
    findings.push(ok('eviction', 'noeviction: nothing is thrown away, a full server refuses enqueues'));
  else if (policy.startsWith('volatile-')) {
    findings.push(
      warn(
        'eviction',
        `${policy}: when memory is full, dedup and rate keys go early, so jobs may run twice or too fast`,
        mend,
      ),
    );
  } else if (policy === 'unknown')
    findings.push(warn('eviction', 'the eviction policy is not told', 'make sure that it is noeviction'));
  else if (limit === 0)
    findings.push(warn('eviction', `${policy}: as soon as maxmemory is set, jobs can be thrown away`, mend));
  else
    findings.push(
      bad('eviction', `${policy}: when memory is full, jobs and whole queues are thrown away without a word`, mend),
    );
  if (evicted > 0) {
    findings.push(
      warn(
        'evicted',
        `${evicted} keys have been thrown away since the start`,
        'jobs may be missing, or ids without a row may wait; set noeviction',
      ),
    );
  }
  return findings;
}

function checkPersistence(info: Info, { appendfsync, save }: Facts): Finding[] {
  const findings: Finding[] = [];
  if (info.get('aof_enabled') === '1' && info.get('aof_last_write_status') === 'err') {
    findings.push(
      bad('persistence', 'the last write of the append-only file failed', 'look at the disk and at the server’s log'),
    );
  }
  if (info.get('rdb_last_bgsave_status') === 'err') {
    findings.push(
      bad(
        'persistence',
        'the last snapshot failed; the server may refuse writes (MISCONF)',
        'look at the disk and at the server’s log',
      ),
    );
  }
  const kept = persistence(info, appendfsync, save);
  return [...findings, kept];
}

function persistence(info: Info, appendfsync: string | undefined, save: string | undefined): Finding {
  const check = 'persistence';
  if (info.get('aof_enabled') === '1') {
    if (appendfsync === 'always')
      return ok(check, 'append-only file, synced at every write: what was acknowledged survives a crash');
    if (appendfsync === 'everysec')
      return ok(check, 'append-only file, synced every second: a crash of the machine loses up to about a second');
    if (appendfsync === 'no') {
      return warn(
        check,
        'append-only file, synced when the system likes: a crash of the machine loses up to half a minute',
        'CONFIG SET appendfsync everysec (or always)',
      );
    }
    return ok(check, 'append-only file; this user may not see how often it is synced (everysec loses up to a second)');
  }
  const mend = 'CONFIG SET appendonly yes, and the same in its configuration file';
  if (save === '') return warn(check, 'nothing is kept on disk: a restart loses all jobs', mend);
  const changes = info.get('rdb_changes_since_last_save') ?? '?';
  const when = save === undefined ? 'snapshots at most' : `snapshots only (save ${save})`;
  return warn(check, `${when}: a crash loses all since the last one, now ${changes} changes`, mend);
}

function checkConnections(info: Info): Finding {
  const clients = Number(info.get('connected_clients') ?? 0);
  const most = Number(info.get('maxclients') ?? 0);
  const refused = Number(info.get('rejected_connections') ?? 0);
  const text = `${clients} of at most ${most} clients`;
  if (most > 0 && clients >= 0.9 * most)
    return warn('clients', `${text}: nearly all in use`, 'raise maxclients, or share connectors');
  if (refused > 0)
    return warn(
      'clients',
      `${text}; ${refused} were turned away since the start`,
      'raise maxclients, or share connectors',
    );
  return ok('clients', text);
}

function checkClock({ skewMs }: Facts): Finding[] {
  if ('refused' in skewMs) return [warn('clock', 'this user may not run TIME', 'grant +time: scripts need it too')];
  const off = Math.round(Math.abs(skewMs.value));
  if (off <= 1_000) return [ok('clock', `the server’s clock and this machine’s agree within ${Math.max(off, 1)} ms`)];
  const where = skewMs.value > 0 ? 'ahead of' : 'behind';
  return [
    warn(
      'clock',
      `the server’s clock is ${(off / 1000).toFixed(1)} s ${where} this machine’s: leases are the server’s, but a run-at time and the time in an id are yours`,
      'set both right by NTP',
    ),
  ];
}

function checkLatency({ roundTripMs }: Facts): Finding[] {
  if (roundTripMs === undefined)
    return [warn('latency', 'this user may not run PING', 'grant +ping: the heartbeat needs it')];
  const text = `a round trip takes ${roundTripMs.toFixed(roundTripMs < 10 ? 2 : 0)} ms`;
  if (roundTripMs < 5) return [ok('latency', text)];
  return [
    warn(
      'latency',
      `${text}: one worker loop makes at most ${Math.floor(500 / roundTripMs)} jobs a second`,
      'move the workers near the server, run more loops in one process, or claim in batches',
    ),
  ];
}

/** A time in words, from whole seconds. */
export function duration(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}

function size(bytes: number): string {
  return bytes < 2 ** 30 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${(bytes / 2 ** 30).toFixed(1)} GiB`;
}
