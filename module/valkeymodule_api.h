/* The part of the Valkey module API that trafikey uses, declared by ourselves.
 *
 * The ABI is documented and stable: the first word of the context that the server hands to OnLoad is a function that
 * fills in any other function by its name. Every function below is asked for by name at load (api.c); a server that
 * lacks one of them is too old, and the load is refused with one log line. So this list is also the statement of
 * what trafikey needs: Valkey 8.0 or later.
 *
 * Does not: declare anything that is not used. */
#ifndef TRAFIKEY_VALKEYMODULE_API_H
#define TRAFIKEY_VALKEYMODULE_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct ValkeyModuleCtx ValkeyModuleCtx;
typedef struct ValkeyModuleKey ValkeyModuleKey;
typedef struct ValkeyModuleString ValkeyModuleString;
typedef struct ValkeyModuleCommand ValkeyModuleCommand;
typedef struct ValkeyModuleCallReply ValkeyModuleCallReply;
typedef struct ValkeyModuleUser ValkeyModuleUser;
typedef struct ValkeyModuleDict ValkeyModuleDict;
typedef struct ValkeyModuleInfoCtx ValkeyModuleInfoCtx;
typedef struct ValkeyModuleServerInfoData ValkeyModuleServerInfoData;

typedef int (*ValkeyModuleCmdFunc)(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
typedef void (*ValkeyModuleInfoFunc)(ValkeyModuleInfoCtx *ctx, int for_crash_report);

enum { VALKEYMODULE_OK = 0, VALKEYMODULE_ERR = 1, VALKEYMODULE_APIVER_1 = 1 };

/* OpenKey: how. A look that a script would not make is made without touching, notifying or counting. */
enum {
    VALKEYMODULE_READ = 1 << 0,
    VALKEYMODULE_WRITE = 1 << 1,
    VALKEYMODULE_OPEN_KEY_NOTOUCH = 1 << 16,
    VALKEYMODULE_OPEN_KEY_NONOTIFY = 1 << 17,
    VALKEYMODULE_OPEN_KEY_NOSTATS = 1 << 18,
};

/* KeyType */
enum {
    VALKEYMODULE_KEYTYPE_EMPTY = 0,
    VALKEYMODULE_KEYTYPE_STRING = 1,
    VALKEYMODULE_KEYTYPE_LIST = 2,
    VALKEYMODULE_KEYTYPE_HASH = 3,
    VALKEYMODULE_KEYTYPE_SET = 4,
    VALKEYMODULE_KEYTYPE_ZSET = 5,
};

enum { VALKEYMODULE_LIST_HEAD = 0, VALKEYMODULE_LIST_TAIL = 1 };
enum { VALKEYMODULE_HASH_NONE = 0 };

/* What ZsetAdd tells of its outcome. */
enum { VALKEYMODULE_ZADD_ADDED = 1 << 2, VALKEYMODULE_ZADD_UPDATED = 1 << 3 };

enum { VALKEYMODULE_REPLY_INTEGER = 2 };
enum { VALKEYMODULE_CTX_FLAGS_LUA = 1 << 0, VALKEYMODULE_CTX_FLAGS_CLUSTER = 1 << 5 };

/* What the server may rely on. A server that does not know an option ignores it. */
enum {
    VALKEYMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED = 1 << 1,
    VALKEYMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD = 1 << 2,
    VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION = 1 << 5,
};

enum { VALKEYMODULE_ACL_LOG_KEY = 2 };

/* The classes of keyspace events. */
enum {
    VALKEYMODULE_NOTIFY_GENERIC = 1 << 2,
    VALKEYMODULE_NOTIFY_LIST = 1 << 4,
    VALKEYMODULE_NOTIFY_HASH = 1 << 6,
    VALKEYMODULE_NOTIFY_ZSET = 1 << 7,
};

/* What a command, or a check of the caller's rights, does with a key. */
enum {
    VALKEYMODULE_CMD_KEY_RW = 1 << 1,
    VALKEYMODULE_CMD_KEY_ACCESS = 1 << 4,
    VALKEYMODULE_CMD_KEY_UPDATE = 1 << 5,
};

/* A value for HashSet that deletes the field. */
#define VALKEYMODULE_HASH_DELETE ((ValkeyModuleString *)1)

/* ---- Command metadata, for COMMAND INFO, COMMAND DOCS and COMMAND GETKEYS ---------------------------------------- */

typedef enum {
    VALKEYMODULE_KSPEC_BS_INVALID = 0,
    VALKEYMODULE_KSPEC_BS_UNKNOWN,
    VALKEYMODULE_KSPEC_BS_INDEX,
} ValkeyModuleKeySpecBeginSearchType;

typedef enum {
    VALKEYMODULE_KSPEC_FK_OMITTED = 0,
    VALKEYMODULE_KSPEC_FK_UNKNOWN,
    VALKEYMODULE_KSPEC_FK_RANGE,
    VALKEYMODULE_KSPEC_FK_KEYNUM,
} ValkeyModuleKeySpecFindKeysType;

typedef enum {
    VALKEYMODULE_ARG_TYPE_STRING = 0,
    VALKEYMODULE_ARG_TYPE_INTEGER,
    VALKEYMODULE_ARG_TYPE_DOUBLE,
    VALKEYMODULE_ARG_TYPE_KEY,
} ValkeyModuleCommandArgType;

typedef struct ValkeyModuleCommandHistoryEntry {
    const char *since;
    const char *changes;
} ValkeyModuleCommandHistoryEntry;

typedef struct ValkeyModuleCommandKeySpec {
    const char *notes;
    uint64_t flags;
    ValkeyModuleKeySpecBeginSearchType begin_search_type;
    union {
        struct {
            int pos;
        } index;
        struct {
            const char *keyword;
            int startfrom;
        } keyword;
    } bs;
    ValkeyModuleKeySpecFindKeysType find_keys_type;
    union {
        struct {
            int lastkey;
            int keystep;
            int limit;
        } range;
        struct {
            int keynumidx;
            int firstkey;
            int keystep;
        } keynum;
    } fk;
} ValkeyModuleCommandKeySpec;

typedef struct ValkeyModuleCommandArg {
    const char *name;
    ValkeyModuleCommandArgType type;
    int key_spec_index;
    const char *token;
    const char *summary;
    const char *since;
    int flags;
    const char *deprecated_since;
    struct ValkeyModuleCommandArg *subargs;
    const char *display_text;
} ValkeyModuleCommandArg;

typedef struct ValkeyModuleCommandInfoVersion {
    int version;
    size_t sizeof_historyentry;
    size_t sizeof_keyspec;
    size_t sizeof_arg;
} ValkeyModuleCommandInfoVersion;

typedef struct ValkeyModuleCommandInfo {
    const ValkeyModuleCommandInfoVersion *version;
    const char *summary;
    const char *complexity;
    const char *since;
    ValkeyModuleCommandHistoryEntry *history;
    const char *tips;
    int arity;
    ValkeyModuleCommandKeySpec *key_specs;
    ValkeyModuleCommandArg *args;
} ValkeyModuleCommandInfo;

/* ---- The functions: result, name, parameters -------------------------------------------------------------------- */

/* clang-format off */
#define TRAFIKEY_API_FUNCTIONS(F) \
    F(void *, Realloc, (void *ptr, size_t bytes)) \
    F(void, Free, (void *ptr)) \
    F(void, SetModuleAttribs, (ValkeyModuleCtx *ctx, const char *name, int ver, int apiver)) \
    F(void, SetModuleOptions, (ValkeyModuleCtx *ctx, int options)) \
    F(int, CreateCommand, (ValkeyModuleCtx *ctx, const char *name, ValkeyModuleCmdFunc func, const char *flags, \
                           int firstkey, int lastkey, int keystep)) \
    F(ValkeyModuleCommand *, GetCommand, (ValkeyModuleCtx *ctx, const char *name)) \
    F(int, SetCommandInfo, (ValkeyModuleCommand *command, const ValkeyModuleCommandInfo *info)) \
    F(int, IsKeysPositionRequest, (ValkeyModuleCtx *ctx)) \
    F(void, KeyAtPosWithFlags, (ValkeyModuleCtx *ctx, int pos, int flags)) \
    F(int, AddACLCategory, (ValkeyModuleCtx *ctx, const char *name)) \
    F(int, SetCommandACLCategories, (ValkeyModuleCommand *command, const char *categories)) \
    F(void, Log, (ValkeyModuleCtx *ctx, const char *level, const char *format, ...)) \
    F(void, AutoMemory, (ValkeyModuleCtx *ctx)) \
    F(ValkeyModuleString *, CreateString, (ValkeyModuleCtx *ctx, const char *ptr, size_t len)) \
    F(ValkeyModuleString *, CreateStringFromLongLong, (ValkeyModuleCtx *ctx, long long n)) \
    F(void, FreeString, (ValkeyModuleCtx *ctx, ValkeyModuleString *str)) \
    F(const char *, StringPtrLen, (const ValkeyModuleString *str, size_t *len)) \
    F(ValkeyModuleKey *, OpenKey, (ValkeyModuleCtx *ctx, ValkeyModuleString *name, int mode)) \
    F(void, CloseKey, (ValkeyModuleKey *key)) \
    F(int, KeyType, (ValkeyModuleKey *key)) \
    F(size_t, ValueLength, (ValkeyModuleKey *key)) \
    F(int, UnlinkKey, (ValkeyModuleKey *key)) \
    F(char *, StringDMA, (ValkeyModuleKey *key, size_t *len, int mode)) \
    F(ValkeyModuleString *, ListGet, (ValkeyModuleKey *key, long index)) \
    F(ValkeyModuleString *, ListPop, (ValkeyModuleKey *key, int where)) \
    F(int, ListPush, (ValkeyModuleKey *key, int where, ValkeyModuleString *element)) \
    F(int, HashGet, (ValkeyModuleKey *key, int flags, ...)) \
    F(int, HashSet, (ValkeyModuleKey *key, int flags, ...)) \
    F(int, ZsetAdd, (ValkeyModuleKey *key, double score, ValkeyModuleString *member, int *flags)) \
    F(int, ZsetRem, (ValkeyModuleKey *key, ValkeyModuleString *member, int *deleted)) \
    F(int, ZsetScore, (ValkeyModuleKey *key, ValkeyModuleString *member, double *score)) \
    F(int, ZsetFirstInScoreRange, (ValkeyModuleKey *key, double min, double max, int minex, int maxex)) \
    F(ValkeyModuleString *, ZsetRangeCurrentElement, (ValkeyModuleKey *key, double *score)) \
    F(int, ZsetRangeNext, (ValkeyModuleKey *key)) \
    F(int, ZsetRangeEndReached, (ValkeyModuleKey *key)) \
    F(void, ZsetRangeStop, (ValkeyModuleKey *key)) \
    F(ValkeyModuleCallReply *, Call, (ValkeyModuleCtx *ctx, const char *command, const char *format, ...)) \
    F(int, CallReplyType, (ValkeyModuleCallReply *reply)) \
    F(long long, CallReplyInteger, (ValkeyModuleCallReply *reply)) \
    F(ValkeyModuleString *, CreateStringFromCallReply, (ValkeyModuleCallReply *reply)) \
    F(void, FreeCallReply, (ValkeyModuleCallReply *reply)) \
    F(int, Replicate, (ValkeyModuleCtx *ctx, const char *command, const char *format, ...)) \
    F(int, NotifyKeyspaceEvent, (ValkeyModuleCtx *ctx, int type, const char *event, ValkeyModuleString *key)) \
    F(int, SignalModifiedKey, (ValkeyModuleCtx *ctx, ValkeyModuleString *name)) \
    F(long long, CachedMicroseconds, (void)) \
    F(int, GetContextFlags, (ValkeyModuleCtx *ctx)) \
    F(ValkeyModuleDict *, CreateDict, (ValkeyModuleCtx *ctx)) \
    F(int, DictSet, (ValkeyModuleDict *dict, ValkeyModuleString *key, void *value)) \
    F(void *, DictGet, (ValkeyModuleDict *dict, ValkeyModuleString *key, int *nokey)) \
    F(unsigned long long, GetClientId, (ValkeyModuleCtx *ctx)) \
    F(ValkeyModuleString *, GetClientUserNameById, (ValkeyModuleCtx *ctx, uint64_t id)) \
    F(ValkeyModuleString *, GetCurrentUserName, (ValkeyModuleCtx *ctx)) \
    F(ValkeyModuleUser *, GetModuleUserFromUserName, (ValkeyModuleString *name)) \
    F(void, FreeModuleUser, (ValkeyModuleUser *user)) \
    F(int, ACLCheckKeyPermissions, (ValkeyModuleUser *user, ValkeyModuleString *key, int flags)) \
    F(void, ACLAddLogEntryByUserName, (ValkeyModuleCtx *ctx, ValkeyModuleString *user, ValkeyModuleString *object, \
                                       int reason)) \
    F(int, WrongArity, (ValkeyModuleCtx *ctx)) \
    F(int, ReplyWithError, (ValkeyModuleCtx *ctx, const char *text)) \
    F(int, ReplyWithArray, (ValkeyModuleCtx *ctx, long len)) \
    F(int, ReplyWithLongLong, (ValkeyModuleCtx *ctx, long long n)) \
    F(int, ReplyWithNull, (ValkeyModuleCtx *ctx)) \
    F(int, ReplyWithString, (ValkeyModuleCtx *ctx, ValkeyModuleString *str)) \
    F(ValkeyModuleServerInfoData *, GetServerInfo, (ValkeyModuleCtx *ctx, const char *section)) \
    F(const char *, ServerInfoGetFieldC, (ValkeyModuleServerInfoData *data, const char *field)) \
    F(void, FreeServerInfo, (ValkeyModuleCtx *ctx, ValkeyModuleServerInfoData *data)) \
    F(int, RegisterInfoFunc, (ValkeyModuleCtx *ctx, ValkeyModuleInfoFunc func)) \
    F(int, InfoAddSection, (ValkeyModuleInfoCtx *ctx, const char *name)) \
    F(int, InfoAddFieldCString, (ValkeyModuleInfoCtx *ctx, const char *field, const char *value)) \
    F(int, InfoAddFieldULongLong, (ValkeyModuleInfoCtx *ctx, const char *field, unsigned long long value))
/* clang-format on */

#define TRAFIKEY_DECLARE(result, name, parameters) extern result(*ValkeyModule_##name) parameters;
TRAFIKEY_API_FUNCTIONS(TRAFIKEY_DECLARE)
#undef TRAFIKEY_DECLARE

/* Resolves every function. Returns NULL, or the name of the first one that this server does not have; then only
 * ValkeyModule_Log may be used, and only if it is not NULL. */
const char *api_resolve(ValkeyModuleCtx *ctx);

#endif
