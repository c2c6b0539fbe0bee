/**
 * What a conformance scenario is.
 *
 * Where the wire contract departs from the original on purpose (its section 9), the scenario asserts the contract, and a
 * comment at the place names the row.
 */
import type { Jobs } from '../../src/index.js';
import type { Stage } from './stage.js';

/** What a scenario may need of the server, and a command that a server without it does not know. */
export const NEEDS = { 'hash field expiry': 'HPEXPIRE' } as const;
export type Need = keyof typeof NEEDS;

export interface Scene {
  readonly stage: Stage;
  /** The verbs of the scenario's own queue, `<prefix>.<name>`. */
  readonly jobs: Jobs<unknown>;
}

export interface Scenario {
  readonly number: number;
  readonly name: string;
  /** What not every server has. Where it is missing the scenario says that it is not run. */
  readonly needs?: Need;
  /** What it shows, in one line: the title. */
  readonly shows: string;
  readonly play: (scene: Scene) => Promise<void>;
}
