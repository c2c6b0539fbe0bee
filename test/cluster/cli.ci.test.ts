/**
 * `emq` with the address of one node of a cluster: what looks at queues sees those of all nodes, whatever their wire; names of
 * which nothing is left are told, and so is a node that is away.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Connector, Jobs } from '../../src/index.js';
import { announce } from '../../src/queue/registry.js';
import { emq, type Said } from '../fleets/command.js';
import { Nodes, slotOf } from './nodes.js';

interface Finding {
  readonly level: string;
  readonly check: string;
  readonly text: string;
  readonly queue?: string;
}

let nodes: Nodes;
let url: string;
let queues: [string, string, string];

beforeAll(async () => {
  nodes = await Nodes.start({ replicas: false, args: ['--cluster-require-full-coverage', 'no'] });
  url = `valkey://looker:secret-word@127.0.0.1:${nodes.server(0).port}`;
  queues = [0, 1, 2].map((node) => nodes.queueOn(node, 'cli')) as [string, string, string];
  for (const admin of nodes.primaries) {
    await admin.call('ACL', 'SETUSER', 'looker', 'on', '>secret-word', '~*', '&*', '+@all');
  }
  // two of one wire, one of the other; the first has a consumer's name and nothing else by now
  for (const [i, queue] of queues.entries()) {
    await using connector = await Connector.connect({ cluster: { nodes: nodes.start }, wire: i === 1 ? 6 : 4 });
    await new Jobs(connector, queue).enqueueMany([1, 2].map((payload) => ({ payload })));
    await announce(connector, queue);
  }
  const registry = nodes.admin(await nodes.ownerOf(slotOf('emq')));
  await registry.zadd('{emq}:queues', 1, 'of.old');
});
afterAll(() => nodes[Symbol.asyncDispose]());

const run = (...args: string[]): Promise<Said> => emq([...args, '--url', url, '--json']);
async function doctor(): Promise<Finding[]> {
  const { json } = await run('doctor');
  return (json[0] as { findings: Finding[] }).findings;
}

describe('emq', () => {
  it('queues: those of all nodes and both wires; a name of old is told', async () => {
    const { json, code } = await run('queues');
    expect(code).toBe(0);
    const lines = (json[0] as { queues: { queue: string; waiting?: number; error?: string }[] }).queues;
    expect(lines.filter(({ waiting }) => waiting === 2).map(({ queue }) => queue)).toEqual([...queues].sort());
    const old = lines.find(({ queue }) => queue === 'of.old');
    expect(old?.error).toMatch(/only its name is left/);
    const named = (await run('queues', '--no-scan')).json[0] as typeof json;
    expect(named).toMatchObject({ queues: expect.arrayContaining([expect.objectContaining({ queue: queues[2] })]) });
  });

  it.each([0, 1, 2])('stats, jobs and job of a queue on node %i', async (node) => {
    const queue = queues[node] ?? '';
    expect((await run('stats', queue)).json[0]).toMatchObject({ stats: { counts: { pending: 2 } } });
    const { code, json } = await run('jobs', queue, '--state', 'pending');
    expect(code).toBe(0);
    const [first] = (json[0] as { jobs: { id: string }[] }).jobs;
    expect((await run('job', queue, first?.id ?? '')).code).toBe(0);
  });

  it('doctor: looks into the queues of every primary, and finds what is wrong with one', async () => {
    const there = nodes.admin(2);
    const broken = `emq:{${queues[2]}}:dead`;
    await there.set(broken, 'no set');
    try {
      const findings = await doctor();
      expect(findings.find(({ check }) => check === 'queues')?.text).toBe(
        '3 queues are here, and each was looked into',
      );
      expect(new Set(findings.flatMap(({ queue }) => queue ?? []))).toEqual(new Set(queues));
      expect(findings.filter(({ level, queue }) => level === 'bad' && queue !== undefined)).toMatchObject([
        { queue: queues[2], text: expect.stringContaining('dead') as string },
      ]);
      expect(findings.find(({ check }) => check === 'names')?.text).toMatch(
        /a queue is named and has no key.*: of\.old$/,
      );
    } finally {
      await there.del(broken);
    }
  });

  it('doctor: says which primary is away, and looks at the others; no secret in it', async () => {
    await nodes.server(1).kill();
    const said = await run('doctor');
    const { findings } = said.json[0] as { findings: Finding[] };
    const away = findings.filter(({ text }) => text.includes('was not looked at'));
    expect(away).toMatchObject([{ level: 'bad', check: 'cluster' }]);
    expect(away[0]?.text).toContain(`127.0.0.1:${nodes.server(1).port}`);
    expect(new Set(findings.flatMap(({ queue }) => queue ?? []))).toEqual(new Set([queues[0], queues[2]]));
    expect(said.stdout + said.stderr).not.toContain('secret-word');
  });
});
