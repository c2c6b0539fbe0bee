/**
 * What a command sees of the terminal: where its text and its JSON go, colours, and Ctrl-C.
 *
 * Invariants: with `--json` standard output carries JSON and nothing else, one value a line; without it, text for
 * people. What goes wrong or is only on the way (progress, notes) goes to standard error, as text. Colour only on a
 * terminal, and not under NO_COLOR. A reader that went away (`| head`) ends the command quietly.
 * Does not: decide what to say.
 */
import { setMaxListeners } from 'node:events';
import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

export interface Terminal {
  readonly json: boolean;
  /** Aborted when the command is to end early; its reason is an `EndReason`. */
  readonly signal: AbortSignal;
  /** Text for people; nothing with `--json`. */
  readonly print: (text?: string) => void;
  /** One JSON value on a line; nothing without `--json`. */
  readonly emit: (value: object) => void;
  /** A line about what is going on, for people, on standard error; nothing with `--json`. */
  readonly note: (text: string) => void;
  readonly style: (style: Style, text: string) => string;
}

/** The signals that end a command in good order, and their numbers. */
export const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
export type EndSignal = keyof typeof SIGNALS;

/** @param signal see `Terminal.signal` */
export function openTerminal(json: boolean, signal: AbortSignal): Terminal {
  const { stdout, stderr } = process;
  const colour = !json && stdout.isTTY && !process.env['NO_COLOR'] && stdout.hasColors();
  return {
    json,
    signal,
    print: (text = '') => void (json || stdout.write(`${text}\n`)),
    emit: (value) => void (json && stdout.write(`${JSON.stringify(value)}\n`)),
    note: (text) => void (json || stderr.write(`${text}\n`)),
    style: (style, text) => (colour ? styleText(style, text) : text),
  };
}

/** Why a command is to end early: a signal of the system, or a reader of its output that went away. */
export type EndReason = EndSignal | 'EPIPE';

/**
 * Makes one signal of all that ends a command early; its reason is an `EndReason`. The second signal of the system
 * ends the process at once.
 */
export function watchEnds(): AbortSignal {
  const controller = new AbortController();
  const end = (reason: EndReason): void => controller.abort(reason);
  // every wait of a command listens to it
  setMaxListeners(0, controller.signal);
  for (const name of Object.keys(SIGNALS) as EndSignal[]) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(128 + SIGNALS[name]);
      end(name);
    });
  }
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    end('EPIPE');
  });
  return controller.signal;
}

/** So many lines of one text are shown. */
const MOST_LINES = 50;

/** Text from elsewhere, safe on a terminal: quoted, control characters escaped, bytes that are no text as \xNN. */
export function quoted(value: string | Buffer, most = 1000): string {
  const { text, hidden } = cut(value, most);
  return `"${text.replace(/["\\]/g, '\\$&').replace(hidden, escape)}"`;
}

/** Text from elsewhere, safe on a terminal, for reading: broken at its newlines, else as `quoted` but for the quotes. */
export function linesOf(value: string | Buffer, most = 4_000): string[] {
  const { text, hidden } = cut(value, most);
  const lines = text
    .replace(/\n+$/, '')
    .split(/\r?\n/)
    .map((line) => line.replace(hidden, escape));
  const more = lines.length - MOST_LINES;
  return more > 0 ? [...lines.slice(0, MOST_LINES), `… and ${more} more lines`] : lines;
}

/** At most so many characters of it, and which of them are not to be shown as they are. */
function cut(value: string | Buffer, most: number): { readonly text: string; readonly hidden: RegExp } {
  const bytes = Buffer.isBuffer(value) ? value : Buffer.from(value);
  const utf8 = bytes.toString('utf8');
  const isText = Buffer.from(utf8).equals(bytes);
  const all = isText ? utf8 : bytes.toString('latin1');
  return {
    text: all.length > most ? `${all.slice(0, most - 1)}…` : all,
    hidden: isText ? /[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g : /[\x00-\x1f\x7f-\xff]/g,
  };
}

function escape(char: string): string {
  if (char === '\n') return '\\n';
  if (char === '\r') return '\\r';
  if (char === '\t') return '\\t';
  const code = char.charCodeAt(0);
  return code > 255 ? `\\u${code.toString(16)}` : `\\x${code.toString(16).padStart(2, '0')}`;
}

/** The same as it is where it is one plain word: for words of a command and fields of a row. */
export function word(value: string | Buffer, most = 1000): string {
  const text = String(value);
  if (!/^[!#-[\]-~][!-[\]-~]*$/.test(text)) return quoted(value, most);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Breaks a list of words into lines of at most `width` columns; a longer word stands alone. */
export function wrap(words: readonly string[], width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const next of words) {
    if (line !== '' && line.length + 1 + next.length > width) {
      lines.push(line);
      line = next;
    } else line = line === '' ? next : `${line} ${next}`;
  }
  return line === '' ? lines : [...lines, line];
}
