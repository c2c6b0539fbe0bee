/* How the fake server is made: what fake_memory.c, fake_keys.c, fake_core.c and fake_server.c share.
 *
 * Each function F of the list in module/valkeymodule_api.h is here fake_F, so one that is missing does not link.
 * Does not: concern drivers (fake_api.h). */
#ifndef FAKE_PARTS_H
#define FAKE_PARTS_H

#include "fake_api.h"
#include <stdarg.h>

/* clang-format off */
#define FAKE_PROTOTYPE(result, name, parameters) result fake_##name parameters;
/* clang-format on */
TRAFIKEY_API_FUNCTIONS(FAKE_PROTOTYPE)
#undef FAKE_PROTOTYPE

struct ValkeyModuleCtx {
    int (*get)(const char *name, void *target); /* the getter comes first, as in a server */
    bool automatic;                             /* AutoMemory was called */
    bool asking;                                /* only the places of keys are asked for */
};

/* Whose a string is, and so who frees it. */
typedef enum { OF_CALL, OF_CALLER, OF_LOAD } Owner;

struct ValkeyModuleString {
    Bytes text;
    Owner owner;
};

struct ValkeyModuleKey {
    Bytes name;
    int mode;
    Value *value;    /* NULL: there was none */
    bool walks, ran; /* a range of a sorted set is open; it has come to its end */
    size_t at;
    double max;
    bool lists; /* an iterator on a list is open */
};

struct ValkeyModuleCallReply {
    int type;
    long long number;
    Bytes text;
};

enum { REPLY_STRING = 0, REPLY_ERROR = 1, REPLY_INTEGER = VALKEYMODULE_REPLY_INTEGER, REPLY_NULL = 4 };

/* ---- fake_memory.c ---- */

typedef enum { A_STRING, A_KEY, A_REPLY, A_DICT, A_KIND_COUNT } Kind;

/* The things of one call that are not freed yet. */
extern long alive[A_KIND_COUNT], alive_blocks, alive_users, alive_infos;

/* Counts a thing, and leaves it to automatic memory where that is on. */
void pool_add(ValkeyModuleCtx *ctx, Kind kind, void *thing);
/* Takes it out of automatic memory. */
void pool_remove(void *thing);
/* What automatic memory does when the command is over: frees in the order of making. */
void pool_collect(void);

ValkeyModuleString *string_make(ValkeyModuleCtx *ctx, Owner owner, Bytes text);
void string_drop(ValkeyModuleString *str);
void load_strings_drop(void);

/* ---- fake_server.c: the call that is under way ---- */

extern ValkeyModuleCtx context;
/* The context is that of a call under way. */
void must_be_context(const ValkeyModuleCtx *ctx);
/* fake_positions of a function. */
const char *fake_ask_positions(ValkeyModuleCmdFunc run, const Bytes *argv, int argc);
/* A key is about to be used, or written; finds out what may not be. */
void using_key(Bytes name, int mode);
void writing_key(Bytes name, const Value *value);
void signal_key(Bytes name);
void notify_key(Bytes name);
/* Whether this question to the server is the one that fails. */
bool fails_now(const char *question);

/* ---- fake_keys.c ---- */

void key_close(ValkeyModuleKey *key);

/* ---- fake_core.c ---- */

typedef struct CoreReply {
    int type;
    long long number;
    Bytes text;
} CoreReply;

/* Runs a core command on a keyspace. `master`: it is the module's own call, which must keep the rules of one. */
CoreReply core_run(Keyspace *keys, bool master, const Bytes *argv, int argc);

#endif
