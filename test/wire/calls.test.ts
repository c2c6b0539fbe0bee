/** The life of a call over links that do what no server can be made to do at will. No server. */
import { beforeEach, expect, it } from 'vitest';
import type { Sent } from '../../src/wire/command.js';
import { clientSource } from '../../src/wire/client-source.js';
import { Calls } from '../../src/wire/connector-calls.js';
import { readOptions } from '../../src/wire/connector-options.js';
import { EmqError } from '../../src/wire/errors.js';
import type { Frame } from '../../src/wire/executor.js';
import type { Link } from '../../src/wire/transport.js';
import { append, call, count, errorOf, touch } from './stand-ins.js';

const settings = readOptions({ waitMs: 200, replyTimeoutMs: 1_000 });

/** A link that answers as its script says. */
class PlayedLink {
  readonly frames: Frame[] = [];
  usable = true;
  perQueue = false;
  onNodeLost: (() => void) | undefined;
  refreshed = 0;

  constructor(
    readonly manyNodes: boolean,
    readonly play: (frame: Frame, n: number) => { written: boolean; answer: unknown },
  ) {}

  send(frame: Frame): Sent {
    const { written, answer } = this.play(frame, this.frames.push(frame));
    const promise = answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    return { written, promise };
  }

  explain(error: Error): EmqError {
    return new EmqError('EMQ_CONNECTION', error.message);
  }

  refresh(): void {
    this.refreshed++;
  }
}

const attach = (link: PlayedLink): void => calls.attach(link as unknown as Link);
const gone = new Error('Connection is closed.');
let calls: Calls;

beforeEach(() => {
  calls = new Calls(settings, clientSource(settings));
});

it('sends what was certainly not written again, whatever it is, on the next link, in order', async () => {
  const bad = new PlayedLink(false, () => ({ written: false, answer: gone }));
  attach(bad);
  const running = ['a', 'b', 'c'].map((value) => calls.start(call(append, 'k', [value])));
  bad.usable = false;
  await new Promise(setImmediate);
  calls.detach(new EmqError('EMQ_CONNECTION', 'lost'));
  expect([calls.pending, calls.waiting]).toEqual([3, 3]);
  const good = new PlayedLink(false, (_frame, n) => ({ written: true, answer: n }));
  attach(good);
  expect(await Promise.all(running)).toEqual([1, 2, 3]);
  expect(good.frames.map(({ args }) => args.at(-1))).toEqual(['a', 'b', 'c']);
  expect(calls.counters).toMatchObject({ repeats: 0, unknownOutcomes: 0 });
});

it('keeps trying on a cluster whose node is away, then says that nothing was sent', async () => {
  const link = new PlayedLink(true, () => ({ written: false, answer: gone }));
  attach(link);
  const started = performance.now();
  const error = await errorOf(calls.start(call(count)), 'EMQ_CONNECTION');
  expect(error.message).toMatch(/nothing was sent/);
  const took = performance.now() - started;
  expect(took).toBeGreaterThanOrEqual(190);
  // waitMs, and the pause that was under way then; not all of replyTimeoutMs.
  expect(took).toBeLessThan(700);
  expect(link.frames.length).toBeGreaterThan(2);
  expect(link.refreshed).toBeGreaterThan(2);
});

it('takes a node that is found elsewhere meanwhile', async () => {
  attach(
    new PlayedLink(true, (_frame, n) => (n < 3 ? { written: false, answer: gone } : { written: true, answer: n })),
  );
  expect(await calls.start(call(count))).toBe(3);
});

it('repeats on a cluster what may be repeated, and nothing else, when a node took it with it', async () => {
  attach(new PlayedLink(true, (_frame, n) => ({ written: true, answer: n < 3 ? gone : n })));
  const [unknown, repeated] = await Promise.allSettled([calls.start(call(count)), calls.start(call(touch))]);
  expect(unknown).toMatchObject({ status: 'rejected', reason: { code: 'EMQ_UNKNOWN_OUTCOME' } });
  expect(repeated).toEqual({ status: 'fulfilled', value: 3 });
});

it('refuses a reply that is no reply', async () => {
  const nested = Object.assign(new Error('EMQSTATE inside'), { name: 'ReplyError' });
  const answers = [new Map(), [1, nested], { a: 1 }, undefined];
  attach(new PlayedLink(false, (_frame, n) => ({ written: true, answer: answers[n - 1] })));
  expect((await errorOf(calls.start(call(count)), 'ERR')).message).toMatch(/no part of the wire contract/);
  await errorOf(calls.start(call(count)), 'EMQSTATE');
  await errorOf(calls.start(call(count)), 'ERR');
  await errorOf(calls.start(call(count)), 'ERR');
});

it('reads the types of RESP3 as RESP2 would have shown them', async () => {
  attach(new PlayedLink(false, () => ({ written: true, answer: [true, false, 12n, 'text', [null]] })));
  expect(await calls.start(call(count))).toEqual([1, 0, Buffer.from('12'), Buffer.from('text'), [null]]);
});

it('refuses a call that is none, typed, and keeps watch over the others', async () => {
  const silent = new PlayedLink(false, () => ({ written: true, answer: new Promise(() => {}) }));
  attach(silent);
  expect(await errorOf(calls.start({} as never))).toMatchObject({ code: 'EMQ_INPUT' });
  expect(calls.pending).toBe(0);
  // no reply comes to this one: its deadline still does
  expect(await errorOf(calls.start(call(append, 'k', ['a'])))).toMatchObject({ code: 'EMQ_UNKNOWN_OUTCOME' });
});

it.each([
  'ERR Script attempted to access a non local key in a cluster node script: 0123456789012345678901234567890123456789, on @user_script:7.',
  "ERR Unable to execute command 'exists' in script because undeclared keys were accessed during rehashing script: on @user_script:7.",
  'ERR Attempted to access a non local key in a cluster node',
])('waits for a slot on the move that a script ran into: %s', async (text) => {
  const refusal = Object.assign(new Error(text), { name: 'ReplyError' });
  const moving = new PlayedLink(true, (_frame, n) => ({ written: true, answer: n < 3 ? refusal : 1 }));
  attach(moving);
  expect(await calls.start(call(append, 'k', ['a']))).toBe(1);
  expect(calls.counters).toMatchObject({ retries: 2, unknownOutcomes: 0 });
});
