/**
 * `emq wire` in a cluster: the brands of all queues on all primaries, one by one, and on again where it was cut short.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { defaultModulePath } from '../../src/dev/index.js';
import { Connector, Jobs } from '../../src/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { lookAt } from '../../src/cli/wire/place.js';
import { moveAll, STEPS, type Outcome } from '../../src/cli/wire/move.js';
import type { Wire } from '../conformance/stage.js';
import { TestCluster } from '../wire/nodes.js';
import { emq } from './command.js';

const never = new AbortController().signal;
const versionOf = (queue: string) => `emq:{${queue}}:version`;

describe('with the module on every primary', () => {
  let cluster: TestCluster;
  /** One queue on each primary, in the order of their names. */
  let queues: readonly [string, string, string];
  let url: string;
  beforeAll(async () => {
    cluster = await TestCluster.start('--loadmodule', defaultModulePath());
    queues = [cluster.queueOn(0, 'a'), cluster.queueOn(1, 'b'), cluster.queueOn(2, 'c')];
    url = cluster.node(0).url;
  });
  afterAll(() => cluster[Symbol.asyncDispose]());
  beforeEach(async () => {
    for (const { admin } of cluster.nodes) await admin.flushall();
    await using connector = await connect(4);
    for (const queue of queues) await new Jobs(connector, queue).enqueue('x');
  });

  const connect = (wire: Wire) => Connector.connect({ cluster: { nodes: cluster.start }, wire });
  const nodeOf = (queue: string) => cluster.node(queues.indexOf(queue)).admin;
  const brands = () => Promise.all(queues.map((queue) => nodeOf(queue).get(versionOf(queue))));

  /** Runs it, and fails if any key but brands of queues changed. */
  async function wire(...args: string[]) {
    const all = () => Promise.all(cluster.nodes.map(({ admin }) => snapshot(admin)));
    const before = await all();
    const said = await emq(['wire', ...args, '--url', url]);
    const after = await all();
    const changed = before.flatMap((one, i) => changedKeys(one, after[i] ?? new Map()));
    expect(changed.filter((key) => !/^emq:\{\w+\}:version$/.test(key))).toEqual([]);
    return { ...said, changed };
  }

  it('shows and moves all queues, tells of each, and the clients of the other wire work', async () => {
    const shown = await wire('--json');
    expect(shown.json[0].queues).toEqual(queues.map((queue) => ({ queue, brand: 'echomq:4.0.0', wire: 4 })));
    expect(shown.json[0].nodes).toHaveLength(3);
    const dry = await wire('upgrade', '--dry-run');
    expect(dry.changed).toEqual([]);
    expect(dry.stdout).toMatch(/dry run: moves 3 queues of the cluster of/);

    const moved = await wire('upgrade', '--yes');
    expect(moved.code).toBe(0);
    expect(moved.stdout).toBe(queues.map((queue) => `queue ${queue}: moved to echomq:6.0.0\n`).join(''));
    await using six = await connect(6);
    for (const queue of queues) expect(await new Jobs(six, queue).claim({ leaseMs: 60_000 })).not.toBeNull();
    await using four = await connect(4);
    await expect(new Jobs(four, queues[0]).enqueue('x')).rejects.toMatchObject({ code: 'EMQWIRE' });
    expect((await wire('downgrade', '--yes', '--json')).json[0].outcomes).toHaveLength(3);
    expect(await brands()).toEqual(Array(3).fill('echomq:4.0.0'));
  });

  it('moves only the queue that is named', async () => {
    expect((await wire('upgrade', '--yes', '--queue', queues[1])).code).toBe(0);
    expect(await brands()).toEqual(['echomq:4.0.0', 'echomq:6.0.0', 'echomq:4.0.0']);
    const unknown = await wire('upgrade', '--yes', '--queue', 'nowhere');
    expect(unknown).toMatchObject({ code: 4, changed: [] });
    expect(unknown.stderr).toMatch(/queue nowhere is unbranded/);
  });

  it('leaves a foreign brand and a queue without one as they are, says so, and moves the others', async () => {
    const [foreign, bare, good] = queues;
    await nodeOf(foreign).set(versionOf(foreign), 'echomq:5.0.0');
    await nodeOf(bare).del(versionOf(bare));
    const said = await wire('upgrade', '--yes', '--json');
    expect(said).toMatchObject({ code: 4, changed: [versionOf(good)] });
    const fates = said.json[0].outcomes as Outcome[];
    expect(fates.map(({ queue, outcome }) => [queue, outcome])).toEqual([
      [foreign, 'foreign'],
      [bare, 'unbranded'],
      [good, 'moved'],
    ]);
  });

  it('cut short, it says what was moved, and goes on from there', async () => {
    const stop = new AbortController();
    const told: Outcome[] = [];
    await lookAt({ url }, undefined, never, (place) =>
      moveAll(place, STEPS.upgrade, stop.signal, (one) => {
        told.push(one);
        stop.abort();
      }),
    );
    expect(told).toMatchObject([{ queue: queues[0], outcome: 'moved' }]);
    expect(await brands()).toEqual(['echomq:6.0.0', 'echomq:4.0.0', 'echomq:4.0.0']);
    const said = await wire('upgrade', '--yes');
    expect(said.stdout).toMatch(
      /: is echomq:6.0.0 already\nqueue \w+: moved to echomq:6.0.0\nqueue \w+: moved to echomq:6/,
    );
    expect(await brands()).toEqual(Array(3).fill('echomq:6.0.0'));
  });
});

describe('with a primary that has no module', () => {
  it('nothing is moved, and the primary is named', async () => {
    await using cluster = await TestCluster.start();
    const queue = cluster.queueOn(0);
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start } });
    await new Jobs(connector, queue).enqueue('x');
    const said = await emq(['wire', 'upgrade', '--yes', '--url', cluster.node(1).url]);
    expect(said.code).toBe(4);
    expect(said.stderr).toMatch(new RegExp(`primary 127.0.0.1:${cluster.node(0).port} has no module`));
    expect(await cluster.node(0).admin.get(versionOf(queue))).toBe('echomq:4.0.0');
  });
});
