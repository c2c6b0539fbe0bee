/**
 * One connection from its making to its end: opened, recognised, fenced, kept under watch, given up.
 *
 * Invariants: a link is handed out only after the fence of this very connection has passed, and it never comes back:
 * after a loss a new link is opened, and fenced, from the start. On a cluster node the brand is per queue and is not
 * looked at here (queue-gate.ts). A link that was not handed out, or was destroyed, leaves no socket and no timer.
 * Does not: retry, or know of calls. A dedicated connection (a blocking read, a subscription) is one more link; on a
 * cluster it is a plain connection to one node.
 */
import type { Cluster, Redis } from 'ioredis';

import type { Arg, Reply } from './call.js';
import { address, nodeSource, type ClientSource } from './client-source.js';
import { commandsOf, sendOn, type CommandFactory, type Moved, type Sent } from './command.js';
import type { Settings } from './connector-options.js';
import { EmqError, fromReply } from './errors.js';
import type { EvictionWatch, Sight } from './eviction.js';
import type { Frame } from './executor.js';
import { checkBrand, proveModule, type Ask } from './fence.js';
import { Heartbeat } from './heartbeat.js';
import { Keyspace, NODE_VERSION_KEY } from './keyspace.js';
import { isErrorReply, readHello, toReply, type Hello } from './reply.js';

const GONE = 'the connection was closed by the other side';

/** A live connection: to one server, or to all nodes of a cluster. */
export class Link {
  /** True if the brand is per queue: this is a cluster, or one node of a cluster. */
  readonly perQueue: boolean;
  /** The RESP version in use. */
  readonly protocol: 2 | 3;
  /** Called once, when the connection is gone. */
  onLost: ((reason: EmqError) => void) | undefined;
  /** Called when a node of the cluster is gone: what was seen on its connection no longer counts. @param where it was */
  onNodeLost: ((where: string) => void) | undefined;
  /** Called with every message of a subscribed channel. What it throws would end the process: it must not. */
  onMessage: ((channel: Buffer, message: Buffer) => void) | undefined;
  /** Resolves when the connection is gone, whoever ended it. */
  readonly ended: Promise<void>;

  readonly #client: Redis | Cluster;
  readonly #commands: CommandFactory;
  readonly #source: ClientSource;
  readonly #heartbeat: Heartbeat;
  readonly #slots = new Map<string, number>();
  /** What looks at nodes that are met later; undefined where nothing is written. */
  readonly #eviction: EvictionWatch | undefined;
  readonly #met: WeakSet<Redis>;
  readonly #settings: Settings;
  #retired = false;
  #gone = false;
  #tellEnded: () => void = () => {};
  #lastError: Error | undefined;

  /** @internal openLink() makes links. */
  constructor(
    client: Redis | Cluster,
    source: ClientSource,
    settings: Settings,
    hello: { perQueue: boolean; protocol: 2 | 3; met: readonly Redis[] },
    eviction: EvictionWatch | undefined,
  ) {
    this.#client = client;
    this.#commands = commandsOf(client);
    this.#source = source;
    this.#settings = settings;
    this.#eviction = eviction;
    this.#met = new WeakSet(hello.met);
    this.ended = new Promise((resolve) => (this.#tellEnded = resolve));
    this.perQueue = hello.perQueue;
    this.protocol = hello.protocol;
    client.on('error', (error: Error) => (this.#lastError = error));
    client.once('end', () => this.#end());
    client.on('-node', (node: Redis) => this.onNodeLost?.(address(node.options)));
    client.on('messageBuffer', (channel: Buffer, message: Buffer) => this.onMessage?.(channel, message));
    this.#heartbeat = new Heartbeat(
      () => nodesOf(client),
      this.#commands,
      settings.heartbeatMs,
      settings.heartbeatDeadlineMs,
    );
    // It may have ended between the last reply of the fence and here: then the event is past.
    if (client.status === 'end') this.#end();
  }

  /** False once the connection is lost or retired: then nothing more is to be sent on it. */
  get usable(): boolean {
    if (this.#retired || this.#gone || this.#client.status !== 'ready') return false;
    return this.#client.isCluster || (this.#client as Redis).stream.writable;
  }

  /** True for a cluster: an unsent command may find another node on the next try. */
  get manyNodes(): boolean {
    return this.#client.isCluster;
  }

  /** Where it leads: an address or a path. */
  get where(): string {
    return this.#source.where;
  }

  /**
   * Writes the frame to the node that serves the queue.
   * @param moved asked when another node serves the queue by now.
   */
  send(frame: Frame, queue: string, moved?: Moved): Sent {
    const slot = this.manyNodes ? this.#slotOf(queue) : undefined;
    return sendOn(this.#client, this.#commands(frame.command, frame.args, slot), moved);
  }

  /** Sends one command about the queue and waits for its reply. @throws EmqError */
  async ask(queue: string, command: string, args: readonly Arg[]): Promise<Reply> {
    return toReply(
      await this.send({ command, args }, queue).promise.catch((error: unknown) => {
        throw toEmqError(error, this.#source);
      }),
    );
  }

  /**
   * Subscribes; resolves when the server has confirmed it. From then on onMessage hears of the channel. The connection
   * is good for nothing else then: RESP2 refuses all other commands. On a link to one node only.
   * @throws EmqError
   */
  subscribe(channel: string): Promise<void> {
    return this.#listen('subscribe', channel);
  }

  /** The opposite. @throws EmqError */
  unsubscribe(channel: string): Promise<void> {
    return this.#listen('unsubscribe', channel);
  }

  /**
   * Where a connection of its own comes from: on a cluster one to the node that serves the queue, or to any primary
   * without a queue. @throws EmqError
   */
  async dedicatedSource(queue: string | undefined): Promise<ClientSource> {
    if (!this.manyNodes) return this.#source;
    const node = queue === undefined ? this.#anyPrimary() : await this.#nodeOf(queue);
    if (node === undefined) {
      throw new EmqError('EMQ_CONNECTION', `no node of ${this.#source.where} can be reached`);
    }
    return nodeSource(node, this.#source, this.#settings);
  }

  /**
   * For what belongs to no queue: one asker for every primary, that rejects with an `EmqError` and tries nothing again.
   * @throws EmqError `EMQ_CONNECTION` when a node that serves slots is away: half of the answer would be none.
   */
  primaries(): Ask[] {
    const nodes = this.manyNodes ? this.#allPrimaries() : [this.#client as Redis];
    return nodes.map((node) => this.#asker(node));
  }

  /**
   * Looks at the node of a cluster that is to serve the queue, if it was not there yet when this link was opened. Before
   * anything is written there. @throws EmqError of the watch; `EMQ_CONNECTION`.
   */
  async meet(queue: string): Promise<void> {
    if (!this.manyNodes || this.#eviction === undefined) return;
    const owner = (this.#client as Cluster).slots[this.#slotOf(queue)]?.[0];
    const node = (this.#client as Cluster).nodes('master').find(({ options }) => address(options) === owner);
    if (node === undefined && owner !== undefined && this.#eviction.mustKnow) {
      // A command for the queue would find it by a redirect, and write there unseen.
      this.refresh();
      throw new EmqError('EMQ_CONNECTION', `the node ${owner} of ${this.#source.where} cannot be reached`);
    }
    if (node === undefined || this.#met.has(node)) return;
    this.#eviction.judge(await this.#eviction.look(this.#asker(node), address(node.options)));
    this.#met.add(node);
  }

  /** Looks again which node serves which slot. Does nothing on a single server. */
  refresh(): void {
    if (this.#client.isCluster) (this.#client as Cluster).refreshSlotsCache();
  }

  /** Takes no more calls: this server is not, or no longer, what it should be. Replies still come in. */
  retire(): void {
    this.#retired = true;
  }

  /** Closes at once. Resolves when no socket is left; what was in flight rejects before that. */
  destroy(reason?: Error): Promise<void> {
    this.#lastError ??= reason;
    this.#retired = true;
    this.#heartbeat.stop();
    return destroyClient(this.#client).then(() => this.#tellEnded());
  }

  /** Why a command got no reply. The library only says that the connection is closed; the link may know better. */
  explain(error: unknown): EmqError {
    const known = this.manyNodes ? undefined : (this.#heartbeat.failure ?? this.#lastError);
    return toEmqError(known ?? error, this.#source);
  }

  #asker(node: Redis): Ask {
    return async (command, args) => {
      const sent = sendOn(node, this.#commands(command, args));
      return toReply(
        await sent.promise.catch((error: unknown) => {
          throw isErrorReply(error) ? toEmqError(error, this.#source) : this.explain(error);
        }),
      );
    };
  }

  // In lower case: the library keeps a list of the channels under the names it knows.
  async #listen(command: 'subscribe' | 'unsubscribe', channel: string): Promise<void> {
    await sendOn(this.#client, this.#commands(command, [channel])).promise.catch((error: unknown) => {
      throw isErrorReply(error) ? toEmqError(error, this.#source) : this.explain(error);
    });
  }

  #allPrimaries(): Redis[] {
    const cluster = this.#client as Cluster;
    const nodes = cluster.nodes('master');
    const there = new Set(nodes.map(({ options }) => address(options)));
    // the library forgets a node that it has lost, and remembers whose slots these were
    const unserved = (owners: readonly string[] | undefined): boolean =>
      owners?.[0] !== undefined && !there.has(owners[0]);
    const away = cluster.slots.find(unserved)?.[0];
    if (away === undefined) return nodes;
    // another may have taken its place: who asks again is told
    this.refresh();
    throw new EmqError('EMQ_CONNECTION', `the node ${away} of ${this.#source.where} cannot be reached`);
  }

  #anyPrimary(): Redis | undefined {
    const nodes = (this.#client as Cluster).nodes('master').filter(({ status }) => status === 'ready');
    return nodes[Math.floor(Math.random() * nodes.length)];
  }

  /** Asks for the queue's brand, which every connector may read, and looks which node was asked in the end. */
  async #nodeOf(queue: string): Promise<Redis | undefined> {
    const sent = this.send({ command: 'GET', args: [new Keyspace(queue).version] }, queue);
    await sent.promise.catch((error: unknown) => {
      throw toEmqError(error, this.#source);
    });
    return nodesOf(this.#client).find(({ stream }) => stream === sent.socket);
  }

  #slotOf(queue: string): number {
    let slot = this.#slots.get(queue);
    // In lower case: that is how older versions of the library know their commands.
    if (slot === undefined) this.#slots.set(queue, (slot = this.#commands('get', [`{${queue}}`]).getSlot()));
    return slot;
  }

  #end(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#heartbeat.stop();
    this.#tellEnded();
    this.onLost?.(this.explain(new Error(GONE)));
  }
}

/**
 * One try to connect: the transport, the client library's handshake, what the server is, and the fence.
 * @param timeoutMs for all of it.
 * @param eviction looks at the nodes that are met; without it nobody does.
 * @throws EmqError: `EMQWIRE` from the fence, `EMQ_EVICTION`, the server's own error, `EMQ_CONNECTION` for the rest, `EMQ_CLOSED` when aborted.
 */
export async function openLink(
  source: ClientSource,
  settings: Settings,
  timeoutMs: number,
  signal: AbortSignal,
  eviction?: EvictionWatch,
): Promise<Link> {
  if (signal.aborted) throw givenUp(signal);
  const client = source.create();
  let failure: Error | undefined;
  const note = (error: Error): void => void (failure ??= error);
  // A node of a cluster that does not know this user. A library that does not wait for that answer would go on as the
  // default user.
  const noteNode = (error: Error): void => void (/^(WRONGPASS|NOAUTH)/.test(error.message) && note(error));
  client.on('error', note).on('node error', noteNode);
  let giveUp: (error: EmqError) => void = () => {};
  const limit = new Promise<never>((_, reject) => (giveUp = reject));
  const onAbort = (): void => giveUp(givenUp(signal));
  const timer = setTimeout(() => giveUp(late(source, timeoutMs)), timeoutMs);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    const opening = establish(client, source, settings, () => failure, eviction);
    opening.catch(() => {}); // When the limit came first, its error is the one that counts.
    return await Promise.race([opening, limit]);
  } catch (error) {
    await destroyClient(client);
    // The library rejects with "Connection is closed." and tells the reason in an event.
    throw placed(toEmqError(error instanceof EmqError ? error : (failure ?? error), source), source);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    client.removeListener('error', note).removeListener('node error', noteNode);
    client.on('error', () => {}); // Without a listener the library prints what a dying socket still says.
  }
}

async function establish(
  client: Redis | Cluster,
  source: ClientSource,
  settings: Settings,
  failure: () => Error | undefined,
  eviction: EvictionWatch | undefined,
): Promise<Link> {
  await client.connect();
  const commands = commandsOf(client);
  const askOn = (target: Redis | Cluster) => async (command: string, args: readonly Arg[]) => {
    const reply = await sendOn(target, commands(command, args)).promise.catch((cause: unknown) => {
      throw isErrorReply(cause) ? fromReply(cause.message) : (failure() ?? cause);
    });
    return toReply(reply);
  };
  const { hello, sights, met } = await greet(client, askOn, eviction);
  // A refused SELECT or AUTH is an event only, and the library goes on, in database 0 or as another user. It may even be
  // ready before it has the server's answer to them, but that answer comes before HELLO's.
  const error = failure();
  if (error !== undefined) throw error;
  // Before the brand: a node that is refused is left as it is.
  for (const sight of sights) eviction?.judge(sight);
  const perQueue = client.isCluster || hello.cluster;
  if (settings.wire === 6) await proveEverywhere(client, askOn);
  if (!perQueue) await checkBrand(askOn(client), NODE_VERSION_KEY, 'node', settings);
  return new Link(client, source, settings, { perQueue, protocol: hello.protocol, met }, eviction);
}

type AskOn = (target: Redis | Cluster) => Parameters<typeof proveModule>[0];

/**
 * Asks what is there. On a cluster this connects to every primary: the library would connect to each at its first
 * command only, and refuse the next ones until it has. One that is away does not matter yet.
 */
async function greet(
  client: Redis | Cluster,
  askOn: AskOn,
  eviction: EvictionWatch | undefined,
): Promise<{ readonly hello: Hello; readonly sights: readonly (Sight | undefined)[]; readonly met: readonly Redis[] }> {
  const meet = async (node: Redis) => {
    const [reply, sight] = await Promise.all([
      askOn(node)('HELLO', []),
      eviction?.look(askOn(node), address(node.options)),
    ]);
    return { node, hello: readHello(reply), sight };
  };
  const nodes = client.isCluster ? (client as Cluster).nodes('master') : [client as Redis];
  const meetings = await Promise.allSettled(nodes.map(meet));
  const met = meetings.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const [first] = met;
  if (first === undefined) throw meetings.find((one) => one.status === 'rejected')?.reason;
  return { hello: first.hello, sights: met.map(({ sight }) => sight), met: met.map(({ node }) => node) };
}

/** On a cluster, every primary that can be reached; the others are asked when a queue of theirs is touched. */
async function proveEverywhere(client: Redis | Cluster, askOn: AskOn): Promise<void> {
  if (!client.isCluster) return proveModule(askOn(client));
  const proofs = await Promise.allSettled((client as Cluster).nodes('master').map((node) => proveModule(askOn(node))));
  for (const proof of proofs) {
    if (proof.status === 'rejected' && proof.reason instanceof EmqError) throw proof.reason;
  }
}

function nodesOf(client: Redis | Cluster): Redis[] {
  return client.isCluster ? (client as Cluster).nodes('all') : [client as Redis];
}

/** The library ends a socket politely and waits for the other side: a dead peer never answers that. */
async function destroyClient(client: Redis | Cluster): Promise<void> {
  if (client.status === 'end') return;
  const ended = new Promise<void>((resolve) => client.once('end', resolve));
  const nodes = nodesOf(client);
  client.disconnect();
  for (const node of nodes) (node.stream as Redis['stream'] | undefined)?.destroy();
  // A library that never said "end" (a name lookup that hangs, say) must not make a close hang.
  let timer: NodeJS.Timeout | undefined;
  const enough = new Promise<void>((resolve) => (timer = setTimeout(resolve, 1_000)));
  await Promise.race([ended, enough]);
  clearTimeout(timer);
}

/** The error of a try to connect that its caller gave up; the caller's own, if it is one of ours. */
export function givenUp(signal: AbortSignal): EmqError {
  if (signal.reason instanceof EmqError) return signal.reason;
  return new EmqError('EMQ_CLOSED', 'connecting was given up by its caller', { cause: signal.reason as unknown });
}

function late(source: ClientSource, timeoutMs: number): EmqError {
  return new EmqError('EMQ_CONNECTION', `${source.where} did not accept a connection within ${timeoutMs} ms`);
}

/** What to do about the errors that a server gives at connect without saying where. */
const HINTS: Readonly<Record<string, (where: string) => string>> = {
  NOAUTH: (where) => `${where} wants a password: give it in the URL, or as redis.password`,
  WRONGPASS: (where) => `the user or the password is not right at ${where}`,
  READONLY: (where) => `${where} is a replica, connect to its primary`,
};

function placed(error: EmqError, source: ClientSource): EmqError {
  const hint = HINTS[error.code];
  return hint === undefined
    ? error
    : new EmqError(error.code, `${error.reason}: ${hint(source.where)}`, { cause: error });
}

/** Reads whatever the client library rejected with. Its errors carry commands, passwords included: none is passed on. */
export function toEmqError(error: unknown, source: ClientSource): EmqError {
  if (error instanceof EmqError) return error;
  if (isErrorReply(error)) return fromReply(source.redact(error.message));
  const { lastNodeError } = (error ?? {}) as { lastNodeError?: unknown };
  if (lastNodeError instanceof Error) return toEmqError(lastNodeError, source);
  // Several addresses of one name: the first refusal speaks for all.
  const first = error instanceof AggregateError ? (error.errors[0] as unknown) : error;
  if (!(first instanceof Error)) return new EmqError('EMQ_CONNECTION', `no connection to ${source.where}`);
  const options = isSystemError(first) ? { cause: first } : undefined;
  return new EmqError('EMQ_CONNECTION', `no connection to ${source.where}: ${source.redact(first.message)}`, options);
}

function isSystemError(error: Error): boolean {
  return typeof (error as NodeJS.ErrnoException).code === 'string' && !('command' in error);
}
