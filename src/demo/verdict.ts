/**
 * The judgement of the demo: every job against a direct computation, and the ledger against the server's own counts.
 *
 * Invariants: a job is lost if it was enqueued and neither completed nor died; doubled if it was completed more than
 * once, or is one of two for a file; unequal if the direct computation differs and the file did not change meanwhile.
 * A dead job is all right only if its file cannot be read directly either. Does not: print.
 */
import type { Jobs } from '../index.js';
import { hashDirectly, reasonOf, showPath, type Digest, type FilePath } from './files.js';
import type { Ledger, Told } from './work.js';

export interface Verdict {
  readonly jobs: number;
  readonly completed: number;
  readonly dead: readonly string[];
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  readonly unequal: readonly string[];
  /** Files that were changed, or went, between the work and the check. */
  readonly changed: readonly string[];
  /** Where the server's counts differ from the ledger. */
  readonly miscounted: readonly string[];
  readonly ok: boolean;
}

const AT_ONCE = 8;

export async function judge(jobs: Jobs<FilePath>, ledger: Ledger, told: Told): Promise<Verdict> {
  const lost: string[] = [];
  const doubled: string[] = [];
  const unequal: string[] = [];
  const changed: string[] = [];
  const dead: string[] = [];
  const seen = new Set<string>();
  let checked = 0;
  const one = async ([id, file]: readonly [string, FilePath]): Promise<void> => {
    const name = showPath(file);
    const key = JSON.stringify(file);
    const results = ledger.completed.get(id) ?? [];
    const death = ledger.dead.get(id);
    if (results.length > 1 || (results.length === 1 && death !== undefined) || seen.has(key)) doubled.push(name);
    seen.add(key);
    if (results.length === 0 && death === undefined) lost.push(name);
    const direct = await hashDirectly(file).catch(reasonOf);
    for (const result of results) {
      const same = compare(result, direct);
      if (same === 'changed') changed.push(name);
      if (same === 'unequal') unequal.push(name);
    }
    if (death !== undefined) {
      dead.push(`${name}: ${death}`);
      if (typeof direct !== 'string') unequal.push(`${name}: its job died of ${death}, but it can be read`);
    }
    told((checked += 1));
  };
  const rest = ledger.enqueued.entries();
  const loop = async (): Promise<void> => {
    for (const entry of rest) await one(entry);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, loop));
  const strangers = [...ledger.completed.keys(), ...ledger.dead.keys()].filter((id) => !ledger.enqueued.has(id));
  const miscounted = [...strangers.map((id) => `${id} was never enqueued`), ...(await countsApart(jobs, ledger))];
  const ok = [lost, doubled, unequal, miscounted].every((list) => list.length === 0);
  const { size: completed } = ledger.completed;
  return { jobs: ledger.enqueued.size, completed, dead, lost, doubled, unequal, changed, miscounted, ok };
}

function compare(result: Digest, direct: Digest | string): 'equal' | 'changed' | 'unequal' {
  if (typeof direct === 'string') return 'changed';
  if (result.sha256 === direct.sha256) return 'equal';
  return result.stamp === direct.stamp ? 'unequal' : 'changed';
}

/** The server keeps its own books. */
async function countsApart(jobs: Jobs<FilePath>, ledger: Ledger): Promise<string[]> {
  const counts = await jobs.counts();
  const expected = {
    ...{ pending: 0, active: 0, scheduled: 0 },
    ...{ dead: ledger.dead.size, failed: ledger.dead.size, completed: ledger.completed.size },
  };
  return Object.entries(expected)
    .filter(([name, count]) => counts[name as keyof typeof counts] !== count)
    .map(([name, count]) => `the server counts ${counts[name as keyof typeof counts]} ${name}, not ${count}`);
}
