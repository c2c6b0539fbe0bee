/**
 * The types of the public API: what a payload is, from a type, a codec or a schema; and that no `any` comes out.
 *
 * The assertions are the compiler's: `expectTypeOf` and `@ts-expect-error` do nothing at run time. So the last two tests
 * run the compiler over this very file, and over the declarations that the package would ship.
 */
import { fileURLToPath } from 'node:url';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import ts from 'typescript';
import { beforeAll, describe, expect, expectTypeOf, it } from 'vitest';
import type { Admin, Connector, EmqError, LaneState, ListedJob, Purged, Scheduled, TakenJob } from '../../src/index.js';
import {
  bytesCodec,
  Jobs,
  Lanes,
  type Codec,
  type Enqueued,
  type EnqueuedMany,
  type Job,
  type JobRow,
  type JobState,
  type Wire,
} from '../../src/index.js';

interface Mail {
  readonly to: string;
  readonly tries?: number;
}
/** A wire that nobody is behind: the types do not ask for one. */
const wire: Wire = { run: () => new Promise(() => {}), runAll: () => new Promise(() => {}) };

const schemaOf = <In, Out>(): StandardSchemaV1<In, Out> => ({
  '~standard': { version: 1, vendor: 'by hand', validate: (value) => ({ value: value as Out }) },
});

describe('payload types', () => {
  it('are unknown unless they are said', () => {
    const jobs = new Jobs(wire, 'q');
    expectTypeOf(jobs).toEqualTypeOf<Jobs<unknown>>();
    expectTypeOf<(typeof jobs)['claim']>().returns.resolves.toEqualTypeOf<Job<unknown> | null>();
    expectTypeOf<Job<unknown>['payload']>().toBeUnknown();
  });

  it('of a type that was said', () => {
    const jobs = new Jobs<Mail>(wire, 'q');
    expectTypeOf<(typeof jobs)['enqueue']>().parameter(0).toEqualTypeOf<Mail | Uint8Array>();
    expectTypeOf<(typeof jobs)['schedule']>().parameter(0).toEqualTypeOf<Mail | Uint8Array>();
    expectTypeOf<(typeof jobs)['updateData']>().parameter(1).toEqualTypeOf<Mail | Uint8Array>();
    expectTypeOf<(typeof jobs)['enqueueMany']>()
      .parameter(0)
      .items.toHaveProperty('payload')
      .toEqualTypeOf<Mail | Uint8Array>();
    expectTypeOf<(typeof jobs)['claim']>().returns.resolves.toEqualTypeOf<Job<Mail> | null>();
    expectTypeOf<(typeof jobs)['claimBatch']>().returns.resolves.toEqualTypeOf<Job<Mail>[]>();
    expectTypeOf<Job<Mail>['payload']>().toEqualTypeOf<Mail>();
    const wrong = () => [
      // @ts-expect-error a payload of another type
      jobs.enqueue({ to: 5 }),
      // @ts-expect-error a part is missing
      jobs.enqueue({}),
      // @ts-expect-error one item of another type
      jobs.enqueueMany([{ payload: { to: 'a' } }, { payload: 'a' }]),
      // @ts-expect-error a codec of another type
      new Jobs<Mail>(wire, 'q', { codec: bytesCodec }),
    ];
    expect(wrong).toBeTypeOf('function');
  });

  it('of a codec', () => {
    const codec: Codec<Date> = { encode: (value) => value.toJSON(), decode: (bytes) => new Date(String(bytes)) };
    expectTypeOf(new Jobs(wire, 'q', { codec })).toEqualTypeOf<Jobs<Date>>();
    expectTypeOf(new Jobs(wire, 'q', { codec: bytesCodec })).toEqualTypeOf<Jobs<Buffer>>();
  });

  it('of a Standard Schema', () => {
    expectTypeOf(new Jobs(wire, 'q', { schema: schemaOf<Mail, Mail>() })).toEqualTypeOf<Jobs<Mail>>();
    // Where a schema transforms, one type goes in and another comes out.
    const jobs = new Jobs(wire, 'q', { schema: schemaOf<{ to: string; tries: string }, Mail>() });
    expectTypeOf(jobs).toEqualTypeOf<Jobs<Mail, { to: string; tries: string }>>();
    expectTypeOf<(typeof jobs)['enqueue']>().parameter(0).toEqualTypeOf<{ to: string; tries: string } | Uint8Array>();
    expectTypeOf<(typeof jobs)['claim']>().returns.resolves.toEqualTypeOf<Job<Mail> | null>();
    const wrong = () => [
      // @ts-expect-error the schema is of another type
      new Jobs<Mail>(wire, 'q', { schema: schemaOf<string, string>() }),
      // @ts-expect-error what the schema does not take
      new Jobs(wire, 'q', { schema: schemaOf<Mail, Mail>() }).enqueue(5),
    ];
    expect(wrong).toBeTypeOf('function');
  });
});

describe('outcomes', () => {
  const jobs = new Jobs<Mail>(wire, 'q');

  it('are closed sets', () => {
    expectTypeOf<(typeof jobs)['enqueue']>().returns.resolves.toEqualTypeOf<Enqueued>();
    expectTypeOf<Enqueued['outcome']>().toEqualTypeOf<'enqueued' | 'duplicate' | 'deduplicated' | 'replaced'>();
    expectTypeOf<EnqueuedMany['outcome']>().toEqualTypeOf<
      'enqueued' | 'duplicate' | 'deduplicated' | 'replaced' | 'failed'
    >();
    expectTypeOf<Extract<EnqueuedMany, { outcome: 'failed' }>['error']>().toEqualTypeOf<EmqError>();
    expectTypeOf<(typeof jobs)['complete']>().returns.resolves.toEqualTypeOf<'completed' | 'gone'>();
    expectTypeOf<(typeof jobs)['fail']>().returns.resolves.toEqualTypeOf<'scheduled' | 'dead'>();
    expectTypeOf<(typeof jobs)['delay']>().returns.resolves.toEqualTypeOf<'scheduled'>();
    expectTypeOf<(typeof jobs)['extend']>().returns.resolves.toEqualTypeOf<'extended' | 'gone'>();
    expectTypeOf<(typeof jobs)['extendMany']>().returns.resolves.toEqualTypeOf<string[]>();
    expectTypeOf<(typeof jobs)['updateData']>().returns.resolves.toEqualTypeOf<'updated' | 'gone'>();
    expectTypeOf<(typeof jobs)['remove']>().returns.resolves.toEqualTypeOf<'removed' | 'gone'>();
    expectTypeOf<(typeof jobs)['reprocess']>().returns.resolves.toEqualTypeOf<
      'pending' | 'awaiting_children' | 'gone'
    >();
    expectTypeOf<(typeof jobs)['state']>().returns.resolves.toEqualTypeOf<JobState>();
    expectTypeOf<(typeof jobs)['get']>().returns.resolves.toEqualTypeOf<JobRow | null>();
    expectTypeOf<(typeof jobs)['logs']>().returns.resolves.toEqualTypeOf<Buffer[] | 'gone'>();
    expectTypeOf<(typeof jobs)['addLog']>().returns.resolves.toEqualTypeOf<number | 'gone'>();
    expectTypeOf<(typeof jobs)['pause']>().returns.resolves.toBeVoid();
  });

  it('of lanes and of the operator too', () => {
    const lanes = new Lanes<Mail>(wire, 'q');
    expectTypeOf<(typeof lanes)['enqueue']>().parameter(1).toEqualTypeOf<Mail | Uint8Array>();
    expectTypeOf<(typeof lanes)['enqueue']>().returns.resolves.toEqualTypeOf<Enqueued>();
    expectTypeOf<(typeof lanes)['claim']>().returns.resolves.toEqualTypeOf<TakenJob<Mail> | null>();
    expectTypeOf<(typeof lanes)['claimBatch']>().returns.resolves.toEqualTypeOf<TakenJob<Mail>[]>();
    expectTypeOf<(typeof lanes)['list']>().returns.toExtend<AsyncIterable<LaneState>>();
    expectTypeOf(new Lanes(wire, new Jobs<Mail>(wire, 'q'))).toEqualTypeOf<Lanes<Mail>>();
    const wrong = () => [
      // @ts-expect-error a payload of another type
      lanes.enqueue('TEN00000000000', { to: 5 }),
      // @ts-expect-error the lane is an argument of its own
      lanes.enqueue('TEN00000000000', { to: 'a' }, { group: 'TEN00000000001' }),
      // @ts-expect-error an item without a lane
      lanes.enqueueMany([{ payload: { to: 'a' } }]),
      // @ts-expect-error no such mode
      jobs.enqueue({ to: 'a' }, { dedup: { id: 'a', mode: 'once' } }),
    ];
    expect(wrong).toBeTypeOf('function');
    expectTypeOf<Scheduled['outcome']>().toEqualTypeOf<'scheduled' | 'duplicate' | 'deduplicated' | 'replaced'>();
    expectTypeOf<LaneState['state']>().toEqualTypeOf<'ready' | 'empty' | 'paused' | 'at limit' | 'waits'>();
    expectTypeOf<Admin['drain']>().returns.resolves.toEqualTypeOf<Purged>();
    expectTypeOf<Admin['jobs']>().returns.resolves.toEqualTypeOf<ListedJob[]>();
    expectTypeOf<(typeof jobs)['consult']>().returns.resolves.toEqualTypeOf<'ok'>();
  });

  it('counts has the names that were asked for', () => {
    const some = () => jobs.counts(['pending', 'failed']);
    expectTypeOf(some).returns.resolves.toEqualTypeOf<Record<'pending' | 'failed', number>>();
    const all = () => jobs.counts();
    type All = Record<
      'pending' | 'active' | 'scheduled' | 'dead' | 'awaiting_children' | 'completed' | 'failed',
      number
    >;
    expectTypeOf(all).returns.resolves.toEqualTypeOf<All>();
    // @ts-expect-error no such state
    expect(() => void jobs.counts(['wait']).catch(() => {})).not.toThrow();
  });

  it('a claimed job is what a settle takes, and cannot be changed', () => {
    expectTypeOf<Job<Mail>>().toExtend<Parameters<(typeof jobs)['complete']>[0]>();
    expectTypeOf<{ id: string; token: number }>().toExtend<Parameters<(typeof jobs)['complete']>[0]>();
    // @ts-expect-error an id alone does not fence
    expectTypeOf<{ id: string }>().toExtend<Parameters<(typeof jobs)['complete']>[0]>();
    const change = (job: Job<Mail>) => {
      // @ts-expect-error the token is read-only
      job.token = 2;
    };
    expect(change).toBeTypeOf('function');
  });

  it('a connector is a wire, and closes itself', () => {
    expectTypeOf<Connector>().toExtend<Wire>();
    expectTypeOf<Connector>().toExtend<AsyncDisposable>();
    expectTypeOf<typeof Connector.connect>().returns.resolves.toEqualTypeOf<Connector>();
  });

  it('an error has a code of a closed set', () => {
    expectTypeOf<EmqError['code']>().not.toEqualTypeOf<string>();
    expectTypeOf<'EMQSTALE' | 'OOM' | 'EMQ_UNKNOWN_OUTCOME'>().toExtend<EmqError['code']>();
    // @ts-expect-error not one of them
    expectTypeOf<'EMQ_TYPO'>().toExtend<EmqError['code']>();
  });
});

describe('the compiler', () => {
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const self = fileURLToPath(import.meta.url);
  let program: ts.Program;

  beforeAll(() => {
    const { config } = ts.readConfigFile(`${root}tsconfig.json`, (path) => ts.sys.readFile(path)) as { config: object };
    const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
    const entries = [self, ...['src/index.ts', 'src/dev/index.ts'].map((file) => root + file)];
    program = ts.createProgram(entries, { ...options, noEmit: false, declaration: true, emitDeclarationOnly: true });
  });

  it('agrees with all of the above', () => {
    const file = program.getSourceFile(self);
    const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
    expect(file).toBeDefined();
    expect(found.map((one) => ts.flattenDiagnosticMessageText(one.messageText, '\n'))).toEqual([]);
  });

  /** Where `any` stands in a declaration file. */
  function anysIn(path: string, text: string): string[] {
    const found: string[] = [];
    const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
    const walk = (node: ts.Node): void => {
      if (node.kind === ts.SyntaxKind.AnyKeyword) {
        const { line } = source.getLineAndCharacterOfPosition(node.getStart());
        found.push(`${path}:${line + 1} ${node.parent.getText()}`);
      }
      ts.forEachChild(node, walk);
    };
    walk(source);
    return found;
  }

  it('writes no `any` into the declarations of the package', { timeout: 120_000 }, () => {
    const anys: string[] = [];
    let files = 0;
    program.emit(undefined, (path, text) => {
      if (!path.startsWith(`${root}src/`)) return;
      files += 1;
      anys.push(...anysIn(path.slice(root.length), text));
    });
    expect(files).toBeGreaterThan(10);
    expect(anys).toEqual([]);
    expect(anysIn('x.d.ts', 'export declare function f(many: string): Promise<any>;')).toHaveLength(1);
  });
});
