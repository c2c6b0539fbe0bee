/**
 * The seed of this folder's random tests: `EMQ_SEED` if it is set, else a new one. It is printed, so that a failure can be
 * run again. Does not: shrink or report; fast-check does.
 */
const given = process.env.EMQ_SEED;
if (given !== undefined && !/^-?\d{1,10}$/.test(given))
  throw new Error(`EMQ_SEED must be a 32-bit integer, not ${given}`);

export const seed = given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given) | 0;

/** Prints the seed; call it once at the top of a test file. */
export function printSeed(file: string): void {
  console.log(`${file}: EMQ_SEED=${seed}`);
}
