/**
 * Moving brands from one wire to the other, one by one.
 *
 * Invariants: what speaks against it is found before anything is written, and then nothing is: a replica, a module that is
 * not proven on every primary, a node without a brand or with a foreign one. Each brand is moved in one step, only from the
 * value that was expected, and told before the next one is touched; what has been moved already stays, so the same command
 * goes on from where it was cut short. Does not: ask (confirm.ts), or stop anybody's clients.
 */
import { EmqError } from '../../wire/errors.js';
import type { Wire } from '../../wire/executor.js';
import { BRANDS, moveBrand, wireOfBrand } from '../../wire/fence.js';
import { failureOf, CliError, EXIT, type ExitCode } from '../exit.js';
import { quoted } from '../terminal.js';
import type { Branded, NodeFacts, Place } from './place.js';

export interface Step {
  readonly from: Wire;
  readonly to: Wire;
}

/** The two moves there are. */
export const STEPS = { upgrade: { from: 4, to: 6 }, downgrade: { from: 6, to: 4 } } as const;

/** What became of one brand, or would: `movable` is still to be done. */
export type Fate = 'movable' | 'moved' | 'already' | 'unbranded' | 'foreign' | 'failed';

export interface Outcome {
  /** null: the node. */
  readonly queue: string | null;
  readonly outcome: Fate;
  /** What was found. */
  readonly brand: string | null;
  /** Why it failed. */
  readonly code?: string;
  readonly reason?: string;
}

/** @throws CliError exit code 4 where the move is not to be begun. Nothing has been written. */
export function demandMovable(place: Place, { from, to }: Step): void {
  const refuse = (text: string, code: 'READONLY' | 'EMQWIRE' = 'EMQWIRE'): CliError =>
    new CliError(EXIT.refused, code, `${code} ${text}`);
  if (place.isReplica) {
    throw refuse(
      `${place.where} is a replica: ask its primary, ${place.primary} (--url); nothing was written`,
      'READONLY',
    );
  }
  const bare = place.nodes.filter(({ role, module }) => role === 'primary' && module !== 'loaded');
  if (to === 6 && bare.length > 0) {
    const which = bare.map(moduleText).join('; ');
    const mend = 'start the server with --loadmodule and the path that emq build-module prints';
    throw refuse(`wire 6 needs the module on every primary: ${which}. ${mend}; nothing was written`);
  }
  const [only] = place.branded;
  if (place.branded.length !== 1 || only === undefined) return;
  const what = nameOf(only);
  const fate = fateOf(only, { from, to });
  if (fate === 'unbranded') {
    const text = `${what} is unbranded: there is nothing to move; the first connector with wire: ${to} brands it`;
    throw refuse(`${text}. Is it the right node and database (--url)? Nothing was written`);
  }
  if (fate === 'foreign') {
    const found = quoted(only.brand ?? '', 60);
    throw refuse(
      `${what} has the foreign brand ${found}, not ${BRANDS[from]}: emq doctor says more; nothing was written`,
    );
  }
}

/** What would become of each. */
export function plan(place: Place, step: Step): Outcome[] {
  return place.branded.map((one) => ({ queue: one.queue, outcome: fateOf(one, step), brand: one.brand }));
}

/**
 * Moves what can be moved, and tells of each before it goes on. A signal ends it between two.
 * @param tell hears of each brand, in their order.
 */
export async function moveAll(
  place: Place,
  step: Step,
  signal: AbortSignal,
  tell: (outcome: Outcome) => void,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const one of place.branded) {
    if (signal.aborted) break;
    const outcome = await moveOne(one, step);
    tell(outcome);
    outcomes.push(outcome);
  }
  return outcomes;
}

async function moveOne(one: Branded, step: Step): Promise<Outcome> {
  const { queue } = one;
  if (fateOf(one, step) !== 'movable') return { queue, outcome: fateOf(one, step), brand: one.brand };
  try {
    const brand = await moveBrand(one.ask, one.key, step.from, step.to);
    // what was looked at may have changed since: the step itself says what it found
    const fate = fateOf({ ...one, brand }, step);
    return { queue, outcome: fate === 'movable' ? 'moved' : fate, brand };
  } catch (error) {
    if (!(error instanceof EmqError)) throw error;
    return { queue, outcome: 'failed', brand: one.brand, code: error.code, reason: error.reason };
  }
}

/** The worst of them: a brand that is foreign is a refusal, one without a brand belongs to nobody yet. */
export function exitOf(outcomes: readonly Outcome[]): ExitCode {
  const failed = outcomes.find(({ outcome }) => outcome === 'failed');
  if (failed !== undefined) {
    return failureOf(new EmqError((failed.code ?? 'ERR') as EmqError['code'], failed.reason ?? '')).exit;
  }
  return outcomes.some(({ outcome }) => outcome === 'foreign') ? EXIT.refused : EXIT.ok;
}

function fateOf({ brand }: Pick<Branded, 'brand'>, { from, to }: Step): Fate {
  if (brand === null) return 'unbranded';
  const wire = wireOfBrand(brand);
  return wire === from ? 'movable' : wire === to ? 'already' : 'foreign';
}

export function nameOf({ queue }: Pick<Outcome, 'queue'>): string {
  return queue === null ? 'the node' : `queue ${queue}`;
}

/** One node and its module, in words. */
export function moduleText({ where, role, module, why }: NodeFacts): string {
  const name = `${role} ${where}`;
  if (module === 'loaded') return `${name} has the module`;
  if (module === 'missing') return `${name} has no module`;
  if (module === 'older') return `${name} has an older module, without some of the commands`;
  return `whether ${name} has the module cannot be told (${quoted(why ?? '', 200)})`;
}
