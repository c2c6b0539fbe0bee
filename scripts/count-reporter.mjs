/**
 * Counts test cases for scripts/test.mjs, as a reporter of vitest.
 *
 * Invariants: what could not run counts as failed: a file that does not load, a set-up or tear-down that throws, an
 * error outside every test, a test that never ended. Does not: print.
 */
export class CountReporter {
  passed = 0;
  failed = 0;
  /** Skipped, by the test itself or by a filter. */
  notRun = 0;

  onTestRunEnd(modules, unhandledErrors) {
    this.passed = 0;
    this.failed = unhandledErrors.length;
    this.notRun = 0;
    for (const module of modules) {
      if (module.errors().length > 0) this.failed += 1;
      for (const suite of module.children.allSuites()) if (suite.errors().length > 0) this.failed += 1;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'passed') this.passed += 1;
        else if (state === 'skipped') this.notRun += 1;
        else this.failed += 1;
      }
    }
  }
}
