/**
 * What may be in a call that reaches the wire, whatever a verb was handed: names within the grammar of the wire contract
 * (sections 1 and 2), numbers in their canonical form.
 */
import { isBranded, type Call } from '../../src/index.js';

const QUEUE = '[A-Za-z0-9._-]{1,128}';
const NAME = '[A-Za-z0-9._-]{1,255}';
const KEY = new RegExp(`^emq:\\{(${QUEUE})\\}:(.*)$`, 's');
const NUMBERS: ReadonlySet<string> = new Set([
  ...['ms', 'lease', 'size', 'count', 'token', 'delay', 'max', 'limit', 'keep', 'offset', 'first', 'last', 'min'],
  ...['priority', 'priority?', 'ttl', 'age', 'end', 'token...'],
]);

/** What is wrong with a call, or undefined. */
export function faultOf({ queue, keys, args, transition }: Call): string | undefined {
  for (const key of keys.map(String)) {
    const [, name, rest = ''] = KEY.exec(key) ?? [];
    if (key === '{emq}:queues') continue;
    if (name !== queue || name === 'emq') return `key ${JSON.stringify(key)} is not of queue ${JSON.stringify(queue)}`;
    if (!isKey(rest)) return `key ${JSON.stringify(key)} is none of the contract`;
  }
  for (const [i, arg] of args.map(String).entries()) {
    const name = transition.argNames[i];
    if (name === 'id' && !isBranded(arg)) return `id ${JSON.stringify(arg)}`;
    if (name === 'group' && arg !== '' && arg !== '*' && !isBranded(arg)) return `group ${JSON.stringify(arg)}`;
    if (name === 'dedup id' && arg !== '' && !new RegExp(`^${NAME}$`).test(arg)) return `dedup ${JSON.stringify(arg)}`;
    if (name !== undefined && NUMBERS.has(name) && arg !== '' && !/^(0|-?[1-9]\d{0,15})$/.test(arg))
      return `${name} ${JSON.stringify(arg)}`;
  }
  return undefined;
}

/** Whether a key may be there, behind the base of its queue. */
export function isKey(rest: string): boolean {
  if (/^(|[a-z]+|flow:(held|outbox|landed|poison)|metrics:(completed|failed)(:data)?|metrics:rolled)$/.test(rest))
    return true;
  const [, kind, name = ''] = /^(job:|g:|de:|repeat:|flow:cancel:)(.*)$/s.exec(rest) ?? [];
  if (kind === 'de:' || kind === 'repeat:') return new RegExp(`^${NAME}$`).test(name);
  const [id = '', ...behind] = name.split(':');
  return kind !== undefined && isBranded(id) && behind.every((word) => /^[a-z]+$/.test(word));
}
