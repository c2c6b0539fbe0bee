/* The fake's memory: blocks, strings, dictionaries, users, and automatic memory. See fake_api.h. */
#include "fake_parts.h"
#include <stdlib.h>
#include <string.h>

long alive[A_KIND_COUNT], alive_blocks, alive_users, alive_infos;

void finding(const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)fflush(stdout);
    (void)fprintf(stderr, "finding: ");
    (void)vfprintf(stderr, format, list);
    (void)fprintf(stderr, "\n");
    va_end(list);
    abort();
}

/* ---- automatic memory -------------------------------------------------------------------------------------------- */

typedef struct Pooled {
    Kind kind;
    void *thing; /* NULL: freed by hand */
} Pooled;

static Pooled *pool;
static size_t pooled, pool_room;

void pool_add(ValkeyModuleCtx *ctx, Kind kind, void *thing) {
    alive[kind]++;
    if (ctx == NULL || !ctx->automatic) return;
    if (pooled == pool_room) {
        pool_room = pool_room == 0 ? 64 : 2 * pool_room;
        pool = must_allocate(pool, pool_room * sizeof(*pool));
    }
    pool[pooled++] = (Pooled){kind, thing};
}

void pool_remove(void *thing) {
    for (size_t i = pooled; i > 0; i--) {
        if (pool[i - 1].thing != thing) continue;
        pool[i - 1].thing = NULL;
        return;
    }
}

static void dict_drop(ValkeyModuleDict *dict);

void pool_collect(void) {
    for (size_t i = 0; i < pooled; i++) {
        if (pool[i].thing == NULL) continue;
        switch (pool[i].kind) {
        case A_STRING: string_drop(pool[i].thing); break;
        case A_KEY: key_close(pool[i].thing); break;
        case A_REPLY: {
            ValkeyModuleCallReply *reply = pool[i].thing;
            bytes_free(&reply->text);
            free(reply);
            break;
        }
        case A_DICT: dict_drop(pool[i].thing); break;
        case A_KIND_COUNT: break;
        }
        alive[pool[i].kind]--;
    }
    free(pool);
    pool = NULL;
    pooled = pool_room = 0;
}

void fake_AutoMemory(ValkeyModuleCtx *ctx) {
    must_be_context(ctx);
    ctx->automatic = true;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

void *fake_Realloc(void *ptr, size_t bytes) {
    if (bytes == 0) finding("a block of no bytes");
    if (ptr == NULL) alive_blocks++;
    return must_allocate(ptr, bytes);
}

void fake_Free(void *ptr) {
    if (ptr != NULL) alive_blocks--;
    free(ptr);
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

static ValkeyModuleString **load_strings;
static size_t load_string_count;

ValkeyModuleString *string_make(ValkeyModuleCtx *ctx, Owner owner, Bytes text) {
    ValkeyModuleString *str = must_allocate(NULL, sizeof(*str));
    *str = (ValkeyModuleString){bytes_of(text.at, text.len), owner};
    if (owner == OF_CALL) pool_add(ctx, A_STRING, str);
    if (owner == OF_LOAD) {
        load_strings = must_allocate((void *)load_strings, (load_string_count + 1) * sizeof(void *));
        load_strings[load_string_count++] = str;
    }
    return str;
}

void string_drop(ValkeyModuleString *str) {
    bytes_free(&str->text);
    free(str);
}

void load_strings_drop(void) {
    for (size_t i = 0; i < load_string_count; i++)
        string_drop(load_strings[i]);
    free((void *)load_strings);
    load_strings = NULL;
    load_string_count = 0;
}

ValkeyModuleString *fake_CreateString(ValkeyModuleCtx *ctx, const char *ptr, size_t len) {
    if (ctx != NULL) must_be_context(ctx);
    if (ptr == NULL) finding("a string of nothing");
    return string_make(ctx, ctx == NULL ? OF_LOAD : OF_CALL, bytes_view(ptr, len));
}

ValkeyModuleString *fake_CreateStringFromLongLong(ValkeyModuleCtx *ctx, long long n) {
    char text[24];
    int len = snprintf(text, sizeof(text), "%lld", n);
    return fake_CreateString(ctx, text, (size_t)len);
}

void fake_FreeString(ValkeyModuleCtx *ctx, ValkeyModuleString *str) {
    must_be_context(ctx);
    if (str->owner != OF_CALL) finding("a string is freed that is not the call's");
    pool_remove(str);
    alive[A_STRING]--;
    string_drop(str);
}

const char *fake_StringPtrLen(const ValkeyModuleString *str, size_t *len) {
    if (str == NULL) finding("the text of no string is asked for");
    *len = str->text.len;
    return str->text.at;
}

/* ---- dictionaries ------------------------------------------------------------------------------------------------ */

typedef struct Pair {
    Bytes key;
    void *value;
} Pair;

struct ValkeyModuleDict {
    Pair *pairs;
    size_t count;
};

ValkeyModuleDict *fake_CreateDict(ValkeyModuleCtx *ctx) {
    must_be_context(ctx);
    ValkeyModuleDict *dict = must_allocate(NULL, sizeof(*dict));
    *dict = (ValkeyModuleDict){NULL, 0};
    pool_add(ctx, A_DICT, dict);
    return dict;
}

static Pair *dict_find(const ValkeyModuleDict *dict, Bytes key) {
    for (size_t i = 0; i < dict->count; i++)
        if (bytes_equal(dict->pairs[i].key, key)) return &dict->pairs[i];
    return NULL;
}

int fake_DictSet(ValkeyModuleDict *dict, ValkeyModuleString *key, void *value) {
    if (dict_find(dict, key->text) != NULL) return VALKEYMODULE_ERR;
    dict->pairs = must_allocate(dict->pairs, (dict->count + 1) * sizeof(Pair));
    dict->pairs[dict->count++] = (Pair){bytes_of(key->text.at, key->text.len), value};
    return VALKEYMODULE_OK;
}

void *fake_DictGet(ValkeyModuleDict *dict, ValkeyModuleString *key, int *nokey) {
    const Pair *pair = dict_find(dict, key->text);
    if (nokey != NULL) *nokey = pair == NULL;
    return pair == NULL ? NULL : pair->value;
}

static void dict_drop(ValkeyModuleDict *dict) {
    for (size_t i = 0; i < dict->count; i++)
        bytes_free(&dict->pairs[i].key);
    free(dict->pairs);
    free(dict);
}
