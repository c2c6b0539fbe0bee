/**
 * The types of the worker: which payload goes with which name, on both ends; and what a handler is given.
 *
 * The assertions are the compiler's: `expectTypeOf` and `@ts-expect-error` do nothing at run time. So the last test runs
 * the compiler over this very file.
 */
import { fileURLToPath } from 'node:url';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import ts from 'typescript';
import { describe, expect, expectTypeOf, it } from 'vitest';
import type {
  ConsumedJob,
  ConsumeOptions,
  Consumer,
  ConsumerEvents,
  Handler,
  JobContext,
  NamedJob,
  NamedQueue,
  Queue,
} from '../../src/index.js';

interface Work {
  a: { n: number };
  b: { s: string };
}

/** Never called: the types are all that is looked at. */
const unseen = (use: (...given: never[]) => unknown): void => expect(use).toBeTypeOf('function');

describe('P50: the name of a job and its payload belong together', () => {
  it('where it is enqueued', () => {
    unseen(async (queue: NamedQueue<Work>) => {
      await queue.enqueue('a', { n: 1 });
      await queue.enqueue('b', { s: 'x' }, { priority: 1, maxAttempts: 5, backoff: 100, timeoutMs: 5 });
      await queue.schedule('a', { n: 1 }, { inMs: 5 });
      await queue.enqueueMany([
        { name: 'a', payload: { n: 1 } },
        { name: 'b', payload: { s: 'x' }, maxAttempts: 1 },
      ]);
      await queue.enqueue('a', Buffer.from('{"n":1}'));
      // @ts-expect-error the payload of the other name
      await queue.enqueue('a', { s: 'x' });
      // @ts-expect-error a part of the wrong type
      await queue.enqueue('b', { s: 5 });
      // @ts-expect-error no such name
      await queue.enqueue('c', { n: 1 });
      // @ts-expect-error the payload of the other name
      await queue.schedule('b', { n: 1 }, { inMs: 5 });
      // @ts-expect-error the payload of the other name
      await queue.enqueueMany([{ name: 'a', payload: { s: 'x' } }]);
      // @ts-expect-error the name is an argument of its own
      await queue.enqueue('a', { n: 1 }, { name: 'b' });
    });
  });

  it('where it is worked on, with a handler for each name', () => {
    unseen((queue: NamedQueue<Work>) => {
      queue.consume({
        a: (job, context) => {
          expectTypeOf(job.payload).toEqualTypeOf<{ n: number }>();
          expectTypeOf(job.name).toEqualTypeOf<'a'>();
          expectTypeOf(job.attempts).toEqualTypeOf<number>();
          expectTypeOf(context).toEqualTypeOf<JobContext>();
        },
        b: (job) => {
          expectTypeOf(job.payload).toEqualTypeOf<{ s: string }>();
          // @ts-expect-error the payload of the other name
          void job.payload.n;
        },
      });
      // @ts-expect-error a name without a handler
      queue.consume({ a: () => {} });
      // @ts-expect-error a handler without a name
      queue.consume({ a: () => {}, b: () => {}, c: () => {} });
    });
  });

  it('where one handler switches on the name', () => {
    unseen((queue: NamedQueue<Work>) => {
      queue.consume((job) => {
        expectTypeOf(job.name).toEqualTypeOf<'a' | 'b'>();
        expectTypeOf(job.payload).toEqualTypeOf<{ n: number } | { s: string }>();
        switch (job.name) {
          case 'a':
            expectTypeOf(job.payload).toEqualTypeOf<{ n: number }>();
            return job.payload.n;
          case 'b':
            expectTypeOf(job.payload).toEqualTypeOf<{ s: string }>();
            return job.payload.s;
        }
      });
      expectTypeOf<NamedJob<Work, 'a'>['payload']>().toEqualTypeOf<{ n: number }>();
      expectTypeOf<NamedJob<Work>>().toExtend<{ readonly id: string; readonly token: number }>();
    });
  });
});

describe('a consumer', () => {
  it('gives a handler the payload of its queue', () => {
    unseen((queue: Queue<{ to: string }>, anything: Queue) => {
      const consumer = queue.consume((job) => {
        expectTypeOf(job).toEqualTypeOf<ConsumedJob<{ to: string }>>();
        expectTypeOf(job.payload).toEqualTypeOf<{ to: string }>();
        // @ts-expect-error a token cannot be changed
        job.token = 5;
      });
      expectTypeOf(consumer).toEqualTypeOf<Consumer<{ to: string }>>();
      anything.consume((job) => expectTypeOf(job.payload).toBeUnknown());
      // @ts-expect-error a handler of another payload
      queue.consume((job: ConsumedJob<{ to: number }>) => job.payload.to);
    });
  });

  it('of a queue with a schema gives what the schema makes', () => {
    unseen((Queue_: typeof Queue, schema: StandardSchemaV1<{ at: string }, { at: Date }>, wire: never) => {
      const queue = new Queue_(wire, 'q', { schema });
      expectTypeOf(queue).toEqualTypeOf<Queue<{ at: Date }, { at: string }>>();
      queue.consume((job) => expectTypeOf(job.payload).toEqualTypeOf<{ at: Date }>());
    });
  });

  it('has events of closed names and known payloads, and none called error', () => {
    expectTypeOf<keyof ConsumerEvents<unknown>>().not.toEqualTypeOf<string>();
    expectTypeOf<'error'>().not.toExtend<keyof ConsumerEvents<unknown>>();
    unseen((consumer: Consumer<5>) => {
      consumer.on('completed', (job, { result, durationMs }) => {
        expectTypeOf(job.payload).toEqualTypeOf<5>();
        expectTypeOf(result).toBeUnknown();
        expectTypeOf(durationMs).toEqualTypeOf<number>();
      });
      consumer.on('scheduled', (_job, { error, delayMs }) => {
        expectTypeOf(error).toEqualTypeOf<Error>();
        expectTypeOf(delayMs).toEqualTypeOf<number>();
      });
    });
  });

  it('takes a handler that gives a value or a promise, and closes itself', () => {
    expectTypeOf<() => 5>().toExtend<Handler>();
    expectTypeOf<() => Promise<void>>().toExtend<Handler>();
    expectTypeOf<Consumer>().toExtend<AsyncDisposable>();
    expectTypeOf<ConsumeOptions>().toExtend<{ concurrency?: number; recovery?: 'reap' | 'stalled' | 'none' }>();
  });
});

it('the compiler agrees with all of the above', { timeout: 120_000 }, () => {
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const self = fileURLToPath(import.meta.url);
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, (path) => ts.sys.readFile(path)) as { config: object };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const program = ts.createProgram([self], options);
  const file = program.getSourceFile(self);
  const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
  expect(file).toBeDefined();
  expect(found.map((one) => ts.flattenDiagnosticMessageText(one.messageText, '\n'))).toEqual([]);
});
