/**
 * What all operator's commands share: where they connect, what they say of a refusal, and how they end when they are cut
 * short.
 *
 * Invariants: words and options are checked before anything is opened, and none is repeated with a password in it; the
 * connection is closed whatever happens; what was done before an error is told with it.
 * Does not: know any command.
 */
import { Option, type Command } from 'commander';

import { EmqError } from '../../wire/errors.js';
import type { Wire } from '../../wire/executor.js';
import { Keyspace } from '../../wire/keyspace.js';
import { scrub, type ExitCode } from '../exit.js';
import { addCommand, type Run } from '../program.js';
import { addTarget, readTarget, type TargetOptions } from '../target.js';
import type { Terminal } from '../terminal.js';
import type { Consent } from './confirm.js';
import { openSession, type Session } from './session.js';

interface Connection extends TargetOptions {
  readonly wire?: string;
}

/** One command at work. */
export interface Work<Options> {
  readonly session: Session;
  /** What stands behind the queue. */
  readonly words: readonly string[];
  readonly options: Options;
  readonly terminal: Terminal;
}

export interface Operation<Options> {
  /** With its words, `<queue>` first where it has one: `remove <queue> <id...>`. */
  readonly usage: string;
  readonly about: string;
  readonly examples: string;
  readonly options?: (command: Command) => Command;
  /** Refuses what makes no sense, before anything is opened. */
  readonly check?: (words: readonly string[], options: Options) => void;
  readonly act: (queue: string, work: Work<Options>) => Promise<ExitCode>;
}

const OPERATING = 'Operating queues:';
const RIGHTS =
  'docs/wire.md (12) lists the rights that a connector needs, emq doctor --user NAME tells what is wanting';

/** Declares an operator's command. */
export function addOperation<Options extends object>(program: Command, run: Run, operation: Operation<Options>): void {
  const { usage, about, examples, options: declare, check, act } = operation;
  const bare = addCommand(program, usage, about, examples).helpGroup(OPERATING);
  const command = addTarget(bare, 'the node, or one of a cluster; it must be given').addOption(
    new Option('--wire <n>', 'the wire to connect by (default: that of the brand)').choices(['4', '6']),
  );
  const named = usage.includes('<queue>');
  (declare?.(command) ?? command).action((...given: unknown[]) => {
    const options = given.at(-2) as Options & Connection & { json?: boolean };
    const all = given
      .slice(0, -2)
      .flat()
      .filter((word): word is string => typeof word === 'string');
    const [queue = '', words] = named ? [all[0], all.slice(1)] : ['', all];
    return run(async (opts: Options & Connection, terminal) => {
      const target = readTarget(opts);
      // an URL in the wrong place is not repeated with its password
      if (named) new Keyspace(scrub(queue));
      check?.(words.map(scrub), opts);
      const wire = opts.wire === undefined ? undefined : (Number(opts.wire) as Wire);
      const session = await openSession({
        ...{ ...target, wire, signal: terminal.signal },
        queue: named ? queue : undefined,
      });
      const onEnd = (): void => {
        if (Object.keys(session.done).length > 0) terminal.note('stopping behind the step in hand');
      };
      terminal.signal.addEventListener('abort', onEnd, { once: true });
      try {
        return await act(queue, { session, words, options: opts, terminal });
      } catch (error) {
        tellDone(session, terminal);
        throw explained(error);
      } finally {
        terminal.signal.removeEventListener('abort', onEnd);
        await session.connector.close();
      }
    })(options);
  });
}

/** Options of a command that destroys. */
export function consentOptions(command: Command): Command {
  return command
    .option('--yes', 'do it without asking; needed where there is no terminal')
    .option('--dry-run', 'only tell what it would do');
}

export type { Consent };

function tellDone({ done, where }: Session, terminal: Terminal): void {
  const parts = Object.entries(done).filter(([, n]) => n > 0);
  if (parts.length === 0) return;
  const what = parts.map(([word, n]) => `${n} ${word}`).join(', ');
  terminal.note(`cut short: ${what} so far, and that stays; the same command goes on from there`);
  terminal.emit({ where, cutShort: true, done: Object.fromEntries(parts) });
}

/** What a user can do about a refusal. */
function explained(error: unknown): unknown {
  if (!(error instanceof EmqError)) return error;
  if (error.code === 'NOPERM') return new EmqError('NOPERM', `${error.reason}: ${RIGHTS}`, { cause: error });
  if (error.code === 'READONLY') {
    return new EmqError('READONLY', `${error.reason} It is a replica: ask its primary (--url)`, { cause: error });
  }
  return error;
}
