/**
 * Many things in several writes: none of too many, and none of too many bytes, whatever the things are.
 *
 * Invariants: the order is kept; a thing that is too large by itself is a portion of its own.
 * Does not: send anything.
 */

/** Cut into portions of so many items and about so many bytes. */
export function portions<T>(items: readonly T[], most: number, mostBytes: number, bytesOf: (item: T) => number): T[][] {
  const found: T[][] = [];
  let portion: T[] = [];
  let bytes = 0;
  for (const item of items) {
    const size = bytesOf(item);
    if (portion.length === most || (portion.length > 0 && bytes + size > mostBytes)) {
      found.push(portion);
      portion = [];
      bytes = 0;
    }
    portion.push(item);
    bytes += size;
  }
  return portion.length === 0 ? found : [...found, portion];
}
