/**
 * What transitions publish: which messages, on which channel, in which order; and that a call that says nothing, or is
 * refused, publishes nothing. On both executors.
 */
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { need, perform, type RawCommand } from '../../src/parity/node.js';
import { Keyspace } from '../../src/wire/keyspace.js';
import type { Arg, Transition } from '../../src/wire/call.js';
import { transitions } from '../../src/wire/transitions.js';
import { EXECUTORS, startNode, type TestNode } from './nodes.js';

const keys = new Keyspace('published');
const id = 'JOB0KHTOWnGLuC';
const row = (state: string): RawCommand => ['HSET', keys.job(id), 'state', state, 'attempts', '1'];

describe.each(EXECUTORS)('%s', (executor) => {
  let node: TestNode;
  let ear: Redis;
  let heard: [string, Buffer][];
  beforeAll(async () => {
    node = await startNode(executor);
    ear = await node.connect();
    ear.on('messageBuffer', (channel: Buffer, message: Buffer) => heard.push([channel.toString(), message]));
    await ear.subscribe(keys.events, keys.cancel, 'mark');
  });
  afterAll(() => node[Symbol.asyncDispose]());
  beforeEach(() => node.reset());

  /** The messages of a call on the queue's channels. What follows them on the same connection tells that all have come. */
  async function published<I>(transition: Transition<I, unknown>, input: I): Promise<[string, Buffer][]> {
    heard = [];
    const { keys: k, args } = transition.layout(keys, input);
    const call: { transition: string; keys: readonly Arg[]; args: readonly Arg[] } = {
      transition: transition.name,
      keys: k,
      args,
    };
    const marked = new Promise<void>((resolve) => {
      const listen = (channel: Buffer): void => {
        if (channel.toString() !== 'mark') return;
        ear.off('messageBuffer', listen);
        resolve();
      };
      ear.on('messageBuffer', listen);
    });
    await perform(node, call);
    await need(node.client, ['PUBLISH', 'mark', '']);
    await marked;
    return heard.filter(([channel]) => channel !== 'mark');
  }

  test('publish: each message on the events channel, in order, byte for byte', async () => {
    const messages = ['{"event":"completed"}', Buffer.from([0, 0xff, 0x0a]), ''];
    expect(await published(transitions.publish, { messages })).toEqual(
      messages.map((message) => [keys.events, Buffer.from(message)]),
    );
    expect(await published(transitions.publish, { messages: [] })).toEqual([]);
  });

  test('cancel: a running job is told of on the cancel channel, no other', async () => {
    await need(node.client, row('active'));
    await need(node.client, ['ZADD', keys.active, '4000000000000', id]);
    const reason = 'no "longer"\nwanted';
    const [[channel, message] = [], ...more] = await published(transitions.cancel, { id, reason });
    expect(channel).toBe(keys.cancel);
    expect(JSON.parse(String(message))).toEqual({ job: id, reason });
    expect(more).toEqual([]);

    for (const [set, state] of [
      [keys.pending, 'pending'],
      [keys.schedule, 'scheduled'],
      [keys.dead, 'dead'],
    ] as const) {
      await node.reset();
      await need(node.client, row(state));
      await need(node.client, ['ZADD', set, '1', id]);
      expect(await published(transitions.cancel, { id, reason })).toEqual([]);
    }
    await node.reset();
    expect(await published(transitions.cancel, { id, reason })).toEqual([]);
  });

  test('update_progress: an event, and none for a row that is gone', async () => {
    expect(await published(transitions.updateProgress, { id, progress: '50' })).toEqual([]);
    await need(node.client, row('active'));
    const [[channel, message] = [], ...more] = await published(transitions.updateProgress, { id, progress: '50' });
    expect(channel).toBe(keys.events);
    expect(JSON.parse(String(message))).toEqual({ event: 'progress', job: id, progress: '50' });
    expect(more).toEqual([]);
  });
});
