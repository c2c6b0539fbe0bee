/**
 * Section 12 of the public wire contract says the rules that these suites prove, word for word.
 */
import { readFile } from 'node:fs/promises';
import { beforeAll, expect, it } from 'vitest';
import {
  CLUSTER,
  CONSUMER,
  LANE_PRODUCER,
  LISTS,
  MAY_BRAND,
  NAMED,
  PRODUCER,
  PRODUCER_6,
  QUIET,
  QUIET_CLUSTER,
  RAW_NATIVE,
  WIRE_4,
  WIRE_6,
} from './rules.js';

let section: string;
beforeAll(async () => {
  const text = await readFile(new URL('../../docs/wire.md', import.meta.url), 'utf8');
  section = text.slice(text.indexOf('## 12. Rights'));
});

/** The rules of the code block behind a name in bold. */
function block(name: string): string[] {
  const [, found = ''] = new RegExp(`\\*\\*${name}\\*\\*[^]*?\`\`\`\\n([^]*?)\`\`\``).exec(section) ?? [];
  return found.split(/\s+/).filter((word) => word !== '');
}

it.each([
  ['A wire 4 connector', WIRE_4],
  ['A consumer', CONSUMER],
  ['A producer', PRODUCER],
  ['A producer for lanes', LANE_PRODUCER],
  ['A raw native caller', RAW_NATIVE],
])('%s', (name, rules) => {
  expect(block(name).sort()).toEqual([...rules].sort());
});

it('what comes on top', () => {
  const on = (rules: readonly string[], base: readonly string[]) => rules.filter((rule) => !base.includes(rule));
  const named = (rules: readonly string[]) => `\`${rules.join(' ')}\``;
  expect(section).toContain(`wire 6: ${named(on(WIRE_6, WIRE_4))}`);
  expect(section).toContain(`wire 6: ${named(on(PRODUCER_6, PRODUCER))}`);
  expect(section).toContain(`brand: ${named(MAY_BRAND)}`);
  expect(section).toContain(`cluster: ${named(CLUSTER)}`);
  expect(section).toContain(`as consumers are: ${named(NAMED)}`);
  expect(section).toContain(`list the queues: ${named(LISTS)}`);
  expect(section).toContain(`quiet: ${named(QUIET)}, and in a cluster ${named(on(QUIET_CLUSTER, QUIET))}`);
});
