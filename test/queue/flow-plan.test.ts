/**
 * Flows before the wire: what is refused, by a clear word and with nothing sent, and what a plan is. No server here: the
 * wire counts.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { describe, expect, it } from 'vitest';
import {
  bytesCodec,
  EmqError,
  Flows,
  Jobs,
  mint,
  type Flow,
  type FlowChild,
  type PlannedJob,
  type Wire,
} from '../../src/index.js';

/** Counts what is sent. */
class Counting implements Wire {
  sent = 0;

  run(): Promise<never> {
    this.sent += 1;
    return Promise.reject(new EmqError('EMQ_CLOSED', 'nobody is there'));
  }

  runAll(calls: readonly unknown[]): Promise<never> {
    this.sent += calls.length;
    return Promise.reject(new EmqError('EMQ_CLOSED', 'nobody is there'));
  }
}

const QUEUE = 'orders';
const leaf: FlowChild = { payload: 1 };
/** What a caller without types may give. */
const odd = (value: unknown): Flow => value as Flow;
/** So many levels, the root's included. */
function levels(depth: number, last: Partial<FlowChild> = {}): Flow {
  let child: FlowChild = { payload: depth, ...last };
  for (let level = depth - 1; level > 1; level--) child = { payload: level, children: [child] };
  return { payload: 1, children: [child] };
}

/** Refused by all that take a flow, with nothing sent. */
async function refuses(flow: Flow, text: RegExp, wire = new Counting()): Promise<void> {
  const flows = new Flows(wire, QUEUE);
  const good: Flow = { payload: 1, children: [leaf] };
  for (const act of [
    () => flows.prepare(flow),
    () => flows.add(flow),
    () => flows.addBulk([flow]),
    () => flows.addBulk([good, flow, good]),
  ]) {
    const error = await act().then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(EmqError);
    expect(error).toMatchObject({ code: 'EMQ_INPUT' });
    expect((error as EmqError).reason).toMatch(text);
  }
  expect(wire.sent).toBe(0);
}

const one = mint();
const two = mint();

describe('a flow is refused, with nothing sent', () => {
  it.each<[string, unknown, RegExp]>([
    ['that is nothing', null, /the options of a flow must be an object, got null/],
    ['that is text', 'flow', /the options of a flow must be an object/],
    ['without a word of children', { payload: 1 }, /children must be a list, got undefined/],
    ['whose children are no list', { payload: 1, children: { 0: leaf } }, /children must be a list/],
    ['with no child', { payload: 1, children: [] }, /at least one child: enqueue a job that waits for nobody/],
    ['whose child is nothing', { payload: 1, children: [leaf, null] }, /child 1 must be an object, got null/],
    ['whose child is bare', { payload: 1, children: ['payload'] }, /child 0 must be an object/],
    [
      'whose grandchildren are no list',
      { payload: 1, children: [{ payload: 2, children: leaf }] },
      /the children of child 0 must be a list/,
    ],
  ])('%s', (_what, flow, text) => refuses(odd(flow), text));

  it.each<[string, Flow]>([
    ['among siblings', { payload: 1, children: [{ ...leaf, id: one }, leaf, { ...leaf, id: one }] }],
    [
      'among siblings of other queues',
      {
        payload: 1,
        children: [
          { ...leaf, id: one },
          { ...leaf, id: one, queue: 'else' },
        ],
      },
    ],
    ['as its own parent', { payload: 1, id: one, children: [{ ...leaf, id: one }] }],
    [
      'as its own parent, far down',
      { payload: 1, children: [{ payload: 2, id: one, children: [{ ...leaf, id: one }] }] },
    ],
    ['as its grandparent', { payload: 1, id: one, children: [{ payload: 2, children: [{ ...leaf, id: one }] }] }],
    [
      'among cousins',
      {
        payload: 1,
        children: [
          {
            payload: 2,
            children: [
              { ...leaf, id: two },
              { ...leaf, id: one },
            ],
          },
          { payload: 3, children: [{ ...leaf, id: one }] },
        ],
      },
    ],
    ['at the lowest level', { payload: 1, id: one, children: levels(7, { id: one }).children }],
  ])('whose id comes twice: %s', (_where, flow) =>
    refuses(flow, new RegExp(`${one} comes twice in the flow .*id of its own`)),
  );

  it('of nine levels, and of more than any', async () => {
    await refuses(levels(9), /a flow may have 8 levels, the root's included; child 0(\.0){7} is deeper/);
    const endless: { payload: number; children: unknown[] } = { payload: 1, children: [] };
    endless.children.push(endless);
    await refuses(odd(endless), /8 levels/);
  });

  it.each<[string, unknown, RegExp]>([
    [
      'an option of children at the root',
      { payload: 1, queue: 'x', children: [leaf] },
      /unknown option "queue" of a flow/,
    ],
    ['a misspelt option', { payload: 1, prioritty: 1, children: [leaf] }, /unknown option "prioritty" of a flow/],
    [
      'a misspelt option of a child',
      { payload: 1, children: [{ ...leaf, onfailure: 'ignore' }] },
      /"onfailure" of child 0/,
    ],
    [
      'a misspelt option far down',
      { payload: 1, children: [leaf, { payload: 2, children: [{ ...leaf, group: 'x' }] }] },
      /"group" of child 1\.0/,
    ],
  ])('with %s', (_what, flow, text) => refuses(odd(flow), text));

  it.each([['FAIL'], [''], ['toString'], [null], [1], [{}]])('with onFailure %j', (onFailure) =>
    refuses(
      odd({ payload: 1, children: [{ ...leaf, onFailure }] }),
      /onFailure of child 0 must be one of fail, ignore, remove, continue, got/,
    ),
  );

  it.each<[unknown, RegExp]>([
    ['', /queue name "" must be/],
    ['emq', /queue name "emq" must be/],
    ['a b', /queue name "a b" must be/],
    ['a{b}', /queue name/],
    ['x'.repeat(129), /queue name/],
    [7, /the queue of child 0 must be a name, a Jobs or a Queue \(of a NamedQueue its \.queue\), got 7/],
    [null, /the queue of child 0 must be/],
    [{ queue: 'like one' }, /the queue of child 0 must be/],
  ])('with a child in queue %j', (queue, text) => refuses(odd({ payload: 1, children: [{ ...leaf, queue }] }), text));

  it.each<[string, unknown, RegExp]>([
    ['an id of no brand', { payload: 1, id: 'order-7', children: [leaf] }, /job id "order-7" must be a branded id/],
    ['an id of no brand, far down', levels(8, { id: 'JOB1' }), /job id "JOB1" must be a branded id/],
    ['an id that is null', { payload: 1, children: [{ ...leaf, id: null }] }, /job id null must be/],
    ['a priority beyond the last', { payload: 1, priority: 2_097_153, children: [leaf] }, /priority must be/],
    ['a priority of a child that is none', levels(3, { priority: 1.5 }), /priority must be/],
    ['no try', levels(2, { maxAttempts: 0 }), /maxAttempts/],
    ['a backoff of no kind', odd(levels(2, { backoff: 'fast' as never })), /backoff/],
    ['a timeout of nothing', levels(2, { timeoutMs: 0 }), /timeoutMs/],
    ['opts that are a list', levels(2, { opts: [] as never }), /opts/],
    ['a name that is none', levels(2, { name: 7 as never }), /name/],
    ['a payload without a JSON form', levels(4, { payload: 1n }), /payload/],
    ['a payload that is not there', levels(2, { payload: undefined }), /payload/],
    ['a root payload that is not there', { children: [leaf] }, /payload/],
  ])('with %s', (_what, flow, text) => refuses(odd(flow), text));
});

describe('the queue of a job judges its payload', () => {
  interface Numbered {
    readonly n: number;
  }
  const schema: StandardSchemaV1<Numbered, Numbered> = {
    '~standard': {
      version: 1,
      vendor: 'by hand',
      validate: async (value: unknown) =>
        typeof (value as Partial<Numbered> | null)?.n === 'number'
          ? { value: { n: (value as Numbered).n + 1 } }
          : { issues: [{ message: 'must be a number', path: ['n'] }] },
    },
  };
  const wire = new Counting();
  const numbered = new Jobs<Numbered>(wire, 'numbered', { schema });
  const small = new Jobs(wire, 'small', { maxPayloadBytes: 10 });
  const raw = new Jobs(wire, 'raw', { codec: bytesCodec });

  it.each<[string, FlowChild, RegExp]>([
    ['its schema', { payload: { n: 'no' }, queue: numbered }, /does not fit its schema at n: must be a number/],
    ['its limit', { payload: 'x'.repeat(9), queue: small }, /the payload has 11 bytes, the limit is 10/],
    ['its codec', { payload: 'text', queue: raw }, /bytes codec/],
    ['its schema, inherited', { payload: { n: 1 }, queue: numbered, children: [{ payload: {} }] }, /schema at n/],
    ['the limit of all', { payload: 'x'.repeat(1_048_576) }, /1048578 bytes, the limit is 1048576/],
  ])('by %s', (_by, child, text) => refuses({ payload: 1, children: [child] }, text, wire));

  it('and the root by what the flows were given, which its children inherit', async () => {
    const flows = new Flows<Numbered>(wire, QUEUE, { schema, maxPayloadBytes: 20 });
    await expect(flows.add({ payload: {} as Numbered, children: [leaf] })).rejects.toThrow(/schema at n/);
    await expect(flows.prepare({ payload: Buffer.alloc(21), children: [leaf] })).rejects.toThrow(/limit is 20/);
    expect(wire.sent).toBe(0);
    const children = [
      { payload: { n: 5 }, queue: numbered as Jobs },
      { payload: Buffer.from([0, 255]), queue: raw as Jobs },
      { payload: { n: 7 } },
      { payload: { n: 8 }, queue: QUEUE },
      { payload: 'any', queue: 'named' },
    ];
    const { root } = await flows.prepare({ payload: { n: 1 }, children });
    expect(root.payload.toString()).toBe('{"n":2}');
    expect(root.children.map(({ payload }) => payload.toString('latin1'))).toEqual([
      '{"n":6}',
      '\0\xff',
      '{"n":8}',
      '{"n":9}',
      '"any"',
    ]);
    expect(root.children.map(({ queue }) => queue)).toEqual(['numbered', 'raw', QUEUE, QUEUE, 'named']);
  });
});

describe('a plan', () => {
  const flows = new Flows(new Counting(), QUEUE);

  it('has ids that grow in the order in which siblings are given, and keeps those that are given', async () => {
    const { root } = await flows.prepare({
      payload: 1,
      id: one,
      children: [leaf, { payload: 2, children: [leaf, leaf] }, { ...leaf, id: two }, leaf],
    });
    expect(root).toMatchObject({ id: one, minted: false, queue: QUEUE });
    const [first, second, given, last] = root.children as [PlannedJob, PlannedJob, PlannedJob, PlannedJob];
    expect(given).toMatchObject({ id: two, minted: false });
    const minted = [first.id, second.id, last.id];
    expect([...minted].sort()).toEqual(minted);
    expect(new Set([one, two, ...minted, ...second.children.map(({ id }) => id)]).size).toBe(7);
  });

  it('of eight levels is one, and counts its jobs, bytes and queues', async () => {
    const flow = await flows.prepare(levels(8));
    expect(flow).toMatchObject({ queue: QUEUE, size: 8, bytes: 8, oneQueue: true });
    expect((await flows.prepare(levels(8, { queue: 'else' }))).oneQueue).toBe(false);
    expect((await flows.prepare(levels(2, { queue: QUEUE }))).oneQueue).toBe(true);
  });

  it('gives a child the queue of its parent and its policy by name', async () => {
    const policies = ['fail', 'ignore', 'remove', 'continue', undefined] as const;
    const { root } = await flows.prepare({
      payload: 1,
      children: policies.map((onFailure, i) => ({
        payload: i,
        onFailure,
        queue: `q${i}`,
        children: [leaf, { ...leaf, queue: QUEUE }],
      })),
    });
    expect(root.children.map(({ policy }) => policy)).toEqual(['fp', 'id', 'rd', 'cp', 'fp']);
    for (const [i, { children }] of root.children.entries()) {
      expect(children.map(({ queue }) => queue)).toEqual([`q${i}`, QUEUE]);
    }
  });

  it('keeps a job’s own limits, name and opts as a plain job does', async () => {
    const { root } = await flows.prepare({
      payload: 1,
      children: [{ ...leaf, name: 'mail', maxAttempts: 7, priority: 3, opts: { tenant: 'x' } }],
    });
    expect(root.children[0]).toMatchObject({ priority: 3 });
    expect(JSON.parse(root.children[0]?.opts ?? '')).toEqual({ tenant: 'x', name: 'mail', maxAttempts: 7 });
    expect(root.opts).toBeUndefined();
  });

  it('is for its own queue', async () => {
    const wire = new Counting();
    const other = new Flows(wire, 'other');
    const flow = await flows.prepare({ payload: 1, children: [leaf] });
    await expect(other.add(flow)).rejects.toThrow(/prepared for queue orders, this is queue other/);
    await expect(other.addBulk([flow])).rejects.toThrow(/prepared for queue orders/);
    expect(wire.sent).toBe(0);
  });
});

describe('what else flows are asked is judged before it is sent', () => {
  const wire = new Counting();
  const flows = new Flows(wire, QUEUE);

  it('a bulk of none, which is nothing', async () => {
    expect(await flows.addBulk([])).toEqual([]);
    expect(wire.sent).toBe(0);
  });

  it('their queue and their options', () => {
    expect(() => new Flows(wire, 'a b')).toThrow(/queue name/);
    expect(() => new Flows(wire, QUEUE, { schemas: 1 } as never)).toThrow(/unknown option "schemas"/);
  });

  it.each<[string, () => Promise<unknown>, RegExp]>([
    ['a bulk that is no list', () => flows.addBulk({} as never), /flows must be a list/],
    ['an id of no brand', () => flows.childrenValues('x'), /branded id/],
    ['an id of no brand', () => flows.eachValue('x').next(), /branded id/],
    ['an id of no brand', () => flows.ignoredFailures('x'), /branded id/],
    ['an id of no brand', () => flows.failures('x'), /branded id/],
    ['an id of no brand', () => flows.counts('x'), /branded id/],
    ['an id of no brand', () => flows.dependencies('x'), /branded id/],
    ['a limit of nothing', () => flows.dependencies(one, { limit: 0 }), /limit must be/],
    [
      'a cursor of its own making',
      () => flows.dependencies(one, { cursor: 'first' }),
      /cursor must be one that dependencies gave/,
    ],
    ['an unknown option', () => flows.dependencies(one, { from: 1 } as never), /unknown option "from"/],
  ])('%s', async (_what, act, text) => {
    await expect(act()).rejects.toMatchObject({ code: 'EMQ_INPUT', reason: expect.stringMatching(text) as string });
    expect(wire.sent).toBe(0);
  });
});
