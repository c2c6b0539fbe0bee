/**
 * Every public verb with arguments that are right, found by reflection: the test that walks them fails for a verb of which
 * there is no example here, so none can be forgotten.
 *
 * Does not: say what a verb does; only what it takes. An example may be refused by the server (`EMQSTALE`, `EMQSTATE`).
 */
import { EventEmitter } from 'node:events';
import * as echomq from '../../src/index.js';
import { Queue, NamedQueue, Admin, Flows, Jobs, Lanes, QueueEvents, Repeats } from '../../src/index.js';
import type { Connector } from '../../src/index.js';

/** Where the verbs are called: real jobs, real names. */
export interface Ground {
  readonly connector: Connector;
  readonly wire: echomq.Wire;
  readonly queue: string;
  /** A job that waits, a job that is held, its token, a dead one, a lane, a repeat. */
  readonly id: string;
  readonly held: { readonly id: string; readonly token: number };
  readonly dead: string;
  readonly group: string;
  readonly repeat: string;
}

/** Builds the right arguments. */
export type Example = (ground: Ground) => readonly unknown[];
/** What has the verbs. Verbs of a queue that needs a connector are called on the connector itself. */
type Maker = (ground: Ground) => object;

/** Classes whose verbs reach a server, or judge what is given to them. */
export const MAKERS: Readonly<Record<string, Maker>> = {
  Jobs: ({ wire, queue }) => new Jobs(wire, queue),
  Lanes: ({ wire, queue }) => new Lanes(wire, queue),
  Flows: ({ wire, queue }) => new Flows(wire, queue),
  Admin: ({ connector, queue }) => new Admin(connector, queue),
  Repeats: ({ wire, queue }) => new Repeats(wire, queue),
  Queue: ({ connector, queue }) => new Queue(connector, queue),
  NamedQueue: ({ connector, queue }) => new NamedQueue<Record<string, unknown>>(connector, queue),
  QueueEvents: ({ connector, queue }) => new QueueEvents(connector, queue),
  ConsumerMetrics: () => new echomq.ConsumerMetrics(),
  Minter: () => new echomq.Minter(),
};

/** Exported classes that have nothing to give a name to: what is handed out, errors, what is called by a table of its own. */
export const NO_VERBS: ReadonlySet<string> = new Set([
  ...['EmqError', 'DelayError', 'JobAbortedError', 'RateLimitError', 'UnrecoverableError'],
  // handed out by verbs; the connector's own calls are the wire's (test/wire)
  ...['Job', 'TakenJob', 'PreparedFlow', 'Consumer', 'BatchConsumer', 'Connector'],
  // the keys of a queue: below, as constructors
  ...['Keyspace', 'JobControls'],
]);

const PAYLOAD = { n: 1 };
const WHOLE: Example = ({ group }) => [
  PAYLOAD,
  {
    id: echomq.mint(),
    priority: 3,
    group,
    name: 'mail',
    opts: { a: 1 },
    maxAttempts: 3,
    backoff: { type: 'jitter', of: { type: 'fixed', delayMs: 5 } },
    timeoutMs: 50,
    durability: false,
    dedup: { id: `d-${echomq.mint()}`, mode: 'throttle', ttlMs: 60_000, keep: true },
  },
];
const lastOf = (example: Example, ground: Ground): object => example(ground).at(-1) as object;
const without = (options: object, ...names: string[]): object =>
  Object.fromEntries(Object.entries(options).filter(([name]) => !names.includes(name)));
const itemOf = (ground: Ground): object => ({ ...without(lastOf(WHOLE, ground), 'durability'), payload: PAYLOAD });
const RATE = { max: 5, durationMs: 1_000 };
const HANDLER = (): void => {};
const SHARED = { concurrency: 1, leaseMs: 30_000, beatMs: 600_000, maxAttempts: 3, maxStalled: 3, recovery: 'reap' };
const CONSUME = {
  ...SHARED,
  backoff: 5,
  source: 'flat',
  publish: true,
  timeoutMs: 50,
  deadLetter: { maxJobs: 5, maxAgeMs: 5 },
};
const CHILD = ({ queue }: Ground) => ({
  payload: PAYLOAD,
  id: echomq.mint(),
  queue,
  onFailure: 'ignore',
  name: 'child',
  priority: 1,
  opts: {},
});
const FLOW: Example = (ground) => [{ payload: PAYLOAD, id: echomq.mint(), name: 'root', children: [CHILD(ground)] }];
const SCHEDULE = { everyMs: 60_000, startAt: 0, endAt: 9e12, limit: 5, missed: 'skip' };
const RUN_AT = { inMs: 60_000 };

/** `Class.verb`, `new Class`, or the name of a function. */
export const EXAMPLES: Readonly<Record<string, Example>> = {
  'new Jobs': ({ wire, queue }) => [wire, queue, { maxPayloadBytes: 5, codec: echomq.bytesCodec }],
  'new JobControls': ({ wire, queue }) => [wire, queue, {}],
  'new Keyspace': ({ queue }) => [queue],
  'new Lanes': ({ wire, queue }) => [wire, queue, { maxPayloadBytes: 5 }],
  'new Flows': ({ wire, queue }) => [wire, queue, { maxPayloadBytes: 5 }],
  'new Admin': ({ wire, queue }) => [wire, queue],
  'new Repeats': ({ wire, queue }) => [wire, queue, { maxPayloadBytes: 5 }],
  'new Queue': ({ connector, queue }) => [connector, queue, { maxPayloadBytes: 5 }],
  'new NamedQueue': ({ connector, queue }) => [connector, queue, { maxPayloadBytes: 5 }],
  'new QueueEvents': ({ connector, queue }) => [connector, queue, { bufferSize: 5 }],
  'new ConsumerMetrics': () => [{ buckets: [1, 2], maxNames: 5 }],
  'new Minter': () => [{ node: 5, clock: () => 1.8e12 }],

  'Jobs.enqueue': WHOLE,
  'Jobs.enqueueMany': (ground) => [[itemOf(ground), { payload: PAYLOAD }], { durability: false }],
  'Jobs.schedule': (ground) => [PAYLOAD, RUN_AT, lastOf(WHOLE, ground)],
  'Jobs.claim': () => [{ leaseMs: 60_000 }],
  'Jobs.claimBatch': () => [{ leaseMs: 60_000, size: 1 }],
  'Jobs.take': () => [{ leaseMs: 60_000, count: 1, source: 'both' }],
  'Jobs.release': ({ held }) => [{ ...held }],
  'Jobs.complete': ({ held }) => [{ ...held }, { result: PAYLOAD }],
  'Jobs.fail': ({ held }) => [{ ...held }, { delayMs: 60_000, maxAttempts: 3, error: 'no' }],
  'Jobs.delay': ({ held }) => [{ ...held }, { at: 9e12 }],
  'Jobs.extend': ({ held }) => [{ ...held }, { leaseMs: 60_000 }],
  'Jobs.extendMany': ({ held }) => [[{ ...held }], { leaseMs: 60_000 }],
  'Jobs.promote': () => [{ limit: 1 }],
  'Jobs.reap': () => [{ limit: 1 }],
  'Jobs.stalledCheck': () => [{ maxStalled: 3, limit: 1 }],
  'Jobs.pause': () => [],
  'Jobs.resume': () => [],
  'Jobs.updateData': ({ id }) => [id, PAYLOAD],
  'Jobs.updateProgress': ({ id }) => [id, 5],
  'Jobs.addLog': ({ id }) => [id, 'line', { keep: 5 }],
  'Jobs.logs': ({ id }) => [id, { first: 0, last: -1 }],
  'Jobs.remove': ({ id }) => [id, { dedupId: 'd' }],
  'Jobs.cancel': ({ id }) => [id, 'reason'],
  'Jobs.quarantine': () => [{ limit: 1 }],
  'Jobs.setRecovery': () => ['reap'],
  'Jobs.reprocess': ({ dead }) => [dead],
  'Jobs.promoteNow': ({ id }) => [id],
  'Jobs.reschedule': ({ id }) => [id, RUN_AT],
  'Jobs.consult': () => [],
  'Jobs.dedupOwner': () => ['d'],
  'Jobs.freeDedup': () => ['d'],
  'Jobs.get': ({ id }) => [id],
  'Jobs.state': ({ id }) => [id],
  'Jobs.browse': ({ group }) => ['pending', { offset: 0, limit: 5, order: 'asc', lane: group }],
  'Jobs.counts': () => [['pending', 'dead']],
  'Jobs.metrics': () => ['completed'],

  'Lanes.enqueue': (ground) => [ground.group, PAYLOAD, without(lastOf(WHOLE, ground), 'group')],
  'Lanes.schedule': (ground) => [ground.group, PAYLOAD, RUN_AT, without(lastOf(WHOLE, ground), 'group')],
  'Lanes.enqueueMany': (ground) => [[itemOf(ground)], { durability: false }],
  'Lanes.claim': () => [{ leaseMs: 60_000 }],
  'Lanes.claimBatch': () => [{ leaseMs: 60_000, size: 2, min: 1 }],
  'Lanes.setLimit': ({ group }) => [group, 5],
  'Lanes.setWeight': ({ group }) => [group, 5],
  'Lanes.setRate': ({ group }) => [group, RATE],
  'Lanes.pause': ({ group }) => [group],
  'Lanes.resume': ({ group }) => [group],
  'Lanes.reassign': ({ id, group }) => [id, group],
  'Lanes.drain': ({ group }) => [group],
  'Lanes.reap': ({ group }) => [group],
  'Lanes.depth': ({ group }) => [group],
  'Lanes.depths': ({ group }) => [[group]],
  'Lanes.info': ({ group }) => [[group]],
  'Lanes.list': () => [{ configured: true }],

  'Flows.prepare': FLOW,
  'Flows.add': (ground) => [...FLOW(ground), { durability: false }],
  'Flows.addBulk': (ground) => [[...FLOW(ground)], { durability: false }],
  'Flows.childrenValues': ({ id }) => [id],
  'Flows.eachValue': ({ id }) => [id],
  'Flows.ignoredFailures': ({ id }) => [id],
  'Flows.failures': ({ id }) => [id],
  'Flows.dependencies': ({ id }) => [id, { limit: 5, cursor: '0' }],
  'Flows.counts': ({ id }) => [id],
  'Flows.reprocess': ({ dead }) => [dead],
  'Flows.deliver': () => [],

  'Admin.check': () => [{ signal: new AbortController().signal, most: 5, onFinding: () => {} }],
  'Admin.repair': () => [
    { signal: new AbortController().signal, most: 5, onFinding: () => {}, onDone: () => {}, dryRun: true },
  ],
  'Admin.limits': () => [],
  'Admin.setLimits': () => [{ concurrency: 1_000, rate: { max: 1_000, durationMs: 1_000 } }],
  'Admin.pause': () => [],
  'Admin.resume': () => [],
  'Admin.drain': () => [{ scheduled: false, lanes: false }],
  'Admin.obliterate': () => [{ force: false }],
  'Admin.trimDead': () => [{ olderThanMs: 9e12, keep: 1_000 }],
  'Admin.reprocess': ({ dead }) => [dead],
  'Admin.reprocessAll': ({ group }) => [
    { filter: { error: 'nothing', name: 'n', group, olderThanMs: 5, newerThanMs: 5 }, limit: 5 },
  ],
  'Admin.remove': ({ id }) => [id],
  'Admin.cancel': ({ id }) => [id, 'reason'],
  'Admin.promoteNow': ({ id }) => [id],
  'Admin.reschedule': ({ id }) => [id, RUN_AT],
  'Admin.updateData': ({ id }) => [id, PAYLOAD],
  'Admin.logs': ({ id }) => [id, { first: 0, last: -1 }],
  'Admin.jobs': ({ group }) => [{ state: 'pending', lane: group, order: 'asc', offset: 0, limit: 5 }],
  'Admin.job': ({ id }) => [id],
  'Admin.counts': () => [],
  'Admin.stats': () => [],
  'Admin.metrics': () => [{ minutes: 5 }],
  'Admin.lanes': () => [{ configured: true }],

  'Repeats.upsert': ({ repeat, group }) => [
    repeat,
    SCHEDULE,
    { payload: PAYLOAD, priority: 1, group, opts: {}, name: 'n', maxAttempts: 1, backoff: 5, timeoutMs: 5 },
  ],
  'Repeats.pause': ({ repeat }) => [repeat],
  'Repeats.resume': ({ repeat }) => [repeat],
  'Repeats.remove': ({ repeat }) => [repeat],
  'Repeats.get': ({ repeat }) => [repeat],
  'Repeats.list': () => [],
  'Repeats.fire': () => [],

  'Queue.consume': () => [HANDLER, CONSUME],
  'Queue.consumeBatch': () => [
    HANDLER,
    { ...SHARED, retryDelayMs: 5, minSize: 1, maxSize: 5, timeoutMs: 50, source: 'lanes' },
  ],
  'NamedQueue.enqueue': (ground) => ['mail', PAYLOAD, without(lastOf(WHOLE, ground), 'name')],
  // nothing confirms here: some of these cost their ms
  'NamedQueue.enqueueMany': (ground) => [[itemOf(ground)], { durability: { replicas: 1, fsync: false, timeoutMs: 1 } }],
  'NamedQueue.schedule': (ground) => ['mail', PAYLOAD, RUN_AT, without(lastOf(WHOLE, ground), 'name')],
  'NamedQueue.consume': () => [{ mail: HANDLER }, CONSUME],
  'QueueEvents.ready': () => [],
  'QueueEvents.stats': () => [],
  'QueueEvents.close': () => [],
  'ConsumerMetrics.watch': () => [new EventEmitter()],
  'Minter.mint': () => ['JOB'],

  listQueues: ({ connector }) => [connector, { scan: true }],
  prometheusText: ({ connector, queue }) => [{ connector, queues: [queue], consumers: new echomq.ConsumerMetrics() }],
  closeOnSignal: () => [[], { signals: ['SIGUSR2'], timeoutMs: 5, exit: false }],
  exponential: () => [5, 50],
  fixed: () => [5],
  jitter: () => [{ type: 'fixed', delayMs: 5 }],
  jsonCodec: () => [],
  mint: () => ['JOB'],
  isBranded: ({ id }) => [id],
  parseId: ({ id }) => [id],
  encodeId: () => ['JOB', 5n],
};

/** The public verbs that there are: `new Class` and `Class.verb` of what is exported, and functions. */
export function publicVerbs(): { readonly verbs: readonly string[]; readonly unknownClasses: readonly string[] } {
  const verbs: string[] = [];
  const unknownClasses: string[] = [];
  for (const [name, value] of Object.entries(echomq) as [string, unknown][]) {
    if (typeof value !== 'function') continue;
    const isClass = /^class\b/.test(Function.prototype.toString.call(value));
    if (!isClass) {
      verbs.push(name);
      continue;
    }
    if (`new ${name}` in EXAMPLES) verbs.push(`new ${name}`);
    if (name in MAKERS) verbs.push(...methodsOf(value.prototype as object).map((verb) => `${name}.${verb}`));
    else if (!NO_VERBS.has(name)) unknownClasses.push(name);
  }
  return { verbs, unknownClasses };
}

/** Internal by their docs; they take no name, or what the library itself gives. */
const INTERNAL: ReadonlySet<string> = new Set(['families']);

/** The methods of a class; those of Jobs count once, for Jobs. */
function methodsOf(prototype: object): string[] {
  const found = new Set<string>();
  for (let at = prototype; !isForeign(at, prototype); at = Object.getPrototypeOf(at) as object) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (typeof value === 'function' && name !== 'constructor' && !INTERNAL.has(name)) found.add(name);
    }
  }
  return [...found];
}

function isForeign(at: object, start: object): boolean {
  if (at !== start && at === echomq.Jobs.prototype) return true;
  // an emitter's own methods are Node's
  return !('constructor' in at) || ['Object', 'EventEmitter'].includes(at.constructor.name);
}
