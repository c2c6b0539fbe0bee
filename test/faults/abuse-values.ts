/**
 * What nobody should hand to a verb: names outside the grammar, values of the wrong kind, objects that bite when they are
 * looked at; and ways to put each of them at every place of right arguments.
 *
 * Each value is made anew: some are used up by being looked at.
 */

/** Throws at whatever is done to it. */
const biting: ProxyHandler<object> = Object.fromEntries(
  Object.getOwnPropertyNames(Reflect).map((name) => [
    name,
    () => {
      throw new TypeError('bitten');
    },
  ]),
);

/** Text that is no name of anything here. */
export const NO_NAMES: readonly string[] = [
  ...['', ' ', 'a b', 'ä', '日本', '😀', '\u202eabc', '\ud800', 'e\u0301'],
  ...['\0', 'a\0b', 'a\nb', 'a\r\n*1\r\n$8\r\nFLUSHALL\r\n', '\x1b[2J', '\t'],
  ...[
    '{',
    '}',
    '{a}',
    'a}b{c',
    '{emq}',
    'emq:{q}:pending',
    ':',
    'a:b',
    '../x',
    'a/b',
    '*',
    '[a-z]',
    '%s',
    '$(x)',
    "'; --",
  ],
  ...['x'.repeat(256), '{'.repeat(70_000)],
];

/** Text that is a name of a queue, of a repeat or a dedup id, and that a careless object would take for its own. */
export const ODD_NAMES: readonly string[] = [
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', 'null', 'undefined', 'NaN', '-', '.', '..'],
  ...['-1', '007', '1e3', 'x'.repeat(128)],
];

/** Everything that is no text. */
export const NO_TEXT: readonly (readonly [string, () => unknown])[] = [
  ['null', () => null],
  ['true', () => true],
  ['zero', () => 0],
  ['minus zero', () => -0],
  ['minus one', () => -1],
  ['a fraction', () => 1.5],
  ['NaN', () => NaN],
  ['infinity', () => Infinity],
  ['2^53', () => 2 ** 53],
  ['a bigint', () => 10n],
  ['a symbol', () => Symbol('s')],
  ['a function', () => () => 'JOB0KHTOWnGLuC'],
  ['an empty list', () => []],
  ['a list of lists', () => [[['JOB0KHTOWnGLuC']]]],
  ['a list with a hole', () => new Array(2)],
  ['an empty object', () => ({})],
  ['an object without a prototype', () => Object.create(null) as unknown],
  ['an object that pretends to be text', () => ({ toString: () => 'JOB0KHTOWnGLuC', length: 14 })],
  [
    'an object whose toString throws',
    () => ({
      toString: () => {
        throw new TypeError('bitten');
      },
    }),
  ],
  ['an object with __proto__', () => JSON.parse('{"__proto__":{"leaseMs":1,"id":"a b"}}') as unknown],
  ['an object that is not for JSON', () => ({ a: 1n })],
  [
    'a circle',
    () => {
      const c: Record<string, unknown> = {};
      return (c['self'] = c);
    },
  ],
  [
    'a getter that throws',
    () => ({
      get id() {
        throw new TypeError('bitten');
      },
    }),
  ],
  ['a proxy that throws', () => new Proxy({}, biting)],
  ['a proxy of a list that throws', () => new Proxy([], biting)],
  ['a proxy of a function that throws', () => new Proxy(() => {}, biting)],
  [
    'a revoked proxy',
    () => {
      const { proxy, revoke } = Proxy.revocable({}, {});
      revoke();
      return proxy;
    },
  ],
  ['bytes', () => Buffer.from('JOB0KHTOWnGLuC')],
  ['words of bytes', () => new Uint16Array(7)],
  ['a date', () => new Date(NaN)],
  ['an expression', () => /x/],
  ['a map', () => new Map([['leaseMs', 1]])],
  ['an error', () => new Error('x')],
  ['an AbortSignal', () => AbortSignal.abort()],
  ['a promise', () => Promise.resolve('JOB0KHTOWnGLuC')],
  ['boxed text', () => new String('JOB0KHTOWnGLuC')],
  ['a URL', () => new URL('file:///nowhere.mjs')],
];

/** All of them. */
export const HOSTILE: readonly (readonly [string, () => unknown])[] = [
  ...[...NO_NAMES, ...ODD_NAMES].map((text) => [JSON.stringify(text.slice(0, 20)), () => text] as const),
  ...NO_TEXT,
];

/** A place in arguments: the number of the argument, then names inside. */
export type Place = readonly (string | number)[];

/** All places of these arguments, four levels deep. */
export function placesOf(args: readonly unknown[]): Place[] {
  const found: Place[] = [];
  const walk = (value: unknown, place: Place): void => {
    if (place.length > 0) found.push(place);
    if (place.length >= 5 || !isPlain(value)) return;
    for (const [name, one] of Object.entries(value)) walk(one, [...place, name]);
  };
  walk(args, []);
  return found;
}

/** The same arguments with another value at one place; what is not on the way there is shared. */
export function withAt(args: readonly unknown[], place: Place, value: unknown): unknown[] {
  const put = (at: unknown, [name, ...rest]: Place): unknown => {
    if (name === undefined) return value;
    const copy = (Array.isArray(at) ? [...(at as unknown[])] : { ...(at as object) }) as Record<string, unknown>;
    copy[name] = put(copy[name], rest);
    return copy;
  };
  return put(args, place) as unknown[];
}

/** An options object one of whose fields bites when it is read, where a field was before. */
export function biteAt(args: readonly unknown[], place: Place): unknown[] | undefined {
  const name = place.at(-1);
  const above = place.slice(0, -1);
  const holder = above.reduce<unknown>((at, one) => (at as Record<string, unknown>)[one], args);
  if (name === undefined || above.length === 0 || !isPlain(holder) || Array.isArray(holder)) return undefined;
  const bites = Object.defineProperty({ ...holder }, name, {
    enumerable: true,
    get: () => {
      throw new RangeError('a getter threw');
    },
  });
  return withAt(args, above, bites);
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  try {
    if (!Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype) return false;
    return Object.values(value).length >= 0;
  } catch {
    return false;
  }
}
