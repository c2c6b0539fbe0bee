/**
 * A TCP proxy that misbehaves on demand: it swallows bytes either way, as a half-open peer does, or cuts connections
 * at a chosen moment. Loopback only.
 */
import { EventEmitter, once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

interface ProxyEvents {
  /** Bytes from a client, before they are passed on. */
  request: [bytes: Buffer];
  /** Bytes from the server that were swallowed. */
  swallowed: [bytes: Buffer];
  connection: [];
}

export class Proxy extends EventEmitter<ProxyEvents> {
  /** `pass` both ways; `mute`: requests pass, replies are swallowed; `deaf`: both are swallowed. */
  mode: 'pass' | 'mute' | 'deaf' = 'pass';
  /** A request that holds this text is cut off instead of being passed on, and with it the connection. */
  cutBefore: string | undefined;
  /** Passes requests up to this text, then waits, then passes the rest: the middle of a pipeline. Once. */
  hold: { readonly before: string; readonly until: () => Promise<unknown> } | undefined;
  /** Changes what passes from client to server. */
  alter: ((bytes: Buffer) => Buffer) | undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(targetPort: number) {
    super();
    this.#server = createServer((near) => {
      const far = connect(targetPort, '127.0.0.1');
      this.emit('connection');
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.setNoDelay(true);
        socket.on('error', () => {});
        socket.on('close', () => {
          this.#sockets.delete(socket);
          near.destroy();
          far.destroy();
        });
      }
      near.on('data', (bytes) => {
        this.emit('request', bytes);
        if (this.cutBefore !== undefined && bytes.includes(this.cutBefore)) return void near.destroy();
        if (this.mode !== 'deaf') this.#pass(near, far, this.alter?.(bytes) ?? bytes);
      });
      far.on('data', (bytes) => {
        if (this.mode === 'pass') near.write(bytes);
        else this.emit('swallowed', bytes);
      });
    });
  }

  #pass(near: Socket, far: Socket, bytes: Buffer): void {
    const at = this.hold === undefined ? -1 : bytes.indexOf(this.hold.before);
    if (this.hold === undefined || at < 0) return void far.write(bytes);
    const { until } = this.hold;
    this.hold = undefined;
    near.pause();
    far.write(bytes.subarray(0, at));
    // The server has run what came before when it answers.
    far.once('data', () => {
      void until().then(() => {
        far.write(bytes.subarray(at));
        near.resume();
      });
    });
  }

  static async start(targetPort: number): Promise<Proxy> {
    const proxy = new Proxy(targetPort);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  get url(): string {
    return `valkey://127.0.0.1:${this.port}`;
  }

  /** Ends every connection at once. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Resolves with the first request that holds the text. */
  async seen(text: string): Promise<Buffer> {
    for (;;) {
      const [bytes] = (await once(this, 'request')) as [Buffer];
      if (bytes.includes(text)) return bytes;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
