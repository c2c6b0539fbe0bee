/**
 * A strict reader of the Prometheus text format 0.0.4, for tests: it throws at whatever a scraper might stumble over.
 */
export interface ParsedFamily {
  readonly help: string;
  readonly type: string;
  /** By the sample's name and its labels, as `name{a="b"}`, with the labels in their order and unescaped. */
  readonly samples: Map<string, number>;
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
const VALUE = /^(?:[+-]Inf|NaN|[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/;

export function parseExposition(text: string): Map<string, ParsedFamily> {
  const families = new Map<string, ParsedFamily>();
  if (text === '') return families;
  if (!text.endsWith('\n')) throw new Error('the last line must end with a line feed');
  let current: { name: string; help: string; type: string | undefined; samples: Map<string, number> } | undefined;
  for (const line of text.slice(0, -1).split('\n')) {
    const comment = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line);
    if (comment !== null) {
      const [, kind, name = '', rest = ''] = comment;
      if (!NAME.test(name)) throw new Error(`no metric name: ${line}`);
      if (kind === 'HELP') {
        if (families.has(name)) throw new Error(`a second family ${name}`);
        if (/\\(?![\\n])/.test(rest)) throw new Error(`a help text with a wrong escape: ${line}`);
        current = { name, help: rest, type: undefined, samples: new Map() };
        families.set(name, current as ParsedFamily);
      } else {
        if (current?.name !== name || current.type !== undefined) throw new Error(`TYPE out of place: ${line}`);
        if (!['counter', 'gauge', 'histogram'].includes(rest)) throw new Error(`an unknown type: ${line}`);
        if (rest === 'counter' && !name.endsWith('_total')) throw new Error(`a counter must end in _total: ${name}`);
        current.type = rest;
      }
      continue;
    }
    if (current?.type === undefined) throw new Error(`a sample before its TYPE: ${line}`);
    const { key, name, value } = sample(line);
    const suffixes = current.type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
    if (!suffixes.some((suffix) => name === current?.name + suffix))
      throw new Error(`a sample of another family: ${line}`);
    if (current.samples.has(key)) throw new Error(`the same sample twice: ${line}`);
    if (current.type !== 'gauge' && !(value >= 0)) throw new Error(`less than nothing: ${line}`);
    current.samples.set(key, value);
  }
  for (const [name, family] of families) {
    if (family.samples.size === 0) throw new Error(`a family without samples: ${name}`);
    if (family.type === 'histogram') checkHistogram(name, family.samples);
  }
  return families;
}

function sample(line: string): { key: string; name: string; value: number } {
  const head = /^([^{ ]+)(?:\{(.*)\})? (\S+)$/s.exec(line);
  const [, name = '', inner, number = ''] = head ?? [];
  if (head === null || !NAME.test(name) || !VALUE.test(number)) throw new Error(`no sample: ${line}`);
  const labels: string[] = [];
  const seen = new Set<string>();
  let rest = inner ?? '';
  while (rest !== '') {
    const pair = /^([^=]+)="((?:[^"\\]|\\["\\n])*)"(,(?=.)|$)/s.exec(rest);
    const [all = '', label = '', escaped = ''] = pair ?? [];
    if (pair === null || !LABEL.test(label) || seen.has(label)) throw new Error(`wrong labels: ${line}`);
    seen.add(label);
    labels.push(`${label}=${JSON.stringify(escaped.replace(/\\(.)/gs, (_, c: string) => (c === 'n' ? '\n' : c)))}`);
    rest = rest.slice(all.length);
  }
  const value = Number(number.replace('Inf', 'Infinity'));
  return { key: `${name}{${labels.join(',')}}`, name, value };
}

/** For every series: buckets ascend to +Inf, their counts never fall, and the last is the count. */
function checkHistogram(name: string, samples: ReadonlyMap<string, number>): void {
  const series = new Map<string, { bound: number; below: number }[]>();
  for (const [key, value] of samples) {
    const bucket = /^\w+_bucket\{(.*),?le="([^"]+)"\}$/.exec(key);
    if (bucket === null) continue;
    const [, labels = '', le = ''] = bucket;
    const of = labels.replace(/,$/, '');
    series.set(of, [...(series.get(of) ?? []), { bound: Number(le.replace('Inf', 'Infinity')), below: value }]);
  }
  for (const [labels, buckets] of series) {
    for (const [i, { bound, below }] of buckets.entries()) {
      const before = buckets[i - 1];
      if (before !== undefined && (before.bound >= bound || before.below > below)) {
        throw new Error(`buckets out of order in ${name}{${labels}}`);
      }
    }
    const last = buckets.at(-1);
    if (last?.bound !== Infinity || last.below !== samples.get(`${name}_count{${labels}}`)) {
      throw new Error(`the last bucket of ${name}{${labels}} must be +Inf and the count`);
    }
    if (!samples.has(`${name}_sum{${labels}}`)) throw new Error(`no sum for ${name}{${labels}}`);
  }
}
