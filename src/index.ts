/**
 * The public API of the package `echomq`.
 *
 * Invariants: what is not exported here (or from `echomq/dev`) may change at any time.
 */
export { Connector, type ConnectorEvents, type ConnectorOptions, type ConnectorStats } from './wire/connector.js';
export {
  EmqError,
  type ClientCode,
  type EmqCode,
  type ServerClass,
  type Unconfirmed,
  type WireClass,
} from './wire/errors.js';
export { Keyspace } from './wire/keyspace.js';
export type { Arg, Call, Outcome, Reply, Script, Transition } from './wire/call.js';
export {
  transitions,
  type CountName,
  type JobState,
  type PlaceName,
  type RecoveryLeg,
  type Source,
  type Taken,
  type When,
} from './wire/transitions.js';
export { Jobs, type Enqueued, type EnqueuedMany, type Scheduled, type Wire } from './queue/jobs.js';
export { JobControls, type DedupOwner, type Order } from './queue/job-controls.js';
export { Lanes, type LaneCondition, type LaneEnqueueOptions, type LaneState } from './queue/lanes.js';
export type { Rate } from './queue/rate.js';
export { Admin } from './queue/admin.js';
export type { Audit, CheckOptions, Repair, RepairOptions } from './queue/audit/check.js';
export type { AuditFinding, AuditKind } from './queue/audit/finding.js';
export type { JobDetails, JobsPage, Limits, ListedJob, Metrics, QueueStats } from './queue/admin-reads.js';
export type { Obliterated } from './queue/obliterate.js';
export type { Purged } from './queue/purge.js';
export type { DeadFilter, Reprocessed } from './queue/reprocess.js';
export { listQueues } from './queue/registry.js';
export {
  Repeats,
  type FiredRepeats,
  type Missed,
  type RepeatInfo,
  type RepeatJob,
  type RepeatRun,
  type RepeatSchedule,
  type RepeatSpec,
  type Upserted,
} from './queue/repeats.js';
export {
  Flows,
  type AddedFlow,
  type AddedFlowOfMany,
  type Dependencies,
  type FlowIds,
  type OpenChild,
} from './queue/flows.js';
export { PreparedFlow, type Flow, type FlowChild, type OnFailure, type PlannedJob } from './queue/flow-plan.js';
export type { Children } from './queue/flow-reads.js';
export type { DeliveryReport } from './queue/flow-delivery.js';
export type { FlowCounts } from './wire/flow-transitions.js';
export type { DedupOptions, EnqueueItem, EnqueueOptions, JobOptions, JobsOptions } from './queue/admission.js';
export type { Durability, DurabilityOption } from './queue/durability.js';
export type { DedupMode } from './wire/lane-transitions.js';
export type { JobLimits, ReadOpts } from './queue/opts.js';
export { exponential, fixed, jitter, type Backoff, type BackoffPolicy } from './queue/backoff.js';
export type { RunAt } from './queue/run-at.js';
export { Job, TakenJob, type HeldJob, type JobRow } from './queue/job.js';
export { bytesCodec, jsonCodec, type Codec } from './queue/codec.js';
export { Queue } from './worker/queue.js';
export {
  NamedQueue,
  type JobName,
  type NamedEnqueueOptions,
  type NamedHandlers,
  type NamedJob,
} from './worker/named-queue.js';
export { Consumer, type ConsumerStats } from './worker/consumer.js';
export type { ConsumerEvents } from './worker/consumer-events.js';
export type { ConsumeOptions } from './worker/options.js';
export { BatchConsumer, type BatchStats } from './worker/batch-consumer.js';
export type { BatchConsumerEvents, BatchContext, BatchHandler } from './worker/batch-handler.js';
export type { ConsumeBatchOptions } from './worker/batch-options.js';
export type { BatchPartition, Verdict, Verdicts } from './worker/batch-verdicts.js';
export {
  DelayError,
  JobAbortedError,
  RateLimitError,
  UnrecoverableError,
  type ConsumedJob,
  type Handler,
  type JobContext,
} from './worker/handler.js';
export {
  QueueEvents,
  type QueueEventsMap,
  type QueueEventsOptions,
  type QueueEventsStats,
} from './bus/queue-events.js';
export type { EventName, QueueEvent } from './bus/event.js';
export type { EventGap } from './bus/feed.js';
export { ConsumerMetrics, type ConsumerMetricsOptions } from './metrics/consumer-metrics.js';
export { prometheusText, type PrometheusSources } from './metrics/prometheus.js';
export { PROMETHEUS_CONTENT_TYPE } from './metrics/text.js';
export { closeOnSignal, type Closable, type CloseOnSignalOptions, type CloseOptions } from './worker/close.js';
export * from './ids/index.js';
