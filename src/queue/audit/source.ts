/**
 * Where a connector finds a queue that is to be audited: its transitions go as all others, and the scans to the primary
 * that has the queue.
 *
 * Does not: follow a slot that moves meanwhile: a scan is refused then, and the check is begun again by whoever asked.
 */
import { Connector } from '../../wire/connector.js';
import { EmqError, inputError, show } from '../../wire/errors.js';
import type { Ask } from '../../wire/fence.js';
import { Keyspace } from '../../wire/keyspace.js';
import type { Wire } from '../job-controls.js';
import { QueueRunner } from '../runner.js';
import type { AuditSource } from './walk.js';

/** @throws EmqError `EMQ_INPUT` for anything but a Connector; `EMQ_CONNECTION` when no primary has the queue. */
export async function sourceOf(what: string, wire: Connector | Wire, queue: string): Promise<AuditSource> {
  if (!(wire instanceof Connector)) {
    throw inputError(`${what} goes over the keys of a node: make the Admin with a Connector, not with ${show(wire)}`);
  }
  const runner = new QueueRunner(wire);
  return { runs: (name) => runner.on(name), ask: await primaryOf(wire, queue) };
}

async function primaryOf(wire: Connector, queue: string): Promise<Ask> {
  const primaries = wire.primaries();
  const { meta } = new Keyspace(queue);
  for (const ask of primaries) {
    try {
      if (primaries.length > 1) await ask('TYPE', [meta]);
      return ask;
    } catch (error) {
      if (!(error instanceof EmqError) || (error.code !== 'MOVED' && error.code !== 'ASK')) throw error;
    }
  }
  throw new EmqError('EMQ_CONNECTION', `no primary that can be reached has queue ${queue}`);
}
