/**
 * The programs that the C tests need, and what happens without them: a suite says by name what is missing and does not
 * run; in CI it runs and fails. Does not: install any.
 */
import { execFileSync } from 'node:child_process';

/** Those of the programs that this machine does not have. */
export function missingTools(...programs: string[]): string[] {
  return programs.filter((program) => {
    try {
      execFileSync(program, ['--version'], { stdio: 'ignore' });
      return false;
    } catch {
      return true;
    }
  });
}

/** Whether a suite runs; where it does not, that is told. */
export function runs(suite: string, missing: readonly string[]): boolean {
  if (missing.length === 0) return true;
  console.log(`not run: ${suite}, this machine has no ${missing.join(', no ')}`);
  return process.env.CI === 'true';
}
