/* The keyspace of the fake server: strings, lists, hashes, sets and sorted sets by name, as plain C.
 *
 * One kind of item serves all types: a list and a set use its key, a hash key and value, a sorted set key and score, a
 * string is one item's key. Everything is looked for from front to end: a fake holds few keys, and plain code is what
 * it is for.
 *
 * Invariants: each text is a block of its own, of exactly its length and with no NUL behind it, so that a sanitizer
 * sees the first byte that is read too far; a value is one block, freed when its key goes, so that it sees a handle
 * which outlives it. Sorted sets are kept in their order. An emptied container is gone.
 * Does not: know of the module API, or judge anything. */
#ifndef FAKE_VALUES_H
#define FAKE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct Bytes {
    char *at;
    size_t len;
} Bytes;

Bytes bytes_of(const void *at, size_t len);
Bytes bytes_text(const char *text);
/* Bytes that are not ours, only to be looked at. */
Bytes bytes_view(const char *at, size_t len);
void bytes_free(Bytes *bytes);
bool bytes_equal(Bytes a, Bytes b);
bool bytes_are(Bytes bytes, const char *text);
/* Below, at or above 0, as memcmp; a text comes before one that goes on. */
int bytes_order(Bytes a, Bytes b);

typedef struct Item {
    Bytes key, value;
    double score;
} Item;

typedef struct Value {
    int type; /* VALKEYMODULE_KEYTYPE_... */
    Item *items;
    size_t count, room;
    int walkers; /* iterators on it: a write under one is a finding */
} Value;

/* The place of an item with that key, or -1. */
long value_find(const Value *value, Bytes key);
/* Adds a list item or a set member, or sets the only item of a string; copies. */
void value_insert(Value *value, size_t at, Bytes key);
/* Sets a field of a hash; copies. */
void value_set(Value *value, Bytes field, Bytes content);
/* Adds a member or moves it to another score. Answers 1 for added, 2 for moved, 0 for neither. */
int value_score(Value *value, Bytes member, double score);
void value_remove(Value *value, size_t at);

typedef struct Entry {
    Bytes name;
    Value *value;
    long long until; /* Unix ms, 0: for ever */
} Entry;

typedef struct Keyspace {
    Entry *entries;
    size_t count, room;
} Keyspace;

/* NULL when there is none. */
Entry *keyspace_find(const Keyspace *keys, Bytes name);
/* The value of that name, made when there is none. */
Value *keyspace_make(Keyspace *keys, Bytes name, int type);
bool keyspace_delete(Keyspace *keys, Bytes name);
void keyspace_expire(Keyspace *keys, long long now);
void keyspace_clear(Keyspace *keys);
void keyspace_copy(Keyspace *to, const Keyspace *from);

/* Whether two entries hold the same; either may be NULL. */
bool entry_equal(const Entry *a, const Entry *b);
/* Whether two keyspaces are the same. The names that differ are told on stderr, each with both contents, under the two
 * titles; without titles nothing is told. */
bool keyspace_equal(const Keyspace *a, const Keyspace *b, const char *title_a, const char *title_b);

/* A text for people, escaped as in a scene (scene.h), into a file. */
void bytes_print(FILE *out, Bytes bytes);
void entry_print(FILE *out, const Entry *entry);

/* As malloc and realloc, which here never fail. */
void *must_allocate(void *block, size_t bytes);

#endif
