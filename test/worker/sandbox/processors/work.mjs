/**
 * A processor that does what its job's payload says, for the tests of the sandbox.
 * Does not: belong to anything else.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { isMainThread, parentPort, threadId } from 'node:worker_threads';

/** An error as a copy of the package would throw it. */
function own(name, message, fields) {
  return Object.assign(new Error(message), { name, ...fields });
}

function ended(signal) {
  return signal.aborted ? Promise.resolve() : once(signal, 'abort');
}

const acts = {
  echo: (job) => job.payload.value,
  job: (job) => ({
    ...job,
    payload: job.payload,
    isBuffer: Buffer.isBuffer(job.bytes),
    neighbours: Buffer.from(job.bytes.buffer).includes('secrets'),
  }),
  who: () => (isMainThread ? process.pid : `thread ${threadId}`),
  flags: () => ({ argv: process.execArgv, hook: globalThis.hook }),
  results: ({ payload: { what } }) =>
    ({
      buffer: Buffer.from('from the pool'),
      view: new Uint8Array([1, 2, 3, 4]).subarray(1, 3),
      map: new Map([['when', new Date(5)]]),
      nothing: undefined,
      function: () => {},
      deep: { in: { the: [Symbol('no')] } },
    })[what],

  throws({ payload: { what } }) {
    const unprintable = {
      get message() {
        throw new Error('no');
      },
    };
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    throw {
      error: new TypeError('not this way'),
      code: own('Error', 'no such file', { code: 'ENOENT' }),
      text: 'just text',
      null: null,
      symbol: Symbol('odd'),
      object: { state: 'odd' },
      unprintable,
      proxy,
      oddName: own(7, 'named by a number', {}),
      unrecoverable: own('UnrecoverableError', 'no use', {}),
      delayIn: own('DelayError', 'later', { runAt: { inMs: 5000 } }),
      delayAt: own('DelayError', 'then', { runAt: { at: 1234 } }),
      delayDate: own('DelayError', 'then', { runAt: { at: new Date(1234) } }),
      limited: own('RateLimitError', 'too many', { ms: 5000 }),
      limitedAll: own('RateLimitError', 'too many', { ms: 5000, scope: 'queue' }),
      limitedOdd: own('RateLimitError', 'too many', { ms: 5000, scope: 'moon' }),
      delayNever: own('DelayError', 'some day', { runAt: 'some day' }),
    }[what];
  },

  async asks(job, context) {
    await context.progress(50);
    await context.progress('half');
    await context.log('a line');
    await context.extend(1000);
    return Object.keys(context).sort();
  },
  async asksAndFails(job, context) {
    await context.progress('half');
    await context.log('a line');
    throw new Error('and fails');
  },
  async asksInVain(job, context) {
    const error = await context[job.payload.what](job.payload.value).catch((reason) => reason);
    if (job.payload.rethrow) throw error;
    const { name, message, code, reason, stack } = error;
    return { name, message, code, reason, stack, shown: String(error), isError: error instanceof Error };
  },
  asksOddly: (job, context) => context.progress(() => {}),
  asksTooLate(job, context) {
    setImmediate(async () => {
      globalThis.late = await context.log('too late').catch((error) => error.message);
    });
  },
  late: () => globalThis.late,

  async obeys(job, { signal, log }) {
    await log('started');
    await ended(signal);
    const { name, message, kind } = signal.reason;
    throw own('Error', `stopped: ${JSON.stringify({ name, message, kind })}`, {});
  },
  async disobeys(job, { log }) {
    await log('started');
    await new Promise(() => {});
  },
  async loops(job, { log }) {
    await log('started');
    for (;;);
  },
  async blocksInNativeCode(job, { log }) {
    await log('started');
    execFileSync('cat', [job.payload.fifo]);
  },

  async exits({ payload: { code } }, { log }) {
    await log('started');
    process.exit(code);
  },
  async diesAtFirst({ attempts }) {
    if (attempts > 1) return 'done';
    if (isMainThread) process.kill(process.pid, 'SIGKILL');
    else process.exit(5);
    await new Promise(() => {});
  },
  exitsAfterwards({ payload: { code } }) {
    setImmediate(() => process.exit(code));
    return 'done before that';
  },
  loopsAfterwards() {
    setImmediate(() => { for (;;); }); // prettier-ignore
    return process.pid;
  },
  async dies({ payload: { how } }) {
    if (how === 'reject') void Promise.reject(new Error('nobody caught this'));
    else setImmediate(() => { throw new Error('nobody caught this'); }); // prettier-ignore
    await new Promise(() => {});
  },
  async survives() {
    process.once('uncaughtException', () => setImmediate(() => process.exit(9)));
    setImmediate(() => { throw new Error('caught by the processor'); }); // prettier-ignore
    await new Promise(() => {});
  },
  async eats() {
    const much = [];
    for (;;) {
      much.push(new Array(100_000).fill(much.length));
      await new Promise(setImmediate);
    }
  },
  async waits(job, { log }) {
    await log(String(process.pid));
    await new Promise((resolve) => (globalThis.release = resolve));
    return process.pid;
  },
  async waitsForSignal(job, { log }) {
    const seen = once(process, 'SIGTERM');
    await log(String(process.pid));
    await seen;
    return 'still here';
  },
  waitsABit: () => new Promise((resolve) => setTimeout(resolve, 20, 'waited')),
  speaks() {
    console.log('said on stdout');
    console.error('said on stderr');
  },
  sends() {
    const messages = ['text', null, 5, { emq: undefined }, { hello: 'world' }];
    for (const message of messages) parentPort ? parentPort.postMessage(message) : process.send(message);
    return 'sent';
  },
  writesAtExit({ payload: { file } }) {
    setInterval(() => {}, 1000); // as a pool of connections would: it does not end by itself
    process.on('exit', () => writeFileSync(file, 'gone in good order'));
  },
};

export default (job, context) => acts[job.payload.do](job, context);
