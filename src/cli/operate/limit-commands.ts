/**
 * `emq pause`, `emq resume` and `emq limits`: what is claimed, how much at once, and how fast.
 *
 * Invariants: what is set holds for the next claim, on all processes; `emq limits` without a value to set is read-only.
 */
import type { Command } from 'commander';

import { Lanes } from '../../queue/lanes.js';
import { inputError } from '../../wire/errors.js';
import { checkGroup, checkRepeatName } from '../../wire/keyspace.js';
import { CliError, EXIT, scrub, type ExitCode } from '../exit.js';
import type { Run } from '../program.js';
import { runsOn } from './history.js';
import { demandKnown, demandLane, hintUnknown } from './known.js';
import { nameOfLane, readSettings, settingsText } from './lane-settings.js';
import { addOperation, type Work } from './operation.js';
import { adminOf, type Session } from './session.js';
import { numberOrNone, rateOrNone, rateText, setting, span, type None, type RateWords } from './words.js';

interface PauseOptions {
  readonly lane?: string;
  readonly repeat?: string;
  readonly yes?: true;
}

interface LimitsOptions {
  readonly lane?: string;
  readonly concurrency?: number | None;
  readonly rate?: RateWords | None;
  readonly limit?: number | None;
  readonly weight?: number | None;
  readonly yes?: true;
}

const UNKNOWN = 'also for a queue or lane of which nothing is known yet';

export function addLimitCommands(program: Command, run: Run): void {
  for (const verb of ['pause', 'resume'] as const) addSwitch(program, run, verb);
  addOperation<LimitsOptions>(program, run, {
    usage: 'limits <queue>',
    about: 'show or set how many jobs of a queue or lane may run at once, and how fast',
    examples: `
Without a value to set it shows what holds. A lane's own settings win over those of --lane '*', which hold for every lane
without; those of the queue hold for all its jobs together. Tokens of a rate that were spent stay spent.

Examples:
  emq limits mail --url valkey://127.0.0.1:6379
  emq limits mail --concurrency 50 --rate 100/1s
  emq limits mail --lane TEN0KHTOWnGLuC --limit 2 --weight 3
  emq limits mail --lane '*' --rate none`,
    options: (command) =>
      command
        .option('--lane <group>', "one lane, or '*' for every lane without settings of its own")
        .option('--concurrency <n>', 'jobs of the queue in flight at once, or none', numberOrNone)
        .option('--rate <rate>', 'so many in so many ms (100/1000, 100/1s, 5/10m), or none', rateOrNone)
        .option('--limit <n>', 'with --lane: jobs of the lane in flight at once, or none', numberOrNone)
        .option('--weight <n>', 'with --lane: how many jobs it gives in its turn, or none', numberOrNone)
        .option('--yes', 'also for a queue of which nothing is known yet'),
    check: (_words, { lane, concurrency, limit, weight }) => {
      if (lane !== undefined && lane !== '*') checkGroup(scrub(lane));
      if (lane !== undefined && concurrency !== undefined) {
        throw inputError('--concurrency is of the queue: a lane has --limit');
      }
      if (lane === undefined && (limit !== undefined || weight !== undefined)) {
        throw inputError("--limit and --weight are of lanes: name one with --lane, or all with --lane '*'");
      }
    },
    act: async (queue, work) => limits(queue, work),
  });
}

function addSwitch(program: Command, run: Run, verb: 'pause' | 'resume'): void {
  const pausing = verb === 'pause';
  addOperation<PauseOptions>(program, run, {
    usage: `${verb} <queue>`,
    about: pausing
      ? 'let no job of a queue, a lane or a repeat be claimed or made'
      : 'let a queue, a lane or a repeat go on',
    examples: `
${pausing ? 'Jobs in flight go on to their end, new ones are taken in and wait.' : 'A repeat goes on at its next slot: what passed meanwhile is not caught up.'}

Examples:
  emq ${verb} mail --url valkey://127.0.0.1:6379
  emq ${verb} mail --lane TEN0KHTOWnGLuC
  emq ${verb} mail --repeat nightly`,
    options: (command) =>
      command
        .option('--lane <group>', 'this lane only')
        .option('--repeat <name>', 'this repeat only')
        .option('--yes', UNKNOWN),
    check: (_words, { lane, repeat }) => {
      if (lane !== undefined && repeat !== undefined) throw inputError('give --lane or --repeat, not both');
      if (lane !== undefined) checkGroup(scrub(lane));
      if (repeat !== undefined) checkRepeatName(scrub(repeat));
    },
    act: async (queue, { session, options, terminal }) => {
      const { lane, repeat, yes } = options;
      if (repeat === undefined) await demandKnown(session, queue, yes);
      if (lane !== undefined) await demandLane(session, queue, lane, yes);
      const outcome = await turn(session, queue, verb, options);
      const what = lane !== undefined ? `lane ${lane} of ` : repeat !== undefined ? `repeat ${repeat} of ` : '';
      if (outcome === 'gone') {
        const text = `queue ${queue} on ${session.where} has no repeat ${repeat ?? ''}: emq repeats ${queue} lists them`;
        throw new CliError(EXIT.notInOrder, 'EMQSTATE', text);
      }
      terminal.emit({ where: session.where, queue, lane: lane ?? null, repeat: repeat ?? null, outcome });
      terminal.print(`${what}queue ${queue}: ${outcome}`);
      return EXIT.ok;
    },
  });
}

async function turn(
  session: Session,
  queue: string,
  verb: 'pause' | 'resume',
  { lane, repeat }: PauseOptions,
): Promise<string> {
  if (lane !== undefined) return new Lanes(session.runner, queue)[verb](lane);
  const admin = adminOf(session, queue);
  if (repeat !== undefined) return admin.repeats[verb](repeat);
  await admin[verb]();
  return `${verb}d`;
}

async function limits(queue: string, work: Work<LimitsOptions>): Promise<ExitCode> {
  const { session, options, terminal } = work;
  const { lane, yes } = options;
  const [concurrency, limit, weight] = [options.concurrency, options.limit, options.weight].map(setting);
  const rate = setting(options.rate);
  const given = [concurrency, rate, limit, weight].some((value) => value !== undefined);
  if (given) await demandKnown(session, queue, yes);
  else await hintUnknown(queue, { session, terminal });
  if (lane === undefined) {
    const admin = adminOf(session, queue);
    if (given) {
      await admin.setLimits({
        ...(concurrency === undefined ? {} : { concurrency }),
        ...(rate === undefined ? {} : { rate }),
      });
    }
    return showQueue(queue, await admin.limits(), given, work);
  }
  const lanes = new Lanes(session.runner, queue);
  if (limit !== undefined) await lanes.setLimit(lane, limit);
  if (weight !== undefined) await lanes.setWeight(lane, weight);
  if (rate !== undefined) await lanes.setRate(lane, rate);
  return showLane(queue, lane, given, work);
}

function showQueue(
  queue: string,
  found: Awaited<ReturnType<ReturnType<typeof adminOf>['limits']>>,
  changed: boolean,
  { session, terminal }: Work<LimitsOptions>,
): ExitCode {
  terminal.emit({ where: session.where, queue, lane: null, changed, limits: found });
  const token = found.nextTokenMs > 0 ? `, the next job in ${span(found.nextTokenMs)}` : '';
  const ceiling = found.concurrency ?? 'none';
  terminal.print(`queue ${queue}: concurrency ${ceiling}, rate ${rateText(found.rate)}${token}`);
  return EXIT.ok;
}

async function showLane(
  queue: string,
  lane: string,
  changed: boolean,
  { session, terminal }: Work<LimitsOptions>,
): Promise<ExitCode> {
  const found = await readSettings(runsOn(session, queue), lane);
  terminal.emit({ where: session.where, queue, lane, changed, limits: found });
  const token = found.nextTokenMs > 0 ? `, its next job in ${span(found.nextTokenMs)}` : '';
  terminal.print(`${nameOfLane(queue, lane)}: ${settingsText(found)}${token}`);
  return EXIT.ok;
}
