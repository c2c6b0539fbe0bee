/**
 * What an audit finds, in words.
 *
 * Invariants: a finding says what is wrong; one that is not mended says what to do instead; odd bytes of names are shown
 * as escapes. Does not: look at anything.
 */
import type { Wrong } from '../../wire/audit-transitions.js';

/** What can be wrong. docs/operating.md has a line on each. */
export type AuditKind =
  | 'ghost'
  | 'leftovers'
  | 'row'
  | 'unreadable'
  | 'field'
  | 'orphan'
  | 'places'
  | 'state'
  | 'flow'
  | 'child'
  | 'cancel'
  | 'letter'
  | 'letters'
  | 'gactive'
  | 'ring'
  | 'setting'
  | 'limiter'
  | 'dedup'
  | 'repeat'
  | 'wake'
  | 'metrics'
  | 'type'
  | 'stray'
  | 'refused';

/** One thing that is wrong in a queue. */
export interface AuditFinding {
  readonly kind: AuditKind;
  readonly queue: string;
  /** A job's id, a lane's group, a dedup id, the name of a repeat, or a key; odd bytes as escapes. */
  readonly subject: string;
  /** What is wrong, in a sentence; where nothing mends it also what to do. */
  readonly text: string;
  /** Whether a repair mends it. */
  readonly mends: boolean;
}

/** A name as it is shown: odd bytes as escapes. */
export function shown(name: string): string {
  return /^[!-~]+$/.test(name) ? name : JSON.stringify(name);
}

const FIELD_TEXT: Readonly<Record<string, string>> = {
  attempts: 'has no count of its claims',
  stalled: 'has a count of stalls that is no integer',
  credit: 'has a credit that is no integer',
  priority: 'has a priority that is none',
};

type Words = (subject: string, detail: string, mends: boolean, queue: string) => readonly [string, string];

/** By kind: what is wrong, and what a mend does about it; or, where nothing mends it, what to do. */
const WORDS: Readonly<Record<AuditKind, Words>> = {
  ghost: (id, where) => [`${id} is in ${where} and has no row`, `taken out of ${where}`],
  leftovers: (id, keys) => [`${id} has no row, but ${keys}`, `${keys} deleted`],
  row: (id, where, mends) => [
    `the row of ${id} is not a hash${where === '' ? '' : `, and the id is in ${where}`}`,
    mends
      ? 'put with the dead; its key stays as it is'
      : 'find out who wrote the key, save what it holds, and DEL it: the job that was there is lost',
  ],
  unreadable: (id, why) => [`${id}: ${why}`, 'put with the dead: a token cannot be guessed; emq reprocess runs it'],
  field: (id, name) => [
    `${id} ${FIELD_TEXT[name] ?? `has a ${name} that is none`}`,
    name === 'attempts' ? 'set to 0' : `the field ${name} is gone, so it counts as 0`,
  ],
  orphan: (id, detail) => {
    const [state, to] = moved(detail);
    return [`${id} ${state === '' ? 'has no state' : `says ${shown(state)}`} and is in no place`, `put into ${to}`];
  },
  places: (id, detail) => {
    const [where, to] = moved(detail);
    return [`${id} is in ${where}, and belongs into ${to}`, `it is in ${to}, and nowhere else`];
  },
  state: (id, detail) => {
    const [said, is] = moved(detail);
    return [`${id} ${said === '' ? 'has no state' : `says ${shown(said)}`} and is ${is}`, `its row says ${is}`];
  },
  flow: (id, detail, mends) => {
    if (detail.startsWith('nobody'))
      return [`${id} waits for children of which none is open`, 'it waits to be claimed'];
    if (mends) return [`${id} does not count its open children right`, 'counted again from the list of its children'];
    return [
      `${id} has a count of open children that is no integer, and no list of them`,
      `SET its :dependencies to how many are open, or remove the job`,
    ];
  },
  child: (id, child, _mends, queue) => [
    `${id} waits for its child ${shown(child)}, which will not tell it of its end`,
    `what the child's end means to it nobody knows: emq flow ${id} --queue ${queue} shows it; emq remove takes it out`,
  ],
  cancel: (id) => [`children of ${id} are to be cancelled, and no letter orders it`, 'the letter is on the outbox'],
  letter: (_name, why) => [`a letter on flow:outbox cannot be read: ${why}`, 'moved to flow:poison'],
  letters: () => ['the edition of flow:outbox is no integer: no letter leaves it', 'a new edition is set'],
  gactive: (group, detail, mends) => {
    if (!mends) return [`the count of lane ${group} is no integer`, 'run again when fewer jobs are in flight'];
    const [was, is] = detail.split(', ').slice(-2);
    return [
      `lane ${group} counts ${was === '' ? 'no job' : was} in flight and has ${is}`,
      is === '0' ? 'the count is gone' : `counted again: ${is}`,
    ];
  },
  ring: (group, how) => {
    if (how === 'missing') return [`lane ${group} can be served and is not on the ring`, 'put on the ring'];
    if (how === 'there') return [`lane ${group} cannot be served and is on the ring`, 'taken off the ring'];
    return [`lane ${group} is on the ring more than once`, 'it is there once'];
  },
  setting: (name, detail, _mends, queue) =>
    name === 'concurrency' || name === 'max'
      ? [`the limit ${name} is no integer: nothing is claimed`, `emq limits ${queue} sets it anew`]
      : [
          `${detail} of ${name === '*' ? 'all lanes' : `lane ${name}`} is no integer: it is not served`,
          `emq limits ${queue} --lane ${name} sets it anew`,
        ],
  limiter: (group) => [
    `the limiter of ${group === '' ? 'the queue' : `lane ${group}`} is no integer`,
    'deleted: the rate begins with all its tokens',
  ],
  dedup: (name, owner) => [
    `dedup id ${name} is ${shown(owner)}'s, which does not hold it, and never lapses`,
    'it is free',
  ],
  repeat: (name, what, mends, queue) => {
    if (what === 'record') return [`repeat ${name} has a place and no record`, 'it has no place'];
    if (mends) return [`repeat ${name} is not in the place of its next slot`, 'it is in its place'];
    return [`${what} of repeat ${name} is no integer`, `put it anew, or emq repeats ${queue} --remove ${name}`];
  },
  wake: (_name, length) => [
    `wake holds ${length}, or something else than 1: it may hold 64 tokens`,
    'it holds tokens, and no more than that',
  ],
  metrics: (name) => [
    `${name} has a count that is no integer`,
    name === 'metrics:rolled' ? 'deleted: the history begins a new minute' : 'the count is gone, and begins with 0',
  ],
  type: (key, detail) => [
    `${key} is a ${detail}`,
    'find out who wrote it, and RENAME it to a name outside the queue: what needs it is refused (WRONGTYPE)',
  ],
  stray: (key) => [`${key} is no key of a queue`, 'find out who wrote it; a queue never looks at it'],
  refused: (name, why) => [`${name} could not be looked at: ${why}`, 'see first to what the server says'],
};

/** `from -> to`; the first part may hold anything. */
function moved(detail: string): readonly [string, string] {
  const at = detail.lastIndexOf(' -> ');
  return at < 0 ? [detail, ''] : [detail.slice(0, at), detail.slice(at + ' -> '.length)];
}

const isKind = (kind: string): kind is AuditKind => Object.hasOwn(WORDS, kind);

function wordsOf(queue: string, { kind, subject, detail, mends }: Wrong): readonly [AuditKind, string, string] {
  const known = isKind(kind) ? kind : 'refused';
  const [is, then] = WORDS[known](shown(subject), known === 'letter' ? detail : detail, mends, queue);
  return [known, is, then];
}

/** What was found, for a person. */
export function findingOf(queue: string, wrong: Wrong): AuditFinding {
  const [kind, is, then] = wordsOf(queue, wrong);
  const text = wrong.mends ? is : `${is}: ${then}`;
  return { kind, queue, subject: shown(wrong.subject), text, mends: wrong.mends };
}

/** What was done about it, for a person. */
export function deedOf(queue: string, wrong: Wrong): string {
  const [, is, then] = wordsOf(queue, wrong);
  return `${is}: ${then}`;
}
