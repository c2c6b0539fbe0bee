/**
 * What comes before a command that destroys: what it will do is said, and somebody has to want it.
 *
 * Invariants: without `--yes` nothing is destroyed unless a person at a terminal said so; with `--dry-run` nothing is at all;
 * the question goes to standard error. Does not: do the work.
 */
import { createInterface } from 'node:readline/promises';

import { CliError, EXIT } from '../exit.js';
import type { Terminal } from '../terminal.js';

export interface Consent {
  readonly yes?: boolean;
  readonly dryRun?: boolean;
}

/** What is to be done, in words, and what has to be typed for it; default: y. */
export interface Plan {
  readonly text: string;
  readonly word?: string;
}

/**
 * True when it is to be done, false for a dry run.
 * @throws CliError where nobody can be asked (exit code 2) or nobody wants it (4).
 */
export async function confirm(terminal: Terminal, plan: Plan, { yes, dryRun }: Consent): Promise<boolean> {
  const { text, word = 'y' } = plan;
  if (dryRun) {
    terminal.print(`dry run: ${text}`);
    return false;
  }
  if (yes) {
    terminal.note(text);
    return true;
  }
  if (terminal.json || !process.stdin.isTTY || !process.stderr.isTTY) {
    const what = `${text}. Nobody can be asked here: --yes does it, --dry-run only tells`;
    throw new CliError(EXIT.input, 'EMQ_INPUT', what);
  }
  terminal.note(text);
  const answer = await ask(word === 'y' ? 'Go on? [y/N] ' : `Type ${word} to go on: `, terminal.signal);
  const given = answer.trim();
  if (word === 'y' ? /^y(es)?$/i.test(given) : given === word) return true;
  throw new CliError(EXIT.refused, 'EMQ_REFUSED', 'nothing was done');
}

async function ask(question: string, signal: AbortSignal): Promise<string> {
  // not a terminal of its own, so that Ctrl-C stays a signal
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
    return await Promise.race([lines.question(question, { signal }), ended]);
  } finally {
    lines.close();
    process.stdin.unref();
  }
}
