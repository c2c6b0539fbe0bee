/**
 * Certificates for a test, made by openssl in a folder of their own: two authorities, a server's, clients' of either, and one
 * that has run out.
 *
 * Invariants: the keys are worth nothing, and are gone with `remove`.
 */
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const CURVE = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** A certificate and its key: PEM texts, and the files that they are in. */
export interface Pair {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly certFile: string;
  readonly keyFile: string;
}

export class Certificates {
  private constructor(readonly dir: string) {}

  static async make(): Promise<Certificates> {
    return new Certificates(await mkdtemp(join(tmpdir(), 'emq-tls-')));
  }

  /** An authority of that name. */
  async authority(name: string): Promise<Pair> {
    openssl('req', '-x509', ...CURVE, '-days', '2', ...this.#out(name), '-subj', `/CN=${name}`);
    return this.#read(name);
  }

  /** A certificate that an authority gave, for `localhost` and 127.0.0.1. @param days -1: it ran out yesterday */
  async issue(name: string, by: Pair, days = 2): Promise<Pair> {
    const [request, extensions] = [this.#file(name, 'csr'), this.#file(name, 'ext')];
    await writeFile(extensions, 'subjectAltName=DNS:localhost,IP:127.0.0.1\n');
    openssl('req', '-new', ...CURVE, '-keyout', this.#file(name, 'key'), '-out', request, '-subj', `/CN=${name}`);
    const sign = ['x509', '-req', '-in', request, '-CA', by.certFile, '-CAkey', by.keyFile, '-CAcreateserial'];
    openssl(...sign, '-days', String(days), '-extfile', extensions, '-out', this.#file(name, 'crt'));
    return this.#read(name);
  }

  remove(): Promise<void> {
    return rm(this.dir, { recursive: true, force: true });
  }

  #out(name: string): string[] {
    return ['-keyout', this.#file(name, 'key'), '-out', this.#file(name, 'crt')];
  }

  #file(name: string, kind: string): string {
    return join(this.dir, `${name}.${kind}`);
  }

  async #read(name: string): Promise<Pair> {
    const [certFile, keyFile] = [this.#file(name, 'crt'), this.#file(name, 'key')];
    return { cert: await readFile(certFile), key: await readFile(keyFile), certFile, keyFile };
  }
}

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: 'ignore' });
}

/** What a server has to be told to speak TLS on a port, and to want certificates of its clients. */
export function tlsSettings(server: Pair, ca: Pair): string[] {
  const files = [
    '--tls-cert-file',
    server.certFile,
    '--tls-key-file',
    server.keyFile,
    '--tls-ca-cert-file',
    ca.certFile,
  ];
  return [...files, '--tls-auth-clients', 'yes'];
}
