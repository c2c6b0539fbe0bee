/* The fake server: the load, one call from its begin to its end, what it says and replicates, and what is asked of the
 * server about itself and its users. See fake_api.h. */
#include "fake_parts.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

Fake fake;
ValkeyModuleCtx context;

/* ---- one call ---------------------------------------------------------------------------------------------------- */

typedef struct Names {
    Bytes *at;
    size_t count, room;
} Names;

static struct {
    bool under_way;
    const char *name;
    Keyspace before, replica;
    Bytes base; /* the hash tag of the first declared key, with what comes before it */
    Names declared, readable, writable, missing, signalled, notified;
    size_t writes, replicated;
    bool refused;
    char *reply;
    size_t reply_len, reply_room;
    long owed[64]; /* elements that arrays still owe */
    int depth, replies;
    char positions[4096];
} call;

void must_be_context(const ValkeyModuleCtx *ctx) {
    if (ctx != &context || !call.under_way) finding("a context that is not that of this call");
}

static void names_add(Names *names, Bytes name) {
    if (names->count == names->room) {
        names->room = names->room == 0 ? 16 : 2 * names->room;
        names->at = must_allocate(names->at, names->room * sizeof(Bytes));
    }
    names->at[names->count++] = bytes_of(name.at, name.len);
}

static bool names_have(const Names *names, Bytes name) {
    for (size_t i = 0; i < names->count; i++)
        if (bytes_equal(names->at[i], name)) return true;
    return false;
}

static void names_clear(Names *names) {
    for (size_t i = 0; i < names->count; i++)
        bytes_free(&names->at[i]);
    free(names->at);
    *names = (Names){NULL, 0, 0};
}

static bool starts_with(Bytes text, Bytes start) {
    return text.len >= start.len && (start.len == 0 || memcmp(text.at, start.at, start.len) == 0);
}

void using_key(Bytes name, int mode) {
    bool writes = (mode & VALKEYMODULE_WRITE) != 0;
    if (call.replies > 0 && call.refused) finding("a key is used after a refusal");
    if (keyspace_find(&fake.keys, name) == NULL && !names_have(&call.missing, name)) names_add(&call.missing, name);
    if (!fake.cluster && bytes_are(name, FAKE_VERSION_KEY)) {
        if (writes) finding("the brand is opened for writing");
        return;
    }
    if (!starts_with(name, call.base)) finding("a key of another queue: %.*s", (int)name.len, name.at);
    Bytes rest = {name.at + call.base.len, name.len - call.base.len};
    if (fake.user == USER_NONE || names_have(&call.declared, name) || bytes_are(rest, "version")) return;
    if (!names_have(writes ? &call.writable : &call.readable, name))
        finding("the caller's right to %s %.*s was not asked for", writes ? "write" : "read", (int)name.len, name.at);
}

void writing_key(Bytes name, const Value *value) {
    call.writes++;
    if (call.refused) finding("a write after a refusal");
    if (value != NULL && value->walkers > 0) finding("a write under an iterator: %.*s", (int)name.len, name.at);
    if (fake.cluster && fake.moving && call.missing.count > 0)
        finding("a write while %.*s may be where the slot is moving to", (int)call.missing.at[0].len,
                call.missing.at[0].at);
    if (fake.user != USER_NONE && !names_have(&call.declared, name) && !names_have(&call.writable, name))
        finding("a write without a right: %.*s", (int)name.len, name.at);
}

void signal_key(Bytes name) {
    names_add(&call.signalled, name);
}

void notify_key(Bytes name) {
    names_add(&call.notified, name);
}

bool fails_now(const char *question) {
    if (++fake.fallible != fake.fault_at) return false;
    fake.failed = question;
    return true;
}

/* In cluster mode with a moving slot: a key of these is not here. */
static bool elsewhere(const Bytes *names, size_t count) {
    if (!fake.cluster || !fake.moving) return false;
    for (size_t i = 0; i < count; i++)
        if (keyspace_find(&fake.keys, names[i]) == NULL) return true;
    return false;
}

static void call_begins(const char *name, const Bytes *argv, int argc) {
    call.under_way = true;
    call.name = name;
    call.refused = false;
    call.writes = call.replicated = 0;
    call.depth = call.replies = 0;
    call.reply_len = 0;
    call.positions[0] = '\0';
    fake.fallible = 0;
    fake.failed = NULL;
    context = (ValkeyModuleCtx){.get = context.get};
    keyspace_expire(&fake.keys, fake.now_us / 1000);
    keyspace_copy(&call.before, &fake.keys);
    keyspace_copy(&call.replica, &fake.keys);
    call.base = (Bytes){NULL, 0};
    /* declared are so many words as the first one says */
    int keys = argc > 1 && argv[1].len == 1 ? argv[1].at[0] - '0' : 0;
    for (int i = 2; i < argc && i < 2 + keys; i++)
        names_add(&call.declared, argv[i]);
    if (argc < 3) return;
    const char *close = memchr(argv[2].at, '}', argv[2].len);
    if (close != NULL) call.base = (Bytes){argv[2].at, (size_t)(close - argv[2].at) + 2};
    if (call.base.len > argv[2].len) call.base.len = argv[2].len;
}

/* What changed must have been told to everybody. */
static void must_be_told(const Keyspace *a, const Keyspace *b) {
    for (size_t i = 0; i < a->count; i++) {
        const Entry *entry = &a->entries[i];
        if (entry_equal(entry, keyspace_find(b, entry->name))) continue;
        if (!names_have(&call.signalled, entry->name))
            finding("%s changed %.*s and told no watcher", call.name, (int)entry->name.len, entry->name.at);
        if (!names_have(&call.notified, entry->name))
            finding("%s changed %.*s without an event", call.name, (int)entry->name.len, entry->name.at);
    }
}

static const char *call_ends(void) {
    pool_collect();
    static const char *const things[] = {"strings", "keys", "replies of calls", "dictionaries"};
    for (int i = 0; i < A_KIND_COUNT; i++)
        if (alive[i] != 0) finding("%s left %ld %s", call.name, alive[i], things[i]);
    if (alive_blocks != 0) finding("%s left %ld blocks", call.name, alive_blocks);
    if (alive_users != 0) finding("%s left %ld users", call.name, alive_users);
    if (call.replies != 1 || call.depth != 0)
        finding("%s answered %d times, %d arrays unfinished", call.name, call.replies, call.depth);
    if (call.refused && (call.writes > 0 || call.replicated > 0 || call.signalled.count > 0 || call.notified.count > 0))
        finding("%s refused after a write", call.name);
    must_be_told(&call.before, &fake.keys);
    must_be_told(&fake.keys, &call.before);
    if (!keyspace_equal(&fake.keys, &call.replica, "master ", "replica"))
        finding("a replica of %s is not the same", call.name);
    keyspace_clear(&call.before);
    keyspace_clear(&call.replica);
    Names *const all[] = {&call.declared, &call.readable,  &call.writable,
                          &call.missing,  &call.signalled, &call.notified};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        names_clear(all[i]);
    call.under_way = false;
    return call.reply;
}

static ValkeyModuleString **strings_of(const Bytes *argv, int argc) {
    ValkeyModuleString **strings = must_allocate(NULL, (size_t)argc * sizeof(void *));
    for (int i = 0; i < argc; i++)
        strings[i] = string_make(NULL, OF_CALLER, argv[i]);
    return strings;
}

static void strings_free(ValkeyModuleString **strings, int argc) {
    for (int i = 0; i < argc; i++)
        string_drop(strings[i]);
    free((void *)strings);
}

const char *fake_run_function(ValkeyModuleCmdFunc run, const char *name, const Bytes *argv, int argc) {
    ValkeyModuleString **strings = strings_of(argv, argc);
    call_begins(name, argv, argc);
    if (run(&context, strings, argc) != VALKEYMODULE_OK) finding("%s did not return OK", name);
    const char *reply = call_ends();
    strings_free(strings, argc);
    return reply;
}

const char *fake_ask_positions(ValkeyModuleCmdFunc run, const Bytes *argv, int argc) {
    ValkeyModuleString **strings = strings_of(argv, argc);
    call.under_way = true;
    call.positions[0] = '\0';
    call.replies = 0;
    context = (ValkeyModuleCtx){.get = context.get, .asking = true};
    if (run(&context, strings, argc) != VALKEYMODULE_OK) finding("the places of keys are not told");
    if (call.replies > 0) finding("an answer where only places were asked for");
    call.under_way = false;
    strings_free(strings, argc);
    return call.positions;
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static void reply_add(const char *text, size_t len) {
    if (call.reply_len + len + 1 > call.reply_room) {
        call.reply_room = 2 * (call.reply_len + len + 1);
        call.reply = must_allocate(call.reply, call.reply_room);
    }
    memcpy(call.reply + call.reply_len, text, len);
    call.reply_len += len;
    call.reply[call.reply_len] = '\0';
}

static void reply_begins(ValkeyModuleCtx *ctx) {
    must_be_context(ctx);
    if (call.depth == 0)
        call.replies++;
    else
        call.owed[call.depth - 1]--;
    if (call.reply_len > 0) reply_add(" ", 1);
}

static int reply_ends(void) {
    while (call.depth > 0 && call.owed[call.depth - 1] == 0)
        call.depth--;
    return VALKEYMODULE_OK;
}

static int reply_is(ValkeyModuleCtx *ctx, const char *mark, const char *text) {
    reply_begins(ctx);
    reply_add(mark, strlen(mark));
    reply_add(text, strlen(text));
    return reply_ends();
}

int fake_ReplyWithError(ValkeyModuleCtx *ctx, const char *text) {
    if (call.depth > 0) finding("a refusal within an array");
    call.refused = true;
    if (strpbrk(text, "\r\n") != NULL) finding("a refusal of two lines");
    return reply_is(ctx, "-", text);
}

int fake_WrongArity(ValkeyModuleCtx *ctx) {
    char text[128];
    (void)snprintf(text, sizeof(text), "ERR wrong number of arguments for '%s' command", call.name);
    return fake_ReplyWithError(ctx, text);
}

int fake_ReplyWithArray(ValkeyModuleCtx *ctx, long len) {
    char text[24];
    if (len < 0) finding("an array of %ld", len);
    (void)snprintf(text, sizeof(text), "%ld", len);
    reply_begins(ctx);
    reply_add("*", 1);
    reply_add(text, strlen(text));
    if ((size_t)call.depth == sizeof(call.owed) / sizeof(call.owed[0])) finding("arrays too deep");
    call.owed[call.depth++] = len;
    return reply_ends();
}

int fake_ReplyWithLongLong(ValkeyModuleCtx *ctx, long long n) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", n);
    return reply_is(ctx, ":", text);
}

int fake_ReplyWithNull(ValkeyModuleCtx *ctx) {
    return reply_is(ctx, "_", "");
}

int fake_ReplyWithString(ValkeyModuleCtx *ctx, ValkeyModuleString *str) {
    if (str == NULL) finding("a reply of no string");
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) abort();
    if (str->text.len > 0) bytes_print(out, str->text);
    (void)fclose(out);
    (void)reply_is(ctx, "$", text);
    free(text);
    return VALKEYMODULE_OK;
}

/* ---- calls of the server, and what is told to others ------------------------------------------------------------- */

typedef struct Words {
    Bytes *at;
    int count;
} Words;

static void words_add(Words *words, Bytes word) {
    words->at = must_allocate(words->at, ((size_t)words->count + 1) * sizeof(Bytes));
    words->at[words->count++] = word;
}

static void words_add_number(Words *words, long long n) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", n);
    words_add(words, bytes_text(text));
}

static void words_free(Words *words) {
    for (int i = 0; i < words->count; i++)
        bytes_free(&words->at[i]);
    free(words->at);
}

/* A command as the module gives it: s a string, c a text, l a number, v many strings. */
static void words_take(Words *words, const char *command, const char *format, va_list list) {
    words_add(words, bytes_text(command));
    for (const char *f = format; *f != '\0'; f++) {
        ValkeyModuleString *one = NULL, **strings = &one;
        size_t many = 1;
        switch (*f) {
        case 'c': words_add(words, bytes_text(va_arg(list, const char *))); continue;
        case 'l': words_add_number(words, va_arg(list, long long)); continue;
        case 's': one = va_arg(list, ValkeyModuleString *); break;
        case 'v':
            strings = va_arg(list, ValkeyModuleString **);
            many = va_arg(list, size_t);
            break;
        default: finding("the format %s of %s", format, command);
        }
        for (size_t i = 0; i < many; i++)
            words_add(words, bytes_of(strings[i]->text.at, strings[i]->text.len));
    }
}

ValkeyModuleCallReply *fake_Call(ValkeyModuleCtx *ctx, const char *command, const char *format, ...) {
    must_be_context(ctx);
    Words words = {NULL, 0};
    va_list list;
    va_start(list, format);
    words_take(&words, command, format, list);
    va_end(list);
    ValkeyModuleCallReply *reply = NULL;
    bool exists = strcmp(command, "EXISTS") == 0;
    /* a write comes after all looks, when what could fail has failed */
    bool fails = call.writes == 0 && strcmp(command, "SET") != 0 && strcmp(command, "LREM") != 0 && fails_now(command);
    if (!fails && !elsewhere(words.at + 1, exists ? (size_t)words.count - 1 : 1)) {
        CoreReply core = core_run(&fake.keys, true, words.at, words.count);
        reply = must_allocate(NULL, sizeof(*reply));
        *reply = (ValkeyModuleCallReply){core.type, core.number, bytes_of(core.text.at, core.text.len)};
        pool_add(ctx, A_REPLY, reply);
    }
    words_free(&words);
    return reply;
}

int fake_CallReplyType(ValkeyModuleCallReply *reply) {
    return reply->type;
}

long long fake_CallReplyInteger(ValkeyModuleCallReply *reply) {
    if (reply->type != REPLY_INTEGER) finding("the number of a reply that is none");
    return reply->number;
}

ValkeyModuleString *fake_CreateStringFromCallReply(ValkeyModuleCallReply *reply) {
    return reply->type == REPLY_STRING ? string_make(&context, OF_CALL, reply->text) : NULL;
}

void fake_FreeCallReply(ValkeyModuleCallReply *reply) {
    pool_remove(reply);
    alive[A_REPLY]--;
    bytes_free(&reply->text);
    free(reply);
}

int fake_Replicate(ValkeyModuleCtx *ctx, const char *command, const char *format, ...) {
    must_be_context(ctx);
    Words words = {NULL, 0};
    va_list list;
    va_start(list, format);
    words_take(&words, command, format, list);
    va_end(list);
    if (core_run(&call.replica, false, words.at, words.count).type == REPLY_ERROR)
        finding("a replica refuses %s", command);
    call.replicated++;
    words_free(&words);
    return VALKEYMODULE_OK;
}

int fake_NotifyKeyspaceEvent(ValkeyModuleCtx *ctx, int type, const char *event, ValkeyModuleString *key) {
    must_be_context(ctx);
    if (type == 0 || event[0] == '\0') finding("an event of no class, or without a name");
    notify_key(key->text);
    return VALKEYMODULE_OK;
}

int fake_SignalModifiedKey(ValkeyModuleCtx *ctx, ValkeyModuleString *name) {
    must_be_context(ctx);
    signal_key(name->text);
    return VALKEYMODULE_OK;
}

/* ---- the server and its users ------------------------------------------------------------------------------------ */

long long fake_CachedMicroseconds(void) {
    return fake.now_us;
}

int fake_GetContextFlags(ValkeyModuleCtx *ctx) {
    must_be_context(ctx);
    return (fake.cluster ? VALKEYMODULE_CTX_FLAGS_CLUSTER : 0) | (fake.in_script ? VALKEYMODULE_CTX_FLAGS_LUA : 0);
}

unsigned long long fake_GetClientId(ValkeyModuleCtx *ctx) {
    must_be_context(ctx);
    return fake.user == USER_NONE ? 0 : 7;
}

static const Bytes user_name = {(char[]){'u'}, 1};

ValkeyModuleString *fake_GetClientUserNameById(ValkeyModuleCtx *ctx, uint64_t id) {
    must_be_context(ctx);
    if (fake.in_script) finding("a client is asked for inside a script");
    return id == 0 ? NULL : string_make(ctx, OF_CALL, user_name);
}

ValkeyModuleString *fake_GetCurrentUserName(ValkeyModuleCtx *ctx) {
    must_be_context(ctx);
    if (fake.user == USER_NONE) finding("the server asks for the name of nobody, and crashes");
    return string_make(ctx, OF_CALL, user_name);
}

ValkeyModuleUser *fake_GetModuleUserFromUserName(ValkeyModuleString *name) {
    if (!bytes_equal(name->text, user_name)) finding("a user who is not the caller");
    if (fake.user == USER_GONE || fails_now("the user")) return NULL;
    alive_users++;
    return malloc(1);
}

void fake_FreeModuleUser(ValkeyModuleUser *user) {
    alive_users--;
    free(user);
}

static bool matches(const Bytes *patterns, size_t count, Bytes name) {
    for (size_t i = 0; i < count; i++) {
        Bytes start = patterns[i];
        bool open = start.len > 0 && start.at[start.len - 1] == '*';
        start.len -= open;
        if (open ? starts_with(name, start) : bytes_equal(name, start)) return true;
    }
    return false;
}

int fake_ACLCheckKeyPermissions(ValkeyModuleUser *user, ValkeyModuleString *key, int flags) {
    if (user == NULL) finding("the rights of nobody");
    bool writes = (flags & VALKEYMODULE_CMD_KEY_UPDATE) != 0;
    if (fails_now("a right") || (fake.allows > 0 && !matches(fake.allowed, fake.allows, key->text)) ||
        matches(fake.denied, fake.denies, key->text) || (writes && matches(fake.read_only, fake.read_onlys, key->text)))
        return VALKEYMODULE_ERR;
    names_add(&call.readable, key->text);
    if (writes) names_add(&call.writable, key->text);
    return VALKEYMODULE_OK;
}

void fake_ACLAddLogEntryByUserName(ValkeyModuleCtx *ctx, ValkeyModuleString *user, ValkeyModuleString *object,
                                   int reason) {
    must_be_context(ctx);
    if (user == NULL || object == NULL || reason != VALKEYMODULE_ACL_LOG_KEY)
        finding("a strange entry for the ACL log");
}

int fake_IsKeysPositionRequest(ValkeyModuleCtx *ctx) {
    must_be_context(ctx);
    return ctx->asking;
}

void fake_KeyAtPosWithFlags(ValkeyModuleCtx *ctx, int pos, int flags) {
    must_be_context(ctx);
    if (!ctx->asking || flags == 0) finding("a key is told of that nobody asked for");
    size_t len = strlen(call.positions);
    (void)snprintf(call.positions + len, sizeof(call.positions) - len, len == 0 ? "%d" : ",%d", pos);
}
