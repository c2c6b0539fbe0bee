/**
 * The rights under test: those that the package documents and gives out. What is here is there: src/wire/rights.ts.
 */
export * from '../../src/wire/rights.js';
