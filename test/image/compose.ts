/**
 * The project's compose.yaml, run by the compose command of this machine under a project name and ports of its own.
 *
 * Invariants: the image is the one that was built, never built again; `close` takes everything down, volumes too.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { freePort } from '../wire/server.js';
import { ROOT, type Image } from './image.js';

const execute = promisify(execFile);
/** A node's bus has its port + 10,000. */
const HIGHEST_CLUSTER_PORT = 55_535;

export class Compose {
  readonly #project = `emq${randomBytes(4).toString('hex')}`;

  private constructor(
    readonly command: readonly [string, ...string[]],
    readonly image: Image,
    readonly port: number,
    readonly clusterPorts: readonly number[],
  ) {}

  static async open(command: readonly [string, ...string[]], image: Image): Promise<Compose> {
    const ports = new Set<number>();
    while (ports.size < 3) {
      const port = await freePort();
      if (port <= HIGHEST_CLUSTER_PORT) ports.add(port);
    }
    return new Compose(command, image, await freePort(), [...ports]);
  }

  /** Runs one command of it, such as `up -d`. */
  async run(...args: string[]): Promise<string> {
    const [program, ...first] = this.command;
    const ports = Object.fromEntries(this.clusterPorts.map((port, at) => [`CLUSTER_PORT_${at + 1}`, String(port)]));
    const env = {
      ...process.env,
      ...ports,
      COMPOSE_PROJECT_NAME: this.#project,
      ECHOMQ_IMAGE: this.image.tag,
      VALKEY_PORT: String(this.port),
      VALKEY_PASSWORD: '',
    };
    return (await execute(program, [...first, '--profile', 'cluster', ...args], { cwd: ROOT, env })).stdout;
  }

  /** The container of a service, by the label that every compose gives. */
  async container(service: string) {
    const label = [`com.docker.compose.project=${this.#project}`, `com.docker.compose.service=${service}`];
    const [found] = await this.image.engine.listContainers({ all: true, filters: { label } });
    if (found === undefined) throw new Error(`compose made no container of ${service}`);
    return this.image.engine.getContainer(found.Id);
  }

  async close(): Promise<void> {
    await this.run('down', '--volumes', '--timeout', '5');
  }
}
