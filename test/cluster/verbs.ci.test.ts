/**
 * Every public verb on queues that lie on three nodes, by one connector: both wires, both versions of the client library.
 * A verb or a transition that is new and in no walk fails this.
 */
import { Cluster as Cluster5 } from 'ioredis5';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Connector, type ConnectorOptions } from '../../src/index.js';
import { Nodes } from './nodes.js';
import { everything, Walk } from './verbs.js';

let nodes: Nodes;
beforeAll(async () => {
  nodes = await Nodes.start();
});
afterAll(() => nodes[Symbol.asyncDispose]());
beforeEach(() => nodes.empty());

/** A queue on each node, the first of them on that one. */
const queuesFrom = (node: number): [string, string, string] => [
  nodes.queueOn(node, `walk${node}-`),
  nodes.queueOn((node + 1) % 3, `walk${node}-`),
  nodes.queueOn((node + 2) % 3, `walk${node}-`),
];

async function walked(options: ConnectorOptions, starts: readonly number[]): Promise<string[]> {
  await using connector = await Connector.connect(options);
  const walk = new Walk(connector);
  for (const node of starts) await walk.all(...queuesFrom(node));
  expect(connector.stats()).toMatchObject({ connects: 1, unknownOutcomes: 0 });
  return [...walk.done].sort();
}

describe.each([4, 6] as const)('wire %i', (wire) => {
  it('the library of this package, from each node', async () => {
    const done = await walked({ cluster: { nodes: nodes.start }, wire }, [0, 1, 2]);
    expect(everything().filter((what) => !done.includes(what))).toEqual([]);
  });

  it('ioredis 5, from one node', async () => {
    const client = new Cluster5(nodes.start, { lazyConnect: true });
    const done = await walked({ client, wire }, [1]);
    client.disconnect();
    expect(everything().filter((what) => !done.includes(what))).toEqual([]);
  });
});
