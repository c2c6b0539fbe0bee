/**
 * The queue that lanes or an operator's verbs are for: given as a name, or as the `Jobs` or `Queue` itself.
 *
 * Does not: open anything.
 */
import { inputError, show } from '../wire/errors.js';
import type { JobsOptions } from './admission.js';
import { given } from './input.js';
import { checkWire } from './job-controls.js';
import { Jobs, type Wire } from './jobs.js';

/** @throws EmqError `EMQ_INPUT` for anything else, or a queue on another connector. */
export function jobsOf<T, Input>(
  what: string,
  wire: Wire,
  queue: string | Jobs<T, Input>,
  options: JobsOptions<T, Input> = {},
): Jobs<T, Input> {
  checkWire(what, wire);
  if (typeof queue === 'string') return new Jobs(wire, queue, options);
  if (!(queue instanceof Jobs)) {
    throw inputError(
      `the queue of ${what} must be a name, a Jobs or a Queue (of a NamedQueue its .queue), got ${show(queue)}`,
    );
  }
  if (Object.keys(given('options', options)).length > 0) {
    throw inputError(`a queue brings its codec, schema and limit: give ${what} its name, or no options`);
  }
  if (queue.wire !== wire) {
    throw inputError(`queue ${queue.queue} is on another connector: give ${what} the queue's own`);
  }
  return queue;
}
