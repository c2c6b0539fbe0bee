/**
 * Spans and metrics by the semantic conventions for messaging.
 *
 * Invariants: what is run is run exactly once, and its outcome is never changed; no payload, result or progress is in
 * any attribute; an SDK may be registered before or after the first call. Does not: export, sample or batch.
 *
 * Spans: `enqueue <queue>` (`enqueueMany`, `schedule`), kind producer; `process <queue>`, kind consumer, in the trace of
 * the producer. Metrics: `messaging.client.sent.messages`, `messaging.client.consumed.messages`,
 * `messaging.process.duration` (seconds).
 */
import type * as Api from '@opentelemetry/api';

import type { Telemetry } from './index.js';

const SCOPE = 'echomq';
const QUEUE = 'messaging.destination.name';
const OPERATION = 'messaging.operation.name';
const OPERATION_TYPE = 'messaging.operation.type';
const MESSAGE_ID = 'messaging.message.id';
const JOB_NAME = 'messaging.echomq.job.name';
const ATTEMPTS = 'messaging.echomq.job.attempts';
const OUTCOME = 'messaging.echomq.outcome';
const ERROR_TYPE = 'error.type';
/** Upper bounds in seconds, as the conventions advise. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

interface Instruments {
  readonly provider: Api.MeterProvider;
  readonly sent: Api.Counter;
  readonly consumed: Api.Counter;
  readonly duration: Api.Histogram;
}

/** @param api the package `@opentelemetry/api`, as it is installed. */
export function openTelemetry(api: typeof Api): Telemetry {
  const { context, metrics, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = api;
  // A tracer finds the SDK whenever it comes; a meter does not.
  const tracer = trace.getTracer(SCOPE);
  let known: Instruments | undefined;

  const instruments = (): Instruments => {
    const provider = metrics.getMeterProvider();
    if (known?.provider === provider) return known;
    const meter = provider.getMeter(SCOPE);
    known = {
      provider,
      sent: meter.createCounter('messaging.client.sent.messages', {
        description: 'Jobs that were enqueued or scheduled, or could not be.',
        unit: '{message}',
      }),
      consumed: meter.createCounter('messaging.client.consumed.messages', {
        description: 'Jobs that were run, by outcome.',
        unit: '{message}',
      }),
      duration: meter.createHistogram('messaging.process.duration', {
        description: 'How long a job ran.',
        unit: 's',
        advice: { explicitBucketBoundaries: BOUNDS },
      }),
    };
    return known;
  };

  /** Runs it in the span, which is a child of `parent`; notes what it throws. */
  const within = async <R>(
    name: string,
    options: Api.SpanOptions,
    parent: Api.Context,
    run: (span: Api.Span, own: Api.Context) => Promise<R>,
  ): Promise<R> => {
    const span = tracer.startSpan(name, options, parent);
    const own = trace.setSpan(parent, span);
    try {
      return await context.with(own, run, undefined, span, own);
    } catch (error) {
      const { type, exception } = picture(error);
      // A job that is put off has not failed.
      if (type !== 'DelayError') {
        span.recordException(exception);
        span.setStatus({ code: SpanStatusCode.ERROR, message: exception.message });
        span.setAttribute(ERROR_TYPE, type);
      }
      throw error;
    } finally {
      span.end();
    }
  };

  return {
    async producing({ queue, operation, count }, run) {
      const what = { 'messaging.system': SCOPE, [QUEUE]: queue, [OPERATION]: operation, [OPERATION_TYPE]: 'send' };
      const many =
        operation === 'enqueueMany' || operation === 'addFlows' ? { 'messaging.batch.message_count': count } : {};
      const options = { kind: SpanKind.PRODUCER, attributes: { ...what, ...many } };
      try {
        const result = await within(`${operation} ${queue}`, options, context.active(), async (span, own) => {
          const carrier: Record<string, string> = {};
          propagation.inject(own, carrier);
          const given = await run(carrier);
          const { id } = (given ?? {}) as { id?: unknown };
          if (typeof id === 'string') span.setAttribute(MESSAGE_ID, id);
          return given;
        });
        instruments().sent.add(count, what);
        return result;
      } catch (error) {
        instruments().sent.add(count, { ...what, [ERROR_TYPE]: picture(error).type });
        throw error;
      }
    },

    consuming({ queue, id, name, attempts, carrier }, run) {
      const attributes = {
        'messaging.system': SCOPE,
        [QUEUE]: queue,
        [OPERATION]: 'process',
        [OPERATION_TYPE]: 'process',
        [MESSAGE_ID]: id,
        [ATTEMPTS]: attempts,
        ...(name === undefined ? {} : { [JOB_NAME]: name }),
      };
      // Not where the consumer happened to be made, but where the job comes from.
      const parent = carrier === undefined ? ROOT_CONTEXT : propagation.extract(ROOT_CONTEXT, carrier);
      return within(`process ${queue}`, { kind: SpanKind.CONSUMER, attributes }, parent, run);
    },

    settled({ queue, name, outcome, durationMs }) {
      const attributes = {
        'messaging.system': SCOPE,
        [QUEUE]: queue,
        [OPERATION]: 'process',
        [OUTCOME]: outcome,
        ...(name === undefined ? {} : { [JOB_NAME]: name }),
      };
      const { consumed, duration } = instruments();
      consumed.add(1, attributes);
      duration.record(durationMs / 1_000, attributes);
    },
  };
}

/** What can be said of anything that was thrown. It may be unprintable: nothing of it is trusted to be readable. */
function picture(error: unknown): { type: string; exception: { name: string; message: string; stack?: string } } {
  try {
    if (error instanceof Error) {
      const name = String(error.name);
      const { code } = error as { code?: unknown };
      const type = name === 'EmqError' && typeof code === 'string' ? code : name;
      return { type, exception: { name, message: String(error.message), stack: String(error.stack) } };
    }
    const message = typeof error === 'string' ? error : `a handler threw ${error === null ? 'null' : typeof error}`;
    return { type: '_OTHER', exception: { name: '_OTHER', message } };
  } catch {
    return { type: '_OTHER', exception: { name: '_OTHER', message: 'an error that cannot be read' } };
  }
}
