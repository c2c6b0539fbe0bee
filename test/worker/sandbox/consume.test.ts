/**
 * Processor files as handlers of a consumer, on both executors, in threads and in processes: what becomes of the job, by
 * its row and its events.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Queue, type ConsumeOptions, type Consumer } from '../../../src/index.js';
import { Diary } from '../support/diary.js';
import { freshQueue, WIRES, WorkerNode } from '../support/nodes.js';
import { KINDS, processor } from './support.js';

const CASES = WIRES.flatMap((wire) => KINDS.map((kind) => ({ wire, kind })));
const nodes = new Map<number, WorkerNode>();

beforeAll(async () => {
  for (const wire of WIRES) nodes.set(wire, await WorkerNode.start(wire));
});
afterAll(async () => {
  for (const node of nodes.values()) await node[Symbol.asyncDispose]();
});

describe.each(CASES)('a processor file on wire $wire in a $kind', ({ wire, kind }) => {
  /** A queue with a consumer of a processor file, and what it tells. */
  async function consume(
    file: string,
    options: ConsumeOptions = {},
  ): Promise<{ queue: Queue; consumer: Consumer; diary: Diary }> {
    const connector = await (nodes.get(wire) as WorkerNode).connect();
    const queue = new Queue(connector, freshQueue(`${kind}-${wire}`));
    const consumer = queue.consume(processor(file), { processor: kind, retryDelayMs: 0, beatMs: 20, ...options });
    return { queue, consumer, diary: new Diary(consumer) };
  }

  it('completes jobs with its results, and writes progress and log lines', async () => {
    const { queue, consumer, diary } = await consume('work.mjs', { concurrency: 2 });
    for (let value = 0; value < 20; value++) await queue.enqueue({ do: 'echo', value });
    await diary.until('completed', 20);
    const results = diary.of('completed').map(({ args }) => (args[1] as { result: unknown }).result);
    expect(results.sort((a, b) => Number(a) - Number(b))).toEqual(Array.from({ length: 20 }, (_, i) => i));

    const { id } = await queue.enqueue({ do: 'asksAndFails' }, { maxAttempts: 1 });
    await diary.until('failed');
    expect((await queue.get(id))?.progress?.toString()).toBe('half');
    expect((await queue.logs(id)).toString()).toBe('a line');
    await consumer.close();
    expect(await queue.counts()).toMatchObject({ pending: 0, active: 0, completed: 20 });
  });

  it('may say that no further try can help, or that it wants to go on later', async () => {
    const { queue, consumer, diary } = await consume('work.mjs');
    const dead = await queue.enqueue({ do: 'throws', what: 'unrecoverable' });
    const later = await queue.enqueue({ do: 'throws', what: 'delayIn' });
    await diary.until('failed');
    await diary.until('delayed');
    expect([diary.story(dead.id), diary.story(later.id)]).toEqual([
      ['claimed', 'failed'],
      ['claimed', 'delayed'],
    ]);
    expect((await queue.get(dead.id))?.lastError?.toString()).toMatch(
      /^no use\nUnrecoverableError: no use\n.*work\.mjs/s,
    );
    expect(await queue.state(later.id)).toBe('scheduled');
    expect(await queue.get(later.id)).toMatchObject({ attempts: 1, credit: 1 });
    await consumer.close();
  });

  it('P31: that throws on import fails its job with that message, try after try', async () => {
    const { queue, consumer, diary } = await consume('fails-to-load.mjs', { concurrency: 2, maxAttempts: 2 });
    const { id } = await queue.enqueue({});
    await diary.until('failed');
    expect(diary.story(id)).toEqual(['claimed', 'scheduled', 'claimed', 'failed']);
    expect((await queue.get(id))?.lastError?.toString()).toMatch(
      /^the processor .*fails-to-load\.mjs cannot be loaded: the import went wrong\n/,
    );
    await consumer.close();
  });

  it('P31: whose child is killed in the middle of a job fails it, and it is tried again in another', async () => {
    const { queue, consumer, diary } = await consume('work.mjs');
    const { id } = await queue.enqueue({ do: 'diesAtFirst' });
    await diary.until('completed');
    expect(diary.story(id)).toEqual(['claimed', 'scheduled', 'claimed', 'completed']);
    const { error } = diary.info<{ error: Error }>('scheduled');
    const how = kind === 'process' ? 'was killed by SIGKILL' : 'ended with exit code 5';
    expect(error.message).toBe(`the ${kind} of the processor ${how}`);
    await consumer.close();
  });

  it('that never yields is ended when its time is up, and the next job has its slot', async () => {
    const { queue, consumer, diary } = await consume('work.mjs', { timeoutMs: 100, killAfterMs: 50, maxAttempts: 1 });
    const { id } = await queue.enqueue({ do: 'loops' });
    await queue.enqueue({ do: 'echo', value: 'next' }, { timeoutMs: 20_000 });
    await diary.until('completed');
    expect(diary.story(id)).toEqual(['claimed', 'failed']);
    expect((await queue.get(id))?.lastError?.toString()).toMatch(/^timed out after 100 ms/);
    await consumer.close();
  });

  it('that never yields does not hold up a close: its job is handed back', async () => {
    const { queue, consumer, diary } = await consume('work.mjs');
    const { id } = await queue.enqueue({ do: 'loops' });
    await expect.poll(async () => (await queue.logs(id)).toString(), { interval: 5, timeout: 10_000 }).toBe('started');
    await consumer.close({ timeoutMs: 10 });
    expect(diary.story(id)).toEqual(['claimed', 'released']);
    expect(await queue.get(id)).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
  });
});
