/**
 * The rules of a user that `emq acl` makes: roles, put together from the lists of section 12 of docs/wire.md.
 *
 * Invariants: no rule is written here that is not in that table; a name that could mean more than it says in a pattern or
 * on a line is refused; no password comes near. Does not: send anything (apply.ts).
 */
import { inputError, show } from '../../wire/errors.js';
import type { Wire } from '../../wire/executor.js';
import { Keyspace } from '../../wire/keyspace.js';
import * as rights from '../../wire/rights.js';

export const ROLES = ['producer', 'consumer', 'operator', 'observer'] as const;
export type Role = (typeof ROLES)[number];

/** Whose rules, and for what. */
export interface Asked {
  /** One or several: a worker that also adds jobs is a consumer and a producer. */
  readonly roles: readonly Role[];
  /** Names of queues. */
  readonly queues: readonly string[];
  /** How names of queues begin. */
  readonly prefixes: readonly string[];
  readonly wire: Wire;
  readonly cluster: boolean;
  /** A producer adds flows too. */
  readonly flows: boolean;
  /** A producer has its jobs confirmed by replicas or on disk. */
  readonly durable: boolean;
  /** The user may brand a node, in a cluster a queue, that has no brand. */
  readonly mayBrand: boolean;
}

/** Takes everything from the user but its passwords, so that the rules behind it are all that it has. */
export const FROM_NOTHING = ['on', 'clearselectors', 'resetkeys', 'resetchannels', '-@all'];

const PREFIX = /^[A-Za-z0-9._-]{1,127}$/;
const USER = /^[A-Za-z0-9._@-]{1,64}$/;
const NODE_BRAND = /\{emq\}:version$/;

/** @throws EmqError `EMQ_INPUT` for a name that would have to be quoted, or the user whom everybody is without a login. */
export function checkUser(user: string): string {
  if (!USER.test(user)) throw inputError(`user ${show(user)} must be 1 to 64 of A-Z a-z 0-9 . _ @ -`);
  if (user !== 'default') return user;
  throw inputError('the user "default" is whoever does not log in: give another name, and turn that one off by hand');
}

/**
 * The rules, as arguments of ACL SETUSER behind `FROM_NOTHING`. Each once.
 * @throws EmqError `EMQ_INPUT` for names outside the grammar, or options that do not go together.
 */
export function rulesOf(asked: Asked): string[] {
  const { roles, queues, prefixes, cluster, flows, durable } = asked;
  if (queues.length + prefixes.length === 0)
    throw inputError('name a queue: --queue NAME, or --prefix P for all that begin so');
  if ((flows || durable) && !roles.includes('producer')) {
    throw inputError('--flows and --durable are for --role producer');
  }
  for (const queue of queues) new Keyspace(queue);
  for (const prefix of prefixes) {
    if (!PREFIX.test(prefix)) throw inputError(`prefix ${show(prefix)} must be 1 to 127 of A-Z a-z 0-9 . _ -`);
  }
  const names = [...queues, ...prefixes.map((prefix) => `${prefix}*`)];
  const all = [...roles.flatMap((role) => ofRole(role, asked)), ...around(asked)];
  // in a cluster the brand is the queue's own key
  const own = cluster ? all.filter((rule) => !NODE_BRAND.test(rule)) : all;
  return [
    ...new Set(
      own.flatMap((rule) => (rule.includes('{a}') ? names.map((name) => rule.replaceAll('{a}', `{${name}}`)) : [rule])),
    ),
  ];
}

function ofRole(role: Role, { wire, cluster, flows, durable }: Asked): readonly string[] {
  const looks = [...rights.LISTS, ...rights.LOOKS, ...(cluster ? rights.LOOKS_CLUSTER : [])];
  const proof = wire === 6 ? rights.PROOF : [];
  switch (role) {
    case 'producer':
      return [...(flows ? rights.FLOW_PRODUCER : rights.LANE_PRODUCER), ...(durable ? rights.DURABLE : []), ...proof];
    case 'consumer':
      return [...rights.ROLE_CONSUMER, ...rights.NAMED, ...(wire === 6 ? rights.NATIVE : []), ...proof];
    case 'operator':
      return [...rights.ROLE_OPERATOR, ...rights.NAMED, ...looks, ...rights.MOVES];
    case 'observer':
      return [...rights.ROLE_OBSERVER, ...looks];
  }
}

/** What every user of a connector has: what keeps the ACL LOG quiet, and in a cluster the way around. */
function around({ cluster, mayBrand }: Asked): readonly string[] {
  if (!cluster) return [...rights.QUIET, ...(mayBrand ? rights.MAY_BRAND : [])];
  const brand = mayBrand ? rights.MAY_BRAND_QUEUE : rights.BRAND_OF_QUEUE;
  return [...rights.QUIET_CLUSTER, ...rights.CLUSTER, ...brand];
}
