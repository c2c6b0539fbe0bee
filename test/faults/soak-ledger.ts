/**
 * What the processes of a soak have noted, read together when all is over, and what does not add up in it.
 *
 * Does not: ask the server; it is told which jobs are dead there and which are still there.
 */
import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Fate } from './soak-words.js';

interface Entry {
  fate: Fate;
  added: boolean;
  refused: boolean;
  /** Of a flow, which a crash of the way to the server may have had added twice. */
  again: boolean;
  flow: boolean;
  /** Tokens with which its handler began, and with which it was to be completed. */
  readonly starts: number[];
  done: number;
}

export interface Accounts {
  readonly added: number;
  readonly done: number;
  readonly dead: number;
  /** Jobs that may have been done twice, since they may have been added twice. */
  readonly again: number;
  /** Runs beyond the first of a job that was not to be tried again. */
  readonly repeated: number;
  /** A line each. */
  readonly wrong: readonly string[];
}

/** @param state what the server says of a job when all is over: undefined: it is not there */
export async function accounts(folder: string, state: (id: string) => string | undefined): Promise<Accounts> {
  const entries = new Map<string, Entry>();
  const wrong: string[] = [];
  const files = (await readdir(folder)).sort(
    (a, b) => Number(b.startsWith('producer')) - Number(a.startsWith('producer')),
  );
  for (const file of files) {
    for await (const line of createInterface({ input: createReadStream(join(folder, file)) })) {
      const [what = '', id = '', more = ''] = line.split(' ');
      // the last line of a process that was killed may be cut
      if (!/^JOB\w{11}$/.test(id)) continue;
      if (what === 'intend') {
        entries.set(id, {
          ...{ fate: more as Fate, added: false, refused: false, again: false, flow: false },
          ...{ starts: [], done: 0 },
        });
        continue;
      }
      const entry = entries.get(id);
      if (entry === undefined) wrong.push(`${id}: ${what}, and nobody has added it`);
      else if (what === 'added') entry.added = true;
      else if (what === 'refused') entry.refused = true;
      else if (what === 'again') entry.again = true;
      else if (what === 'flow') entry.flow = true;
      else if (what === 'start') entry.starts.push(Number(more));
      else if (what === 'done') entry.done++;
      else if (what.startsWith('trouble:')) wrong.push(`${id}: adding it met ${what}`);
    }
  }
  const sum = { added: 0, done: 0, dead: 0, again: 0, repeated: 0 };
  for (const [id, entry] of entries) {
    const { fate, added, refused, again, flow, starts, done } = entry;
    const now = state(id);
    const say = (text: string): void => void wrong.push(`${id} (${fate}): ${text}`);
    if (added) sum.added++;
    if (now === 'dead') sum.dead++;
    else if (done > 0) sum.done++;
    if (now !== undefined && now !== 'dead') say(`is ${now} though nothing is left to do`);
    if (now === 'dead' && fate !== 'die' && !flow) say('is dead, and was to be done');
    if (added && now === undefined && done === 0) say('was added, and was neither done nor dead');
    if (refused && (starts.length > 0 || now !== undefined)) say('was refused, and was there all the same');
    if (again) sum.again++;
    if (again) continue;
    if (new Set(starts).size < starts.length) say(`ran twice with one token: ${starts.join(' ')}`);
    if (fate === 'ok') sum.repeated += Math.max(0, starts.length - 1);
  }
  return { ...sum, wrong };
}
