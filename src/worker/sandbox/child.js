// @ts-check
/**
 * What runs in a child: loads the processor and lets it work on one job at a time, in a worker thread or in a process.
 *
 * Plain JavaScript without an import of this package, so that node can start it from the sources and from the built
 * package alike, whatever loader the processor needs.
 * Invariants: every `run` gets one answer (done, failed or broken) unless this child dies; nothing a processor throws or
 * gives back ends the loop. A process ends with its parent, even while a processor keeps it busy; it leaves the signals
 * of a terminal or a service manager to its parent, which lets jobs end first.
 * Does not: settle jobs, or decide that a child is to be used again.
 */
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { Worker, parentPort, workerData } from 'node:worker_threads';

/** @import { ConsumedJob, JobContext } from '../handler.js' */
/** @import { Asked, FromChild, PackedError, PackedJob, ToChild } from './protocol.js' */

/** The end of a pipe whose other end only the parent holds. */
const PARENT_FD = 4;
/** How long handlers of `exit` may take when the parent is gone, in ms. */
const LAST_MS = 1000;

const url = /** @type {string} */ (parentPort ? workerData.processor : process.argv[2]);
const loading = load();
// it is told with the job that meets it
loading.catch(() => {});

/** @type {{ run: number, controller: AbortController } | undefined} */
let current;
let asks = 0;
/** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void }>} */
const asking = new Map();

if (parentPort) parentPort.on('message', receive);
else beProcess();

function beProcess() {
  process.on('message', receive);
  process.on('disconnect', () => process.exit());
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {});
  process.on('uncaughtExceptionMonitor', (error) => {
    // with a handler of its own the processor may survive it
    if (process.listenerCount('uncaughtException') === 0) send({ emq: 'crash', error: pack(error) });
  });
  // The channel above is read by this thread only, and a processor may never give it back.
  const watch = `
    const { Socket } = require('node:net');
    const parent = new Socket({ fd: ${PARENT_FD} }).on('error', () => {}).resume();
    parent.on('close', () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), ${LAST_MS}));`;
  new Worker(watch, { eval: true, execArgv: [], env: {}, resourceLimits: { maxOldGenerationSizeMb: 8 } }).unref();
}

/** @param {FromChild} message @param {ArrayBuffer[]} [transfer] @throws {Error} when it holds what cannot be cloned */
function send(message, transfer = []) {
  if (parentPort) parentPort.postMessage(message, transfer);
  // without a channel this process is ending
  else process.send?.(message, undefined, undefined, () => {});
}

/** @param {ToChild} message */
function receive(message) {
  switch (message.emq) {
    case 'run':
      void work(message.run, message.job);
      break;
    case 'abort':
      if (current?.run === message.run) current.controller.abort(unpack(message.reason));
      break;
    case 'answer': {
      const { resolve, reject } = asking.get(message.ask) ?? {};
      asking.delete(message.ask);
      if (message.error) reject?.(unpack(message.error));
      else resolve?.(message.value);
      break;
    }
    case 'end':
      process.exit();
  }
}

/** @param {number} run @param {PackedJob} packed */
async function work(run, packed) {
  const controller = new AbortController();
  current = { run, controller };
  /** @type {Awaited<typeof loading>} */
  let processor;
  try {
    processor = await Promise.race([loading, abortOf(controller.signal)]);
  } catch (error) {
    return send({ emq: 'broken', run, error: pack(error) });
  }
  try {
    const result = await processor.handle(jobOf(packed, processor.decode), contextOf(run, controller.signal));
    answer(run, result);
  } catch (error) {
    send({ emq: 'failed', run, error: pack(error) });
  }
}

/** @param {number} run @param {unknown} result */
function answer(run, result) {
  try {
    if (!parentPort || !(result instanceof Uint8Array)) return send({ emq: 'done', run, result });
    // a view is cloned with all that lies around it: give a copy of its own
    const own = new Uint8Array(result);
    send({ emq: 'done', run, result: own }, [own.buffer]);
  } catch (error) {
    const why = pack(error).message;
    throw new Error(`the result of the processor cannot be sent to its consumer: ${why}`, { cause: error });
  }
}

/** The processor may never be there: an abort must not wait for it. @param {AbortSignal} signal @returns {Promise<never>} */
function abortOf(signal) {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(/** @type {Error} */ (signal.reason)));
  });
}

/** @returns {Promise<{ handle: (job: ConsumedJob, context: JobContext) => unknown, decode: (bytes: Buffer) => unknown }>} */
async function load() {
  try {
    const module = /** @type {{ default?: any, codec?: any }} */ (await import(url));
    // what compilers make of a default export in CommonJS lies one deeper
    const handle = typeof module.default === 'function' ? module.default : module.default?.default;
    if (typeof handle !== 'function') throw new Error('it has no default export that is a function');
    const { codec } = module;
    if (codec === undefined) return { handle, decode: (bytes) => JSON.parse(bytes.toString('utf8')) };
    if (typeof codec?.decode !== 'function') throw new Error('its export "codec" has no function "decode"');
    return { handle, decode: (bytes) => codec.decode(bytes) };
  } catch (error) {
    const { message, stack } = pack(error);
    const failure = new Error(`the processor ${fileURLToPath(url)} cannot be loaded: ${message}`, { cause: error });
    failure.stack = `${failure.name}: ${failure.message}\n${stack ?? ''}`;
    throw failure;
  }
}

/** @param {PackedJob} packed @param {(bytes: Buffer) => unknown} decode @returns {ConsumedJob} */
function jobOf(packed, decode) {
  const bytes = Buffer.from(packed.bytes.buffer, packed.bytes.byteOffset, packed.bytes.byteLength);
  /** @type {{ value: unknown } | undefined} */
  let decoded;
  return {
    ...packed,
    bytes,
    get payload() {
      decoded ??= { value: payloadOf(packed.id, bytes, decode) };
      return decoded.value;
    },
  };
}

/** The words are those of a handler in the consumer's own process. @type {(id: string, bytes: Buffer, decode: (bytes: Buffer) => unknown) => unknown} */
function payloadOf(id, bytes, decode) {
  try {
    return decode(bytes);
  } catch {
    const reason = `the payload of ${id} (${bytes.length} bytes) cannot be decoded; read job.bytes or export a codec`;
    throw unpack({ name: 'EmqError', message: `EMQ_INPUT ${reason}`, code: 'EMQ_INPUT', reason });
  }
}

/** @param {number} run @param {AbortSignal} signal @returns {JobContext} */
function contextOf(run, signal) {
  /** @type {(what: Asked) => (value?: unknown) => Promise<any>} */
  const asker = (what) => (value) =>
    new Promise((resolve, reject) => {
      const ask = (asks += 1);
      send({ emq: 'ask', run, ask, what, value });
      asking.set(ask, { resolve, reject });
    });
  return {
    signal,
    progress: asker('progress'),
    log: asker('log'),
    extend: asker('extend'),
    children: async () => buffersIn(await asker('children')()),
  };
}

/** Bytes cross as plain arrays of bytes. @param {import('../../queue/flow-reads.js').Children} children */
function buffersIn(children) {
  for (const [id, value] of children.values) {
    if (value instanceof Uint8Array) {
      children.values.set(id, Buffer.from(value.buffer, value.byteOffset, value.byteLength));
    }
  }
  return children;
}

/** Never throws, whatever was thrown. @param {unknown} thrown @returns {PackedError} */
function pack(thrown) {
  try {
    if (typeof thrown !== 'object' || thrown === null) return { name: 'Error', message: String(thrown) };
    const { name, message, stack, code, reason, runAt, ms, scope } = /** @type {Record<string, unknown>} */ (thrown);
    return {
      name: text(name) ?? 'Error',
      message: text(message) ?? `the processor threw ${inspect(thrown, { depth: 1 })}`,
      stack: text(stack),
      code: typeof code === 'number' ? code : text(code),
      reason: text(reason),
      runAt: time(runAt),
      ms: typeof ms === 'number' ? ms : undefined,
      scope: text(scope),
    };
  } catch {
    return { name: 'Error', message: 'the processor threw something that cannot be printed' };
  }
}

/** @param {unknown} value */
function text(value) {
  return typeof value === 'string' ? value : undefined;
}

/** @param {any} runAt @returns {PackedError['runAt']} */
function time(runAt) {
  if (typeof runAt?.inMs === 'number') return { inMs: runAt.inMs };
  const at = runAt?.at instanceof Date ? runAt.at.getTime() : runAt?.at;
  return typeof at === 'number' ? { at } : undefined;
}

/** An error of the parent's. @param {PackedError} packed */
function unpack({ name, message, stack, ...more }) {
  const error = Object.assign(new Error(message), more);
  // as of the class that it was of: a name is not listed
  Object.defineProperty(error, 'name', { value: name, configurable: true, writable: true });
  if (stack !== undefined) error.stack = stack;
  return error;
}
