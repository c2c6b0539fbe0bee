/**
 * Section 12 of the public wire contract says the rules that these suites prove, word for word.
 */
import { readFile } from 'node:fs/promises';
import { beforeAll, expect, it } from 'vitest';
import {
  BRAND_OF_QUEUE,
  CLUSTER,
  CONSUMER,
  DURABLE,
  FLOW_PRODUCER,
  LANE_PRODUCER,
  LISTS,
  LOOKS,
  LOOKS_CLUSTER,
  MAY_BRAND,
  MAY_BRAND_QUEUE,
  MOVES,
  NAMED,
  PRODUCER,
  PRODUCER_6,
  QUIET,
  QUIET_CLUSTER,
  RAW_NATIVE,
  NATIVE,
  PROOF,
  ROLE_CONSUMER,
  ROLE_OBSERVER,
  ROLE_OPERATOR,
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
  ['A producer of flows', FLOW_PRODUCER.filter((rule) => !LANE_PRODUCER.includes(rule))],
  ['A durable producer', DURABLE],
  ['A raw native caller', RAW_NATIVE],
  ['Role consumer', ROLE_CONSUMER],
  ['Role operator', ROLE_OPERATOR],
  ['Role observer', ROLE_OBSERVER],
])('%s', (name, rules) => {
  // a selector has blanks of its own
  expect(block(name).sort()).toEqual(rules.join(' ').split(' ').sort());
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
  expect(section).toContain(`obliterate. On wire 6 ${named([...NATIVE, ...PROOF])} besides`);
  expect(section).toContain(`reads it by ${named(BRAND_OF_QUEUE)}, or brands it by ${named(MAY_BRAND_QUEUE)}`);
  expect(section).toContain(`\`emq wire\`: ${named(LOOKS)}, and in a cluster ${named(LOOKS_CLUSTER)}`);
  expect(section).toContain(`\`+get +eval\` and: ${named(MOVES)}`);
  expect(section).toContain(`quiet: ${named(QUIET)}, and in a cluster ${named(on(QUIET_CLUSTER, QUIET))}`);
});
