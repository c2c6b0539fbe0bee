/**
 * The trace on paper: one block for each step, both wires beside each other, and the same as JSON.
 *
 * Invariants: no line of a step is longer than 100 columns unless a single key is; whatever came from a server is
 * escaped. A star marks what the step changed. Does not: judge (agree.ts).
 */
import type { Arg, Reply } from '../../wire/call.js';
import { quoted, word, wrap, type Terminal } from '../terminal.js';
import type { Answer, Played, Scene } from './play.js';
import type { Step } from './story.js';
import { SETS, type View } from './view.js';

const WIDTH = 100;
const LABEL = 14;
const COLUMN = (WIDTH - LABEL - 2) / 2;
const DAY_MS = 86_400_000;
/** How much of a run id, or of another long value, is shown. */
const SHORT = 28;

/** The heading of a path, with its job. */
export function drawPath({ path }: Scene, terminal: Terminal): string {
  const title = `${path.name}: ${path.about}`;
  const line = '─'.repeat(Math.max(3, WIDTH - title.length - 5 - path.id.length));
  return `\n${terminal.style('bold', `── ${title} ${line} ${path.id}`)}\n`;
}

/** One step. */
export function drawScene(scene: Scene, terminal: Terminal): string {
  const { number, step, played, differences } = scene;
  const { style } = terminal;
  const dim = (text: string): string => style('dim', text);
  const name = step.kind === 'call' ? step.transition.name : 'time passes';
  const title = wrap(step.title.split(' '), WIDTH - LABEL - name.length).join('\n'.padEnd(LABEL + 2));
  const lines = [`${String(number).padStart(3)}  ${style('bold', name)}  ${title}`];
  if (step.kind === 'call') lines.push(dim(`     ${layoutOf(step)}`));
  for (const { wire, frame } of played) lines.push(...drawCall(wire, [frame.command, ...frame.args], dim));
  const [left, right] = played;
  const block = (label: string, of4: readonly string[], of6: readonly string[], changed: boolean): void => {
    for (let i = 0; i < Math.max(of4.length, of6.length); i++) {
      const mark = i === 0 && changed ? '*' : ' ';
      const head = `   ${mark} ${(i === 0 ? label : '').padEnd(LABEL - 5)}`;
      const body = `${(of4[i] ?? '').padEnd(COLUMN)}  ${of6[i] ?? ''}`.trimEnd();
      lines.push(`${changed ? head : dim(head)}${changed ? style('bold', body) : body}`);
    }
  };
  lines.push(dim(`${''.padEnd(LABEL)}${'wire 4'.padEnd(COLUMN)}  wire 6`));
  block('reply', drawAnswer(left.answer), drawAnswer(right.answer), false);
  for (const set of SETS) {
    const draw = ({ after }: Played): string[] => drawSet(after, set);
    block(
      set,
      draw(left),
      draw(right),
      [left, right].some(({ before, after }) => drawSet(before, set, after.now).join() !== drawSet(after, set).join()),
    );
  }
  const fields = [...new Set([left, right].flatMap(({ after }) => [...after.row.keys()]))];
  const changed = [left, right].some(
    ({ before, after }) => drawRow(before, fields).join() !== drawRow(after, fields).join(),
  );
  block('row', drawRow(left.after, fields), drawRow(right.after, fields), changed);
  for (const difference of differences) lines.push(style('red', `   ! ${difference}`));
  return `${lines.join('\n')}\n`;
}

/** The line at the end: what was compared and what came of it. */
export function drawEnd(scenes: readonly Scene[], terminal: Terminal): string {
  const odd = scenes.filter((scene) => scene.differences.length > 0);
  const steps = `${scenes.length} steps on each wire`;
  if (odd.length === 0) {
    const same = 'same operands in the same places, same replies, same end states';
    return terminal.style(
      'green',
      `${steps}: ${same}\n(but for lease_epoch and the milliseconds of times). Both executors agree.`,
    );
  }
  const where = odd.map((scene) => scene.number).join(', ');
  return terminal.style('red', `${steps}: the executors do not agree in step ${where}.`);
}

/** A step as JSON. Text stays text; bytes that are no UTF-8 become {"base64": ...}. */
export function sceneJson(scene: Scene): object {
  const { number, path, step, played, differences } = scene;
  return {
    step: number,
    path: path.name,
    job: path.id,
    transition: step.kind === 'call' ? step.transition.name : null,
    title: step.title,
    layout: step.kind === 'call' ? { keys: step.transition.keyNames, args: step.transition.argNames } : null,
    wires: Object.fromEntries(played.map((one) => [one.wire, playedJson(one)])),
    agree: differences.length === 0,
    differences,
  };
}

function playedJson({ frame, answer, after }: Played): object {
  return {
    command: [frame.command, ...frame.args.map(argJson)],
    ...(answer.ok
      ? { reply: replyJson(answer.reply), result: resultJson(answer.result) }
      : { error: { code: answer.error.code, reason: answer.error.reason } }),
    now: after.now,
    sets: Object.fromEntries(SETS.map((set) => [set, Object.fromEntries(after.sets[set])])),
    row:
      after.row.size === 0 ? null : Object.fromEntries([...after.row].map(([field, value]) => [field, argJson(value)])),
    wake: after.wake,
    completed: after.completed,
    failed: after.failed,
  };
}

function argJson(arg: Arg): unknown {
  if (typeof arg === 'string') return arg;
  const text = arg.toString('utf8');
  return Buffer.from(text).equals(arg) ? text : { base64: arg.toString('base64') };
}

function replyJson(reply: Reply): unknown {
  if (Array.isArray(reply)) return reply.map(replyJson);
  return Buffer.isBuffer(reply) ? argJson(reply) : reply;
}

/** What the verb gives: its own shape, with bytes as text. */
function resultJson(result: unknown): unknown {
  if (Buffer.isBuffer(result)) return argJson(result);
  if (Array.isArray(result)) return result.map(resultJson);
  if (typeof result !== 'object' || result === null) return result ?? null;
  return Object.fromEntries(Object.entries(result).map(([name, value]) => [name, resultJson(value)]));
}

function layoutOf(step: Extract<Step, { kind: 'call' }>): string {
  const { keyNames, argNames } = step.transition;
  return `KEYS ${keyNames.join(' ')}   ARGV ${argNames.join(' ') || '-'}`;
}

function drawCall(wire: number, words: readonly Arg[], dim: (text: string) => string): string[] {
  const [first = '', ...rest] = wrap(
    words.map((arg) => word(arg)),
    WIDTH - LABEL,
  );
  return [`${dim(`     wire ${wire}`.padEnd(LABEL))}${first}`, ...rest.map((line) => `${''.padEnd(LABEL)}  ${line}`)];
}

function drawAnswer(answer: Answer): string[] {
  if (answer.ok) return drawReply(answer.reply);
  return wrap(`(error) ${answer.error.reason}`.split(' '), COLUMN);
}

/** As the server's own command line client shows replies. */
function drawReply(reply: Reply): string[] {
  if (!Array.isArray(reply)) {
    if (reply === null) return ['(nil)'];
    return [typeof reply === 'number' ? `(integer) ${reply}` : quoted(reply, COLUMN - 6)];
  }
  if (reply.length === 0) return ['(empty array)'];
  return reply.flatMap((item, i) => drawReply(item).map((line, j) => `${j === 0 ? `${i + 1})` : '  '} ${line}`));
}

/** @param now the clock to tell the times by */
function drawSet(view: View, set: (typeof SETS)[number], now = view.now): string[] {
  const members = [...view.sets[set]];
  if (members.length === 0) return ['-'];
  return members.map(([id, score]) => `${id} ${score}${set === 'pending' ? '' : ` (${distance(score - now)})`}`);
}

function distance(ms: number): string {
  if (ms < -DAY_MS) return 'long past';
  const seconds = (ms / 1000).toFixed(1);
  if (/^-?0\.0$/.test(seconds)) return 'now';
  return ms > 0 ? `in ${seconds} s` : `${seconds.slice(1)} s ago`;
}

/** @param fields those to show, so that both wires show the same ones in the same lines */
function drawRow({ row }: View, fields: readonly string[]): string[] {
  if (row.size === 0) return ['-'];
  const width = Math.max(...fields.map((field) => field.length));
  return fields.map((field) => {
    const value = row.get(field);
    return value === undefined ? '' : `${word(field).padEnd(width)} ${word(value, SHORT)}`;
  });
}
