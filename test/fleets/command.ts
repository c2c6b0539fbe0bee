/**
 * Runs a command of `emq` in this process: the same program as the one on the command line, without a terminal, and without
 * the price of a process for each run.
 *
 * Invariants: what it said is gathered, not printed; of the environment's EMQ_ variables only those that are given are seen. Does not: run two at once.
 */
import { vi } from 'vitest';
import { addCommands } from '../../src/cli/commands.js';
import { runProgram } from '../../src/cli/program.js';

export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Standard output as JSON, one value a line. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- what a command emits is looked at field by field
  readonly json: any[];
}

export interface Surroundings {
  /** Ends it early, as a Ctrl-C does. */
  readonly signal?: AbortSignal;
  /** Its EMQ_ variables. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs it to its end. */
export async function emq(
  args: readonly string[],
  { signal = new AbortController().signal, env = {} }: Surroundings = {},
): Promise<Said> {
  const said = { stdout: '', stderr: '' };
  const gather = (to: keyof typeof said) => (chunk: string | Uint8Array) => {
    said[to] += String(chunk);
    return true;
  };
  for (const name of Object.keys(process.env)) if (name.startsWith('EMQ_')) vi.stubEnv(name, undefined);
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const spies = [
    vi.spyOn(process.stdout, 'write').mockImplementation(gather('stdout')),
    vi.spyOn(process.stderr, 'write').mockImplementation(gather('stderr')),
  ];
  try {
    const code = await runProgram(args, '0', signal, addCommands);
    const lines = said.stdout.split('\n').filter((line) => line.startsWith('{'));
    return { code, ...said, json: args.includes('--json') ? lines.map((line) => JSON.parse(line) as unknown) : [] };
  } finally {
    for (const spy of spies) spy.mockRestore();
    vi.unstubAllEnvs();
  }
}
