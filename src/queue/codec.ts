/**
 * How a payload becomes bytes and comes back.
 *
 * Invariants: the wire carries opaque bytes; a codec is the client's own affair, and both ends of a queue must agree on
 * it. Bytes given as a payload are always sent as they are, whatever the codec.
 * Does not: validate (a schema does) or limit the size (the verbs do).
 */
import { EmqError, inputError, show } from '../wire/errors.js';
import { asBuffer, said } from './input.js';

/** Turns a payload of type T into bytes and back. Both functions may throw; a job's `bytes` stay readable then. */
export interface Codec<T> {
  encode(value: T): Uint8Array | string;
  decode(bytes: Buffer): T;
}

/** JSON text, the default. `undefined`, functions and other values without a JSON form are refused. */
export function jsonCodec<T>(): Codec<T> {
  return {
    encode(value) {
      const text = JSON.stringify(value) as string | undefined;
      if (text === undefined) throw inputError(`a payload of type ${typeof value} has no JSON form; use null or bytes`);
      return text;
    },
    decode: (bytes) => JSON.parse(bytes.toString('utf8')) as T,
  };
}

/** Bytes in, the same bytes out. */
export const bytesCodec: Codec<Buffer> = {
  encode(value) {
    if (!(value instanceof Uint8Array)) throw inputError(`the bytes codec takes a Buffer, got ${typeof value}`);
    return value;
  },
  decode: (bytes) => bytes,
};

/** The bytes of a payload: bytes as they are, anything else by the codec. @throws EmqError `EMQ_INPUT`. */
export function encodePayload<T>(codec: Codec<T>, value: T | Uint8Array): Buffer {
  if (value instanceof Uint8Array) return asBuffer(value);
  let encoded: Uint8Array | string;
  try {
    encoded = codec.encode(value);
  } catch (cause) {
    if (cause instanceof EmqError) throw cause;
    throw inputError(`the payload cannot be encoded: ${said(cause)}`);
  }
  if (typeof encoded === 'string') return Buffer.from(encoded, 'utf8');
  if (!((encoded as unknown) instanceof Uint8Array)) {
    throw inputError(`the payload cannot be encoded: encode must give text or bytes, it gave ${show(encoded)}`);
  }
  return asBuffer(encoded);
}
