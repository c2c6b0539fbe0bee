/* A server to run the module in without a server: the functions of module/valkeymodule_api.h over a keyspace in memory.
 *
 * The module is linked in and loaded by its own OnLoad, through the documented way: the first word of the context is
 * the getter. What a driver (a scene, a fuzzer, a test of the load) sets, runs and reads is here; how the functions are
 * made is in fake_parts.h and the files that include it.
 *
 * The fake is strict. It ends the process with a line "finding: ..." when a command
 *   - answers not exactly once, or not wholly; writes after a refusal, or refuses after a write
 *   - leaves a block, a string, a reply, a dictionary or a user that nothing will free, or frees what is not its own
 *   - uses a key that its caller may not use (or was not asked about), that it opened for reading only, that is of
 *     another type, of another queue, or that has come or gone behind the handle
 *   - writes under an iterator, or in cluster mode while a key that it opened is not here because its slot is moving
 *   - changes a key without telling watchers, keyspace listeners and replicas: what it replicates is run on a copy, and
 *     the copy must come out the same
 * Use of freed memory, an overrun and undefined behaviour are the sanitizers' to find: each text is a block of its own.
 * Does not: run out of memory (a server's allocator ends it instead), run two commands at once, speak RESP. */
#ifndef FAKE_API_H
#define FAKE_API_H

#include "../../module/valkeymodule_api.h"
#include "fake_values.h"

#define FAKE_BRAND "echomq:6.0.0"
#define FAKE_RUN_ID "0123456789abcdef0123456789abcdef01234567"
#define FAKE_VERSION_KEY "{emq}:version"

enum { MOST_RULES = 64 };

typedef enum { USER_RULED, USER_NONE, USER_GONE } FakeUser;

/* What may go wrong while the module loads. */
typedef enum {
    LOADS,
    NO_ACL_CATEGORY,     /* AddACLCategory: no room, or a bad name */
    ACL_CATEGORY_TAKEN,  /* AddACLCategory: it is there already */
    NO_RUN_ID,           /* the server information has none */
    LONG_RUN_ID,         /* longer than any server's */
    NO_COMMAND,          /* CreateCommand */
    NO_COMMAND_FOUND,    /* GetCommand */
    NO_COMMAND_INFO,     /* SetCommandInfo */
    NO_COMMAND_CATEGORY, /* SetCommandACLCategories */
    NO_INFO,             /* RegisterInfoFunc */
    LOAD_FAULTS
} LoadFault;

typedef struct Fake {
    Keyspace keys;
    long long now_us; /* the clock, Unix microseconds */
    bool cluster;
    bool moving; /* cluster mode: what is not here may be where the slot is moving to */
    bool in_script;
    FakeUser user;
    /* Patterns of keys, "*" at the end only. With `allowed` none but those may be used. */
    Bytes allowed[MOST_RULES], denied[MOST_RULES], read_only[MOST_RULES];
    size_t allows, denies, read_onlys;
    /* Of the questions that a server may answer with a no (a call before the first write, the caller's user, a right),
     * the one that it does: 1 is the first, 0 none. `fallible` counts them, `failed` says which one it was. */
    long fault_at, fallible;
    const char *failed;
    const char *hidden; /* a function that this server does not have */
    LoadFault load_fault;
    char *log; /* one line a message */
    size_t log_len;
} Fake;

extern Fake fake;

/* An empty branded keyspace at the usual time, no rules, no faults. What is loaded stays. */
void fake_reset(void);
/* Loads the module with so many arguments; answers what OnLoad did. */
int fake_load(int argc);
/* Asks the module to leave; answers what OnUnload did. */
int fake_ask_to_leave(void);
/* Forgets commands, the INFO section and the load's strings, as the end of the server would. */
void fake_unload(void);
size_t fake_commands(void);

/* Runs a command by its name and answers its reply in the words of a scene (scene.h); valid until the next one. */
const char *fake_run(const Bytes *argv, int argc);
/* The same of any function. */
const char *fake_run_function(ValkeyModuleCmdFunc run, const char *name, const Bytes *argv, int argc);
/* Where a command says its keys are, in the words "2,3,4". */
const char *fake_positions(const Bytes *argv, int argc);
/* The module's section of INFO, a line "field:value" each; valid until the next one. */
const char *fake_info(void);

/* The end: something is wrong with the module, or with the driver. */
__attribute__((format(printf, 1, 2))) _Noreturn void finding(const char *format, ...);

#endif
