/**
 * All that a user can ask of a queue: the verbs of `Jobs`, and the other transitions one by one, in the situations of the
 * refusal suite.
 *
 * Does not: name a verb of `Flows`, `Lanes` or another part: each is several transitions, and a right is asked for by each.
 */
import { auditCases } from '../parity/situations/audit.js';
import { controlCases } from '../parity/situations/controls.js';
import { flowCases } from '../parity/situations/flows.js';
import { kinCases } from '../parity/situations/kin.js';
import { laneCases } from '../parity/situations/lanes.js';
import { limitCases } from '../parity/situations/limits.js';
import { repeatCases } from '../parity/situations/repeats.js';
import type { Cases } from '../parity/situations/index.js';
import type { RawCommand } from '../../src/parity/node.js';
import { transitions, type Jobs } from '../../src/index.js';
import { verbs, type Verb } from '../conformance/verbs.js';

export interface Act extends Pick<Verb, 'variant' | 'scene'> {
  readonly verb: string;
}

/** The title of a row: `fail (in a lane)`. */
export const titleOf = ({ verb, variant }: Act): string => (variant === '' ? verb : `${verb} (${variant})`);

const table = Object.values(transitions);

/** The names of the flow transitions. */
export const FLOWS: ReadonlySet<string> = new Set(Object.keys({ ...kinCases, ...flowCases }));

const scripts = {
  ...kinCases,
  ...flowCases,
  ...laneCases,
  ...limitCases,
  ...repeatCases,
  ...controlCases,
  ...auditCases,
};

/** The situations of a transition as acts, called by `verb`. */
export function actsOf(name: string, { situations }: Cases, verb = name): readonly Act[] {
  const names = { b: 'emq:{b}:', id: 'JOB0KHTOWnGLuC', other: 'JOB0KHTOWnGLuD', group: 'PRT0KHTOWnGLu1' };
  return situations(names).map(({ name: variant }, place): Act => ({
    verb,
    variant,
    scene: async ({ jobs, raw }) => {
      const situation = situations({ ...names, b: jobs.keys.base })[place];
      const transition = table.find((one) => one.name === name);
      if (situation === undefined || transition === undefined) throw new Error(`no situation of ${name}`);
      for (const [command, ...args] of situation.setup satisfies readonly RawCommand[])
        await raw.call(command, ...args);
      const { keys, args } = situation;
      return async (by: Jobs<unknown>) =>
        void (await by.wire.run({ transition, queue: by.queue, keys: keys.map(latin1), args: args.map(latin1) }));
    },
  }));
}

// the list of queues is no queue's own
const scriptActs = Object.entries(scripts).flatMap(([name, cases]) => (name === 'register' ? [] : actsOf(name, cases)));

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

export const acts: readonly Act[] = [...verbs, ...scriptActs];
