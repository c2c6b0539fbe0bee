/**
 * The text format of Prometheus, 0.0.4: families of samples, written.
 *
 * Invariants: a family has one HELP and one TYPE and all its samples in one place; names and help texts are ours, label
 * values are anybody's and are escaped. Does not: collect, or parse.
 */

/** What an HTTP answer with this text says it is. */
export const PROMETHEUS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** One number; `suffix` is that of a part of a histogram. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  readonly suffix?: '_bucket' | '_sum' | '_count';
}

export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly samples: readonly Sample[];
}

/** The text, ending in a line feed. A family without samples is left out. */
export function familiesText(families: readonly Family[]): string {
  return families.map(familyText).join('');
}

/** A number as the format writes it. */
export function numberText(value: number): string {
  if (value === Infinity) return '+Inf';
  return value === -Infinity ? '-Inf' : String(value);
}

function familyText({ name, help, type, samples }: Family): string {
  if (samples.length === 0) return '';
  const lines = samples.map(({ labels, value, suffix = '' }) => {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`);
    return `${name}${suffix}{${pairs.join(',')}} ${numberText(value)}\n`;
  });
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
