/* What is not a scene: deeds, the load, INFO.
 * Does not: come back from a deed that it must not find well. */
#ifndef STRICT_H
#define STRICT_H

/* `load` loads the module where something is missing, `info` reads its INFO section: both come back. Any other word is
 * the name of a deed, one thing that a command must not do: it must end in a finding of the fake, or in a report of the
 * sanitizer; only the deed `decent` comes back. */
void strict_run(const char *word);

#endif
