/**
 * The drawing of flow transitions: flows land in one step or in several, over both queues of a bout; their letters are
 * delivered and taken out.
 *
 * Invariants: in a clean battery only what a client may do: a letter leaves the outbox when it was heard, a child is
 * called landed when it has, and a job is no child of itself. Does not: settle a flow child as a plain job (steps.ts).
 */
import { type Bytes } from './keyspace-dump.js';
import { isHeard, parseLetter } from './letters.js';
import type { ModelCall } from './model/index.js';
import {
  across,
  anyId,
  fieldOf,
  fieldsOf,
  IDS,
  itemsOf,
  membersOf,
  queueOf,
  rowsOf,
  span,
  withSubkey,
  type Scene,
} from './scene.js';
import { BYTES, call, idOf, small, timeUntil, tokenOf, type Make } from './step-parts.js';

const POLICIES = ['fp', 'fp', 'id', 'rd', 'cp'];
const BAD_POLICIES = ['', 'FP', 'fp ', 'xx'];

const policyOf = ({ rng, mode }: Scene): Bytes => rng.pick(mode === 'dirty' && rng.chance(4) ? BAD_POLICIES : POLICIES);

/** Payload, priority and opts of a job of a flow. */
const jobOf = ({ rng }: Scene): Bytes[] => [
  rng.pick(BYTES),
  rng.pick(['', '', '0', '3', '2097152', 'x']),
  rng.pick(['', '', '{"name":"x"}']),
];

/** Ids of the pool, each once, first those that have no row. */
function freshIds(s: Scene, count: number): Bytes[] {
  const rest = [...IDS];
  const free = rest.filter((id) => !s.keys.has(`${s.base}job:${id}`));
  const found: Bytes[] = [];
  while (found.length < count) {
    const from = free.filter((id) => !found.includes(id));
    const id = s.rng.pick(from.length > 0 && s.rng.chance(93) ? from : rest.filter((one) => !found.includes(one)));
    found.push(id);
  }
  return found;
}

/** The parents that this queue holds a list of children for, now and then another id. */
const parentOf = (s: Scene): Bytes => {
  const ids = withSubkey(s, ':children');
  return ids.length > 0 && s.rng.chance(90) ? s.rng.pick(ids) : anyId(s);
};

/** The children of a parent that have not landed, of those in the given queue. */
const unlanded = (s: Scene, parent: Bytes, queue: Bytes): Bytes[] =>
  fieldsOf(s, `job:${parent}:children`).flatMap(([id, where]) => (where === `+${queue}` ? [id] : []));

/** How many children of a parent are open, as it counts them. */
function openCount({ keys, base }: Scene, id: Bytes): number {
  const count = keys.get(`${base}job:${id}:dependencies`);
  return count?.type === 'string' ? Number(count.value) : 0;
}

const hasUnlisted = (s: Scene, id: Bytes): boolean => openCount(s, id) > fieldsOf(s, `job:${id}:children`).length;

/**
 * A parent with children in this queue that have not landed; the parent may be in either queue. In a clean battery no
 * child lands before all are listed.
 */
function landings(s: Scene): { parent: Bytes; queue: Bytes; ids: Bytes[] }[] {
  const there = across(s);
  const whole = (of: Scene, id: Bytes): boolean => s.mode === 'dirty' || !hasUnlisted(of, id);
  const here = withSubkey(s, ':children');
  const far = withSubkey(there, ':children').filter((parent) => whole(there, parent));
  return [
    ...here.map((parent) => ({ parent, queue: '', ids: unlanded(s, parent, '') })),
    ...far.map((parent) => ({ parent, queue: queueOf(s.other), ids: unlanded(there, parent, queueOf(s.base)) })),
  ].filter(({ ids }) => ids.length > 0);
}

/**
 * Children for a list: ids and queues. In a clean battery such that nobody has or had, since ids are minted once: fewer
 * than `count` when there are no more.
 */
function children(s: Scene, own: Bytes, count: number): Bytes[] {
  const left = new Set(IDS.filter((id) => id !== own));
  return Array.from({ length: count }, () => {
    const there = s.rng.chance(35);
    const queue = there ? across(s) : s;
    const used = [...rowsOf(queue), ...membersOf(queue, 'flow:landed')];
    const free = [...left].filter((id) => !used.includes(id) && !isListed(s, id));
    const from = s.mode === 'clean' || (free.length > 0 && s.rng.chance(90)) ? free : [...left];
    if (from.length === 0) return [];
    const id = s.rng.pick(from);
    left.delete(id);
    return [id, there ? queueOf(s.other) : ''];
  }).flat();
}

/** Whether a parent in either queue lists the id. */
const isListed = (s: Scene, id: Bytes): boolean =>
  [s, across(s)].some((queue) =>
    withSubkey(queue, ':children').some((parent) => fieldOf(queue, `job:${parent}:children`, id) !== undefined),
  );

const some = <T>(s: Scene, items: readonly T[]): T[] => items.filter(() => s.rng.chance(70));

/** The letters that are for the queue of the scene, in either outbox. */
function mail(s: Scene): Exclude<ReturnType<typeof parseLetter>, { kind: 'cancel' } | undefined>[] {
  return [s, across(s)]
    .flatMap((from) => itemsOf(from, 'flow:outbox'))
    .flatMap((letter) => {
      const parts = parseLetter(letter);
      return parts === undefined || parts.kind === 'cancel' || parts.queue !== queueOf(s.base) ? [] : [parts];
    });
}

/** The keys of a parent for a settle, by their ends, or the outbox; and how the arguments name it. */
function kinOf(s: Scene, id: Bytes): { parent: Bytes; queue: Bytes | undefined } {
  const parent = fieldOf(s, `job:${id}`, 'parent');
  const queue = fieldOf(s, `job:${id}`, 'parent_queue');
  if (s.rng.chance(4)) return { parent: parent ?? anyId(s), queue: queue === undefined ? 'other' : undefined };
  return { parent: parent === undefined || s.rng.chance(3) ? anyId(s) : parent, queue };
}

const isChild = (s: Scene, id: Bytes): boolean => fieldOf(s, `job:${id}`, 'parent') !== undefined;

const activeChildren = (s: Scene): Bytes[] => membersOf(s, 'active').filter((id) => isChild(s, id));

/** A flow child that is likely held, now and then any job. */
function childOf(s: Scene): Bytes {
  const kids = rowsOf(s).filter((id) => isChild(s, id));
  const active = activeChildren(s);
  const from = active.length > 0 && s.rng.chance(85) ? active : kids;
  return from.length > 0 && s.rng.chance(95) ? s.rng.pick(from) : idOf(s, 'rows');
}

/** A call that finds what it is about, most of the time: what has to come before it is drawn where that is not there. */
const after =
  (before: Make, ready: (scene: Scene) => boolean, make: Make): Make =>
  (s) =>
    !ready(s) && s.rng.chance(80) ? before(s) : make(s);

const claim: Make = (s) => call('claim_batch', [`${s.base}pending`, `${s.base}active`, s.base], [String(span(s)), '3']);

const cancelParent: Make = (s) => {
  const id = parentOf(s);
  const keys = [`job:${id}`, 'pending', 'active', 'schedule', 'dead'].map((name) => s.base + name);
  return call('cancel', keys, [id, s.rng.pick(BYTES), s.base]);
};

const completeChild: Make = (s) => {
  const id = childOf(s);
  const { parent, queue } = kinOf(s, id);
  const row = `${s.base}job:${parent}`;
  const args = [id, tokenOf(s, id), s.base, parent, s.rng.pick([id, ...BYTES])];
  const keys = [`${s.base}active`, `${s.base}job:${id}`];
  return queue === undefined
    ? call('complete_child', [...keys, `${row}:dependencies`, `${row}:processed`, row], args)
    : call('complete_child', [...keys, `${s.base}flow:outbox`], [...args, 'xq', queue]);
};

const failChild: Make = (s) => {
  const id = childOf(s);
  const { parent, queue } = kinOf(s, id);
  const row = `${s.base}job:${parent}`;
  const max = s.rng.pick(['1', '1', '1', '2', '9']);
  const args = [id, tokenOf(s, id), timeUntil(s), max, s.rng.pick(BYTES), s.base];
  const keys = [...['active', 'schedule', 'dead'].map((name) => s.base + name), `${s.base}job:${id}`];
  const own = fieldOf(s, `job:${id}`, 'parent_policy') ?? 'fp';
  const policy = s.mode === 'clean' || s.rng.chance(80) ? own : s.rng.pick(POLICIES);
  return queue === undefined
    ? call(
        'fail_child',
        [...keys, `${row}:failed`, `${row}:unsuccessful`, `${row}:dependencies`, row],
        [...args, `sq:${policy}`, parent],
      )
    : call('fail_child', [...keys, `${s.base}flow:outbox`], [...args, `xq:${policy}`, queue, parent]);
};

const enqueueFlow: Make = (s) => {
  const ids = freshIds(s, 2 + s.rng.below(4));
  const rows = ids.map((id) => `${s.base}job:${id}`);
  const place = (i: number): Bytes => {
    if (s.mode === 'dirty' && s.rng.chance(3)) return s.rng.pick(['0', '9', '-1', 'x', '']);
    return String(1 + s.rng.below(i));
  };
  const words = ids.flatMap((id, i) => [id, ...jobOf(s), ...(i === 0 ? ['0', ''] : [place(i), policyOf(s)])]);
  if (s.mode === 'dirty' && s.rng.chance(4)) words.pop();
  return call('enqueue_flow', [`${s.base}pending`, `${s.base}wake`, ...rows], [s.base, ...words]);
};

const flowHold: Make = (s) => {
  const [open] = some(s, landings(s));
  const child = open !== undefined && s.rng.chance(60);
  const [fresh = ''] = freshIds(s, 1);
  const id = child ? s.rng.pick(open.ids) : fresh;
  const link = child ? [open.parent, open.queue, policyOf(s)] : ['', '', ''];
  const count = s.rng.pick([1, 1, 2, 3]);
  const listed = children(s, id, s.rng.chance(70) ? count : s.rng.below(count));
  if (s.mode === 'dirty' && s.rng.chance(4)) listed.push('JOB0KHTOWnGLuA');
  return call('flow_hold', [`${s.base}job:${id}`], [s.base, id, ...jobOf(s), ...link, String(count), ...listed]);
};

const flowList: Make = (s) => {
  const parents = unlistedParents(s);
  const id = parents.length > 0 && s.rng.chance(85) ? s.rng.pick(parents) : parentOf(s);
  const words = children(s, id, 1 + s.rng.below(2));
  if (s.mode === 'dirty' && s.rng.chance(4)) words.pop();
  return call('flow_list', [`${s.base}job:${id}`], words);
};

const flowLand: Make = (s) => {
  const open = landings(s);
  const keys = [`${s.base}pending`, `${s.base}wake`, s.base];
  if (open.length === 0 && s.mode === 'clean') return call('flow_land', keys, [parentOf(s), '', ...landed(s, IDS)]);
  const { parent, queue, ids } =
    open.length > 0 && s.rng.chance(90)
      ? s.rng.pick(open)
      : { parent: parentOf(s), queue: s.mode === 'clean' || s.rng.chance(50) ? '' : queueOf(s.other), ids: IDS };
  return call('flow_land', keys, [parent, queue, ...landed(s, ids)]);
};

/** What flow_land is told of some children, at most three. */
function landed(s: Scene, ids: readonly Bytes[]): Bytes[] {
  const drawn = some(s, ids).slice(0, 3);
  return (drawn.length > 0 ? drawn : ids.slice(0, 1)).flatMap((id) => [id, ...jobOf(s), policyOf(s)]);
}

/** The children of a parent that have landed, of those that it does not know it of. */
function landedOf(s: Scene, parent: Bytes): Bytes[] {
  const known = membersOf(across(s), 'flow:landed');
  const here = membersOf(s, 'flow:landed');
  const own = unlanded(s, parent, '').filter((id) => here.includes(id));
  const far = unlanded(s, parent, queueOf(s.other)).filter((id) => known.includes(id));
  return [...own, ...far];
}

const flowLanded: Make = (s) => {
  const parents = withSubkey(s, ':children').filter((id) => landedOf(s, id).length > 0);
  const parent = parents.length > 0 ? s.rng.pick(parents) : parentOf(s);
  const odd = s.mode === 'dirty' && s.rng.chance(30) ? [anyId(s), anyId(s)] : [];
  return call('flow_landed', [`${s.base}job:${parent}`], [...some(s, landedOf(s, parent)), ...odd]);
};

/** The children in flow:landed that may leave it: in a clean battery those whose parent knows. */
function clearable(s: Scene): Bytes[] {
  const there = across(s);
  const waited = [
    ...withSubkey(s, ':children').flatMap((parent) => unlanded(s, parent, '')),
    ...withSubkey(there, ':children').flatMap((parent) => unlanded(there, parent, queueOf(s.base))),
  ];
  return membersOf(s, 'flow:landed').filter((id) => s.mode === 'dirty' || !waited.includes(id));
}

const flowClear: Make = (s) =>
  call(
    'flow_clear',
    [`${s.base}flow:landed`],
    [...some(s, clearable(s)), ...(s.mode === 'dirty' ? [anyId(s)] : ['x'])],
  );

const flowDeliver: Make = (s) => {
  const letters = mail(s);
  const made = s.mode === 'dirty' && s.rng.chance(30);
  if (letters.length > 0 && !made) {
    const { parent, child, kind, policy, text } = s.rng.pick(letters);
    return call('flow_deliver', [`${s.base}job:${parent}`, s.base], [parent, child, kind, policy, text]);
  }
  const parent = parentOf(s);
  const known = fieldsOf(s, `job:${parent}:children`).map(([id]) => id);
  // in a clean battery nobody says of a child what did not happen
  const child = s.mode === 'dirty' && known.length > 0 && s.rng.chance(85) ? s.rng.pick(known) : 'JOB0KHTOWnGLzz';
  const kind = s.rng.pick(['done', 'fail', 'gone', ...(s.mode === 'dirty' ? ['', 'DONE'] : [])]);
  const policy = kind === 'done' ? '' : s.rng.pick([...POLICIES, 'x', '']);
  const args = [parent, child, kind, policy, s.rng.pick(BYTES)];
  return call('flow_deliver', [`${s.base}job:${parent}`, s.base], args);
};

const flowAck: Make = (s) => {
  const own = itemsOf(s, 'flow:outbox');
  const letters = some(s, s.mode === 'dirty' ? own : own.filter((one) => isHeard(one, s.base, s.keys))).slice(0, 4);
  const odd = s.mode === 'dirty' ? ['later'] : [];
  const words = [...letters, ...(letters.length === 0 || s.rng.chance(20) ? ['no such letter'] : [])].flatMap((one) => {
    return [s.rng.pick(['done', 'done', 'done', 'poison', ...(s.rng.chance(5) ? odd : [])]), one];
  });
  const edition = fieldOf(s, 'meta', 'letters') ?? '0';
  const seen = s.rng.chance(85) ? edition : s.rng.pick(['0', '1', `${Number(edition) - 1}`]);
  return call('flow_ack', [`${s.base}flow:outbox`, s.base], [seen, ...words]);
};

/** The parents whose children are to be cancelled. */
const toCancel = ({ keys, base }: Scene): Bytes[] =>
  [...keys.keys()].flatMap((key) =>
    key.startsWith(`${base}flow:cancel:`) ? [key.slice(`${base}flow:cancel:`.length)] : [],
  );

const flowCancelled: Make = (s) => {
  const parents = toCancel(s).sort();
  const parent = parents.length > 0 ? s.rng.pick(parents) : anyId(s);
  const ids = fieldsOf(s, `flow:cancel:${parent}`).map(([id]) => id);
  return call('flow_cancelled', [`${s.base}flow:cancel:${parent}`], some(s, ids));
};

const flowChildren: Make = (s) => {
  const parents = withSubkey(s, ':dependencies');
  const parent = parents.length > 0 ? s.rng.pick(parents) : anyId(s);
  const book = s.rng.pick([':children', ':processed', ':unsuccessful', ':failed']);
  const keys = toCancel(s).map((id) => `${s.base}flow:cancel:${id}`);
  return call('flow_children', [s.rng.pick([`${s.base}job:${parent}${book}`, ...keys])], ['0', '1000']);
};

const letters: Make = (s) =>
  call('flow_letters', [`${s.base}flow:outbox`, s.base], [s.rng.pick(['0', '0', '1', '5']), small(s.rng)]);

const onRow =
  (transition: string): Make =>
  (s) =>
    call(transition, [`${s.base}job:${s.rng.chance(50) ? parentOf(s) : idOf(s, 'rows')}`], []);

const isHeardOf = (s: Scene): boolean =>
  itemsOf(s, 'flow:outbox').some((letter) => s.mode === 'dirty' || isHeard(letter, s.base, s.keys));

const settleOne = after(claim, (s) => activeChildren(s).length > 0, completeChild);
const failOne = after(claim, (s) => activeChildren(s).length > 0, failChild);
const deliverOne = after(failOne, (s) => mail(s).length > 0, flowDeliver);
const landSome = after(flowHold, (s) => landings(s).length > 0, flowLand);
const unlistedParents = (s: Scene): Bytes[] => withSubkey(s, ':dependencies').filter((id) => hasUnlisted(s, id));

/** What else a battery about flows draws, how often each. */
export const BESIDE_FLOWS: Readonly<Record<string, number>> = {
  claim_batch: 10,
  complete: 3,
  fail: 3,
  promote: 3,
  reap: 3,
  stalled_check: 5,
  remove: 4,
  cancel: 4,
  reprocess: 12,
  quarantine: 1,
};

/** How often each flow transition is drawn, and how its call is made. */
export const FLOW_MAKES: Readonly<Record<string, readonly [number, Make]>> = {
  complete_child: [14, settleOne],
  fail_child: [14, failOne],
  enqueue_flow: [7, enqueueFlow],
  flow_hold: [6, flowHold],
  flow_list: [4, after(flowHold, (s) => unlistedParents(s).length > 0, flowList)],
  flow_land: [10, landSome],
  flow_landed: [
    4,
    after(landSome, (s) => withSubkey(s, ':children').some((id) => landedOf(s, id).length > 0), flowLanded),
  ],
  flow_clear: [3, after(landSome, (s) => clearable(s).length > 0, flowClear)],
  flow_deliver: [12, deliverOne],
  flow_ack: [6, after(deliverOne, isHeardOf, flowAck)],
  flow_cancelled: [4, after(cancelParent, (s) => toCancel(s).length > 0, flowCancelled)],
  flow_letters: [1, letters],
  flow_unlanded: [
    1,
    (s) => {
      const made = onRow('flow_unlanded')(s);
      return { ...made, args: some(s, IDS) } satisfies ModelCall;
    },
  ],
  flow_link: [1, onRow('flow_link')],
  flow_children: [1, flowChildren],
  flow: [1, onRow('flow')],
};
