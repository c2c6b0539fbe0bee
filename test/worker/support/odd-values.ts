/**
 * What a handler may throw besides a good Error, and what is then said of it. Each is made anew, since some are used up.
 */
export interface OddValue {
  readonly what: string;
  readonly make: () => unknown;
  /** What the message is like. */
  readonly says: RegExp;
}

const UNPRINTABLE = /cannot be printed/;
/** How often an error is read before its text is kept is not for a test to say. */
const LATER = /^(for now|trap)?$|cannot be printed/;

/** An Error one part of which is a getter that throws, the first time it is read or the times after. */
function trap(part: 'message' | 'name' | 'stack', times: number): Error {
  const error = new Error('trap');
  let left = times;
  Object.defineProperty(error, part, {
    get() {
      if (left-- > 0) return part === 'name' ? 'Error' : 'for now';
      throw new Error('gotcha');
    },
  });
  return error;
}

const hostile: ProxyHandler<object> = Object.fromEntries(
  Object.getOwnPropertyNames(Reflect).map((name) => [
    name,
    () => {
      throw new Error('gotcha');
    },
  ]),
);

export const ODD_VALUES: readonly OddValue[] = [
  { what: 'nothing', make: () => undefined, says: /^the handler threw undefined$/ },
  { what: 'null', make: () => null, says: /^the handler threw null$/ },
  { what: 'text', make: () => 'no luck', says: /^no luck$/ },
  { what: 'empty text', make: () => '', says: /^$/ },
  { what: 'a number', make: () => 0, says: /^the handler threw 0$/ },
  { what: 'a bigint', make: () => 7n, says: /^the handler threw 7$/ },
  { what: 'a symbol', make: () => Symbol('odd'), says: /^the handler threw Symbol\(odd\)$/ },
  { what: 'a function', make: () => () => {}, says: /^the handler threw \(\) =>/ },
  { what: 'an object', make: () => ({ a: 1 }), says: /^the handler threw an object: \{"a":1\}$/ },
  { what: 'a list', make: () => [1, 2], says: /^the handler threw an object: \[1,2\]$/ },
  { what: 'an object with a message', make: () => ({ message: 'hello' }), says: /^hello$/ },
  { what: 'an object without a prototype', make: () => Object.create(null) as unknown, says: /an object: \{\}$/ },
  {
    what: 'a circle',
    make: () => {
      const circle: Record<string, unknown> = {};
      return (circle['self'] = circle);
    },
    says: UNPRINTABLE,
  },
  { what: 'an object that is not for JSON', make: () => ({ n: 1n }), says: UNPRINTABLE },
  { what: 'a proxy that throws at everything', make: () => new Proxy({}, hostile), says: UNPRINTABLE },
  {
    what: 'a proxied Error that throws at everything',
    make: () => new Proxy(new Error('x'), hostile),
    says: UNPRINTABLE,
  },
  {
    what: 'a revoked proxy',
    make: () => {
      const { proxy, revoke } = Proxy.revocable(new Error('gone'), {});
      revoke();
      return proxy;
    },
    says: UNPRINTABLE,
  },
  { what: 'an Error whose message throws', make: () => trap('message', 0), says: UNPRINTABLE },
  { what: 'an Error whose message throws later', make: () => trap('message', 2), says: LATER },
  { what: 'an Error whose name throws', make: () => trap('name', 0), says: UNPRINTABLE },
  { what: 'an Error whose name throws later', make: () => trap('name', 2), says: LATER },
  { what: 'an Error whose stack throws', make: () => trap('stack', 0), says: UNPRINTABLE },
  { what: 'an Error whose stack throws later', make: () => trap('stack', 1), says: LATER },
  {
    what: 'an Error whose message is no text',
    make: () => Object.assign(new Error('x'), { message: { toString: null } }),
    says: /^the handler threw/,
  },
  { what: 'a frozen Error', make: () => Object.freeze(new Error('cold')), says: /^cold$/ },
  { what: 'an AggregateError', make: () => new AggregateError([new Error('a')], 'many'), says: /^many$/ },
  { what: 'a DOMException', make: () => new DOMException('stop', 'AbortError'), says: /^stop$/ },
  { what: 'a huge message', make: () => new Error('x'.repeat(5_000_000)), says: /^x{4000,}( \[cut\])?$/ },
  { what: 'a message of NULs', make: () => new Error('\0\0'), says: /^\0\0$/ },
  { what: 'a lone surrogate', make: () => new Error('a\ud800b'), says: /^a.b$/s },
];
