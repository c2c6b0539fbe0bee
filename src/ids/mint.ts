/**
 * Minting of branded ids (wire contract, section 1).
 *
 * One cell holds the last mint as `ms << 12 | sequence`; a mint moves it to the greater of the clock's part and the
 * last plus one. Hence: strictly increasing, never waits, and
 *   - a ms that the clock newly reaches starts at a random sequence below 1024, so that two producers who share a node id
 *     hardly ever meet;
 *   - more mints in a ms than the sequence has room for borrow from the next ms (the ids run ahead of the clock);
 *   - a clock that steps back is outwaited by counting on from the last id.
 * Invariants: the cell fits a Number exactly (41 + 12 bits), and the 63-bit value is only ever held in two exact halves,
 * so that a mint costs no bigint. Every minter on the real clock shares the process's one cell: two of them never give
 * the same id, whatever their node ids.
 * Does not: keep anything across restarts, or hear of the node ids of others.
 */
import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import { threadId } from 'node:worker_threads';
import { inputError, show } from '../wire/errors.js';
import { EPOCH_MS, NODE_MAX, spell } from './brand.js';

const SEQUENCES = 4096;
const FRESH_BELOW = 1024;
const CELL_MAX = Number.MAX_SAFE_INTEGER;
/** 62^6 = 2^6 * 31^6, so a snowflake is divided by 62^6 by dividing all but its low 6 bits by this. */
const DIVISOR = 31 ** 6;

/** The last `ms << 12 | sequence` given, or -1. */
interface Cell {
  last: number;
}

const processCell: Cell = { last: -1 };

export interface MinterOptions {
  /** Node id, 0 to 1023: give each producer its own. Default: derived, see `Minter.nodeSource`. */
  readonly node?: number | undefined;
  /** The clock, Unix ms. Default `Date.now`. A minter with a clock of its own has a cell of its own too. */
  readonly clock?: (() => number) | undefined;
}

/** Mints ids that strictly increase. One for a process is enough: see `defaultMinter`. */
export class Minter {
  /** The node id in every id of this minter, 0 to 1023. */
  readonly node: number;
  /** `option`: given by the caller. `derived`: from the host's name, the pid, the thread and the time of its start. */
  readonly nodeSource: 'option' | 'derived';
  readonly #clock: () => number;
  readonly #cell: Cell;
  /** The node id at its place in the snowflake. */
  readonly #nodeBits: number;

  /** @throws EmqError `EMQ_INPUT` for a node id that is not a whole number of 0 to 1023. */
  constructor(options: MinterOptions = {}) {
    const { node, clock } = readOptions(options);
    if (node !== undefined && !(Number.isInteger(node) && node >= 0 && node <= NODE_MAX)) {
      throw inputError(`node id ${show(node)} must be a whole number of 0 to ${NODE_MAX}`);
    }
    this.node = node ?? derivedNode();
    this.nodeSource = node === undefined ? 'derived' : 'option';
    this.#clock = clock ?? Date.now;
    this.#cell = clock === undefined ? processCell : { last: -1 };
    this.#nodeBits = this.node * SEQUENCES;
  }

  /**
   * The next id: greater, byte by byte, than every id of the same namespace that this minter gave before.
   * @param namespace 3 letters A-Z: `JOB` for jobs, `EVT` for stream records.
   * @throws EmqError `EMQ_INPUT` for another namespace, or where the clock stands outside the range of ids (2024 to 2093).
   */
  mint(namespace = 'JOB'): string {
    const cell = this.#cell;
    const now = Math.floor(this.#clock()) - EPOCH_MS;
    let next = cell.last + 1;
    if (now > Math.floor(cell.last / SEQUENCES)) next = now * SEQUENCES + Math.floor(Math.random() * FRESH_BELOW);
    // A first mint needs a clock that ids can express; later ones count on from the last whatever it says.
    if (next > CELL_MAX || (cell.last < 0 && !(now >= 0))) {
      throw inputError('the clock of this machine is outside the range of ids, 2024-01-01 to 2093-09-06: set it right');
    }
    const ms = Math.floor(next / SEQUENCES);
    const tail = this.#nodeBits + (next - ms * SEQUENCES);
    // Long division of ms * 2^22 + tail by 62^6; no step leaves the exact integers.
    const first = Math.floor(ms / DIVISOR);
    const rest = (ms - first * DIVISOR) * 65_536 + (tail >>> 6);
    const second = Math.floor(rest / DIVISOR);
    const id = spell(namespace, first * 65_536 + second, (rest - second * DIVISOR) * 64 + (tail & 63));
    cell.last = next;
    return id;
  }
}

/** Each read once. */
function readOptions(options: MinterOptions): MinterOptions {
  if (typeof options !== 'object' || (options as unknown) === null) {
    throw inputError(`the options of a Minter must be an object, got ${show(options)}`);
  }
  let read: MinterOptions;
  try {
    read = { node: options.node, clock: options.clock };
  } catch {
    throw inputError('the options of a Minter cannot be read: one of them throws');
  }
  if (read.clock === undefined || typeof read.clock === 'function') return read;
  throw inputError(`clock must be a function that gives Unix ms, got ${show(read.clock)}`);
}

/**
 * For producers that nobody numbers: another process, or thread, differs in one of the four, so it most likely gets another
 * node id. With 1024 values two of many will share one; the random start of each ms is for that case.
 */
function derivedNode(): number {
  const origin = `${hostname()}\0${process.pid}\0${threadId}\0${performance.timeOrigin}`;
  return createHash('sha256').update(origin).digest().readUInt16BE(0) & NODE_MAX;
}

/** The process's own minter, on the real clock, its node id derived. */
export const defaultMinter: Minter = new Minter();

/** An id of the default minter. @see Minter.mint */
export function mint(namespace = 'JOB'): string {
  return defaultMinter.mint(namespace);
}
