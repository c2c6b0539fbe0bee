/**
 * How letters are read: what each says, byte for byte, and what is no letter.
 */
import { describe, expect, it } from 'vitest';
import { mint } from '../../src/index.js';
import { readLetter } from '../../src/queue/flow-delivery.js';

const [parent, child] = [mint(), mint()];
const bytes = (...parts: (string | Buffer)[]): Buffer =>
  Buffer.concat(parts.flatMap((part, i) => (i === 0 ? [Buffer.from(part)] : [Buffer.from([0]), Buffer.from(part)])));
/** No UTF-8, and with the byte that parts letters. */
const ODD = Buffer.from('00ff0a00c32800', 'hex');

describe('a letter', () => {
  it('of completion has a result of any bytes, none among them', () => {
    for (const result of [Buffer.from('"x"'), ODD, Buffer.alloc(0)]) {
      expect(readLetter(bytes('orders', parent, child, result))).toEqual({
        ...{ kind: 'done', queue: 'orders', parent, child, policy: '' },
        bytes: result,
      });
    }
  });

  it.each(['fail', 'gone'] as const)('of a %s has a policy and an error of any bytes', (kind) => {
    for (const error of [Buffer.from('broken'), ODD, Buffer.alloc(0)]) {
      expect(readLetter(bytes('', kind, 'orders', parent, child, 'cp', error))).toEqual({
        ...{ kind, queue: 'orders', parent, child, policy: 'cp' },
        bytes: error,
      });
    }
  });

  it('that is an order has a reason of any text', () => {
    for (const reason of ['no longer wanted', '', 'a\0b', '☃']) {
      expect(readLetter(bytes('', 'cancel', parent, reason))).toEqual({ kind: 'cancel', parent, reason });
    }
  });
});

describe('no letter', () => {
  it.each<[string, Buffer, RegExp]>([
    ['nothing', Buffer.alloc(0), /no letter/],
    ['one part', bytes('orders'), /no letter/],
    ['two parts', bytes('orders', parent), /no letter/],
    ['a completion without a result', bytes('orders', parent, child), /no letter/],
    ['of an unknown kind', bytes('', 'move', 'orders', parent, child, 'fp', 'x'), /no letter/],
    ['a death without an error', bytes('', 'fail', 'orders', parent, child, 'fp'), /no letter/],
    ['an order without a reason', bytes('', 'cancel', parent), /no letter/],
    ['an order for no id', bytes('', 'cancel', 'JOB1', 'x'), /parent is no job id/],
    ['for no queue', bytes('a b', parent, child, 'x'), /names no queue/],
    ['for the queue emq', bytes('emq', parent, child, 'x'), /names no queue/],
    ['of a death for no queue', bytes('', 'fail', '', parent, child, 'fp', 'x'), /names no queue/],
    ['for no parent', bytes('orders', 'JOB1', child, 'x'), /parent is no job id/],
    ['of no child', bytes('orders', parent, 'x'.repeat(14), 'x'), /child is no job id/],
    ['of random bytes', Buffer.from('ff00fe00fd00fc', 'hex'), /./],
  ])('is %s', (_what, letter, why) => {
    expect(readLetter(letter)).toEqual({ why: expect.stringMatching(why) as string });
  });
});
