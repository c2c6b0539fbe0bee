/**
 * A TCP proxy in front of a server that fails in the ways networks fail, and that can be pointed at another server.
 *
 * Invariants: loopback only; bytes that are passed on keep their order; what is faulty is said by the test and lasts
 * until it says otherwise. A half-open connection stays open on the server's side until `heal`, as it would in life:
 * its blocked commands go on there. Does not: know the protocol.
 */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  /** Swallows both ways. */
  deaf: boolean;
}

/** Passes things on in their order, each when it is due. */
class Lane {
  readonly #waiting: { readonly due: number; readonly pass: () => void }[] = [];

  add(delayMs: number, pass: () => void): void {
    if (delayMs === 0 && this.#waiting.length === 0) return pass();
    if (this.#waiting.push({ due: performance.now() + delayMs, pass }) === 1) this.#arm();
  }

  #arm(): void {
    const [first] = this.#waiting;
    if (first === undefined) return;
    setTimeout(() => {
      this.#waiting.shift();
      first.pass();
      this.#arm();
    }, first.due - performance.now());
  }
}

export class FaultyProxy implements AsyncDisposable {
  /** Where new connections lead. */
  target: number;
  /** Every chunk is held up by this many ms, each way. */
  slowMs = 0;
  readonly #pairs = new Set<Pair>();
  #server: Server | undefined;
  #port = 0;
  /** So many bytes of replies still pass; then the connection that carries the next one is cut in it. */
  #cutIn: { bytes: number; readonly done: () => void } | undefined;
  #cutFor: { readonly text: string; readonly done: () => void } | undefined;

  private constructor(target: number) {
    this.target = target;
  }

  /** @param target a port of loopback. */
  static async start(target: number): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(target);
    await proxy.accept();
    return proxy;
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `valkey://127.0.0.1:${this.#port}`;
  }

  /** Connections that are open on the near side. */
  get open(): number {
    return [...this.#pairs].filter(({ near }) => !near.destroyed).length;
  }

  /** Takes connections, at the same port as before. */
  async accept(): Promise<void> {
    this.#server = createServer((near) => this.#join(near)).listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (typeof address === 'object' && address !== null) this.#port = address.port;
  }

  /** Ends all connections and takes no new ones: connecting is refused. */
  async refuse(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.close();
    this.cut();
    await once(server, 'close');
  }

  /** Ends all connections. */
  cut(): void {
    for (const { near, far } of this.#pairs) {
      near.destroy();
      far.destroy();
    }
  }

  /** Ends all connections by a reset, on both sides. */
  reset(): void {
    for (const { near, far } of this.#pairs) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  }

  /** All connections that there are now swallow what comes, both ways, without a word; new ones work. */
  halfOpen(): void {
    for (const pair of this.#pairs) pair.deaf = true;
  }

  /** Resolves when, after so many more bytes of replies, a connection was cut in the middle of one. */
  cutMidReply(bytes: number): Promise<void> {
    return new Promise((done) => (this.#cutIn = { bytes, done }));
  }

  /** Resolves when the next request that holds the text was passed on, and its connection was cut instead of a reply. */
  cutReplyTo(text: string): Promise<void> {
    return new Promise((done) => (this.#cutFor = { text, done }));
  }

  /** The server learns that the half-open connections are gone. */
  heal(): void {
    this.slowMs = 0;
    for (const { near, far, deaf } of this.#pairs) {
      if (!deaf) continue;
      near.destroy();
      far.destroy();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.refuse();
    this.cut();
  }

  #join(near: Socket): void {
    const pair: Pair = { near, far: connect(this.target, '127.0.0.1'), deaf: false };
    const { far } = pair;
    this.#pairs.add(pair);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => {
        if (!pair.deaf) other.destroy();
        if (near.destroyed && far.destroyed) this.#pairs.delete(pair);
      });
    }
    const [there, back] = [new Lane(), new Lane()];
    const hear = (lane: Lane, pass: () => void): void => lane.add(this.slowMs, () => void (pair.deaf || pass()));
    near.on('data', (bytes: Buffer) => hear(there, () => this.#request(pair, bytes)));
    far.on('data', (bytes: Buffer) => hear(back, () => this.#reply(pair, bytes)));
  }

  #request({ near, far }: Pair, bytes: Buffer): void {
    far.write(bytes);
    const cut = this.#cutFor;
    if (cut === undefined || !bytes.includes(cut.text)) return;
    this.#cutFor = undefined;
    // What the server says next comes too late.
    far.removeAllListeners('data').once('data', () => {
      near.destroy();
      far.destroy();
      cut.done();
    });
  }

  #reply({ near, far }: Pair, bytes: Buffer): void {
    const cut = this.#cutIn;
    if (cut === undefined) return void near.write(bytes);
    if (cut.bytes >= bytes.length) {
      cut.bytes -= bytes.length;
      return void near.write(bytes);
    }
    this.#cutIn = undefined;
    near.end(bytes.subarray(0, cut.bytes));
    far.destroy();
    cut.done();
  }
}
