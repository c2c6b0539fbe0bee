/**
 * What happens to the server and the processes of a soak, one thing after another, by a plan that a seed draws.
 *
 * Invariants: a fault is over when its promise resolves: the server answers, stopped processes run, the queue is not paused;
 * the producer and the first consumer are never killed. Does not: judge.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Admin, type Connector } from '../../src/index.js';
import type { Rng } from '../../src/parity/prng.js';
import type { WorkerNode } from '../worker/support/nodes.js';
import type { SoakFleet, SoakProcess } from './soak-fleet.js';
import { QUEUES } from './soak-words.js';

export interface SoakScene {
  readonly node: WorkerNode;
  readonly fleet: SoakFleet;
  /** Of the operator. */
  readonly connector: Connector;
  readonly draw: Rng;
}

type Fault = (scene: SoakScene) => Promise<void>;

const anyone = ({ fleet, draw }: SoakScene): SoakProcess => draw.pick(fleet.all);
/** How long something lasts is what some of these are. */
const between = (draw: Rng, leastMs: number, mostMs: number): Promise<void> =>
  pause(leastMs + draw.below(mostMs - leastMs));

export const FAULTS: Readonly<Record<string, Fault>> = {
  'consumer killed': ({ fleet, draw }) => fleet.replace(1 + draw.below(fleet.consumers.length - 1)),
  'server killed': async ({ node, draw }) => {
    await node.server.kill();
    await between(draw, 0, 1_500);
    await node.server.restart();
  },
  'server restarted': ({ node }) => node.server.restart(),
  'clients killed': async ({ node }) => void (await node.admin.call('CLIENT', 'KILL', 'TYPE', 'normal')),
  'half-open': async (scene) => {
    const { proxy } = anyone(scene);
    proxy.halfOpen();
    await between(scene.draw, 1_000, 4_000);
    proxy.heal();
  },
  'connections reset': async (scene) => anyone(scene).proxy.reset(),
  'process stopped': async (scene) => {
    const victim = anyone(scene);
    victim.signal('SIGSTOP');
    await between(scene.draw, 500, 6_000);
    victim.signal('SIGCONT');
  },
  'clients paused': async ({ node, draw }) => {
    const ms = 200 + draw.below(1_800);
    await node.admin.client('PAUSE', ms);
    // answered when the pause is over
    await node.admin.ping();
  },
  'scripts flushed': async ({ node }) => void (await node.admin.script('FLUSH')),
  'queues paused': async ({ connector, draw }) => {
    const admins = QUEUES.map((queue) => new Admin(connector, queue));
    await insist(() => Promise.all(admins.map((admin) => admin.pause())));
    await between(draw, 200, 2_000);
    await insist(() => Promise.all(admins.map((admin) => admin.resume())));
  },
  'server asleep': async ({ node, draw }) => {
    await node.admin.call('DEBUG', 'SLEEP', String(0.2 + draw.below(20) / 10));
  },
  'log rewritten': async ({ node }) => void (await node.admin.bgrewriteaof().catch(() => {})),
  'replica came and went': async ({ node, draw }) => {
    await using replica = await node.replica();
    await between(draw, 200, 2_000);
    await replica.server.kill();
  },
};

/** An operator's call may meet what the fault before has left: he makes it again. */
async function insist(call: () => Promise<unknown>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await call();
      return;
    } catch (error) {
      if (tries === 50) throw error;
      await pause(100);
    }
  }
}
