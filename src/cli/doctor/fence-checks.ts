/**
 * The doctor's judgements on brand and module, which are read together: what to do about a missing module depends on
 * the brand, and what an absent brand will become depends on the module.
 *
 * Invariants: pure; no mend contradicts another: wire 4 is offered only where the brand is wire 4's or absent, and on a
 * replica the primary comes first. Does not: send anything.
 */
import type { Wire } from '../../wire/executor.js';
import { BRANDS, NATIVE_COMMANDS, wireOfBrand } from '../../wire/fence.js';
import { quoted } from '../terminal.js';
import type { Facts } from './facts.js';
import { bad, ok, warn, type Finding } from './findings.js';

/** The fields of INFO. */
export type Info = ReadonlyMap<string, string>;

const NO_INFO: Info = new Map();
const LOAD = 'start the server with --loadmodule and the path that emq build-module prints';

/** The wire that the node is meant for: as asked, else by its brand, else 6 where the module is loaded. */
export function intendedWire(facts: Facts, asked: Wire | undefined): Wire {
  if (asked !== undefined) return asked;
  const brand = brandOf(facts);
  return typeof brand === 'number' ? brand : moduleLoaded(facts) ? 6 : 4;
}

/** True where nothing speaks against a wire 4 connector. */
export function mayBeWire4(facts: Facts): boolean {
  const brand = brandOf(facts);
  return brand === 4 || brand === 'absent';
}

/** Where a replica's primary is, as `host:port`. */
export function primaryOf(info: Info): string {
  return `${info.get('master_host') ?? '?'}:${info.get('master_port') ?? '?'}`;
}

/** What the server holds against maxmemory, and maxmemory, in bytes; 0 is no limit. */
export function memoryOf(info: Info): { used: number; limit: number } {
  // buffers for replicas and the append-only file are not held against it
  const used = Number(info.get('used_memory') ?? 0) - Number(info.get('mem_not_counted_for_evict') ?? 0);
  return { used, limit: Number(info.get('maxmemory') ?? 0) };
}

/** True where the server refuses what needs memory, since it may throw nothing away. */
export function isFull(info: Info): boolean {
  const { used, limit } = memoryOf(info);
  return limit > 0 && used >= limit && info.get('maxmemory_policy') === 'noeviction';
}

/** The wire that the brand is of; undefined where it could not be read, or none is there to be read. */
function brandOf({ brand }: Facts): Wire | 'absent' | 'foreign' | undefined {
  if (brand === undefined || 'refused' in brand) return undefined;
  return brand.value === null ? 'absent' : (wireOfBrand(brand.value) ?? 'foreign');
}

function moduleLoaded({ missingCommands }: Facts): boolean {
  return 'value' in missingCommands && missingCommands.value.length === 0;
}

function infoOf({ info }: Facts): Info {
  return 'value' in info ? info.value : NO_INFO;
}

/** What comes before any other mend: a replica cannot be mended by itself. */
function first(facts: Facts): string {
  const info = infoOf(facts);
  return info.get('role') === 'slave' ? `connect to the primary, ${primaryOf(info)}; for this node: ` : '';
}

function upgrade({ cluster }: Facts): string {
  const one = cluster ? ' (--queue moves one queue)' : '';
  return `emq wire upgrade${one} moves it, under load too, and then connect with wire: 6 (docs/upgrade.md)`;
}

export function checkModule(facts: Facts, wire: Wire): Finding[] {
  const { missingCommands, cluster } = facts;
  if ('refused' in missingCommands) {
    const text = 'this user may not run COMMAND INFO, by which a wire 6 connector looks for the module';
    const mend = 'grant +command|info';
    return [wire === 6 ? bad('module', text, mend) : warn('module', text, mend)];
  }
  const brand = brandOf(facts);
  if (missingCommands.value.length === 0) {
    const info = infoOf(facts);
    const version = /name=trafikey,ver=(\d+)/.exec(info.get('module') ?? '')?.[1];
    const runId = info.get('trafikey_run_id');
    const details = [version && `version ${version}`, runId && `run id ${runId}`].filter(Boolean).join(', ');
    const loaded = `trafikey is loaded${details === '' ? '' : `: ${details}`}`;
    if (wire === 4 && brand === 4) {
      const text = `${loaded}; it is not used: the ${cluster ? 'queue' : 'node'} is branded ${BRANDS[4]}`;
      return [warn('module', text, `${first(facts)}${upgrade(facts)}`)];
    }
    return [ok('module', loaded)];
  }
  const count = missingCommands.value.length;
  const some = count < NATIVE_COMMANDS.length ? ` in part (no ${missingCommands.value.join(', ')})` : '';
  if (brand === 6) {
    const text = `the ${cluster ? 'queue' : 'node'} is branded for wire 6 but the module is not loaded${some}`;
    return [bad('module', text, `${first(facts)}${LOAD} (was it lost in a restart?)`)];
  }
  if (wire === 4) return [ok('module', 'trafikey is not loaded; wire 4 needs no module')];
  const or = mayBeWire4(facts) ? '; or connect with wire: 4' : '';
  return [bad('module', `trafikey is not loaded${some}: wire 6 needs it`, `${first(facts)}${LOAD}${or}`)];
}

export function checkBrand(facts: Facts, wire: Wire): Finding[] {
  const { brand, brandKey, cluster } = facts;
  if (brand === undefined || brandKey === undefined) {
    return [ok('brand', 'per queue in a cluster: each queue’s key emq:{queue}:version; none was asked for')];
  }
  const what = cluster ? 'the queue' : 'the node';
  if ('refused' in brand) {
    const { code, reason } = brand.refused;
    if (code === 'MOVED')
      return [
        warn('brand', 'the queue lives on another node of the cluster', `ask that one: ${reason.split(' ').at(-1)}`),
      ];
    if (code === 'NOPERM')
      return [
        bad(
          'brand',
          `this user may not read ${brandKey}: no connector gets past the fence`,
          `grant +get +set and ~${brandKey}`,
        ),
      ];
    const mend =
      code === 'WRONGTYPE' ? `${brandKey} is no string: find out who wrote it` : 'see first to what the server says';
    return [bad('brand', `the brand cannot be read: ${quoted(reason)}`, mend)];
  }
  if (brand.value === null) return [unbranded(facts, wire, what)];
  const own = BRANDS[wire];
  const found = wireOfBrand(brand.value);
  if (found === wire) return [ok('brand', `${what} is branded ${own}, for wire ${wire}`)];
  if (found !== undefined) {
    const loaded = moduleLoaded(facts);
    const also = found === 4 && loaded ? `; or ${upgrade(facts)}` : found === 6 && !loaded ? ', with the module' : '';
    const mend = `${first(facts)}connect with wire: ${found}${also}`;
    return [bad('brand', `${what} is branded ${BRANDS[found]}: wire ${wire} is refused`, mend)];
  }
  const mend = `find out who wrote ${brandKey}: another program, or another version, uses this ${cluster ? 'queue' : 'node'}. Use another node; delete the key only if nobody does`;
  return [bad('brand', `${what} has the foreign brand ${quoted(brand.value, 60)}: every connector is refused`, mend)];
}

/** What becomes of a brand that is absent. */
function unbranded(facts: Facts, wire: Wire, what: string): Finding {
  const info = infoOf(facts);
  const cannot = (why: string, mend: string): Finding =>
    bad('brand', `${what} is unbranded, and no connector can brand it: ${why}`, mend);
  if (info.get('role') === 'slave') return cannot('it is a replica', `connect to the primary, ${primaryOf(info)}`);
  if (isFull(info)) return cannot('its memory is full, it refuses the SET', 'make room first: see memory');
  if (info.get('aof_enabled') === '1' && info.get('aof_last_write_status') === 'err') {
    return cannot('its append-only file fails, it refuses the SET', 'mend that first: see persistence');
  }
  const loaded = moduleLoaded(facts);
  if (wire === 4) {
    const brands = loaded ? 'decides; with wire: 4, the default, it brands it' : 'brands it';
    return ok('brand', `${what} is unbranded: the first connector ${brands} ${BRANDS[4]}`);
  }
  if (loaded) {
    const text = `${what} is unbranded: the first connector decides; this node has the module, so connect with wire: 6 first (the default is wire: 4)`;
    return warn('brand', text, 'Connector.connect({ url, wire: 6 }) brands it, before any other client does');
  }
  const text = `${what} is unbranded, and without the module no wire 6 connector brands it`;
  return warn('brand', text, 'see module first');
}
