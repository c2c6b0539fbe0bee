/* Scenes: what is in the keyspace, which commands are called, and what must come out, as lines of text. The cases that
 * are written by hand and those that were recorded from a server are of this form.
 *
 *   case NAME ...                a new scene: an empty keyspace with the node's brand, the clock at 1000000
 *   now MS                       the clock; micros N: the same in Unix microseconds
 *   string KEY TEXT              a key; also: list KEY ITEM ..., set KEY MEMBER ..., hash KEY FIELD TEXT ...,
 *                                zset KEY SCORE MEMBER ...
 *   zadd KEY SCORE MEMBER        one member more; push KEY ITEM: one item more
 *   until KEY MS                 the key lapses then
 *   drop KEY                     the key is gone
 *   cluster | moving             cluster mode; with a slot on the move
 *   script | nobody | stranger   the caller is a script; no client at all; a user who is gone
 *   allow PATTERN | deny PATTERN | readonly PATTERN      rights; a pattern may end in "*"
 *   repeat N STATEMENT           the statement N times, with # in its words being 000, 001 ...
 *   call WORD ...                a command; what is said about a reply or a key afterwards is judged at once
 *   reply WORD ...               its reply: :1 $text _ *2 ..., or - and the text of an error; "..." at the end: more
 *   left STATEMENT               the key is exactly so after the call (string, list, set, hash, zset, until, drop)
 *   same                         nothing has changed
 *   whole                        behind the left lines: no key is there but those
 *   keys 2,3,4                   where the last called command says its keys are
 *
 * A word that starts with @ starts with emq:{q}: instead. \xNN is a byte, "" the empty word. A line that is empty or
 * starts with # says nothing.
 * Does not: run the same command twice because of one line; a fault (fake_api.h) is the driver's to set. */
#ifndef SCENE_H
#define SCENE_H

#include "fake_values.h"
#include <stdbool.h>

/* Plays all scenes of a file. Prints "ok NAME" or "failed NAME: why" for each. Plays each again so often as its last
 * call asks the server something, and answers one of the questions with a no; then on a node of a cluster, and on one
 * whose slot is moving: the fake's own rules, and the refusal that belongs to the disturbance, are judged.
 * Answers how many failed; `count` is how many there were. */
long scene_play(const char *path, long *count);

/* The words of a line; to be freed one by one and as a whole. */
Bytes *scene_words(const char *line, size_t len, int *count);

#endif
