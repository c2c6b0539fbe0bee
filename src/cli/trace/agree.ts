/**
 * Whether the two wires agree on a step, and whether both did what the story says.
 *
 * Invariants: compared are the operands and their places, the replies byte for byte, the four sets, the row field by
 * field and the counters. Left out is what the contract leaves out: `lease_epoch`, which must be the server's run id
 * on wire 6 and absent on wire 4, and the milliseconds of times, which must be as far from the server's clock on
 * both.
 */
import type { Reply } from '../../wire/call.js';
import { quoted } from '../terminal.js';
import type { Answer, Played } from './play.js';
import type { Path, Step } from './story.js';
import { placesOf, SETS, type View } from './view.js';

const EPOCH = 'lease_epoch';

/** What differs, in words; empty when all is well. */
export function differences(path: Path, step: Step, [a, b]: readonly [Played, Played]): string[] {
  const found: string[] = [];
  const say = (what: string, of4: string, of6: string): void =>
    void found.push(`${what}: ${of4} on wire 4, ${of6} on wire 6`);
  if (operands(a) !== operands(b)) say('operands', operands(a), operands(b));
  if (answerText(a.answer) !== answerText(b.answer)) say('reply', answerText(a.answer), answerText(b.answer));
  for (const set of SETS) {
    const ids = new Set([...a.after.sets[set].keys(), ...b.after.sets[set].keys()]);
    for (const id of ids) if (!sameScore(a, b, set, id)) say(`${set} ${id}`, score(a, set, id), score(b, set, id));
  }
  for (const field of new Set([...a.after.row.keys(), ...b.after.row.keys()])) {
    const [of4, of6] = [a.after.row.get(field), b.after.row.get(field)];
    if (field !== EPOCH && !same(of4, of6)) say(`row ${field}`, valueText(of4), valueText(of6));
  }
  for (const count of ['wake', 'completed', 'failed'] as const) {
    if (a.after[count] !== b.after[count]) say(count, String(a.after[count]), String(b.after[count]));
  }
  return [...found, ...unlikeStory(path, step, a), ...unlikeStory(path, step, b)];
}

/** Two that agree may both be wrong. */
function unlikeStory(path: Path, step: Step, { wire, answer, before, after, runId }: Played): string[] {
  const found: string[] = [];
  const places = placesOf(after, path.id).join(' and ') || 'in no set, with a row';
  if (places !== step.place) found.push(`the job is ${places} on wire ${wire}, the story has it ${step.place}`);
  const refusal = step.kind === 'call' ? step.refusal : undefined;
  if (answer.ok ? refusal !== undefined : answer.error.code !== refusal) {
    found.push(`wire ${wire} answered ${answerText(answer)}, the story expects ${refusal ?? 'no refusal'}`);
  }
  if (!answer.ok && stateText(before) !== stateText(after)) found.push(`wire ${wire} refused and wrote all the same`);
  const epoch = after.row.get(EPOCH)?.toString();
  if (epoch !== undefined && (wire === 4 || epoch !== runId))
    found.push(`wire ${wire} has the ${EPOCH} ${quoted(epoch)}`);
  return found;
}

/** Keys and arguments, what stands before them left out: the command's name, or EVALSHA and the script's sha. */
function operands({ frame }: Played): string {
  return frame.args
    .slice(frame.script === undefined ? 0 : 1)
    .map((arg) => quoted(arg))
    .join(' ');
}

/**
 * Scores are the same when they are equal, or when both were written in this step as far from the server's clock: its
 * reading before and after the step leaves a range for that distance, and the two ranges meet. A score that stayed
 * was judged when it came.
 */
function sameScore(a: Played, b: Played, set: (typeof SETS)[number], id: string): boolean {
  const [of4, of6] = [a.after.sets[set].get(id), b.after.sets[set].get(id)];
  if (of4 === of6) return true;
  if (of4 === undefined || of6 === undefined) return false;
  const [old4, old6] = [a.before.sets[set].get(id), b.before.sets[set].get(id)];
  if (of4 === old4 && of6 === old6) return true;
  const [low4, high4] = [of4 - a.after.now, of4 - a.before.now];
  const [low6, high6] = [of6 - b.after.now, of6 - b.before.now];
  return low4 <= high6 && low6 <= high4;
}

function same(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a === undefined || b === undefined ? a === b : a.equals(b);
}

function score(played: Played, set: (typeof SETS)[number], id: string): string {
  return String(played.after.sets[set].get(id) ?? 'absent');
}

function valueText(value: Buffer | undefined): string {
  return value === undefined ? 'absent' : quoted(value);
}

function stateText({ sets, row, wake, completed, failed }: View): string {
  const rows = [...row].map(([field, value]) => [field, value.toString('latin1')]);
  return JSON.stringify([SETS.map((set) => [...sets[set]]), rows, wake, completed, failed]);
}

/** An answer as text that tells types and bytes apart. */
function answerText(answer: Answer): string {
  return answer.ok ? replyText(answer.reply) : `(error) ${answer.error.reason}`;
}

function replyText(reply: Reply): string {
  if (reply === null) return '(nil)';
  if (Array.isArray(reply)) return `[${reply.map(replyText).join(', ')}]`;
  return typeof reply === 'number' ? `(integer) ${reply}` : quoted(reply);
}
