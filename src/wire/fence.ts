/**
 * The fence (wire contract, section 8): the brand that says which wire a node, or in cluster mode a queue, belongs to.
 *
 * Invariants: a foreign brand is never written over; nothing is branded before a wire 6 connector has seen all
 * the native commands; an error reply is reported as what it is and never taken for a brand. A brand is moved only from
 * the value that was expected, and only because an operator said so.
 * Does not: decide when to look (transport.ts at every connect, queue-gate.ts per queue in cluster mode), or when to move
 * (the command `emq wire`).
 */
import type { Arg, NativeCommand, Reply } from './call.js';
import { EmqError } from './errors.js';
import type { Wire } from './executor.js';

/** The brand of each wire. */
export const BRANDS: Readonly<Record<Wire, string>> = { 4: 'echomq:4.0.0', 6: 'echomq:6.0.0' };

/** The commands without which a wire 6 connector does not start. */
export const NATIVE_COMMANDS: readonly NativeCommand[] = [
  'EMQ.CLAIM',
  'EMQ.CLAIM.BATCH',
  'EMQ.TAKE',
  'EMQ.TAKE.BATCH',
  'EMQ.RELEASE',
  'EMQ.COMPLETE',
  'EMQ.FAIL',
  'EMQ.STALLED.CHECK',
];

/** Sends one command on the connection that is being fenced. Rejects with an `EmqError`. */
export type Ask = (command: string, args: readonly Arg[]) => Promise<Reply>;

/** What the fence is to find, and whether it may brand what has no brand yet. */
export interface FenceRules {
  readonly wire: Wire;
  readonly claim: boolean;
}

/**
 * Passes when the brand under `key` is this wire's, or when it was absent and could be claimed.
 * Of two that claim at once, both read back the same value, and one of them is refused if they differ.
 * @param what names the branded thing in errors: `node`, or `queue "q"`.
 * @throws EmqError `EMQWIRE` for a foreign brand, or an absent one that may not be claimed; the server's own errors.
 */
export async function checkBrand(ask: Ask, key: string, what: string, rules: FenceRules): Promise<void> {
  const own = BRANDS[rules.wire];
  let found = text(await ask('GET', [key]));
  if (found === null && rules.claim) {
    await ask('SET', [key, own, 'NX']);
    found = text(await ask('GET', [key]));
  }
  if (found === own) return;
  const is = found === null ? 'unbranded' : printable(found);
  throw new EmqError('EMQWIRE', `EMQWIRE ${what} is ${is}, needs ${own}${advice(found, rules)}`);
}

/** The native commands that the server does not know: none, some (its module is older), or all. Rejects as it says. */
export async function missingCommands(ask: Ask): Promise<NativeCommand[]> {
  const reply = await ask('COMMAND', ['INFO', ...NATIVE_COMMANDS]);
  const known = Array.isArray(reply) ? reply : [];
  return NATIVE_COMMANDS.filter((_, i) => !Array.isArray(known[i]));
}

/**
 * Passes when the server knows the native commands.
 * @throws EmqError `EMQWIRE` when it does not: the module is not loaded. The server's own errors.
 */
export async function proveModule(ask: Ask): Promise<void> {
  const missing = await missingCommands(ask);
  if (missing.length === 0) return;
  const old = missing.length < NATIVE_COMMANDS.length;
  const is = old ? 'on the server is older than this client' : 'is not loaded';
  const mend = old
    ? 'build the one of this version (emq build-module) and restart the server with it'
    : 'load it (was --loadmodule lost in a restart?)';
  throw new EmqError(
    'EMQWIRE',
    `EMQWIRE the module trafikey ${is} (no ${missing.join(', ')}), needs ${BRANDS[6]}: ${mend}, or connect with wire: 4 to a node of that wire`,
  );
}

/**
 * Not a transition of the table: it is about a node, or a queue whose fence the caller could not pass. The TTL stays, since
 * only the brand may change; two brands are equally long, so a full server takes it.
 */
const MOVE = `#!lua flags=allow-oom
local found = redis.call('GET', KEYS[1])
if found == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL') end
return found`;

/**
 * Moves the brand under `key` from one wire to the other, in one step, and only if it is that of `from`.
 * @returns the brand that was found: that of `from`, then it has been moved; anything else (null: absent) is as it was.
 * @throws EmqError the server's own: `READONLY` of a replica, `NOPERM`, `WRONGTYPE` ...; then nothing was written.
 */
export async function moveBrand(ask: Ask, key: string, from: Wire, to: Wire): Promise<string | null> {
  return text(await ask('EVAL', [MOVE, '1', key, BRANDS[from], BRANDS[to]]));
}

/** The wire that a brand belongs to; undefined for a foreign one. */
export function wireOfBrand(brand: string): Wire | undefined {
  return ([4, 6] as const).find((wire) => BRANDS[wire] === brand);
}

function advice(found: string | null, rules: FenceRules): string {
  if (found === null)
    return rules.claim ? ': its brand went away while it was read' : ', and claim: false does not brand';
  const other = rules.wire === 4 ? 6 : 4;
  if (found !== BRANDS[other]) return '';
  return `: connect with wire: ${other}, or move it (emq wire ${other === 4 ? 'upgrade' : 'downgrade'})`;
}

function text(reply: Reply): string | null {
  return Buffer.isBuffer(reply) ? reply.toString('utf8') : null;
}

/** A brand is whatever a stranger wrote: shown short and without control characters. */
function printable(brand: string): string {
  const short = brand.length > 60 ? `${brand.slice(0, 60)}...` : brand;
  return /^[\x21-\x7e]+$/.test(short) ? short : JSON.stringify(short);
}
