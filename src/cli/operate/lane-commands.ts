/**
 * `emq lanes`, `emq repeats`, `emq move` and `emq dedup`: what a queue has besides its jobs.
 *
 * Invariants: read-only but for `emq move` and `emq dedup --free`, which asks first.
 */
import type { Command } from 'commander';

import { Jobs } from '../../queue/jobs.js';
import { Lanes, type LaneState } from '../../queue/lanes.js';
import type { RepeatInfo } from '../../queue/repeats.js';
import { checkDedupId, checkGroup, checkId } from '../../wire/keyspace.js';
import { inputError } from '../../wire/errors.js';
import { EXIT, scrub } from '../exit.js';
import type { Run } from '../program.js';
import { word } from '../terminal.js';
import { confirm } from './confirm.js';
import { runsOn } from './history.js';
import { hintUnknown } from './known.js';
import { areSet, nameOfLane, readSettings, settingsText } from './lane-settings.js';
import { addOperation, consentOptions, type Consent } from './operation.js';
import { noJob } from './read-commands.js';
import { adminOf } from './session.js';
import { rateText, span, table, time } from './words.js';

export function addLaneCommands(program: Command, run: Run): void {
  addOperation<{ all?: true }>(program, run, {
    usage: 'lanes <queue>',
    about: 'list the lanes of a queue: what waits, what runs, what holds them up',
    examples: `
A lane is ready, empty, paused, at its limit, or waits for its rate or a back-off. Shown are the settings that hold for it, its
own or those of '*', which are told of behind the lanes; in JSON they are "others".

Examples:
  emq lanes mail --url valkey://127.0.0.1:6379
  emq lanes mail --json | jq -r '.lanes[] | select(.state == "paused").group'`,
    options: (command) => command.option('--all', 'also lanes without jobs that have settings of their own'),
    act: async (queue, { session, options, terminal }) => {
      const found: LaneState[] = [];
      for await (const lane of adminOf(session, queue).lanes({ configured: options.all === true })) found.push(lane);
      found.sort((a, b) => (a.group < b.group ? -1 : 1));
      const { nextTokenMs: _no, ...others } = await readSettings(runsOn(session, queue), '*');
      terminal.emit({ where: session.where, queue, lanes: found, others });
      terminal.print(found.length === 0 ? `queue ${queue} has no lanes` : drawLanes(found).join('\n'));
      if (areSet(others)) terminal.print(`${nameOfLane(queue, '*')}: ${settingsText(others)}`);
      else if (found.length === 0) await hintUnknown(queue, { session, terminal });
      return EXIT.ok;
    },
  });
  addOperation<object>(program, run, {
    usage: 'repeats <queue>',
    about: 'list the repeats of a queue: what they run by, and when next',
    examples: `
Repeats fire for as long as any consumer of the queue runs.

Examples:
  emq repeats mail --url valkey://127.0.0.1:6379
  emq pause mail --repeat nightly`,
    act: async (queue, { session, terminal }) => {
      const found: RepeatInfo[] = [];
      for await (const one of adminOf(session, queue).repeats.list()) found.push(one);
      terminal.emit({ where: session.where, queue, repeats: found.map(repeatJson) });
      terminal.print(found.length === 0 ? `queue ${queue} has no repeats` : drawRepeats(found).join('\n'));
      if (found.length === 0) await hintUnknown(queue, { session, terminal });
      return EXIT.ok;
    },
  });
  addOperation<{ lane?: string }>(program, run, {
    usage: 'move <queue> <id>',
    about: 'move a job that waits in its lane to another lane',
    examples: `
It gets the place there that its priority and age give it.

Examples:
  emq move mail JOB0KHTOWnGLuC --lane TEN0KHTOWnGLuC --url valkey://127.0.0.1:6379`,
    options: (command) => command.option('--lane <group>', 'the lane to move it to; it must be given'),
    check: ([id = ''], { lane }) => {
      checkId(id);
      if (lane === undefined) throw inputError('name the lane to move it to: --lane GROUP');
      checkGroup(scrub(lane));
    },
    act: async (queue, { session, words: [id = ''], options: { lane = '' }, terminal }) => {
      const outcome = await new Lanes(session.runner, queue).reassign(id, lane);
      if (outcome === 'not found' && (await adminOf(session, queue).job(id)) === null) {
        throw noJob(session.where, queue, id);
      }
      terminal.emit({ where: session.where, queue, id, lane, outcome });
      const texts = {
        reassigned: `${id} waits in lane ${lane} now`,
        noop: `${id} is in lane ${lane} already`,
        'not found': `${id} is in no lane: only a job of a lane can be moved`,
        'not pending': `${id} does not wait: only a job that waits in its lane can be moved`,
      } as const;
      terminal.print(texts[outcome]);
      return outcome === 'reassigned' || outcome === 'noop' ? EXIT.ok : EXIT.notInOrder;
    },
  });
  addOperation<Consent & { free?: true }>(program, run, {
    usage: 'dedup <queue> <dedup-id>',
    about: 'show which job holds a dedup id, and free it',
    examples: `
Once it is free the next job with this dedup id is taken in, whatever became of the one that held it.

Examples:
  emq dedup mail welcome-42 --url valkey://127.0.0.1:6379
  emq dedup mail welcome-42 --free`,
    options: (command) => consentOptions(command.option('--free', 'free it; the job that holds it stays')),
    check: ([dedupId = ''], { free, yes, dryRun }) => {
      checkDedupId(dedupId);
      if (!free && (yes || dryRun)) throw inputError('--yes and --dry-run go with --free');
    },
    act: async (queue, { session, words: [dedupId = ''], options, terminal }) => {
      const controls = new Jobs(session.runner, queue);
      const owner = await controls.dedupOwner(dedupId);
      const ttlMs = owner?.ttlMs ?? null;
      const json = { where: session.where, queue, dedupId, owner: owner?.id ?? null, ttlMs };
      const until = ttlMs === null ? 'until it is done' : `for ${span(ttlMs)} at most`;
      const held = owner === null ? `nobody holds ${dedupId}` : `${word(owner.id)} holds ${dedupId} ${until}`;
      if (!options.free || owner === null) {
        terminal.emit({ ...json, freed: false });
        terminal.print(held);
        return EXIT.ok;
      }
      const text = `${held}; freed, another job with it is taken in beside that one`;
      const freed = (await confirm(terminal, { text }, options)) && (await controls.freeDedup(dedupId)) === 'freed';
      terminal.emit({ ...json, freed, dryRun: options.dryRun === true });
      if (!options.dryRun) terminal.print(`${dedupId} is free`);
      return EXIT.ok;
    },
  });
}

function drawLanes(lanes: readonly LaneState[]): string[] {
  const now = Date.now();
  const rows = lanes.map(({ group, waiting, active, limit, weight, rate, state, waitsUntil }) => {
    const until = waitsUntil === null ? '' : ` ${span(Math.max(0, waitsUntil - now))}`;
    return [word(group), waiting, active, limit ?? 'none', weight, rateText(rate), `${state}${until}`];
  });
  return table(['lane', 'waiting', 'active', 'limit', 'weight', 'rate', 'state'], rows);
}

function repeatJson(repeat: RepeatInfo): object {
  const { name, next, paused, count, last, spec, specText, priority, group, opts, bytes } = repeat;
  const more = { priority, lane: group ?? null, opts, payloadBytes: bytes.length };
  return { name, next, paused, count, last, spec: spec ?? null, specText, ...more };
}

function drawRepeats(found: readonly RepeatInfo[]): string[] {
  const now = Date.now();
  const rows = found.map(({ name, next, paused, count, last, spec, specText, group }) => {
    const due = next === null ? 'over' : next < now ? `overdue ${span(now - next)}` : `in ${span(next - now)}`;
    return [
      word(name),
      spec === undefined
        ? word(specText, 60)
        : spec.everyMs !== undefined
          ? `every ${span(spec.everyMs)}`
          : `${spec.cron ?? ''} ${spec.timeZone ?? ''}`,
      paused ? 'paused' : due,
      count,
      last === null ? 'never' : time(last),
      group === undefined ? '' : word(group),
    ];
  });
  return table(['name', 'schedule', 'next', 'fired', 'last slot', 'lane'], rows);
}
