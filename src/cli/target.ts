/**
 * The node that a command is to look at: `--url`, and with which certificates.
 *
 * Invariants: every command that connects takes these options, and from the environment where they are not given; a file
 * that cannot be read is told by its name and never by its content; certificates for a URL without TLS are refused, so that
 * nobody believes to be encrypted who is not. Does not: connect.
 */
import { readFileSync } from 'node:fs';

import { Option, type Command } from 'commander';

import { readUrl } from '../wire/connector-url.js';
import { inputError } from '../wire/errors.js';

/** Options of a Connector: the URL, and what that cannot say. */
export interface Target {
  readonly url: string;
  /** Certificates, for a URL with TLS. */
  readonly redis?: { readonly tls: Certificates };
}

/** PEM texts: whom to believe, and what to show. */
export interface Certificates {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

/** The options as commander gives them. */
export interface TlsOptions {
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

/** The options as commander gives them. */
export interface TargetOptions extends TlsOptions {
  readonly url?: string;
}

/** Adds `--url` and the certificates to a command. @param what stands behind `--url` in its help. */
export function addTarget(command: Command, what: string): Command {
  return addTls(command.addOption(new Option('--url <url>', what).env('EMQ_URL')));
}

/** Adds the certificates only: for a command that names its nodes in another way. */
export function addTls(command: Command): Command {
  return command
    .addOption(new Option('--tls-ca <file>', 'certificates (PEM) of who vouches for the node').env('EMQ_TLS_CA'))
    .addOption(new Option('--tls-cert <file>', 'the client certificate (PEM) to show').env('EMQ_TLS_CERT'))
    .addOption(new Option('--tls-key <file>', 'its key (PEM)').env('EMQ_TLS_KEY'));
}

/** @throws EmqError `EMQ_INPUT` without a URL, or for files that do not go with it or cannot be read. */
export function readTarget(options: TargetOptions): Target {
  const { url } = options;
  // not left to commander, which would ask for it before it tells of a misspelt option
  if (url === undefined || url === '') throw inputError('name the node: --url valkey://host:port, or set EMQ_URL');
  return targetAt(url, options);
}

/** For a command of two nodes, only one of which may have TLS: the certificates go to the one that has. */
export function targetOfPair(url: string, options: TlsOptions): Target {
  return readUrl(url).tls === undefined ? { url } : targetAt(url, options);
}

/** The same for a URL from elsewhere. @throws EmqError `EMQ_INPUT` */
function targetAt(url: string, { tlsCa, tlsCert, tlsKey }: TlsOptions): Target {
  const files = { ca: tlsCa, cert: tlsCert, key: tlsKey };
  const given = Object.entries(files).filter(([, file]) => file !== undefined && file !== '');
  if (given.length === 0) return { url };
  if (readUrl(url).tls === undefined) {
    throw inputError(
      'certificates are given (--tls-..., EMQ_TLS_...), but the url is one without TLS: write valkeys://',
    );
  }
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw inputError('a client certificate is two files: give both --tls-cert and --tls-key');
  }
  return { url, redis: { tls: Object.fromEntries(given.map(([name, file]) => [name, readPem(name, file ?? '')])) } };
}

function readPem(name: string, file: string): Buffer {
  let pem: Buffer;
  try {
    pem = readFileSync(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw inputError(`--tls-${name}: ${JSON.stringify(file)} cannot be read (${code ?? 'unknown'})`);
  }
  // what is no PEM would be refused by the TLS library with words that help nobody
  if (pem.includes('-----BEGIN ')) return pem;
  throw inputError(`--tls-${name}: ${JSON.stringify(file)} is no PEM file: it has no line -----BEGIN ...-----`);
}
