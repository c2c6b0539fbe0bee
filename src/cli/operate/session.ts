/**
 * A connection for an operator's command: to the node of `--url`, or to the cluster that it belongs to, by the wire of
 * its brand.
 *
 * Invariants: nothing is branded: where no client has been yet there is no queue to look at, and that is said; every call
 * asks first whether the command is to end, so that a Ctrl-C stops between two steps and never within one; what steps have
 * done is counted as it is done. Does not: ask anybody (confirm.ts) or print.
 */
import { Admin } from '../../queue/admin.js';
import type { Wire as Runner } from '../../queue/job-controls.js';
import type { Call, Outcome, Reply } from '../../wire/call.js';
import { Connector } from '../../wire/connector.js';
import { readUrl } from '../../wire/connector-url.js';
import { EmqError } from '../../wire/errors.js';
import type { Wire } from '../../wire/executor.js';
import { BRANDS, wireOfBrand } from '../../wire/fence.js';
import { Keyspace, NODE_VERSION_KEY } from '../../wire/keyspace.js';
import { transitions } from '../../wire/transitions.js';
import { CliError, EXIT } from '../exit.js';
import { openNode, type PlainNode } from '../node.js';
import type { Target } from '../target.js';
import { quoted } from '../terminal.js';

/** What steps have done so far: a word for it, and how many jobs. */
export type Done = Record<string, number>;

export interface Session extends AsyncDisposable {
  readonly connector: Connector;
  /** Runs calls of one queue, as `Admin`, `Lanes` and `Repeats` take it. */
  readonly runner: Runner;
  /** Address or path, without user and password. */
  readonly where: string;
  readonly done: Done;
}

const CONNECT_MS = 5_000;

export interface Asked extends Target {
  /** Default: that of the brand. */
  readonly wire: Wire | undefined;
  /** In a cluster, whose brand counts. */
  readonly queue: string | undefined;
  readonly signal: AbortSignal;
}

/** @throws EmqError as connecting does; CliError where there is no brand, or a foreign one. */
export async function openSession({ wire, queue, signal, ...at }: Asked): Promise<Session> {
  const node = await openNode(at, signal, 'EMQ_URL');
  let found: Wire | undefined;
  let cluster: boolean;
  const { where } = node;
  try {
    cluster = await isCluster(node);
    if (!cluster) found = wireOf(await node.ask('GET', NODE_VERSION_KEY), where);
  } finally {
    await node.close();
  }
  const target = cluster ? { cluster: clusterOf(at) } : at;
  const connect = async (as: Wire): Promise<Connector> =>
    // a policy that throws jobs away is the doctor's to tell
    Connector.connect({ ...target, wire: as, claim: false, eviction: 'ignore', connectTimeoutMs: CONNECT_MS, signal });
  let connector = await connect(wire ?? found ?? 4);
  try {
    if (cluster && wire === undefined && queue !== undefined) {
      const own = wireOf(await queueBrand(connector, queue), `queue ${queue}`);
      if (own === 6) {
        await connector.close();
        connector = await connect(6);
      }
    }
  } catch (error) {
    await connector.close();
    throw error;
  }
  const done: Done = {};
  return {
    ...{ connector, where, done, runner: stoppable(connector, signal, done) },
    [Symbol.asyncDispose]: () => connector.close(),
  };
}

/** The controls of a queue. */
export function adminOf(session: Session, queue: string): Admin {
  return new Admin(session.runner, queue);
}

/** A runner that goes no step further once the command is to end, and that counts what was done. */
function stoppable(connector: Connector, signal: AbortSignal, done: Done): Runner {
  const goOn = (): void => {
    if (signal.aborted) throw new EmqError('EMQ_CLOSED', 'EMQ_CLOSED interrupted');
  };
  return {
    run: async (call) => {
      goOn();
      const reply = await connector.run(call);
      count(call, reply, done);
      return reply;
    },
    runAll: async (calls): Promise<Outcome[]> => {
      goOn();
      const outcomes = await connector.runAll(calls);
      for (const [i, outcome] of outcomes.entries()) {
        const call = calls[i];
        if (outcome.ok && call !== undefined) count(call, outcome.reply, done);
      }
      return outcomes;
    },
  };
}

function count({ transition }: Call, reply: Reply, done: Done): void {
  const add = (what: string, n: number): void => void (done[what] = (done[what] ?? 0) + n);
  if (transition.name === transitions.purge.name) add('removed', transitions.purge.read(reply).removed);
  else if (transition.name === transitions.obliterate.name) add('steps of 100', 1);
  else if (transition.name === transitions.reprocess.name) add('reprocessed', reply === -1 ? 0 : 1);
}

/** Whether the node belongs to a cluster. */
export async function isCluster(node: PlainNode): Promise<boolean> {
  const hello = await node.ask('HELLO');
  if (!Array.isArray(hello)) return false;
  const at = hello.findIndex((word) => String(word) === 'mode');
  return at >= 0 && String(hello[at + 1]) === 'cluster';
}

/** The cluster's client asks this node for the others; user, password and TLS are the URL's. */
export function clusterOf({ url, redis }: Target): { nodes: { host: string; port: number }[]; options: object } {
  const { host, port = 6379, username, password, tls, path } = readUrl(url);
  if (host === undefined) {
    const text = `${path ?? 'the socket'} is a node of a cluster, which cannot be reached by a socket: give its host and port`;
    throw new CliError(EXIT.input, 'EMQ_INPUT', text);
  }
  const redisOptions = { username, password, tls: redis?.tls ?? tls };
  const given = Object.entries(redisOptions).filter(([, value]) => value !== undefined);
  return { nodes: [{ host, port }], options: { redisOptions: Object.fromEntries(given) } };
}

/** @returns the brand, null where there is none. One node of the cluster has the key; the others say where it is. */
async function queueBrand(connector: Connector, queue: string): Promise<Reply> {
  const { version } = new Keyspace(queue);
  const answers = await Promise.all(
    connector.primaries().map(async (ask) => {
      try {
        return await ask('GET', [version]);
      } catch (error) {
        if (error instanceof EmqError && error.code === 'MOVED') return null;
        throw error;
      }
    }),
  );
  return answers.find((answer) => answer !== null) ?? null;
}

function wireOf(brand: Reply, what: string): Wire {
  if (brand === null) {
    const text = `${what} is unbranded: no client of EchoMQ has been there yet, so there is nothing to see; is it the right node and database (--url)?`;
    throw new CliError(EXIT.refused, 'EMQWIRE', text);
  }
  const found = wireOfBrand(String(brand));
  if (found !== undefined) return found;
  const text = `${what} has the foreign brand ${quoted(String(brand), 60)}, needs ${BRANDS[4]} or ${BRANDS[6]}: emq doctor says more`;
  throw new CliError(EXIT.refused, 'EMQWIRE', text);
}
