/* The fake's keys: handles, and what the module API does through them. See fake_api.h.
 *
 * A handle holds the value itself, as the server's does: when the key goes behind its back, its next use reads freed
 * memory, and the sanitizer says so. */
#include "fake_parts.h"
#include <errno.h>
#include <stdlib.h>

enum { ANY_WRITE = VALKEYMODULE_WRITE };

ValkeyModuleKey *fake_OpenKey(ValkeyModuleCtx *ctx, ValkeyModuleString *name, int mode) {
    must_be_context(ctx);
    if ((mode & (VALKEYMODULE_READ | VALKEYMODULE_WRITE)) == 0) finding("a key is opened for nothing");
    using_key(name->text, mode);
    const Entry *entry = keyspace_find(&fake.keys, name->text);
    if (entry == NULL && (mode & ANY_WRITE) == 0) return NULL;
    ValkeyModuleKey *key = must_allocate(NULL, sizeof(*key));
    *key = (ValkeyModuleKey){.name = bytes_of(name->text.at, name->text.len), .mode = mode};
    if (entry != NULL) key->value = entry->value;
    pool_add(ctx, A_KEY, key);
    return key;
}

static void stop_walking(ValkeyModuleKey *key) {
    if (key->walks) key->value->walkers--;
    key->walks = false;
}

static void stop_listing(ValkeyModuleKey *key) {
    if (key->lists) key->value->walkers--;
    key->lists = false;
}

/* The server looks at the type of what it closes, too. */
void key_close(ValkeyModuleKey *key) {
    if (key->value != NULL && key->value->type == VALKEYMODULE_KEYTYPE_ZSET) stop_walking(key);
    if (key->value != NULL && key->value->type == VALKEYMODULE_KEYTYPE_LIST) stop_listing(key);
    bytes_free(&key->name);
    free(key);
}

void fake_CloseKey(ValkeyModuleKey *key) {
    if (key == NULL) return;
    pool_remove(key);
    alive[A_KEY]--;
    key_close(key);
}

/* What the handle sees; a key that has come since it was opened, it does not. */
static Value *seen(const ValkeyModuleKey *key) {
    if (key->value == NULL) {
        if (keyspace_find(&fake.keys, key->name) != NULL) finding("a key has come behind its handle");
        return NULL;
    }
    if (key->value->type == VALKEYMODULE_KEYTYPE_EMPTY) finding("a key without a type");
    return key->value;
}

static void must_be(const ValkeyModuleKey *key, int type, bool may_be_missing) {
    if (key == NULL) finding("a function is given no key");
    const Value *value = seen(key);
    if (value == NULL ? !may_be_missing : value->type != type) finding("a key is used as what it is not");
}

/* The value to write to, made when there is none. */
static Value *to_write(ValkeyModuleKey *key, int type) {
    if (key == NULL) finding("a function is given no key");
    if ((key->mode & ANY_WRITE) == 0) finding("a write by a handle for reading");
    must_be(key, type, true);
    writing_key(key->name, key->value);
    if (key->value == NULL) key->value = keyspace_make(&fake.keys, key->name, type);
    return key->value;
}

static void drop_if_empty(ValkeyModuleKey *key) {
    if (key->value == NULL || key->value->count > 0) return;
    key->value = NULL;
    (void)keyspace_delete(&fake.keys, key->name);
}

int fake_KeyType(ValkeyModuleKey *key) {
    if (key == NULL) return VALKEYMODULE_KEYTYPE_EMPTY;
    const Value *value = seen(key);
    return value == NULL ? VALKEYMODULE_KEYTYPE_EMPTY : value->type;
}

size_t fake_ValueLength(ValkeyModuleKey *key) {
    if (key == NULL) return 0;
    const Value *value = seen(key);
    if (value == NULL) return 0;
    return value->type == VALKEYMODULE_KEYTYPE_STRING ? value->items[0].key.len : value->count;
}

int fake_UnlinkKey(ValkeyModuleKey *key) {
    if (key == NULL || (key->mode & ANY_WRITE) == 0) finding("a key is unlinked by no handle for writing");
    if (seen(key) == NULL) return VALKEYMODULE_OK;
    stop_walking(key);
    stop_listing(key);
    writing_key(key->name, key->value);
    (void)keyspace_delete(&fake.keys, key->name);
    key->value = NULL;
    return VALKEYMODULE_OK;
}

char *fake_StringDMA(ValkeyModuleKey *key, size_t *len, int mode) {
    must_be(key, VALKEYMODULE_KEYTYPE_STRING, false);
    if ((mode & ANY_WRITE) != 0) finding("a string is changed in place");
    *len = key->value->items[0].key.len;
    return key->value->items[0].key.at;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

ValkeyModuleString *fake_ListGet(ValkeyModuleKey *key, long index) {
    must_be(key, VALKEYMODULE_KEYTYPE_LIST, false);
    /* the server keeps an iterator at the handle, for the next look */
    if (!key->lists) key->value->walkers++;
    key->lists = true;
    size_t at = (size_t)(index < 0 ? index + (long)key->value->count : index);
    if (at >= key->value->count) return NULL;
    return string_make(&context, OF_CALL, key->value->items[at].key);
}

ValkeyModuleString *fake_ListPop(ValkeyModuleKey *key, int where) {
    must_be(key, VALKEYMODULE_KEYTYPE_LIST, true);
    if (key->value == NULL) return NULL;
    stop_listing(key);
    Value *list = to_write(key, VALKEYMODULE_KEYTYPE_LIST);
    size_t at = where == VALKEYMODULE_LIST_HEAD ? 0 : list->count - 1;
    ValkeyModuleString *popped = string_make(&context, OF_CALL, list->items[at].key);
    value_remove(list, at);
    drop_if_empty(key);
    return popped;
}

int fake_ListPush(ValkeyModuleKey *key, int where, ValkeyModuleString *element) {
    if (key != NULL && key->lists) stop_listing(key);
    Value *list = to_write(key, VALKEYMODULE_KEYTYPE_LIST);
    value_insert(list, where == VALKEYMODULE_LIST_HEAD ? 0 : list->count, element->text);
    return VALKEYMODULE_OK;
}

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

int fake_HashGet(ValkeyModuleKey *key, int flags, ...) {
    if (flags != VALKEYMODULE_HASH_NONE) finding("HashGet with flags");
    must_be(key, VALKEYMODULE_KEYTYPE_HASH, true);
    va_list list;
    va_start(list, flags);
    for (const ValkeyModuleString *field = va_arg(list, ValkeyModuleString *); field != NULL;
         field = va_arg(list, ValkeyModuleString *)) {
        ValkeyModuleString **target = va_arg(list, ValkeyModuleString **);
        long at = key->value == NULL ? -1 : value_find(key->value, field->text);
        *target = at < 0 ? NULL : string_make(&context, OF_CALL, key->value->items[at].value);
    }
    va_end(list);
    return VALKEYMODULE_OK;
}

int fake_HashSet(ValkeyModuleKey *key, int flags, ...) {
    if (flags != VALKEYMODULE_HASH_NONE) finding("HashSet with flags");
    Value *hash = to_write(key, VALKEYMODULE_KEYTYPE_HASH);
    int updated = 0;
    va_list list;
    va_start(list, flags);
    for (const ValkeyModuleString *field = va_arg(list, ValkeyModuleString *); field != NULL;
         field = va_arg(list, ValkeyModuleString *)) {
        const ValkeyModuleString *value = va_arg(list, ValkeyModuleString *);
        long at = value_find(hash, field->text);
        updated += at >= 0;
        if (value != VALKEYMODULE_HASH_DELETE)
            value_set(hash, field->text, value->text);
        else if (at >= 0)
            value_remove(hash, (size_t)at);
    }
    va_end(list);
    drop_if_empty(key);
    return updated;
}

/* ---- sorted sets ------------------------------------------------------------------------------------------------- */

int fake_ZsetAdd(ValkeyModuleKey *key, double score, ValkeyModuleString *member, int *flags) {
    if (score != score) finding("a score that is no number");
    if (flags != NULL && *flags != 0) finding("ZsetAdd with flags");
    int outcome = value_score(to_write(key, VALKEYMODULE_KEYTYPE_ZSET), member->text, score);
    static const int told[] = {1 << 4, VALKEYMODULE_ZADD_ADDED, VALKEYMODULE_ZADD_UPDATED};
    if (flags != NULL) *flags = told[outcome];
    return VALKEYMODULE_OK;
}

int fake_ZsetRem(ValkeyModuleKey *key, ValkeyModuleString *member, int *deleted) {
    must_be(key, VALKEYMODULE_KEYTYPE_ZSET, true);
    long at = key->value == NULL ? -1 : value_find(key->value, member->text);
    if (deleted != NULL) *deleted = at >= 0;
    if (at < 0) return VALKEYMODULE_OK;
    value_remove(to_write(key, VALKEYMODULE_KEYTYPE_ZSET), (size_t)at);
    drop_if_empty(key);
    return VALKEYMODULE_OK;
}

int fake_ZsetScore(ValkeyModuleKey *key, ValkeyModuleString *member, double *score) {
    must_be(key, VALKEYMODULE_KEYTYPE_ZSET, true);
    long at = key->value == NULL ? -1 : value_find(key->value, member->text);
    if (at < 0) return VALKEYMODULE_ERR;
    *score = key->value->items[at].score;
    return VALKEYMODULE_OK;
}

int fake_ZsetFirstInScoreRange(ValkeyModuleKey *key, double min, double max, int minex, int maxex) {
    if (minex != 0 || maxex != 0) finding("a range without its ends");
    must_be(key, VALKEYMODULE_KEYTYPE_ZSET, true);
    if (key->value == NULL) return VALKEYMODULE_ERR;
    stop_walking(key);
    key->walks = true;
    key->value->walkers++;
    key->max = max;
    key->at = 0;
    while (key->at < key->value->count && key->value->items[key->at].score < min)
        key->at++;
    key->ran = key->at == key->value->count || key->value->items[key->at].score > max;
    return VALKEYMODULE_OK;
}

ValkeyModuleString *fake_ZsetRangeCurrentElement(ValkeyModuleKey *key, double *score) {
    must_be(key, VALKEYMODULE_KEYTYPE_ZSET, false);
    if (!key->walks) finding("an element of no range");
    if (key->ran) return NULL;
    const Item *item = &key->value->items[key->at];
    if (score != NULL) *score = item->score;
    return string_make(&context, OF_CALL, item->key);
}

int fake_ZsetRangeNext(ValkeyModuleKey *key) {
    must_be(key, VALKEYMODULE_KEYTYPE_ZSET, false);
    if (!key->walks) finding("the next one of no range");
    if (key->ran) return 0;
    key->at++;
    key->ran = key->at == key->value->count || key->value->items[key->at].score > key->max;
    return !key->ran;
}

int fake_ZsetRangeEndReached(ValkeyModuleKey *key) {
    must_be(key, VALKEYMODULE_KEYTYPE_ZSET, false);
    if (!key->walks) finding("the end of no range");
    return key->ran;
}

void fake_ZsetRangeStop(ValkeyModuleKey *key) {
    must_be(key, VALKEYMODULE_KEYTYPE_ZSET, false);
    stop_walking(key);
}
