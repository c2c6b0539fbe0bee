/**
 * What worker processes did, in files that outlive them: a line when a run of a job begins and one when its work is
 * done, each written before the next step is taken, so that it is there after a kill -9.
 *
 * Invariants: a line is whole or the last of a killed process; the token says which run it was.
 * Does not: know what the server made of it.
 */
import { appendFileSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

export interface Line {
  readonly at: 'start' | 'done';
  readonly id: string;
  readonly token: number;
  readonly pid: number;
  /** At the start: the row's stall count and credit then. */
  readonly stalled?: number;
  readonly credit?: number;
  /** When done: what came of the work. */
  readonly result?: unknown;
}

/** Appends one line to this process's file in the folder. */
export function note(folder: string, line: Omit<Line, 'pid'>): void {
  appendFileSync(join(folder, `${process.pid}.jsonl`), `${JSON.stringify({ ...line, pid: process.pid })}\n`);
}

/** The runs of one job, by their tokens. */
export interface Run {
  readonly token: number;
  readonly starts: readonly Line[];
  readonly dones: readonly Line[];
}

/** All that was written in the folder: job -> its runs, the first one first. */
export function story(folder: string): Map<string, Run[]> {
  const runs = new Map<string, Map<number, { token: number; starts: Line[]; dones: Line[] }>>();
  for (const line of lines(folder)) {
    const ofJob = runs.get(line.id) ?? new Map<number, { token: number; starts: Line[]; dones: Line[] }>();
    runs.set(line.id, ofJob);
    const run = ofJob.get(line.token) ?? { token: line.token, starts: [], dones: [] };
    ofJob.set(line.token, run);
    (line.at === 'start' ? run.starts : run.dones).push(line);
  }
  return new Map([...runs].map(([id, ofJob]) => [id, [...ofJob.values()].sort((a, b) => a.token - b.token)]));
}

/** All lines, in no order between processes. */
export function lines(folder: string): Line[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.jsonl'))
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'))
    .flatMap((text) => {
      try {
        return [JSON.parse(text) as Line];
      } catch {
        return []; // the end of the file, or of a process
      }
    });
}
