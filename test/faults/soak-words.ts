/** What the processes of the soak and their parent say to each other, and the queues that they share. */
import type { Wire } from '../worker/support/nodes.js';

export const MAIN = 'soak';
export const SIDE = 'soak-side';
/** Served in batches. */
export const BULK = 'soak-bulk';
export const QUEUES = [MAIN, SIDE, BULK] as const;
export const LANES = ['TEN00000000001', 'TEN00000000002', 'TEN00000000003'] as const;

/** What becomes of a job. */
export type Fate = 'ok' | 'retry' | 'delay' | 'die';

export interface SoakPlan {
  readonly role: 'producer' | 'consumer';
  readonly url: string;
  readonly wire: Wire;
  /** The folder of the ledgers. */
  readonly folder: string;
  readonly seed: number;
  /** Between two admissions of a producer, about. */
  readonly pauseMs: number;
}

/** `go`: produce. `stop`: no more jobs; answered when none is on its way. `close`: end by yourself. */
export type SoakOrder = 'health' | 'go' | 'stop' | 'close';

/** Memory in bytes, after a collection. */
export interface SoakHealth {
  /** Jobs whose admission was answered. */
  readonly added: number;
  readonly rss: number;
  readonly heap: number;
  readonly handles: number;
  readonly fds: number;
}

export type SoakTold = { readonly ready?: true; readonly stopped?: true; readonly health?: SoakHealth };
