/**
 * What a consumer tells, in the order in which it tells it. Does not: listen to `warning` unless asked: a listener
 * changes where warnings go.
 */
import type { EventEmitter } from 'node:events';
import { vi } from 'vitest';
import type { ConsumerEvents } from '../../../src/index.js';

export type EventName = keyof ConsumerEvents<unknown>;

/** One event. */
export interface Entry {
  readonly event: EventName;
  /** The id of the job it is about, where it is about one. */
  readonly job: string | undefined;
  readonly args: readonly unknown[];
}

const NAMES: readonly EventName[] = [
  ...(['claimed', 'completed', 'scheduled', 'failed', 'delayed', 'released', 'lost', 'stale'] as const),
  ...(['stalled', 'quarantined', 'closed'] as const),
];

/** How long anything may be in coming: the bound of a test that fails, not a measure. */
export const PATIENCE = { timeout: 15_000, interval: 2 } as const;

export class Diary {
  readonly entries: Entry[] = [];
  readonly consumer: EventEmitter;

  /** @param consumer a Consumer of whatever payload. */
  constructor(consumer: object, { warnings = false }: { readonly warnings?: boolean } = {}) {
    this.consumer = consumer as EventEmitter;
    for (const event of warnings ? ([...NAMES, 'warning'] as const) : NAMES) {
      this.consumer.on(event, (...args: unknown[]) => {
        const job = (args[0] as { id?: string } | undefined)?.id;
        this.entries.push({ event, job, args });
      });
    }
  }

  of(event: EventName): readonly Entry[] {
    return this.entries.filter((entry) => entry.event === event);
  }

  /** The second argument of the first such event: what is told besides the job. */
  info<I = Record<string, unknown>>(event: EventName): I {
    return this.of(event)[0]?.args[1] as I;
  }

  /** The names of all events about a job, in order. */
  story(job: string): EventName[] {
    return this.entries.filter((entry) => entry.job === job).map(({ event }) => event);
  }

  /** Resolves when so many such events have been told. */
  async until(event: EventName, count = 1): Promise<void> {
    await vi
      .waitUntil(() => this.of(event).length >= count, PATIENCE)
      .catch(() => {
        const told = this.entries.map((entry) => `${entry.event} ${entry.job ?? ''}`).join(', ');
        throw new Error(`${this.of(event).length} of ${count} ${event} events; told: ${told || 'nothing'}`);
      });
  }
}
