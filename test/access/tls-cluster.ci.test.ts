/** A cluster that speaks TLS and wants client certificates: every node, and every connection of its own, is reached so. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { defaultModulePath } from '../../src/dev/index.js';
import { Connector, Queue, QueueEvents } from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { emq } from '../fleets/command.js';
import { TestCluster } from '../wire/nodes.js';
import { freePort } from '../wire/server.js';
import { Certificates, tlsSettings, type Pair } from './certificates.js';

describe.each(EXECUTORS)('over TLS, %s', (_executor, wire) => {
  let made: Certificates;
  let cluster: TestCluster;
  let client: Pair;
  let ca: Pair;
  let ports: number[];

  beforeAll(async () => {
    made = await Certificates.make();
    ca = await made.authority('ca');
    const own = await made.issue('server', ca);
    client = await made.issue('client', ca);
    ports = [await freePort(), await freePort(), await freePort()];
    const settings = [...tlsSettings(own, ca), '--loadmodule', defaultModulePath()];
    cluster = await TestCluster.startEach((node) => ['--tls-port', String(ports[node]), ...settings]);
  });
  afterAll(async () => {
    await cluster[Symbol.asyncDispose]();
    await made.remove();
  });

  it('jobs on every node are added, heard of and run, and the command line finds them', async () => {
    const tls = { ca: ca.cert, cert: client.cert, key: client.key };
    const nodes = [{ host: '127.0.0.1', port: ports[0] ?? 0 }];
    await using connector = await Connector.connect({ cluster: { nodes, options: { redisOptions: { tls } } }, wire });
    const queues = [0, 1, 2].map((node) => cluster.queueOn(node, `w${wire}-`));
    for (const name of queues) {
      const queue = new Queue(connector, name);
      const events = new QueueEvents(connector, name);
      await events.ready();
      const heard = new Promise((resolve) => events.once('completed', resolve));
      const consumer = queue.consume(() => {});
      await queue.enqueue('x');
      await heard;
      await consumer.close();
      await events.close();
    }
    const files = ['--tls-ca', ca.certFile, '--tls-cert', client.certFile, '--tls-key', client.keyFile];
    const said = await emq(['wire', '--json', '--url', `valkeys://127.0.0.1:${ports[1]}`, ...files]);
    expect(said).toMatchObject({ code: 0, stderr: '' });
    const found = said.json[0] as { queues: { queue: string; wire: number }[]; nodes: { module: string }[] };
    expect(found.queues.map(({ queue }) => queue)).toEqual(expect.arrayContaining(queues));
    expect(found.nodes.map(({ module }) => module)).toEqual(['loaded', 'loaded', 'loaded']);
    const stats = await emq(['stats', queues[2] ?? '', '--json', '--url', `valkeys://127.0.0.1:${ports[0]}`, ...files]);
    expect(stats).toMatchObject({ code: 0, json: [{ stats: { counts: { completed: 1 } } }] });
    // nobody came by the plain ports but the nodes themselves
    for (const [i, { admin }] of cluster.nodes.entries()) {
      const list = String(await admin.client('LIST'));
      const local = [...list.matchAll(/ laddr=\S+:(\d+) .* lib-name=ioredis/g)].map(([, port]) => Number(port));
      expect(local.filter((port) => port !== 0 && port !== ports[i])).toEqual([]);
    }
  });
});
