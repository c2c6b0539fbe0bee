/* Names, rights, the fence and types: everything that is asked of a key before it is used.
 *
 * A queue's keys all start with its base emq:{q}:. Some are declared by the caller, where the server has checked the
 * caller's rights and the slot; the others are derived from the base here, so the rights are checked here as well.
 * Does not: write. */
#include "trafikey.h"
#include <string.h>

#define LONGEST_QUEUE 128
#define LONGEST_BRAND 64

static bool is_queue_byte(char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '.' || ch == '_' ||
           ch == '-';
}

bool keys_asked_for(ValkeyModuleCtx *ctx, Str **argv, int argc) {
    if (!ValkeyModule_IsKeysPositionRequest(ctx)) return false;
    long long numkeys;
    if (argc > 1 && number_of(argv[1], &numkeys)) {
        for (int i = 0; i < numkeys && i + 2 < argc; i++)
            ValkeyModule_KeyAtPosWithFlags(
                ctx, i + 2, VALKEYMODULE_CMD_KEY_RW | VALKEYMODULE_CMD_KEY_ACCESS | VALKEYMODULE_CMD_KEY_UPDATE);
    }
    return true;
}

bool keys_base(Call *c, const Str *b) {
    size_t len;
    const char *text = ValkeyModule_StringPtrLen(b, &len);
    if (len < 8 || len > LONGEST_QUEUE + 7 || memcmp(text, "emq:{", 5) != 0 || memcmp(text + len - 2, "}:", 2) != 0)
        return false;
    for (size_t i = 5; i < len - 2; i++)
        if (!is_queue_byte(text[i])) return false;
    if (len == 10 && memcmp(text + 5, "emq", 3) == 0) return false; /* the reserve's own hash tag */
    c->base = text;
    c->base_len = len;
    return true;
}

bool keys_is(const Call *c, const Str *key, const char *suffix, const Str *id) {
    size_t len, id_len = 0, suffix_len = strlen(suffix);
    const char *text = ValkeyModule_StringPtrLen(key, &len);
    const char *id_text = id == NULL ? NULL : ValkeyModule_StringPtrLen(id, &id_len);
    if (len != c->base_len + suffix_len + id_len) return false;
    if (memcmp(text, c->base, c->base_len) != 0 || memcmp(text + c->base_len, suffix, suffix_len) != 0) return false;
    return id_len == 0 || memcmp(text + c->base_len + suffix_len, id_text, id_len) == 0;
}

Str *keys_name(Call *c, const char *prefix, const Str *id, const char *suffix) {
    char small[256];
    size_t id_len = 0, prefix_len = strlen(prefix), suffix_len = suffix == NULL ? 0 : strlen(suffix);
    const char *id_text = id == NULL ? NULL : ValkeyModule_StringPtrLen(id, &id_len);
    size_t len = c->base_len + prefix_len + id_len + suffix_len;
    /* an id is 14 bytes, but a raw caller may have put anything into a set */
    char *text = len <= sizeof(small) ? small : ValkeyModule_Realloc(NULL, len);
    char *at = text;
    memcpy(at, c->base, c->base_len);
    at += c->base_len;
    memcpy(at, prefix, prefix_len);
    at += prefix_len;
    if (id_len > 0) memcpy(at, id_text, id_len);
    at += id_len;
    if (suffix_len > 0) memcpy(at, suffix, suffix_len);
    Str *name = ValkeyModule_CreateString(c->ctx, text, len);
    if (text != small) ValkeyModule_Free(text);
    return name;
}

/* The caller, once a call. A call by another module has no client behind it and no rules to keep; asking for its user
 * by way of the context would crash the server. Inside a script the context's client is the script's, with the user of
 * whoever runs it. */
static void find_user(Call *c) {
    c->user_known = true;
    if ((ValkeyModule_GetContextFlags(c->ctx) & VALKEYMODULE_CTX_FLAGS_LUA) != 0)
        c->user_name = ValkeyModule_GetCurrentUserName(c->ctx);
    else
        c->user_name = ValkeyModule_GetClientUserNameById(c->ctx, ValkeyModule_GetClientId(c->ctx));
    if (c->user_name != NULL) c->user = ValkeyModule_GetModuleUserFromUserName(c->user_name);
}

bool keys_allowed(Call *c, Str *name, Use use) {
    if (!c->user_known) find_user(c);
    if (c->user_name == NULL) return true;
    int flags = VALKEYMODULE_CMD_KEY_ACCESS | (use == USE_WRITE ? VALKEYMODULE_CMD_KEY_UPDATE : 0);
    if (c->user != NULL && ValkeyModule_ACLCheckKeyPermissions(c->user, name, flags) == VALKEYMODULE_OK) return true;
    ValkeyModule_ACLAddLogEntryByUserName(c->ctx, c->user_name, name, VALKEYMODULE_ACL_LOG_KEY);
    return refuse(c, "NOPERM No permissions to access a key");
}

bool keys_fence(Call *c, Str **declared, size_t count) {
    Str *name = cached.node_version;
    if (c->cluster) {
        name = keys_name(c, "version", NULL, NULL);
        if (!keys_resident(c, &name, 1) || !keys_resident(c, declared, count)) return false;
    }
    Key *key = ValkeyModule_OpenKey(c->ctx, name,
                                    VALKEYMODULE_READ | VALKEYMODULE_OPEN_KEY_NOTOUCH | VALKEYMODULE_OPEN_KEY_NONOTIFY |
                                        VALKEYMODULE_OPEN_KEY_NOSTATS);
    char text[LONGEST_BRAND + 64];
    const char *found = "unbranded";
    size_t len = strlen(found);
    if (key != NULL && ValkeyModule_KeyType(key) == VALKEYMODULE_KEYTYPE_STRING) {
        found = ValkeyModule_StringDMA(key, &len, VALKEYMODULE_READ);
        if (len == strlen(TRAFIKEY_BRAND) && memcmp(found, TRAFIKEY_BRAND, len) == 0) {
            ValkeyModule_CloseKey(key);
            return true;
        }
    } else if (key != NULL) {
        found = "branded with no string";
        len = strlen(found);
    }
    static const char before[] = "EMQWIRE node is ", after[] = ", needs " TRAFIKEY_BRAND;
    size_t at = sizeof(before) - 1;
    memcpy(text, before, at);
    /* a foreign brand may be anything: what would break the reply's line is not shown as it is */
    for (size_t i = 0; i < len && i < LONGEST_BRAND; i++)
        text[at++] = (found[i] < ' ' || found[i] > '~') ? '?' : found[i];
    memcpy(text + at, after, sizeof(after));
    if (key != NULL) ValkeyModule_CloseKey(key);
    return refuse(c, text);
}

bool keys_open(Call *c, Str *name, int type, Use use, Key **key) {
    int mode = VALKEYMODULE_READ;
    if (use == USE_WRITE) mode |= VALKEYMODULE_WRITE;
    *key = ValkeyModule_OpenKey(c->ctx, name, mode);
    if (keys_missing(*key) || ValkeyModule_KeyType(*key) == type) return true;
    return refuse(c, "WRONGTYPE Operation against a key holding the wrong kind of value");
}

bool keys_open_derived(Call *c, Str *name, int type, Use use, Key **key) {
    *key = NULL; /* a caller may close what it did not get */
    return keys_allowed(c, name, use) && keys_open(c, name, type, use, key);
}

bool keys_missing(Key *key) {
    return key == NULL || ValkeyModule_KeyType(key) == VALKEYMODULE_KEYTYPE_EMPTY;
}

bool keys_text(Call *c, Str *name, Use use, Str **text) {
    Key *key;
    *text = NULL;
    if (!keys_open_derived(c, name, VALKEYMODULE_KEYTYPE_STRING, use, &key)) return false;
    bool there = !keys_missing(key);
    ValkeyModule_CloseKey(key);
    if (!there) return true;
    /* asked by way of the core command: a look at the bytes in place would make the server store them anew */
    ValkeyModuleCallReply *reply = ValkeyModule_Call(c->ctx, "GET", "s", name);
    if (reply == NULL) return true;
    *text = ValkeyModule_CreateStringFromCallReply(reply);
    ValkeyModule_FreeCallReply(reply);
    return true;
}

bool keys_resident(Call *c, Str **names, size_t count) {
    if (!c->cluster) return true;
    ValkeyModuleCallReply *reply = ValkeyModule_Call(c->ctx, "EXISTS", "v", names, count);
    if (reply == NULL) return refuse(c, "TRYAGAIN the slot of this queue is moving");
    ValkeyModule_FreeCallReply(reply);
    return true;
}
