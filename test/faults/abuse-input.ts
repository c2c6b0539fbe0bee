/**
 * Hostile input to every public verb, on both executors: each is found by reflection, called with right arguments, and then
 * again with each place of them replaced by hostile values. Whatever that is, the verb answers or refuses with an `EmqError`;
 * refused as `EMQ_INPUT` it has written nothing; and what it sends is within the contract's grammar. Only what a proxy throws
 * at whoever looks at it may come back unchanged; then nothing was written either.
 *
 * The amounts are given by the test files beside this one.
 */
import { EventEmitter } from 'node:events';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as echomq from '../../src/index.js';
import type { Connector } from '../../src/index.js';
import { EmqError, Jobs, mint, type Call, type Outcome, type Reply, type Wire } from '../../src/index.js';
import type { EXECUTORS } from '../conformance/stage.js';
import { Stage } from '../conformance/stage.js';
import { runs, seed } from '../parity/seed.js';
import { faultOf, isKey } from './abuse-names.js';
import { biteAt, HOSTILE, placesOf, withAt } from './abuse-values.js';
import { EXAMPLES, MAKERS, publicVerbs, type Ground } from './abuse-verbs.js';

/**
 * @param share which of the hostile values: one in so many at each place, another one at each, 1 = all of them.
 * @param draws how many sets of random arguments.
 */
export function abuseInput(executors: readonly (typeof EXECUTORS)[number][], share: number, draws: number): void {
  it('every public verb has an example here, and every example is of a public verb', () => {
    const { verbs, unknownClasses } = publicVerbs();
    expect(unknownClasses).toEqual([]);
    expect([...verbs].sort()).toEqual(Object.keys(EXAMPLES).sort());
    expect(verbs.length).toBeGreaterThan(100);
  });

  describe.each(executors)('hostile input, %s', (_executor, wire) => {
    let stage: Stage;
    let tap: Tap;
    let ground: Ground;
    beforeAll(async () => {
      stage = await Stage.start(wire);
      tap = new Tap(stage.connector);
      // a verb that needs a Connector gets the real one: what it sends is seen as well
      for (const name of ['run', 'runAll'] as const) {
        const own = stage.connector[name].bind(stage.connector) as (given: unknown) => unknown;
        Object.defineProperty(stage.connector, name, {
          value: (given: never) => {
            tap.sent.push(...([given].flat() as Call[]));
            return own(given);
          },
        });
      }
      ground = await makeGround();
    });
    afterAll(() => stage[Symbol.asyncDispose]());

    async function clear(): Promise<void> {
      const keys = await stage.raw.keys('*');
      expect(keys.filter((key) => !isContractKey(key))).toEqual([]);
      const gone = keys.filter((key) => key !== '{emq}:version');
      if (gone.length > 0) await stage.raw.unlink(...gone);
    }

    async function makeGround(): Promise<Ground> {
      const queue = `hostile.${mint()}`;
      const jobs = new Jobs(stage.connector, queue);
      const { id: dead } = await jobs.enqueue(1);
      const [job] = await jobs.claimBatch({ leaseMs: 600_000, size: 1 });
      await jobs.fail(job!, { delayMs: 0, maxAttempts: 1, error: 'no' });
      await jobs.enqueue(2);
      const [held] = await jobs.claimBatch({ leaseMs: 600_000, size: 1 });
      const { id } = await jobs.enqueue(3, { dedup: { id: 'd' } });
      const group = mint('TEN');
      return {
        ...{ connector: stage.connector, wire: tap, queue, id, dead, group, repeat: 'nightly' },
        held: { id: held!.id, token: held!.token },
      };
    }

    /** Calls a verb and drains what it gives. Resolves with its refusal, if any; rejects with anything that is no EmqError. */
    async function perform(verb: string, args: readonly unknown[]): Promise<EmqError | undefined> {
      try {
        const [name = '', method] = verb.split('.');
        const made: unknown =
          method !== undefined
            ? Reflect.apply(
                (MAKERS[name]!(ground) as Record<string, () => unknown>)[method]!,
                MAKERS[name]!(ground),
                args,
              )
            : verb.startsWith('new ')
              ? Reflect.construct((echomq as unknown as Record<string, new () => object>)[verb.slice(4)]!, args)
              : Reflect.apply((echomq as unknown as Record<string, () => unknown>)[verb]!, undefined, args);
        const answer: unknown = await made;
        if (verb === 'closeOnSignal') (answer as () => void)();
        if (isIterator(answer)) for await (const _one of answer) break;
        if (answer instanceof EventEmitter && 'close' in answer && answer !== stage.connector) {
          await (answer as unknown as { close(options: object): Promise<void> }).close({ timeoutMs: 0 });
        }
        return undefined;
      } catch (error) {
        if (error instanceof EmqError) return error;
        throw error;
      }
    }

    /** Fails with what was called, when that answers in a way that it must not. */
    async function abuseOf(verb: string, args: readonly unknown[], what: string): Promise<void> {
      tap.sent = [];
      let refusal: EmqError | undefined;
      try {
        refusal = await perform(verb, args);
      } catch (error) {
        if (!isOwn(error)) throw new Error(`${verb} with ${what} threw what is no EmqError`, { cause: error });
        refusal = new EmqError('EMQ_INPUT', 'what was given threw when it was looked at');
      }
      for (const call of tap.sent) {
        const fault = faultOf(call);
        if (fault !== undefined) throw new Error(`${verb} with ${what} sent ${call.transition.name} with ${fault}`);
      }
      if (refusal?.code !== 'EMQ_INPUT') return;
      const wrote = tap.sent.filter(({ transition }) => !transition.readOnly && transition.name !== 'register');
      if (wrote.length > 0)
        throw new Error(`${verb} with ${what} was refused after it sent ${wrote[0]!.transition.name}`);
      if (refusal.message.length > 600) throw new Error(`${verb} with ${what}: its refusal is too long`);
    }

    it('the examples are right: no verb calls its own a mistake', async () => {
      for (const [verb, example] of Object.entries(EXAMPLES)) {
        const refusal = await perform(verb, example(ground));
        expect({ verb, refusal: refusal?.code === 'EMQ_INPUT' ? refusal.message : 'none' }).toEqual({
          verb,
          refusal: 'none',
        });
      }
      ground = await makeGround();
    });

    it('a hostile value at every place of every verb', async () => {
      let calls = 0;
      const found: string[] = [];
      const abuse = async (verb: string, args: readonly unknown[], what: string): Promise<void> => {
        calls += 1;
        await abuseOf(verb, args, what).catch((error: unknown) => found.push(told(error)));
      };
      let turn = Math.abs(seed);
      for (const [verb, example] of Object.entries(EXAMPLES)) {
        // few jobs: what a verb costs that looks at all of them is not the matter here
        await clear();
        ground = await makeGround();
        for (const place of placesOf(example(ground))) {
          const where = place.join('.');
          turn += 1;
          for (const [what, make] of HOSTILE.filter((_one, i) => (i + turn) % share === 0)) {
            await abuse(verb, withAt(example(ground), place, make()), `${what} at ${where}`);
          }
          const bites = biteAt(example(ground), place);
          if (bites !== undefined) await abuse(verb, bites, `a getter that throws at ${where}`);
        }
        const args = example(ground);
        for (let n = 0; n < args.length; n += 1) await abuse(verb, args.slice(0, n), `${n} arguments`);
        await abuse(verb, [...args, ...args], 'too many arguments');
      }
      await clear();
      expect(found.slice(0, 40)).toEqual([]);
      expect(calls * share).toBeGreaterThan(10_000);
    }, 120_000);

    it('random names and values, a few at a time', async () => {
      const verbs = Object.entries(EXAMPLES).filter(([, example]) => example(ground).length > 0);
      const value = fc.oneof(
        fc.constantFrom(...HOSTILE.map(([, make]) => make)),
        fc.string({ unit: 'binary', maxLength: 300 }).map((text) => () => text),
        fc.string({ unit: fc.constantFrom(...'JOBaz09{}:._-\0\n'), maxLength: 20 }).map((text) => () => text),
        fc
          .anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true })
          .map((any) => () => any),
      );
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...verbs),
          fc.array(fc.tuple(fc.nat(), value), { minLength: 1, maxLength: 3 }),
          async ([verb, example], changes) => {
            let args: readonly unknown[] = example(ground);
            const places: string[] = [];
            for (const [n, make] of changes) {
              const all = placesOf(args);
              if (all.length === 0) break;
              const place = all[n % all.length]!;
              args = withAt(args, place, make());
              places.push(place.join('.'));
            }
            await abuseOf(verb, args, `random values at ${places.join(' and ')}`).catch((error: unknown) => {
              throw new Error(told(error), { cause: error });
            });
          },
        ),
        { seed, numRuns: runs(draws) },
      );
    }, 120_000);
  });
}

function isContractKey(key: string): boolean {
  if (['{emq}:version', '{emq}:queues'].includes(key)) return true;
  const [, rest] = /^emq:\{[A-Za-z0-9._-]{1,128}\}:(.*)$/s.exec(key) ?? [];
  return rest !== undefined && isKey(rest);
}

/** Passes calls on, and keeps what was sent. */
class Tap implements Wire {
  sent: Call[] = [];
  constructor(readonly connector: Connector) {}
  run(call: Call): Promise<Reply> {
    this.sent.push(call);
    return this.connector.run(call);
  }
  runAll(calls: readonly Call[]): Promise<Outcome[]> {
    this.sent.push(...calls);
    return this.connector.runAll(calls);
  }
}

function isIterator(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof value === 'object' && value !== null && !(value instanceof EventEmitter) && Symbol.asyncIterator in value
  );
}

/** What a given proxy throws when it is looked at, and the reason of a given signal, are their giver's: as they are. */
function isOwn(error: unknown): boolean {
  if (error instanceof DOMException) return error.name === 'AbortError';
  return error instanceof TypeError && /^bitten$|a proxy that has been revoked$/.test(error.message);
}

/** An error with what caused it, and where that was. */
function told(error: unknown): string {
  const { message, cause } = error as Error;
  const place = cause instanceof Error ? /\((?:.*\/)?(src\/[^)]*)\)/.exec(cause.stack ?? '')?.[1] : undefined;
  return `${message}${cause instanceof Error ? `: ${cause.message} (${place ?? 'elsewhere'})` : ''}`;
}
