/**
 * The files below a folder, and their SHA-256 by two ways of reading.
 *
 * Invariants: links are not followed and only regular files count; a name that is no UTF-8 keeps its bytes; what
 * cannot be read is named, never passed over in silence. Does not: hold more than one piece of a file in memory.
 */
import { createHash } from 'node:crypto';
import { open, opendir, type FileHandle } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';

/** A path as a job carries it, in JSON: text where it is text, else its bytes in base64. */
export type FilePath = { readonly path: string } | { readonly path64: string };

export interface Found {
  readonly files: readonly FilePath[];
  readonly folders: number;
  /** Links, sockets, pipes and devices: not followed, not read. */
  readonly leftOut: number;
  /** Folders that could not be read, with the reason. */
  readonly unreadable: readonly string[];
}

/** A file's hash, in hex, and what tells whether the file was changed since. */
export interface Digest {
  readonly sha256: string;
  readonly size: number;
  readonly stamp: string;
}

const PIECE_BYTES = 1 << 18;
const SLASH = Buffer.from('/');

/**
 * Walks the folder, in the order in which the system gives its entries. Rejects when the folder itself cannot be
 * read.
 */
export async function findFiles(folder: string): Promise<Found> {
  const files: FilePath[] = [];
  const unreadable: string[] = [];
  const queue: Buffer[] = [Buffer.from(folder)];
  let leftOut = 0;
  let folders = 0;
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const parent = next;
    try {
      // names as bytes: the types of opendir do not know that encoding
      const entries = await opendir(parent, { encoding: 'buffer' as BufferEncoding });
      for await (const entry of entries) {
        const path = Buffer.concat([parent, SLASH, entry.name as unknown as Buffer]);
        if (entry.isDirectory()) queue.push(path);
        else if (entry.isFile()) files.push(toPath(path));
        else leftOut += 1;
      }
      folders += 1;
    } catch (error) {
      if (folders === 0) throw error;
      unreadable.push(`${showPath(toPath(parent))}: ${reasonOf(error)}`);
    }
  }
  return { files, folders, leftOut, unreadable };
}

function toPath(bytes: Buffer): FilePath {
  const path = bytes.toString('utf8');
  return Buffer.from(path).equals(bytes) ? { path } : { path64: bytes.toString('base64') };
}

function bytesOfPath(file: FilePath): Buffer {
  return 'path' in file ? Buffer.from(file.path) : Buffer.from(file.path64, 'base64');
}

/** A path for a person, on one line. */
export function showPath(file: FilePath): string {
  const text = 'path' in file ? file.path : bytesOfPath(file).toString('latin1');
  return /^[^\p{C}]*$/u.test(text) && 'path' in file ? text : JSON.stringify(text);
}

/** What a system error says, without the path, which is named anyway. */
export function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

/** The handler's way: a stream into the hash. Rejects with the system's error. */
export function hashByStream(file: FilePath): Promise<Digest> {
  return digest(file, async (handle, hash) => {
    await pipeline(handle.createReadStream({ autoClose: false, start: 0 }), hash);
  });
}

/** The direct way, to check the other one by: read after read into the hash. Rejects with the system's error. */
export function hashDirectly(file: FilePath): Promise<Digest> {
  return digest(file, async (handle, hash) => {
    const piece = Buffer.allocUnsafe(PIECE_BYTES);
    for (let at = 0; ;) {
      const { bytesRead } = await handle.read(piece, 0, PIECE_BYTES, at);
      if (bytesRead === 0) break;
      hash.update(piece.subarray(0, bytesRead));
      at += bytesRead;
    }
  });
}

async function digest(
  file: FilePath,
  feed: (handle: FileHandle, hash: ReturnType<typeof createHash>) => Promise<void>,
): Promise<Digest> {
  const handle = await open(bytesOfPath(file), 'r');
  try {
    const { size, mtimeNs, ino } = await handle.stat({ bigint: true });
    const hash = createHash('sha256');
    await feed(handle, hash);
    return { sha256: hash.digest('hex'), size: Number(size), stamp: `${ino} ${size} ${mtimeNs}` };
  } finally {
    await handle.close();
  }
}
