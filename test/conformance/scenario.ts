/**
 * What a conformance scenario is.
 *
 * Where the wire contract departs from the original on purpose (its section 9), the scenario asserts the contract, and a
 * comment at the place names the row.
 */
import type { Jobs } from '../../src/index.js';
import type { Stage } from './stage.js';

export interface Scene {
  readonly stage: Stage;
  /** The verbs of the scenario's own queue, `<prefix>.<name>`. */
  readonly jobs: Jobs<unknown>;
}

export interface Scenario {
  readonly number: number;
  readonly name: string;
  /** What it shows, in one line: the title. */
  readonly shows: string;
  readonly play: (scene: Scene) => Promise<void>;
}
