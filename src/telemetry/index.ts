/**
 * What a queue tells of itself to OpenTelemetry, if the program has it.
 *
 * Invariants: `@opentelemetry/api` is looked for once, at the first call; without it there is nothing to call and nothing
 * to pay. Does not: set anything up (the program's SDK does), or need one: without an SDK the API does nothing.
 */
import { openTelemetry } from './open-telemetry.js';

export interface Telemetry {
  /**
   * Runs an admission in a producer span; `carrier` holds the fields of its context (`traceparent` ...) that go into the
   * row. Gives what `run` gives, and throws what it throws.
   */
  producing<R>(
    what: { queue: string; operation: 'enqueue' | 'enqueueMany' | 'schedule' | 'addFlows'; count: number },
    run: (carrier: Record<string, string>) => Promise<R>,
  ): Promise<R>;
  /** Runs a handler in a consumer span, a child of the span that enqueued the job. Gives and throws what `run` does. */
  consuming<R>(
    job: {
      queue: string;
      id: string;
      name: string | undefined;
      attempts: number;
      carrier: Readonly<Record<string, string>> | undefined;
    },
    run: () => Promise<R>,
  ): Promise<R>;
  /** Counts an outcome, and how long the handler ran in ms. */
  settled(what: { queue: string; name: string | undefined; outcome: SettledOutcome; durationMs: number }): void;
}

export type SettledOutcome = 'completed' | 'scheduled' | 'failed' | 'delayed' | 'released' | 'stale';

/** null: looked for, and not there. */
let found: Telemetry | null | undefined;

/** The program's telemetry, or undefined if it has none. */
export function telemetry(): Telemetry | undefined {
  if (found === undefined) found = look();
  return found ?? undefined;
}

function look(): Telemetry | null {
  try {
    // Not an import: bundles of modules are given a `createRequire` of their own, and two of a name are an error.
    const { createRequire } = process.getBuiltinModule('node:module');
    return openTelemetry(createRequire(import.meta.url)('@opentelemetry/api') as Parameters<typeof openTelemetry>[0]);
  } catch {
    // Not installed, or broken: neither is a reason for a queue not to work.
    return null;
  }
}
