/* The core commands of the fake server: those that the module calls, and those that it replicates. See fake_api.h.
 *
 * A command of the module's own keeps the rules of any write; one that comes to a replica is only run.
 * Does not: know a command, or a form of one, that the module has no use for: that is a finding. */
#include "fake_parts.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Run {
    Keyspace *keys;
    bool master;
    const Bytes *argv;
    int argc;
    CoreReply reply;
} Run;

static CoreReply integer(long long n) {
    return (CoreReply){REPLY_INTEGER, n, {NULL, 0}};
}

static const CoreReply null_reply = {REPLY_NULL, 0, {NULL, 0}}, wrong_type = {REPLY_ERROR, 0, {NULL, 0}};

/* An integer as the server reads one. */
static long long number_in(Bytes text) {
    char copy[32] = "", *end = NULL;
    if (text.len == 0 || text.len >= sizeof(copy)) finding("a number of %zu bytes is replicated", text.len);
    memcpy(copy, text.at, text.len);
    errno = 0;
    long long n = strtoll(copy, &end, 10);
    if (errno != 0 || *end != '\0') finding("%s is replicated as a number", copy);
    return n;
}

/* The value under the first argument; false when it is of another type. */
static bool typed(Run *run, int type, Value **value) {
    const Entry *entry = keyspace_find(run->keys, run->argv[1]);
    *value = entry == NULL ? NULL : entry->value;
    if (run->master) using_key(run->argv[1], VALKEYMODULE_READ);
    if (entry == NULL || entry->value->type == type) return true;
    run->reply = wrong_type;
    return false;
}

static void write_begins(const Run *run, const Value *value) {
    if (!run->master) return;
    writing_key(run->argv[1], value);
    signal_key(run->argv[1]);
    notify_key(run->argv[1]);
}

static void empty_goes(const Run *run, const Value *value) {
    if (value->count == 0) (void)keyspace_delete(run->keys, run->argv[1]);
}

/* ---- reads ------------------------------------------------------------------------------------------------------- */

static void run_get(Run *run) {
    Value *value;
    if (!typed(run, VALKEYMODULE_KEYTYPE_STRING, &value)) return;
    run->reply = value == NULL ? null_reply : (CoreReply){REPLY_STRING, 0, value->items[0].key};
}

static void run_exists(Run *run) {
    long long found = 0;
    for (int i = 1; i < run->argc; i++)
        found += keyspace_find(run->keys, run->argv[i]) != NULL;
    run->reply = integer(found);
}

static void run_sismember(Run *run) {
    Value *value;
    if (typed(run, VALKEYMODULE_KEYTYPE_SET, &value))
        run->reply = integer(value != NULL && value_find(value, run->argv[2]) >= 0);
}

static void run_lpos(Run *run) {
    Value *value;
    if (!typed(run, VALKEYMODULE_KEYTYPE_LIST, &value)) return;
    long at = value == NULL ? -1 : value_find(value, run->argv[2]);
    run->reply = at < 0 ? null_reply : integer(at);
}

/* ---- writes ------------------------------------------------------------------------------------------------------ */

static void run_set(Run *run) {
    if (run->argc != 5 || !bytes_are(run->argv[3], "PXAT")) finding("a SET without a time");
    const Entry *entry = keyspace_find(run->keys, run->argv[1]);
    if (run->master) using_key(run->argv[1], VALKEYMODULE_READ | VALKEYMODULE_WRITE);
    write_begins(run, entry == NULL ? NULL : entry->value);
    (void)keyspace_delete(run->keys, run->argv[1]);
    /* a time that is past leaves nothing */
    if (number_in(run->argv[4]) <= fake.now_us / 1000) return;
    value_insert(keyspace_make(run->keys, run->argv[1], VALKEYMODULE_KEYTYPE_STRING), 0, run->argv[2]);
    keyspace_find(run->keys, run->argv[1])->until = number_in(run->argv[4]);
}

static void run_lrem(Run *run) {
    Value *list;
    if (number_in(run->argv[2]) != 0) finding("an LREM with a count");
    if (!typed(run, VALKEYMODULE_KEYTYPE_LIST, &list)) return;
    long at = list == NULL ? -1 : value_find(list, run->argv[3]);
    run->reply = integer(at >= 0);
    if (at < 0) return;
    write_begins(run, list);
    for (; at >= 0; at = value_find(list, run->argv[3]))
        value_remove(list, (size_t)at);
    empty_goes(run, list);
}

static void run_zrem(Run *run) {
    Value *zset;
    if (!typed(run, VALKEYMODULE_KEYTYPE_ZSET, &zset) || zset == NULL) return;
    for (int i = 2; i < run->argc; i++) {
        long at = value_find(zset, run->argv[i]);
        if (at >= 0) value_remove(zset, (size_t)at);
    }
    empty_goes(run, zset);
}

static void run_zadd(Run *run) {
    Value *zset;
    if (!typed(run, VALKEYMODULE_KEYTYPE_ZSET, &zset)) return;
    if (zset == NULL) zset = keyspace_make(run->keys, run->argv[1], VALKEYMODULE_KEYTYPE_ZSET);
    for (int i = 2; i + 1 < run->argc; i += 2)
        (void)value_score(zset, run->argv[i + 1], (double)number_in(run->argv[i]));
}

static void run_hset(Run *run) {
    Value *hash;
    if (!typed(run, VALKEYMODULE_KEYTYPE_HASH, &hash)) return;
    if (hash == NULL) hash = keyspace_make(run->keys, run->argv[1], VALKEYMODULE_KEYTYPE_HASH);
    for (int i = 2; i + 1 < run->argc; i += 2)
        value_set(hash, run->argv[i], run->argv[i + 1]);
}

static void run_hdel(Run *run) {
    Value *hash;
    if (!typed(run, VALKEYMODULE_KEYTYPE_HASH, &hash) || hash == NULL) return;
    for (int i = 2; i < run->argc; i++) {
        long at = value_find(hash, run->argv[i]);
        if (at >= 0) value_remove(hash, (size_t)at);
    }
    empty_goes(run, hash);
}

static void run_hincrby(Run *run) {
    Value *hash;
    if (!typed(run, VALKEYMODULE_KEYTYPE_HASH, &hash)) return;
    if (hash == NULL) hash = keyspace_make(run->keys, run->argv[1], VALKEYMODULE_KEYTYPE_HASH);
    long at = value_find(hash, run->argv[2]);
    long long sum = (at < 0 ? 0 : number_in(hash->items[at].value)) + number_in(run->argv[3]);
    char text[24];
    int len = snprintf(text, sizeof(text), "%lld", sum);
    value_set(hash, run->argv[2], (Bytes){text, (size_t)len});
}

static void run_push(Run *run) {
    Value *list;
    bool head = bytes_are(run->argv[0], "LPUSH");
    if (!typed(run, VALKEYMODULE_KEYTYPE_LIST, &list)) return;
    if (list == NULL) list = keyspace_make(run->keys, run->argv[1], VALKEYMODULE_KEYTYPE_LIST);
    for (int i = 2; i < run->argc; i++)
        value_insert(list, head ? 0 : list->count, run->argv[i]);
}

static void run_ltrim(Run *run) {
    Value *list;
    if (number_in(run->argv[3]) != -1) finding("an LTRIM of the tail");
    if (!typed(run, VALKEYMODULE_KEYTYPE_LIST, &list) || list == NULL) return;
    for (long long left = number_in(run->argv[2]); left > 0 && list->count > 0; left--)
        value_remove(list, 0);
    empty_goes(run, list);
}

static void run_del(Run *run) {
    for (int i = 1; i < run->argc; i++)
        (void)keyspace_delete(run->keys, run->argv[i]);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

typedef struct Core {
    const char *name;
    void (*run)(Run *run);
    int words; /* all of them, or at least, if negative */
    bool called, replicated;
} Core;

static const Core cores[] = {
    {"GET", run_get, 2, true, false},
    {"EXISTS", run_exists, -2, true, false},
    {"SISMEMBER", run_sismember, 3, true, false},
    {"LPOS", run_lpos, 3, true, false},
    {"SET", run_set, 5, true, true},
    {"LREM", run_lrem, 4, true, true},
    {"ZREM", run_zrem, -3, false, true},
    {"ZADD", run_zadd, -4, false, true},
    {"HSET", run_hset, -4, false, true},
    {"HDEL", run_hdel, -3, false, true},
    {"HINCRBY", run_hincrby, 4, false, true},
    {"LPUSH", run_push, -3, false, true},
    {"RPUSH", run_push, -3, false, true},
    {"LTRIM", run_ltrim, 4, false, true},
    {"DEL", run_del, -2, false, true},
};

CoreReply core_run(Keyspace *keys, bool master, const Bytes *argv, int argc) {
    for (size_t i = 0; i < sizeof(cores) / sizeof(cores[0]); i++) {
        const Core *core = &cores[i];
        if (!bytes_are(argv[0], core->name) || !(master ? core->called : core->replicated)) continue;
        if (core->words < 0 ? argc < -core->words : argc != core->words) finding("%s with %d words", core->name, argc);
        Run run = {keys, master, argv, argc, integer(0)};
        core->run(&run);
        return run.reply;
    }
    finding("the core command %.*s is %s", (int)argv[0].len, argv[0].at, master ? "called" : "replicated");
}
