/**
 * Queues in numbers, as text for Prometheus.
 *
 * Invariants: it only reads, in two writes however many queues there are, each read O(log N); what the server is asked
 * and what local consumers have counted are families of their own, so that several processes may be scraped.
 * Does not: serve HTTP, or keep anything between two calls. Lanes are not in the counts.
 */
import { isBranded, parseId } from '../ids/index.js';
import { givenList, known } from '../queue/input.js';
import { checkWire } from '../queue/job-controls.js';
import type { Wire } from '../queue/jobs.js';
import type { Transition } from '../wire/call.js';
import { EmqError, inputError, show } from '../wire/errors.js';
import { Keyspace } from '../wire/keyspace.js';
import { COUNT_NAMES, transitions, type CountName } from '../wire/transitions.js';
import { ConsumerMetrics } from './consumer-metrics.js';
import { familiesText, type Family, type Sample } from './text.js';

export interface PrometheusSources {
  /** The names of the queues to ask the server about. Default: none. */
  readonly queues?: readonly string[];
  /** Where they are. */
  readonly connector?: Wire;
  /** What the consumers of this process have done. */
  readonly consumers?: ConsumerMetrics;
}

interface Snapshot {
  readonly keys: Keyspace;
  readonly counts: Readonly<Record<CountName, number>>;
  /** Of the earliest scheduled job, in ms; 0 when none is late. */
  readonly lateMs: number;
  /** Letters of flow children that have not been delivered. */
  readonly letters: number | null;
  /** The job that is claimed next. */
  head: string | undefined;
}

const STATES = ['pending', 'active', 'scheduled', 'dead', 'awaiting_children'] as const;
/** How far a set may change between the two reads without its head being missed. */
const SLACK = 32;

/**
 * The text of one scrape, for an answer of the type `PROMETHEUS_CONTENT_TYPE`.
 *
 *     await prometheusText({ connector, queues: ['mail'], consumers: new ConsumerMetrics().watch(consumer) });
 *
 * @throws EmqError what a read throws (`EMQ_CONNECTION` ...): a scrape that is only half true is none; `EMQ_INPUT`.
 */
export async function prometheusText(sources: PrometheusSources): Promise<string> {
  const { queues = [], connector, consumers } = known('prometheusText', sources, ['queues', 'connector', 'consumers']);
  if (consumers !== undefined && !(consumers instanceof ConsumerMetrics)) {
    throw inputError(`consumers must be a ConsumerMetrics that watches them, got ${show(consumers)}`);
  }
  if (connector !== undefined) checkWire('prometheusText', connector);
  const names = [...new Set(givenList('queues', queues))].map((queue) => new Keyspace(queue));
  if (names.length > 0 && connector === undefined) throw inputError('queues need a connector: give it as connector');
  const snapshots = connector === undefined ? [] : await look(connector, names);
  return familiesText([...serverFamilies(snapshots, Date.now()), ...(consumers?.families() ?? [])]);
}

async function look(wire: Wire, queues: readonly Keyspace[]): Promise<Snapshot[]> {
  const snapshots = await Promise.all(
    queues.map(async (keys): Promise<Snapshot> => {
      const [numbers, { dueInMs, letters }] = await Promise.all([
        read(wire, keys, transitions.counts, { names: COUNT_NAMES }),
        read(wire, keys, transitions.agenda, undefined),
      ]);
      const counts = Object.fromEntries(COUNT_NAMES.map((name, i) => [name, numbers[i] ?? 0]));
      return {
        keys,
        counts: counts as Record<CountName, number>,
        lateMs: Math.max(0, -(dueInMs ?? 0)),
        letters,
        head: undefined,
      };
    }),
  );
  await Promise.all(
    snapshots.map(async (one) => {
      const { pending } = one.counts;
      if (pending === 0) return;
      // From the end: the last one is served first.
      const page = { state: 'pending', offset: Math.max(0, pending - SLACK), limit: 2 * SLACK } as const;
      one.head = (await read(wire, one.keys, transitions.browse, page)).at(-1);
    }),
  );
  return snapshots;
}

async function read<I extends object | void, R>(
  wire: Wire,
  keys: Keyspace,
  transition: Transition<I, R>,
  input: I,
): Promise<R> {
  try {
    return transition.read(await wire.run({ transition, queue: keys.queue, ...transition.layout(keys, input) }));
  } catch (error) {
    throw error instanceof EmqError ? error.during(`prometheusText: ${transition.name} on queue ${keys.queue}`) : error;
  }
}

function serverFamilies(snapshots: readonly Snapshot[], now: number): Family[] {
  const each = (
    type: Family['type'],
    name: string,
    help: string,
    of: (one: Snapshot) => number | undefined,
  ): Family => {
    const samples = snapshots.flatMap((one): Sample[] => {
      const value = of(one);
      return value === undefined ? [] : [{ labels: { queue: one.keys.queue }, value }];
    });
    return { name, help, type, samples };
  };
  return [
    {
      name: 'echomq_jobs',
      help: 'Jobs in each state.',
      type: 'gauge',
      samples: snapshots.flatMap(({ keys, counts }) =>
        STATES.map((state) => ({ labels: { queue: keys.queue, state }, value: counts[state] })),
      ),
    },
    each(
      'gauge',
      'echomq_queue_depth',
      'Jobs that are not done yet: pending, active, scheduled, and flow parents that wait for their children.',
      ({ counts }) => counts.pending + counts.active + counts.scheduled + counts.awaiting_children,
    ),
    each(
      'gauge',
      'echomq_flow_letters',
      'Letters of flow children that have not been delivered to their parents.',
      ({ letters }) => letters ?? undefined,
    ),
    each(
      'gauge',
      'echomq_oldest_waiting_age_seconds',
      'Age of the job that is claimed next, since it was enqueued first: the oldest that waits, unless priorities differ. 0 when none waits.',
      ({ counts, head }) => {
        if (counts.pending === 0) return 0;
        return isBranded(head) ? Math.max(0, now - parseId(head).unixMs) / 1_000 : undefined;
      },
    ),
    each(
      'gauge',
      'echomq_schedule_lateness_seconds',
      'How long ago the earliest scheduled job was due. 0 when none is late.',
      ({ lateMs }) => lateMs / 1_000,
    ),
    each('counter', 'echomq_jobs_completed_total', 'Jobs that were completed.', ({ counts }) => counts.completed),
    each('counter', 'echomq_jobs_failed_total', 'Jobs that died.', ({ counts }) => counts.failed),
  ];
}
