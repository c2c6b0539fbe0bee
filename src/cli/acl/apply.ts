/**
 * Gives a user its rights on a node, or on every node of a cluster: the server copies none of it, not even to replicas.
 *
 * Invariants: one command a node, so that no node has half of the rights; nothing that was sent is in an error. Does not:
 * save: what the server keeps over a restart is its configuration's affair.
 */
import { inputError, EmqError } from '../../wire/errors.js';
import { QUIET_CLUSTER } from '../../wire/rights.js';
import { openNode, type PlainNode } from '../node.js';
import type { Target } from '../target.js';
import { nodesOf } from '../wire/place.js';

/**
 * @param rules behind `ACL SETUSER <user>`
 * @param told hears of each node that has them.
 * @throws EmqError what a node says, with its name; those that were told have the rights.
 */
export async function applyRules(
  target: Target,
  user: string,
  rules: readonly string[],
  signal: AbortSignal,
  told: (where: string) => void,
): Promise<void> {
  for (const at of await nodesOf(target, signal)) {
    const node = await openNode(at, signal, 'EMQ_URL');
    try {
      await give(node, user, rules);
    } finally {
      await node.close();
    }
    told(node.where);
  }
}

/** An older server does not know all commands: those that are only good manners it does without. */
async function give(node: PlainNode, user: string, rules: readonly string[]): Promise<void> {
  try {
    await node.ask('ACL', 'SETUSER', user, ...rules);
  } catch (error) {
    if (!(error instanceof EmqError)) throw error;
    const unknown = QUIET_CLUSTER.find((rule) => rules.includes(rule) && error.reason.includes(`'${rule}'`));
    if (error.code !== 'ERR' || unknown === undefined) throw explained(error, node.where);
    await give(
      node,
      user,
      rules.filter((rule) => rule !== unknown),
    );
  }
}

/** The server repeats the rule that it does not know, which may be a hash of a password: it is named by what it is. */
function explained(error: EmqError, where: string): EmqError {
  const rule = /modifier '([-+~%&(@|\w]+)[^']*': (.*)$/s.exec(error.reason);
  if (error.code !== 'ERR' || rule === null) return new EmqError(error.code, `${error.reason} (${where})`);
  const [, word = '', why = ''] = rule;
  const mend = word.startsWith('+@emq')
    ? 'the module is not loaded there: --wire 4, or load it first'
    : 'is the server older than 8.0?';
  return inputError(`${where} does not take the rule ${word}: ${why}; ${mend}`);
}
