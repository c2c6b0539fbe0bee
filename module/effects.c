/* Writes. Each does the change, fires the keyspace event that the script's command would fire, signals the key as
 * modified, and replicates the effect as a core command. The server wraps the effects of one call into one transaction.
 *
 * Invariant: called only after every check of the call has passed, so nothing here can fail.
 * Does not: look at anything to decide. */
#include "trafikey.h"

static void changed(Call *c, int type, const char *event, Str *name) {
    (void)ValkeyModule_SignalModifiedKey(c->ctx, name);
    (void)ValkeyModule_NotifyKeyspaceEvent(c->ctx, type, event, name);
}

/* A container that a removal has emptied is gone, and the core commands say so. */
static void gone_if_empty(Call *c, Key *key, Str *name) {
    if (keys_missing(key)) (void)ValkeyModule_NotifyKeyspaceEvent(c->ctx, VALKEYMODULE_NOTIFY_GENERIC, "del", name);
}

void effect_zrem(Call *c, Key *key, Str *name, Str *member, const char *event) {
    (void)ValkeyModule_ZsetRem(key, member, NULL);
    changed(c, VALKEYMODULE_NOTIFY_ZSET, event, name);
    gone_if_empty(c, key, name);
    (void)ValkeyModule_Replicate(c->ctx, "ZREM", "ss", name, member);
}

void effect_zpopmin(Call *c, Key *key, Str *name, const Strs *members) {
    if (members->count == 0) return;
    for (size_t i = 0; i < members->count; i++)
        (void)ValkeyModule_ZsetRem(key, members->at[i], NULL);
    changed(c, VALKEYMODULE_NOTIFY_ZSET, "zpopmin", name);
    gone_if_empty(c, key, name);
    (void)ValkeyModule_Replicate(c->ctx, "ZREM", "sv", name, members->at, members->count);
}

void effect_zadd(Call *c, Key *key, Str *name, long long score, Str *member) {
    int outcome = 0;
    (void)ValkeyModule_ZsetAdd(key, (double)score, member, &outcome);
    /* the member was there at this very score: a write that changes nothing is none, to ZADD as well */
    if ((outcome & (VALKEYMODULE_ZADD_ADDED | VALKEYMODULE_ZADD_UPDATED)) == 0) return;
    changed(c, VALKEYMODULE_NOTIFY_ZSET, "zadd", name);
    (void)ValkeyModule_Replicate(c->ctx, "ZADD", "sls", name, score, member);
}

void effect_zadd_all(Call *c, Key *key, Str *name, const Score *scores, size_t count) {
    Strs flat = {0};
    for (size_t i = 0; i < count; i++) {
        (void)ValkeyModule_ZsetAdd(key, (double)scores[i].score, scores[i].member, NULL);
        strs_add(&flat, ValkeyModule_CreateStringFromLongLong(c->ctx, scores[i].score));
        strs_add(&flat, scores[i].member);
    }
    changed(c, VALKEYMODULE_NOTIFY_ZSET, "zadd", name);
    (void)ValkeyModule_Replicate(c->ctx, "ZADD", "sv", name, flat.at, flat.count);
    strs_free(&flat);
}

void effect_hset(Call *c, Key *key, Str *name, const Field *fields, size_t count) {
    Str *flat[2 * 8];
    for (size_t i = 0; i < count; i++) {
        (void)ValkeyModule_HashSet(key, VALKEYMODULE_HASH_NONE, fields[i].name, fields[i].value, NULL);
        flat[2 * i] = fields[i].name;
        flat[2 * i + 1] = fields[i].value;
    }
    changed(c, VALKEYMODULE_NOTIFY_HASH, "hset", name);
    (void)ValkeyModule_Replicate(c->ctx, "HSET", "sv", name, flat, 2 * count);
}

void effect_hdel(Call *c, Key *key, Str *name, Str *field) {
    effect_hdel_all(c, key, name, &field, 1);
}

void effect_hdel_all(Call *c, Key *key, Str *name, Str **fields, size_t count) {
    /* an empty hash is gone, and one more deletion would make it anew */
    for (size_t i = 0; i < count && !keys_missing(key); i++)
        (void)ValkeyModule_HashSet(key, VALKEYMODULE_HASH_NONE, fields[i], VALKEYMODULE_HASH_DELETE, NULL);
    changed(c, VALKEYMODULE_NOTIFY_HASH, "hdel", name);
    gone_if_empty(c, key, name);
    (void)ValkeyModule_Replicate(c->ctx, "HDEL", "sv", name, fields, count);
}

void effect_hincrby(Call *c, Key *key, Str *name, Str *field, long long was, long long by) {
    Str *value = ValkeyModule_CreateStringFromLongLong(c->ctx, was + by);
    (void)ValkeyModule_HashSet(key, VALKEYMODULE_HASH_NONE, field, value, NULL);
    changed(c, VALKEYMODULE_NOTIFY_HASH, "hincrby", name);
    (void)ValkeyModule_Replicate(c->ctx, "HINCRBY", "ssl", name, field, by);
}

void effect_push(Call *c, Key *key, Str *name, int where, Str **items, size_t count) {
    if (count == 0) return;
    for (size_t i = 0; i < count; i++)
        (void)ValkeyModule_ListPush(key, where, items[i]);
    bool head = where == VALKEYMODULE_LIST_HEAD;
    changed(c, VALKEYMODULE_NOTIFY_LIST, head ? "lpush" : "rpush", name);
    (void)ValkeyModule_Replicate(c->ctx, head ? "LPUSH" : "RPUSH", "sv", name, items, count);
}

void effect_ltrim(Call *c, Key *key, Str *name, long long count) {
    for (long long i = 0; i < count; i++)
        (void)ValkeyModule_ListPop(key, VALKEYMODULE_LIST_HEAD);
    changed(c, VALKEYMODULE_NOTIFY_LIST, "ltrim", name);
    gone_if_empty(c, key, name);
    (void)ValkeyModule_Replicate(c->ctx, "LTRIM", "slc", name, count, "-1");
}

void effect_retire(Call *c, Str **names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        Key *key = ValkeyModule_OpenKey(c->ctx, names[i], VALKEYMODULE_READ | VALKEYMODULE_WRITE);
        if (!keys_missing(key)) {
            (void)ValkeyModule_UnlinkKey(key);
            changed(c, VALKEYMODULE_NOTIFY_GENERIC, "del", names[i]);
        }
        ValkeyModule_CloseKey(key);
    }
    (void)ValkeyModule_Replicate(c->ctx, "DEL", "v", names, count);
}

void effect_set_until(Call *c, Str *name, long long value, long long until) {
    /* SET as a core command, which keeps what it finds; it fires its own events and signals */
    ValkeyModuleCallReply *reply = ValkeyModule_Call(c->ctx, "SET", "slcl", name, value, "PXAT", until);
    if (reply != NULL) ValkeyModule_FreeCallReply(reply);
    (void)ValkeyModule_Replicate(c->ctx, "SET", "slcl", name, value, "PXAT", until);
}
