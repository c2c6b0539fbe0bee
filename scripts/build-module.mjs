/**
 * Builds the module by hand: `node scripts/build-module.mjs [--via cmake|gyp|cc] [--out FILE] [--force]`.
 * Does not: know how (src/dev/build.ts does); it needs a compiled `dist/`, which `npm run setup` makes.
 */
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';

const BUILT = new URL('../dist/dev/index.js', import.meta.url);

try {
  const { values } = parseArgs({
    options: { via: { type: 'string' }, out: { type: 'string' }, force: { type: 'boolean' } },
  });
  if (!existsSync(BUILT)) throw new Error('dist/ is not compiled: run "npm run setup"');
  const { buildModule } = await import(BUILT.href);
  const { path, via } = await buildModule({ ...values, log: console.log });
  if (via === undefined) console.log(`${path} is up to date`);
} catch (error) {
  console.error(error.reason ?? error.message);
  process.exitCode = 1;
}
