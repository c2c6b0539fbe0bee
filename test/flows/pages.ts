/**
 * The pages of a large flow, told for few children in the quick suite and for ten thousand in the long one.
 */
import { expect } from 'vitest';
import { Flows, mint, type Call, type Dependencies } from '../../src/index.js';
import { claimAll, type FlowScene } from './support.js';

/** Every child is told of, in bounded calls, and nothing is written. */
export async function pagesTellOfEach(scene: FlowScene, size: number): Promise<void> {
  const { stage } = scene;
  const children = Array.from({ length: size }, (_, payload) => ({ payload, id: mint() }));
  const { id } = await scene.flows.add({ payload: 1, children });
  const ids = children.map((child) => child.id).sort();
  const held = await claimAll(scene.jobs);
  // enough for a hash that is read in pages
  const done = children.slice(0, Math.floor(size * 0.8)).sort((a, b) => (a.id < b.id ? -1 : 1));
  const pages: Dependencies[] = [];
  await stage.unchanged(async () => {
    for (let cursor: string | null = '0'; cursor !== null; cursor = pages.at(-1)?.next ?? null) {
      expect(pages.length).toBeLessThan(size / 10);
      pages.push(await scene.flows.dependencies(id, { limit: 250, cursor }));
    }
  });
  for (const { count, open } of pages) {
    expect(count).toBe(size);
    expect(open.length).toBeLessThan(1_000);
  }
  const seen = pages.flatMap(({ open }) => open);
  expect([...new Set(seen.map((child) => child.id))].sort()).toEqual(ids);
  for (let i = 0; i < done.length; i += 500) {
    await Promise.all(
      done.slice(i, i + 500).map(async (child) => {
        const job = held.get(child.id);
        if (job === undefined) throw new Error('not claimed');
        expect(await scene.jobs.complete(job, { result: child.payload })).toBe('completed');
      }),
    );
  }
  const calls: Call[] = [];
  const counting = {
    run: (call: Call) => {
      calls.push(call);
      return stage.connector.run(call);
    },
    runAll: (list: readonly Call[]) => stage.connector.runAll(list),
  };
  const values = await stage.unchanged(() => new Flows(counting, scene.queue).childrenValues(id));
  expect([...values]).toEqual(done.map((child) => [child.id, child.payload]));
  expect(calls.length).toBeGreaterThan(1);
  const each: (readonly [string, unknown])[] = [];
  for await (const entry of scene.flows.eachValue(id)) each.push(entry);
  expect(each.length).toBe(done.length);
  expect(new Map([...each].sort(([a], [b]) => (a < b ? -1 : 1)))).toEqual(values);
  expect((await scene.flows.dependencies(id)).count).toBe(size - done.length);
}
