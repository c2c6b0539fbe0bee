/**
 * Things to undo at the end of a command: servers, connections, keys.
 *
 * Invariants: all are undone, the last first, whatever the others and the body throw; the body's error is the one
 * that counts.
 */

/** Adds one thing to undo. */
export type UndoLater = (undo: () => Promise<unknown>) => void;

/**
 * Runs the body, then undoes what it said must be undone. Rejects as the body does, else as the first undoing that
 * failed.
 */
export async function withClosing<T>(body: (later: UndoLater) => Promise<T>): Promise<T> {
  const undos: (() => Promise<unknown>)[] = [];
  const failures: unknown[] = [];
  let result: T;
  try {
    result = await body((undo) => void undos.push(undo));
  } finally {
    for (const undo of undos.reverse()) await undo().catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
  return result;
}
