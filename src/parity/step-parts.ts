/**
 * What the drawing of calls shares: odd bytes and numbers, ids that are likely in some place, tokens and times.
 *
 * Does not: know any transition.
 */
import type { Bytes } from './keyspace-dump.js';
import type { ModelCall } from './model/index.js';
import type { Rng } from './prng.js';
import { anyId, fieldOf, membersOf, rowsOf, span, type Scene } from './scene.js';

export const BYTES = ['', 'hello', '\0\xff\0\xc3\x28', '{"a":1}', '\r\n$-1\r\n', 'z'.repeat(300)];
/** An id that is likely in one of these places, now and then another. */
export function idOf(scene: Scene, ...names: Bytes[]): Bytes {
  const ids = names.flatMap((name) => (name === 'rows' ? rowsOf(scene) : membersOf(scene, name)));
  return ids.length > 0 && scene.rng.chance(88) ? scene.rng.pick(ids) : anyId(scene);
}

/** The claim count as the caller's token, now and then another. */
export function tokenOf(scene: Scene, id: Bytes): Bytes {
  const attempts = fieldOf(scene, `job:${id}`, 'attempts') ?? '1';
  if (scene.rng.chance(85)) return attempts;
  return scene.rng.pick([
    String(Number(attempts) + 1),
    String(Number(attempts) - 1),
    `0${attempts}`,
    '0',
    '',
    'x',
    `${attempts} `,
  ]);
}

/** A delay: most of the time in the future. */
export const timeUntil = (scene: Scene): Bytes => String(scene.rng.chance(20) ? -span(scene) : span(scene));

/** A call by its name on the wire. */
export const call = (transition: string, keys: Bytes[], args: Bytes[]): ModelCall => ({ transition, keys, args });
export const small = (rng: Rng): Bytes => rng.pick(['1', '2', '3', '100']);

export type Make = (scene: Scene) => ModelCall;
