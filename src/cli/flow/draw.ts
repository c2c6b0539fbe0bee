/**
 * A flow on paper: one line for each job, indented below its parent; and the same as JSON.
 *
 * Invariants: the same tree gives the same lines: children come by kind (open, failed, ignored, done), then by id. Whatever
 * came from a server is escaped; nothing that changes with the clock is shown.
 * Does not: read.
 */
import { quoted, word, type Terminal } from '../terminal.js';
import { isStranger, KINDS, rowOf, type Family, type Kind, type Shown } from './tree.js';

const LONGEST_NAME = 60;
const LONGEST_ERROR = 80;

type Style = Terminal['style'];
type Parent = Pick<Shown, 'id' | 'queue'>;

const COLOURS: Readonly<Record<string, Parameters<Style>[0]>> = {
  active: 'cyan',
  dead: 'red',
  failed: 'red',
  gone: 'red',
  scheduled: 'yellow',
  ignored: 'yellow',
  'not landed': 'yellow',
  'not read': 'yellow',
  done: 'green',
};

/** The lines of a tree. */
export function drawTree(root: Shown, style: Style): string[] {
  return [drawJob(root, null, style), ...drawFamily(root, '', style)];
}

function drawFamily({ id, queue, family }: Shown, indent: string, style: Style): string[] {
  if (family === null) return [];
  const entries = KINDS.flatMap((kind): string[][] => [
    ...entriesOf(family, kind, { id, queue }, style),
    ...(family.more[kind] === 0 ? [] : [[style('dim', `... and ${family.more[kind]} more ${kind}`)]]),
  ]);
  return entries.flatMap(([head = '', ...below], i) => {
    const last = i === entries.length - 1;
    const [branch, trunk] = last ? ['└─ ', '   '] : ['├─ ', '│  '];
    return [indent + style('dim', branch) + head, ...below.map((line) => indent + style('dim', trunk) + line)];
  });
}

/** The lines of each child of a kind, as if it stood at the left. */
function entriesOf(family: Family, kind: Kind, parent: Parent, style: Style): string[][] {
  switch (kind) {
    case 'open':
      return family.open.map((job) => [drawJob(job, parent, style), ...drawFamily(job, '', style)]);
    case 'done':
      return family.done.map((id) => [`${word(id)}  ${paint(style, kind)}`]);
    default:
      return family[kind].map(({ id, error }) => [`${word(id)}  ${paint(style, kind)}: ${firstLine(error)}`]);
  }
}

function drawJob(job: Shown, parent: Parent | null, style: Style): string {
  const { id, queue, landed, seen, family } = job;
  const where = parent === null || queue === parent.queue ? '' : ` in ${word(queue)}`;
  const head = (name: string | null): string =>
    `${style('bold', word(id))}${name === null ? '' : ` ${word(name, LONGEST_NAME)}`}${where}  `;
  if (seen === 'gone') {
    if (!landed) return head(null) + paint(style, 'not landed');
    return `${head(null)}${paint(style, 'gone')}, its parent has not heard of it`;
  }
  if ('unread' in seen) return `${head(null)}${paint(style, 'not read')}: ${word(seen.unread)}${waits(family)}`;
  const { state, attempts, name, error, parent: link } = seen.row;
  const tries = attempts === 0 ? '' : `, ${attempts} attempt${attempts === 1 ? '' : 's'}`;
  const policy = link === null || link.policy === 'fail' || parent === null ? '' : `, onFailure ${link.policy}`;
  const untold = landed ? '' : ', its parent has not heard that it landed';
  const strange = parent !== null && isStranger(job, parent) ? ', its row says nothing of this parent' : '';
  const why = error === null ? '' : `: ${firstLine(error)}`;
  return `${head(name)}${paint(style, state)}${waits(family)}${tries}${policy}${untold}${strange}${why}`;
}

/** A state in its colour, if it has one. */
function paint(style: Style, state: string): string {
  const colour = COLOURS[state];
  return colour === undefined ? word(state) : style(colour, state);
}

function waits(family: Family | null): string {
  if (family === null) return '';
  const { counts, total } = family;
  const notes: [number, string][] = [
    [counts.landing, 'not landed'],
    [counts.failed, 'failed'],
    [counts.ignored, 'ignored'],
    [counts.toCancel, 'to be cancelled'],
  ];
  const told = notes.filter(([count]) => count > 0).map(([count, what]) => `, ${count} ${what}`);
  return `, ${counts.open} of ${total} open${told.join('')}`;
}

function firstLine(error: Buffer): string {
  const end = error.indexOf('\n');
  return quoted(end === -1 ? error : error.subarray(0, end), LONGEST_ERROR);
}

/** A tree as JSON, whose errors are whole. Bytes that are no UTF-8 are read as Latin-1. */
export function treeJson(job: Shown): object {
  const { id, queue, landed, seen, family } = job;
  const row = rowOf(job);
  const unread = typeof seen === 'object' && 'unread' in seen ? seen.unread : null;
  return {
    id,
    queue,
    landed,
    state: row?.state ?? (unread !== null ? 'unread' : landed ? 'gone' : 'not_landed'),
    attempts: row?.attempts ?? null,
    name: row?.name ?? null,
    policy: row?.parent?.policy ?? null,
    error: row === null ? unread : row.error && textOf(row.error),
    family: family === null ? null : familyJson(family),
  };
}

function familyJson({ counts, total, open, failed, ignored, done, more }: Family): object {
  const ended = ({ id, error }: { id: string; error: Buffer }): object => ({ id, error: textOf(error) });
  return {
    open: counts.open,
    total,
    landing: counts.landing,
    failed: counts.failed,
    ignored: counts.ignored,
    done: counts.done,
    toCancel: counts.toCancel,
    children: { open: open.map(treeJson), failed: failed.map(ended), ignored: ignored.map(ended), done },
    more,
  };
}

function textOf(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? text : bytes.toString('latin1');
}
