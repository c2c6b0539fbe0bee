/**
 * `emq acl`: a user of the server with the fewest rights for its work, as a command to be run, or made at once.
 *
 * Invariants: a password is never an argument, which every user of the machine can read in the list of processes, and is
 * never shown: it comes from standard input, or as its SHA-256. What the user had before is taken away, but for its
 * passwords where none is given. Does not: choose a password, or delete a user.
 */
import { createHash } from 'node:crypto';

import { Option, type Command } from 'commander';

import { inputError } from '../wire/errors.js';
import type { Wire } from '../wire/executor.js';
import { applyRules } from './acl/apply.js';
import { checkUser, FROM_NOTHING, ROLES, rulesOf, type Role } from './acl/roles.js';
import { EXIT, scrub } from './exit.js';
import { confirm, type Consent } from './operate/confirm.js';
import { consentOptions } from './operate/operation.js';
import { addCommand, type Run } from './program.js';
import { addTarget, readTarget, type TargetOptions } from './target.js';

interface AclOptions extends TargetOptions, Consent {
  readonly user?: string;
  readonly role: readonly string[];
  readonly queue: readonly string[];
  readonly prefix: readonly string[];
  readonly wire: string;
  readonly cluster?: true;
  readonly flows?: true;
  readonly durable?: true;
  readonly mayBrand?: true;
  readonly passwordStdin?: true;
  readonly passwordHash?: string;
  readonly apply?: true;
}

const EXAMPLES = `
  producer   adds jobs, flat, to lanes and with dedup ids; with --flows flows too, with --durable confirmed ones
  consumer   claims, settles and recovers jobs, fires repeats, delivers letters; sets nothing for lanes, ends no queue
  operator   looks and controls, and moves the node to the other wire; claims nothing
  observer   only looks: it has not one command that writes
All stay within the queues that are named. Rights are given by command and key: docs/security.md says what that cannot tell apart.
Several roles are given as --role consumer --role producer.

Without a password the user keeps those it has; a new one cannot log in until it has one. Nothing of this reaches replicas or
other nodes by itself: --apply goes to the node of --url, in a cluster to all of its nodes, and ACL SAVE or CONFIG REWRITE keeps it.

Examples:
  emq acl --role producer --queue mail --queue orders --user shop
  emq acl --role consumer --prefix orders- --user worker --wire 6 --password-stdin < secret
  EMQ_URL=valkey://admin:secret@10.0.0.1 emq acl --role observer --queue mail --user grafana --apply --yes`;

const SHA256 = /^[0-9a-f]{64}$/;
const LONGEST_PASSWORD = 1_024;

export function addAcl(program: Command, run: Run): void {
  const add = (one: string, all: readonly string[]): string[] => [...all, one];
  const command = addCommand(program, 'acl', 'make a user with the fewest rights for its work', EXAMPLES)
    .option('--user <name>', 'the user; it must be given')
    .addOption(
      new Option('--role <role>', `${ROLES.join(', ')}; again for another`)
        .argParser(add)
        .default([], 'none: it must be given'),
    )
    .option('--queue <name>', 'a queue; again for another', add, [])
    .option('--prefix <text>', 'all queues whose names begin so; again for another', add, [])
    .addOption(new Option('--wire <n>', 'the wire of its clients').choices(['4', '6']).default('4'))
    .option('--cluster', 'for a cluster, where each queue has a brand of its own')
    .option('--flows', 'a producer adds flows too')
    .option('--durable', 'a producer has its jobs confirmed by replicas or on disk (the server must know WAITAOF: 7.2)')
    .option('--may-brand', 'the user may brand a node (in a cluster, a queue) that has no brand yet')
    .option('--password-stdin', 'its only password is the first line of standard input')
    .option('--password-hash <sha256>', 'its only password is the one with this SHA-256, 64 hex digits')
    .option('--apply', 'make it so on the node of --url, and show no command');
  consentOptions(addTarget(command, 'with --apply: the node, or one of a cluster')).action(
    run(async (options: AclOptions, terminal) => {
      const { role, cluster = false, apply = false } = options;
      if (options.user === undefined) throw inputError('name the user: --user NAME');
      const user = checkUser(scrub(options.user));
      const asked = {
        ...{ roles: readRoles(role), wire: Number(options.wire) as Wire, cluster },
        ...{ queues: options.queue.map(scrub), prefixes: options.prefix.map(scrub) },
        ...{ flows: options.flows ?? false, durable: options.durable ?? false, mayBrand: options.mayBrand ?? false },
      };
      const rules = rulesOf(asked);
      if (!apply && (options.yes || options.dryRun)) throw inputError('--yes and --dry-run belong to --apply');
      const target = apply ? readTarget(options) : undefined;
      const password = await readPassword(options);
      const all = [...FROM_NOTHING, ...password, ...rules];
      const shown = {
        user,
        roles: asked.roles,
        queues: asked.queues,
        prefixes: asked.prefixes,
        wire: asked.wire,
        cluster,
      };
      if (target === undefined) {
        terminal.emit({ ...shown, command: ['ACL', 'SETUSER', user, ...FROM_NOTHING, ...rules], rules });
        terminal.print(['ACL', 'SETUSER', user, ...all].map(shellWord).join(' '));
        return EXIT.ok;
      }
      const text = `gives user ${user} the rights of ${asked.roles.join(' and ')}, and takes away all others`;
      const nodes: string[] = [];
      if (await confirm(terminal, { text }, options)) {
        await applyRules(target, user, all, terminal.signal, (where) => {
          nodes.push(where);
          terminal.print(`${where}: user ${user} has the rights`);
        });
        terminal.note('it is gone with a restart unless the server keeps it: ACL SAVE, or CONFIG REWRITE');
      }
      terminal.emit({ ...shown, rules, applied: nodes, dryRun: options.dryRun === true });
      return EXIT.ok;
    }),
  );
}

function readRoles(given: readonly string[]): Role[] {
  if (given.length === 0) throw inputError(`say what the user is for: --role ${ROLES.join(', ')}`);
  return given.map((word) => {
    const role = ROLES.find((one) => one === word);
    if (role === undefined) throw inputError(`a role is one of ${ROLES.join(', ')}`);
    return role;
  });
}

/** The rules that set it; none where it stays as it is. */
async function readPassword({ passwordStdin, passwordHash }: AclOptions): Promise<string[]> {
  if (passwordStdin && passwordHash !== undefined)
    throw inputError('give --password-stdin or --password-hash, not both');
  if (passwordHash !== undefined) {
    // what is given by mistake may be the password itself: it is not repeated
    if (!SHA256.test(passwordHash)) throw inputError('--password-hash is a SHA-256: 64 of 0-9 a-f');
    return ['resetpass', `#${passwordHash}`];
  }
  if (!passwordStdin) return [];
  const password = await firstLine();
  if (password === '') throw inputError('--password-stdin: the first line of standard input is empty');
  return ['resetpass', `#${createHash('sha256').update(password).digest('hex')}`];
}

async function firstLine(): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(Buffer.from(chunk));
    length += chunk.length;
    if (chunk.includes('\n')) break;
    if (length > LONGEST_PASSWORD) throw inputError(`--password-stdin: no line of ${LONGEST_PASSWORD} bytes or less`);
  }
  return /^[^\r\n]*/.exec(Buffer.concat(chunks).toString('utf8'))?.[0] ?? '';
}

/** As a shell and valkey-cli both read it. */
function shellWord(word: string): string {
  return /^[\w@.:+-]+$/.test(word) ? word : `'${word}'`;
}
