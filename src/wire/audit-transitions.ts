/**
 * The looks at what a queue holds, and their mending (docs/wire.md, section 6, The audit), in the style of the transition
 * table, of which they are a part.
 *
 * Invariants: layouts are those of docs/wire.md, key for key; names go as the bytes they are, since whoever audits a queue
 * meets names that no client gives. Does not: know what is looked at in which order (src/queue/audit does).
 */
import { integer, list, unexpected } from './fields.js';
import type { Arg, Reply, Transition } from './call.js';
import { scripts } from './scripts.generated.js';

/** What is looked at: jobs by id, lanes and their counts by group, jobs in a lane, children of a parent ... */
export type AuditSubject =
  'jobs' | 'lane' | 'lanes' | 'counts' | 'dedups' | 'repeats' | 'cancels' | 'children' | 'queue';

export interface AuditInput {
  readonly what: AuditSubject;
  /** One name each; of `lane` a group and an id, of `children` a parent and a child; none of `queue`. latin1 texts. */
  readonly items: readonly (readonly string[])[];
}

/** Something that is wrong. Texts are latin1, one character a byte. */
export interface Wrong {
  readonly kind: string;
  /** An id, a group, a name, or a key without its base. */
  readonly subject: string;
  readonly detail: string;
  /** Of an audit: a mend mends it. Of a mend: it was mended. */
  readonly mends: boolean;
}

const define = <I, R>(transition: Transition<I, R>): Transition<I, R> => transition;
const bytes = (text: string): Arg => Buffer.from(text, 'latin1');

function wrong(what: string, reply: Reply): Wrong[] {
  return list(what, reply).map((one) => {
    const [kind, subject, detail, mends] = list(what, one);
    if (!Buffer.isBuffer(kind) || !Buffer.isBuffer(subject) || !Buffer.isBuffer(detail)) return unexpected(what, one);
    return {
      kind: kind.toString('latin1'),
      subject: subject.toString('latin1'),
      detail: detail.toString('latin1'),
      mends: integer(what, mends ?? null) === 1,
    };
  });
}

const words = ({ what, items }: AuditInput): Arg[] => [what, ...items.flat().map(bytes)];

export const auditTransitions = {
  audit: define<AuditInput, Wrong[]>({
    name: 'audit',
    script: scripts.audit,
    readOnly: true,
    repeatable: true,
    keyNames: ['b'],
    argNames: ['what', 'item...'],
    layout: (k, input) => ({ keys: [k.base], args: words(input) }),
    read: (reply) => wrong('audit', reply),
  }),
  mend: define<AuditInput, Wrong[]>({
    name: 'mend',
    script: scripts.mend,
    readOnly: false,
    repeatable: true,
    keyNames: ['b'],
    argNames: ['what', 'item?'],
    layout: (k, input) => ({ keys: [k.base], args: words(input) }),
    read: (reply) => wrong('mend', reply),
  }),
} as const;
