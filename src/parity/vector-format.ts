/**
 * The scenario vectors: what a scenario is, and the reading of the file that holds them (docs/vectors.json, described in
 * docs/wire.md).
 *
 * Invariants: a file with a field that this reader does not know, or without one that it needs, is refused: a scenario
 * never passes because half of it was overlooked. Does not: run anything (vectors.ts).
 */
import { readFile } from 'node:fs/promises';

import { EmqError } from '../wire/errors.js';
import type { ExecutorName } from './node.js';

/** A value to send: text with placeholders, bytes in hex, or a text repeated. */
export type Value = string | { readonly hex: string } | { readonly repeat: readonly [Value, number] };

/** What a reply must look like. */
export type Expected =
  | Value
  | number
  | null
  | readonly Expected[]
  | { readonly hash: Readonly<Record<string, Expected>> }
  | { readonly set: readonly Expected[] };

/** A call by either executor. */
export interface VectorCall {
  readonly transition: string;
  readonly keys: readonly Value[];
  readonly args: readonly Value[];
}

/** A refusal: the first word of the error reply, and the whole reply where it is fixed. */
export interface ExpectedError {
  readonly class: string;
  readonly text?: string | Readonly<Record<ExecutorName, string>>;
}

export type Setup = readonly Value[] | VectorCall;
export type After = readonly [readonly Value[], Expected] | readonly [readonly Value[], Expected, ExecutorName];

export interface Scenario {
  readonly name: string;
  readonly note: string;
  readonly executors: readonly ExecutorName[];
  readonly setup: readonly Setup[];
  readonly call: VectorCall | { readonly raw: readonly Value[] };
  readonly reply?: Expected;
  readonly error?: ExpectedError;
  readonly unchanged?: boolean;
  readonly after: readonly After[];
  /** Rules of the user as whom the call is made. */
  readonly acl?: readonly string[];
  /** Settings before the call; each is set back to 0 after it. */
  readonly config?: Readonly<Record<string, string>>;
}

export interface Vectors {
  readonly toleranceMs: number;
  readonly names: Readonly<Record<string, string>>;
  readonly scenarios: readonly Scenario[];
}

const KNOWN = new Set([
  'name',
  'note',
  'executors',
  'setup',
  'call',
  'reply',
  'error',
  'unchanged',
  'after',
  'acl',
  'config',
]);
const NEEDED = ['name', 'note', 'executors', 'setup', 'call', 'after'];

/** The vectors that the package ships. */
export async function loadVectors(): Promise<Vectors> {
  return parseVectors(await readFile(new URL('../../docs/vectors.json', import.meta.url), 'utf8'));
}

/** @throws EmqError `EMQ_INPUT` for a text that is not of format 1. */
export function parseVectors(text: string): Vectors {
  const file = JSON.parse(text) as Partial<Record<string, unknown>>;
  const { format, tolerance_ms: toleranceMs, names, scenarios, ...rest } = file;
  const other = Object.keys(rest);
  if (format !== 1 || other.length > 0)
    refuse(`the file is of format ${String(format)} with ${other.join(', ') || 'no'} other fields`);
  if (typeof toleranceMs !== 'number' || typeof names !== 'object' || !Array.isArray(scenarios)) {
    return refuse('tolerance_ms, names and scenarios are needed');
  }
  const seen = new Set<string>();
  for (const scenario of scenarios as Scenario[]) {
    const unknown = Object.keys(scenario).filter((field) => !KNOWN.has(field));
    const missing = NEEDED.filter((field) => !Object.hasOwn(scenario, field));
    if (unknown.length > 0 || missing.length > 0) {
      refuse(
        `scenario ${scenario.name}: unknown ${unknown.join(', ') || 'nothing'}, missing ${missing.join(', ') || 'nothing'}`,
      );
    }
    if (Object.hasOwn(scenario, 'reply') === Object.hasOwn(scenario, 'error')) {
      refuse(`scenario ${scenario.name}: one of reply and error`);
    }
    if (seen.has(scenario.name)) refuse(`two scenarios are called ${scenario.name}`);
    seen.add(scenario.name);
  }
  return { toleranceMs, names: names as Record<string, string>, scenarios: scenarios as Scenario[] };
}

function refuse(reason: string): never {
  throw new EmqError('EMQ_INPUT', `vectors: ${reason}`);
}
