/**
 * The drawing of one random step: a call of some transition, or something that others do to the keyspace (lanes are
 * filled and claimed, leases lapse, rows break).
 *
 * Invariants: a step depends on its generator and the keyspace only, so a battery repeats from its seed; leases and
 * delays are at least 60 s away from now, and no two times of one set come closer than seconds, so that two servers
 * always agree on what is due and in which order. Does not: send anything.
 */
import { latin1, type Bytes } from './keyspace-dump.js';
import { AUDIT_MAKES, AUDITS_ABOVE_ALL, BESIDE_AUDITS } from './audit-steps.js';
import { CONTROL_MAKES } from './control-steps.js';
import { BESIDE_FLOWS, FLOW_MAKES } from './flow-steps.js';
import { BESIDE_LANES, LANE_MAKES } from './lane-steps.js';
import type { ModelCall } from './model/index.js';
import type { RawCommand } from './node.js';
import type { Rng } from './prng.js';
import { plant } from './plants.js';
import { anyId, span, type About, type Scene } from './scene.js';
import { BYTES, call, idOf, small, timeUntil, tokenOf, type Make } from './step-parts.js';

export type Step =
  | { readonly kind: 'call'; readonly call: ModelCall }
  /** Raw commands, sent to every node alike. */
  | { readonly kind: 'raw'; readonly commands: readonly RawCommand[] };

const BAD_NUMBERS = [
  '',
  'x',
  '+5',
  '007',
  '-0',
  '1e3',
  ' 1',
  '1 ',
  '0x10',
  '1.5',
  '5\0',
  '4503599627370497',
  '-4503599627370497',
];
const EDGE_NUMBERS = [
  '0',
  '-1',
  '9223372036854775807',
  '9223372036854775808',
  '99999999999999999999',
  '4503599627370496',
];

/** Transitions that take no number at its edge. */
const ENDLESS = ['set_limits', 'lane_set', 'back_off'];

/** In how many of 100 steps others do something. */
const PLANTED: Readonly<Record<About, number>> = { all: 40, flows: 12, lanes: 25, audits: 45 };

/** The next step. */
export function draw(scene: Scene): Step {
  const { rng } = scene;
  if (rng.chance(PLANTED[scene.about] + (scene.about === 'all' && scene.mode === 'dirty' ? 5 : 0))) {
    const commands = plant(scene);
    if (commands.length > 0) return { kind: 'raw', commands };
  }
  const [, make] = weighted(rng, DRAWN[scene.about]);
  return { kind: 'call', call: broken(scene, make(scene)) };
}

function timeOf(scene: Scene): [Bytes, Bytes] {
  const { rng } = scene;
  if (rng.chance(30)) return ['at', rng.pick(['1', '1000', '0', '-5', '4000000000000', '4000000000001'])];
  return ['in', timeUntil(scene)];
}

/** What follows the payload of an admission: nothing, a priority, or both. */
function extras({ rng, mode }: Scene): Bytes[] {
  if (rng.chance(50)) return [];
  const priorities = [
    '',
    '0',
    '1',
    '5',
    '2097152',
    ...(mode === 'dirty' ? ['2097153', '-1', '05', 'high', '1.0'] : []),
  ];
  return rng.chance(70) ? [rng.pick(priorities)] : [rng.pick(priorities), rng.pick(['', '{"name":"x"}', '\0\xff'])];
}

const COUNTS = ['pending', 'active', 'schedule', 'dead', 'awaiting_children', 'completed', 'failed'];

/** How often each transition is drawn, and how its call is made. Every transition of the table is here. */
export const MAKES: Readonly<Record<string, readonly [number, Make]>> = {
  enqueue: [
    9,
    (s) => {
      const id = s.mode === 'dirty' && s.rng.chance(5) ? s.rng.pick(['EVT0KHTOWnGLuC', 'JO', '']) : anyId(s);
      return call(
        'enqueue',
        [`${s.base}job:${id}`, `${s.base}pending`, `${s.base}wake`],
        [id, s.rng.pick(BYTES), ...extras(s)],
      );
    },
  ],
  schedule: [
    7,
    (s) => {
      const id = anyId(s);
      const keys = [`${s.base}job:${id}`, `${s.base}schedule`, `${s.base}wake`];
      return call('schedule', keys, [id, s.rng.pick(BYTES), ...timeOf(s), ...extras(s)]);
    },
  ],
  claim: [12, (s) => call('claim', [`${s.base}pending`, `${s.base}active`, s.base], [String(span(s))])],
  claim_batch: [
    3,
    (s) => call('claim_batch', [`${s.base}pending`, `${s.base}active`, s.base], [String(span(s)), small(s.rng)]),
  ],
  take: [
    14,
    (s) => {
      const keys = ['pending', 'ring', 'active', ''].map((name) => s.base + name);
      const source = s.mode === 'dirty' && s.rng.chance(3) ? s.rng.pick(['', 'Flat', 'all', 'both ']) : undefined;
      return call('take', keys, [
        String(span(s)),
        s.rng.pick(['1', '1', '2', '3', '5', '100']),
        source ?? s.rng.pick(['flat', 'lanes', 'both', 'both']),
      ]);
    },
  ],
  release: [
    5,
    (s) => {
      const id = idOf(s, 'active', 'active', 'rows');
      return call(
        'release',
        [`${s.base}active`, `${s.base}pending`, `${s.base}job:${id}`],
        [id, tokenOf(s, id), s.base],
      );
    },
  ],
  complete: [
    9,
    (s) => {
      const id = idOf(s, 'active', 'active', 'rows');
      return call('complete', [`${s.base}active`, `${s.base}job:${id}`], [id, tokenOf(s, id), s.base]);
    },
  ],
  fail: [
    10,
    (s) => {
      const id = idOf(s, 'active', 'active', 'rows');
      const keys = [`${s.base}active`, `${s.base}schedule`, `${s.base}dead`, `${s.base}job:${id}`];
      const max = s.rng.pick(['1', '2', '3', '9']);
      return call('fail', keys, [id, tokenOf(s, id), timeUntil(s), max, s.rng.pick(BYTES), s.base]);
    },
  ],
  delay: [
    5,
    (s) => {
      const id = idOf(s, 'active', 'active', 'rows');
      const keys = [`${s.base}job:${id}`, `${s.base}active`, `${s.base}schedule`];
      return call('delay', keys, [id, tokenOf(s, id), ...timeOf(s), s.base]);
    },
  ],
  extend: [
    4,
    (s) => {
      const id = idOf(s, 'active', 'active', 'rows');
      return call('extend', [`${s.base}active`, `${s.base}job:${id}`], [id, tokenOf(s, id), String(span(s))]);
    },
  ],
  extend_many: [
    2,
    (s) => {
      const pairs = Array.from({ length: s.rng.below(4) }, () => idOf(s, 'active', 'rows')).flatMap((id) => [
        id,
        tokenOf(s, id),
      ]);
      return call('extend_many', [`${s.base}active`, s.base], [String(span(s)), ...pairs]);
    },
  ],
  promote: [6, (s) => call('promote', [`${s.base}schedule`, `${s.base}pending`, s.base], [small(s.rng)])],
  reap: [4, (s) => call('reap', [`${s.base}active`, `${s.base}pending`, s.base], [small(s.rng)])],
  stalled_check: [
    9,
    (s) => {
      const keys = [`${s.base}active`, `${s.base}pending`, `${s.base}dead`];
      return call('stalled_check', keys, [s.base, s.rng.pick(['1', '1', '2', '3']), small(s.rng)]);
    },
  ],
  quarantine: [
    5,
    (s) => {
      const keys = ['pending', 'ring', 'active', 'schedule', 'dead', ''].map((name) => s.base + name);
      return call('quarantine', keys, [small(s.rng)]);
    },
  ],
  agenda: [1, (s) => call('agenda', [`${s.base}schedule`, s.base], [])],
  recovery: [
    1,
    (s) => {
      const legs = ['reap', 'stalled', ...(s.mode === 'dirty' ? ['', 'none'] : [])];
      const modes = ['keep', 'keep', 'set', ...(s.mode === 'dirty' ? ['KEEP'] : [])];
      return call('recovery', [`${s.base}meta`], [s.rng.pick(legs), s.rng.pick(modes)]);
    },
  ],
  wake: [1, (s) => call('wake', [`${s.base}wake`], [])],
  publish: [
    1,
    (s) =>
      call(
        'publish',
        [s.base],
        Array.from({ length: s.rng.below(3) }, () => s.rng.pick(BYTES)),
      ),
  ],
  pause: [1, (s) => call('pause', [`${s.base}meta`], [])],
  resume: [5, (s) => call('resume', [`${s.base}meta`, `${s.base}wake`], [])],
  update_data: [1, (s) => call('update_data', [`${s.base}job:${idOf(s, 'rows')}`], [s.rng.pick(BYTES)])],
  update_progress: [
    1,
    (s) => {
      const id = idOf(s, 'rows');
      return call('update_progress', [`${s.base}job:${id}`], [s.rng.pick(BYTES), id, s.base]);
    },
  ],
  add_log: [
    2,
    (s) => {
      const row = `${s.base}job:${idOf(s, 'rows')}`;
      return call('add_log', [row, `${row}:logs`], [s.rng.pick(BYTES), s.rng.pick(['0', '1', '2', '-1'])]);
    },
  ],
  logs: [
    1,
    (s) => {
      const row = `${s.base}job:${idOf(s, 'rows')}`;
      return call(
        'logs',
        [row, `${row}:logs`],
        [s.rng.pick(['0', '1', '-2', '-9']), s.rng.pick(['-1', '0', '7', '-2'])],
      );
    },
  ],
  remove: [
    4,
    (s) => {
      const id = idOf(s, 'rows', 'dead');
      const keys = ['pending', 'active', 'schedule', 'dead'].map((name) => s.base + name);
      const dedup = s.rng.chance(40) ? [`${s.base}de:${s.rng.pick(['a', 'b'])}`] : [];
      return call('remove', [`${s.base}job:${id}`, ...keys, ...dedup], [id, s.base]);
    },
  ],
  cancel: [
    4,
    (s) => {
      const id = idOf(s, 'rows', 'rows', 'active', 'dead');
      const keys = [`job:${id}`, 'pending', 'active', 'schedule', 'dead'].map((name) => s.base + name);
      return call('cancel', keys, [id, s.rng.pick(BYTES), s.base]);
    },
  ],
  reprocess: [
    5,
    (s) => {
      const id = idOf(s, 'dead', 'dead', 'rows');
      return call('reprocess', [`${s.base}job:${id}`, `${s.base}dead`, `${s.base}pending`], [id, s.base]);
    },
  ],
  get: [1, (s) => call('get', [`${s.base}job:${idOf(s, 'rows')}`], [])],
  state: [
    2,
    (s) => {
      const id = idOf(s, 'rows', 'pending', 'active');
      const keys = ['pending', 'active', 'schedule', 'dead', `job:${id}`].map((name) => s.base + name);
      return call('state', keys, [id, s.base]);
    },
  ],
  browse: [
    2,
    (s) => {
      const set = s.rng.pick(['pending', 'active', 'schedule', 'dead', 'flow:held', 'g:PRT0KHTOWnGLu1:pending']);
      const odd = s.mode === 'dirty' ? [['up'], ['asc', 'score']] : [];
      const order = s.rng.pick([[], [], ['asc'], ['desc'], ['asc', 'scores'], ['desc', 'scores'], ...odd]);
      return call('browse', [s.base + set], [s.rng.pick(['0', '1', '2']), small(s.rng), ...order]);
    },
  ],
  counts: [1, (s) => call('counts', [s.base], COUNTS)],
  ...FLOW_MAKES,
  ...LANE_MAKES,
  ...CONTROL_MAKES,
  ...AUDIT_MAKES,
  metrics: [1, (s) => call('metrics', [`${s.base}metrics:${s.rng.pick(['completed', 'failed'])}`], [])],
};

const ALL = Object.values(MAKES);
/** The transitions of a subject, with some of the others. */
const about = (own: typeof MAKES, beside: Readonly<Record<string, number>>): typeof ALL => [
  ...Object.values(own),
  ...Object.entries(beside).flatMap(([name, weight]) => {
    const made = MAKES[name];
    return made === undefined ? [] : [[weight, made[1]] as const];
  }),
];
const DRAWN: Readonly<Record<About, typeof ALL>> = {
  all: ALL,
  flows: about(FLOW_MAKES, BESIDE_FLOWS),
  lanes: about(LANE_MAKES, BESIDE_LANES),
  audits: about(AUDITS_ABOVE_ALL, BESIDE_AUDITS),
};

function weighted(rng: Rng, makes: typeof ALL): readonly [number, Make] {
  let left = rng.below(makes.reduce((sum, [weight]) => sum + weight, 0));
  for (const entry of makes) {
    left -= entry[0];
    if (left < 0) return entry;
  }
  throw new RangeError('the weights do not add up');
}

/** Now and then, in a dirty battery, a number of the call is a bad one. */
function broken({ rng, mode }: Scene, made: ModelCall): ModelCall {
  if (mode === 'clean' || !rng.chance(7)) return made;
  // a cursor is the server's own
  const first = made.transition === 'flow_children' ? 1 : made.transition === 'lanes' ? 2 : 0;
  const numeric = made.args.flatMap((arg, i) => (i >= first && /^-?\d+$/.test(arg) ? [i] : []));
  if (numeric.length === 0) return made;
  const place = rng.pick(numeric);
  // a rate that large would come and go within a step
  const bad = rng.pick(rng.chance(70) || ENDLESS.includes(made.transition) ? BAD_NUMBERS : EDGE_NUMBERS);
  return { ...made, args: made.args.map((arg, i) => (i === place ? bad : arg)) };
}

/** A call for a person: the transition and its arguments, odd bytes escaped and long ones cut. */
export function showStep(step: Step): string {
  const text = (value: Bytes): string => JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value);
  if (step.kind === 'call')
    return `${step.call.transition} ${[...step.call.keys, ...step.call.args].map(text).join(' ')}`;
  return step.commands
    .map(([name, ...args]) => `${name} ${args.map((arg) => text(rawText(arg))).join(' ')}`)
    .join('; ');
}

const rawText = (arg: Buffer | string): Bytes => (Buffer.isBuffer(arg) ? latin1(arg) : arg);
