/** The processor of primes.mjs: counts primes by division, which takes all of one core. Infinity travels as null. */

/** @param {{ payload: { below: number | null } }} job */
export default function count(job) {
  const below = job.payload.below ?? Infinity;
  let found = 0;
  for (let n = 2; n < below; n++) if (isPrime(n)) found++;
  return found;
}

/** @param {number} n */
function isPrime(n) {
  for (let divisor = 2; divisor * divisor <= n; divisor++) if (n % divisor === 0) return false;
  return true;
}
