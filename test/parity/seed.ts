/**
 * What the random suites of this folder are started with: `EMQ_SEED` repeats a run, `EMQ_RUNS` says how many sequences
 * each property draws. The seed is printed. Does not: shrink or report; fast-check does.
 */
function fromEnvironment(name: string, preset: () => number): number {
  const given = process.env[name];
  if (given === undefined) return preset();
  if (!/^-?\d{1,10}$/.test(given)) throw new Error(`${name} must be a 32-bit integer, not ${given}`);
  return Number(given) | 0;
}

export const seed = fromEnvironment('EMQ_SEED', () => Math.floor(Math.random() * 2 ** 31));

/** How many sequences a property draws: `EMQ_RUNS`, or what the suite takes by itself. */
export const runs = (preset: number): number => fromEnvironment('EMQ_RUNS', () => preset);

/** Prints the seed; call it once at the top of a test file. */
export function printSeed(file: string): void {
  console.log(`${file}: EMQ_SEED=${seed}`);
}
