/**
 * Looks at a flow again and again, until its root has ended.
 *
 * Invariants: a terminal shows one picture, drawn in place; anywhere else a picture is written only when it is another;
 * the reading takes no more than a fifth of the time, however large the flow is. Does not: read or draw by itself.
 */
import { setTimeout as pause } from 'node:timers/promises';

/** Shows one picture after the other. */
export type Screen = (lines: readonly string[]) => void;

/** What is needed of a terminal. */
export interface TerminalOut {
  /** 0 where the terminal does not tell. */
  readonly rows: number;
  write(text: string): unknown;
}

const PAUSE_MS = 500;

/**
 * @param look reads and shows once; resolves with the exit code when the root has ended, else with undefined
 * @param signal ends it: then it rejects
 */
export async function watch<Code>(look: () => Promise<Code | undefined>, signal: AbortSignal): Promise<Code> {
  for (;;) {
    const begun = performance.now();
    const ended = await look();
    if (ended !== undefined) return ended;
    await pause(Math.max(PAUSE_MS, 4 * (performance.now() - begun)), undefined, { signal });
  }
}

/** Shows a picture only when it is another than the last. */
export function onChange(show: (text: string, first: boolean) => void): Screen {
  let last: string | undefined;
  return (lines) => {
    const text = lines.join('\n');
    if (text === last) return;
    const first = last === undefined;
    last = text;
    show(text, first);
  };
}

/** One picture in place of the other. What is wider or higher than the terminal is cut off, since it cannot be taken back. */
export function inPlace(out: TerminalOut): Screen {
  let drawn = 0;
  return (lines) => {
    // the line below the picture is the cursor's
    const most = out.rows === 0 ? Infinity : Math.max(1, out.rows - 1);
    const cut = lines.length - most + 1;
    const shown = cut > 1 ? [...lines.slice(0, most - 1), `... and ${cut} more lines`] : lines;
    const up = drawn === 0 ? '' : `\x1b[${drawn}A`;
    // without wrapping (?7l) a line of the picture is a line of the terminal
    out.write(`${up}\r\x1b[J\x1b[?7l${shown.join('\n')}\n\x1b[?7h`);
    drawn = shown.length;
  };
}
