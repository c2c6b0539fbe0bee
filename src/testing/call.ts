/**
 * How the helpers run their scripts on a queue that was given to them.
 * Does not: know any script.
 */
import type { Jobs } from '../queue/jobs.js';
import { inputError, show, EmqError } from '../wire/errors.js';
import type { Transition } from '../wire/call.js';

/** @throws EmqError `EMQ_INPUT` when it is no queue; the server's error. */
export async function call<I, R>(
  queue: Pick<Jobs<never, never>, 'queue' | 'keys' | 'wire'>,
  transition: Transition<I, R>,
  input: I,
): Promise<R> {
  // a caller without types may have given anything
  const { wire, keys, queue: name } = Object(queue) as Partial<typeof queue>;
  if (wire === undefined || keys === undefined || name === undefined) {
    throw inputError(`a Queue or Jobs must be given (of a NamedQueue its \`queue\`), got ${show(queue)}`);
  }
  try {
    const reply = await wire.run({ transition, queue: name, ...transition.layout(keys, input) });
    return transition.read(reply);
  } catch (error) {
    if (error instanceof EmqError) throw error.during(`${transition.name} on queue ${name}`);
    throw error;
  }
}
