/**
 * The public API of the package `echomq`.
 *
 * Invariants: what is not exported here (or from `echomq/dev`) may change at any time.
 */
export { Connector, type ConnectorEvents, type ConnectorOptions, type ConnectorStats } from './wire/connector.js';
export { EmqError, type ClientCode, type EmqCode, type ServerClass, type WireClass } from './wire/errors.js';
export { Keyspace } from './wire/keyspace.js';
export type { Arg, Call, Outcome, Reply, Script, Transition } from './wire/call.js';
export { transitions, type CountName, type JobState, type PlaceName, type When } from './wire/transitions.js';
export {
  Jobs,
  type Enqueued,
  type EnqueuedMany,
  type EnqueueOptions,
  type JobsOptions,
  type RunAt,
  type Wire,
} from './queue/jobs.js';
export { Job, type HeldJob, type JobRow } from './queue/job.js';
export { bytesCodec, jsonCodec, type Codec } from './queue/codec.js';
export * from './ids/index.js';
