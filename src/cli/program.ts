/**
 * What all commands of `emq` share: how one is declared, run, and ended.
 *
 * Invariants: a command ends with an exit code of exit.ts, whatever it throws; an error is one line on standard
 * error, or with `--json` one JSON value on standard output; no text of an error holds the user or password of a URL.
 */
import { Command, CommanderError, InvalidArgumentError } from 'commander';

import { EXIT, EXIT_HELP, failureOf, scrub, type ExitCode } from './exit.js';
import { openTerminal, SIGNALS, type EndSignal, type Terminal } from './terminal.js';

/** What a command does with its options; resolves with its exit code. */
export type Action<Options> = (options: Options, terminal: Terminal) => Promise<ExitCode>;

/** Makes an action for commander of it. */
export type Run = <Options>(action: Action<Options>) => (options: Options & { json?: boolean }) => Promise<void>;

/** Declares a command: its description, its examples, and what every command has. */
export function addCommand(program: Command, name: string, about: string, examples: string): Command {
  return program
    .command(name)
    .description(about)
    .option('--json', 'JSON on standard output in place of text')
    .addHelpText('after', examples);
}

/** A whole number as an option. */
export function wholeNumber(what: string, least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`${what} is a whole number from ${least} to ${most}.`);
  };
}

/**
 * Runs `emq` once.
 * @param argv the arguments behind the program's name
 * @param add adds the commands to the program
 * @returns the exit code
 */
export async function runProgram(
  argv: readonly string[],
  version: string,
  signal: AbortSignal,
  add: (program: Command, run: Run) => void,
): Promise<number> {
  const json = argv.includes('--json');
  const terminal = openTerminal(json, signal);
  let code: number = EXIT.ok;
  const fail = (error: unknown): number => {
    // a reader that has seen enough (`| head`) is no error
    if (signal.reason === 'EPIPE') return EXIT.ok;
    const failure = signal.aborted
      ? { code: 'EMQ_CLOSED', reason: `ended by ${String(signal.reason)}`, exit: ended(signal) }
      : failureOf(error);
    terminal.emit({ error: failure });
    terminal.note(`emq: ${failure.reason}`);
    return failure.exit;
  };
  const program = new Command('emq')
    .description('EchoMQ: a job queue on Valkey. Queues and jobs at work, nodes for development, traces, checks.')
    .version(version)
    .exitOverride()
    .showHelpAfterError('(--help says more)')
    .addHelpText('afterAll', EXIT_HELP)
    .configureOutput({
      writeErr: (text) => void (json || process.stderr.write(scrub(text))),
    });
  add(program, (action) => async (options) => {
    try {
      code = await action(options, terminal);
    } catch (error) {
      code = fail(error);
    }
  });
  try {
    await program.parseAsync(argv, { from: 'user' });
    return code;
  } catch (error) {
    if (!(error instanceof CommanderError)) return fail(error);
    if (error.exitCode === 0) return EXIT.ok;
    terminal.emit({ error: { code: 'EMQ_INPUT', reason: scrub(error.message), exit: EXIT.input } });
    return EXIT.input;
  }
}

function ended(signal: AbortSignal): number {
  return 128 + SIGNALS[signal.reason as EndSignal];
}
