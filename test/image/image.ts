/**
 * The image under test: built from Dockerfile.valkey by the engine that testcontainers uses, and containers of it.
 *
 * Invariants: a container is gone, its volumes too, when its `await using` scope is left; the image goes with `remove`.
 * Does not: look at the compose file (compose.ts does).
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { GenericContainer, Wait, getContainerRuntimeClient, type StartedTestContainer } from 'testcontainers';
import { BRANDS } from '../../src/wire/fence.js';
import { NODE_VERSION_KEY } from '../../src/wire/keyspace.js';

export const ROOT = join(import.meta.dirname, '..', '..');
/** What the Dockerfile takes from the project. */
export const CONTEXT = ['module', 'docker', 'LICENSE'];
export const PORT = 6379;
/** The node's own line: it comes when the port is open, whatever comes before it. */
export const READY = /Ready to accept connections tcp/;

export type Dockerode = Awaited<ReturnType<typeof getContainerRuntimeClient>>['container']['dockerode'];

export class Image {
  private constructor(
    readonly tag: string,
    readonly engine: Dockerode,
  ) {}

  /** Builds it. Rejects with what the step that failed said. */
  static async build(): Promise<Image> {
    const { container } = await getContainerRuntimeClient();
    // An engine of scripts/docker-engine.mjs: its containers do not reach out, and there is no registry from which the
    // image of testcontainers' cleaner could come.
    const { Labels } = (await container.dockerode.info()) as { Labels: string[] | null };
    const closed = Labels?.includes('echomq.network=closed') ?? false;
    if (closed) process.env['TESTCONTAINERS_RYUK_DISABLED'] = 'true';
    const image = new Image(`emq-test-${randomBytes(4).toString('hex')}:latest`, container.dockerode);
    const tar = spawn('tar', ['-C', ROOT, '-c', 'Dockerfile.valkey', ...CONTEXT], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const options = { t: image.tag, dockerfile: 'Dockerfile.valkey', ...(closed ? { networkmode: 'host' } : {}) };
    const progress = await image.engine.buildImage(tar.stdout, options);
    let said = '';
    await new Promise<void>((resolve, reject) => {
      const end = (error: Error | null): void =>
        error === null ? resolve() : reject(new Error(`${error.message}\n${said.slice(-4_000)}`));
      const line = (event: { stream?: string }): void => void (said += event.stream ?? '');
      image.engine.modem.followProgress(progress, end, line);
    });
    return image;
  }

  async remove(): Promise<void> {
    await this.engine.getImage(this.tag).remove({ force: true });
  }

  /** A container of it, not started. Open to this machine, since a port of 127.0.0.1 is all that is published. */
  container(environment: Record<string, string> = { ALLOW_EMPTY_PASSWORD: 'yes' }): GenericContainer {
    return new GenericContainer(this.tag)
      .withExposedPorts(PORT)
      .withEnvironment(environment)
      .withWaitStrategy(Wait.forLogMessage(READY));
  }

  /** A container of it that only waits, for commands to be run in. */
  idle(): GenericContainer {
    return new GenericContainer(this.tag)
      .withCommand(['sh', '-c', 'echo here; exec sleep infinity'])
      .withWaitStrategy(Wait.forLogMessage('here'));
  }
}

/** A plain client of a container's published port; closed by `await using`. */
export async function clientOf(
  container: StartedTestContainer,
  options: { readonly password?: string; readonly enableReadyCheck?: boolean } = {},
): Promise<Redis & AsyncDisposable> {
  const address = { host: container.getHost(), port: container.getMappedPort(PORT) };
  const client = new Redis({ ...address, lazyConnect: true, retryStrategy: () => null, ...options });
  await client.connect();
  return Object.assign(client, {
    [Symbol.asyncDispose]: () => {
      client.disconnect();
      return Promise.resolve();
    },
  });
}

export function urlOf(container: StartedTestContainer): string {
  return `redis://${container.getHost()}:${container.getMappedPort(PORT)}`;
}

/** Runs a command in the container, and gives what it printed; it has to succeed. */
export async function inside(container: StartedTestContainer, ...command: string[]): Promise<string> {
  const { exitCode, output } = await container.exec(command);
  if (exitCode !== 0) throw new Error(`${command.join(' ')} ended with ${exitCode}: ${output}`);
  return output.trim();
}

/** Everything that a container has printed so far; between its lines are the headers that the engine puts there. */
export async function logOf(image: Image, id: string): Promise<string> {
  return (await image.engine.getContainer(id).logs({ stdout: true, stderr: true })).toString();
}

/**
 * What a client of wire 4 gets that tries from before the start to brand the node, as fast as it can: the brand that it
 * reads back from the first server that answers.
 */
export async function brandFirst(port: number, signal: AbortSignal): Promise<string> {
  for (;;) {
    signal.throwIfAborted();
    const answer = await talk(port, `SET ${NODE_VERSION_KEY} ${BRANDS[4]} NX\r\nGET ${NODE_VERSION_KEY}\r\nQUIT\r\n`);
    // Anything else is a connection that broke off, or a server that says no.
    const brand = /\$12\r\n(echomq:\d\.\d\.\d)\r\n/.exec(answer)?.[1];
    if (brand !== undefined) return brand;
    await turn();
  }
}

/** Sends this to the port, and gives what came back until the connection ended, without any client's reading of it. */
export function talk(port: number, text: string): Promise<string> {
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    socket.on('data', (data) => (answer += data.toString()));
    // What went wrong is seen by what is missing.
    socket.on('error', () => {});
    socket.on('close', () => resolve(answer));
  });
}
