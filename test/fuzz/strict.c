/* That the fake server is strict, that the module refuses its load where something is missing, and what INFO tells. See
 * strict.h. Does not: test the module's commands (scenes do). */
#include "strict.h"
#include "fake_api.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef ValkeyModuleCtx Ctx;
typedef ValkeyModuleString Str;
typedef ValkeyModuleKey Key;

enum { RW = VALKEYMODULE_READ | VALKEYMODULE_WRITE };

static Str *text(Ctx *ctx, const char *chars) {
    return ValkeyModule_CreateString(ctx, chars, strlen(chars));
}

static void add(Ctx *ctx, Key *key, double score, const char *member) {
    (void)ValkeyModule_ZsetAdd(key, score, text(ctx, member), NULL);
}

static void tell(Ctx *ctx, Str *name) {
    (void)ValkeyModule_SignalModifiedKey(ctx, name);
    (void)ValkeyModule_NotifyKeyspaceEvent(ctx, VALKEYMODULE_NOTIFY_ZSET, "zadd", name);
}

static Key *pending(Ctx *ctx, Str **argv) {
    return ValkeyModule_OpenKey(ctx, argv[2], RW);
}

/* What each deed goes before: the rest of a call that is as it should be. */
static void well(Ctx *ctx) {
    (void)ValkeyModule_ReplyWithLongLong(ctx, 1);
}

static void written(Ctx *ctx, Str **argv) {
    add(ctx, pending(ctx, argv), 5, "new");
    tell(ctx, argv[2]);
    (void)ValkeyModule_Replicate(ctx, "ZADD", "sls", argv[2], 5LL, text(ctx, "new"));
}

static void decent(Ctx *ctx, Str **argv) {
    written(ctx, argv);
    well(ctx);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void silent(Ctx *ctx, Str **argv) {
    (void)ctx;
    (void)argv;
}

static void twice(Ctx *ctx, Str **argv) {
    (void)argv;
    well(ctx);
    well(ctx);
}

static void half(Ctx *ctx, Str **argv) {
    (void)argv;
    (void)ValkeyModule_ReplyWithArray(ctx, 2);
    well(ctx);
}

static void late_refusal(Ctx *ctx, Str **argv) {
    written(ctx, argv);
    (void)ValkeyModule_ReplyWithError(ctx, "ERR too late");
}

static void late_write(Ctx *ctx, Str **argv) {
    Key *key = pending(ctx, argv);
    (void)ValkeyModule_ReplyWithError(ctx, "ERR and yet");
    add(ctx, key, 5, "new");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void lost_block(Ctx *ctx, Str **argv) {
    (void)argv;
    (void)ValkeyModule_Realloc(NULL, 8);
    well(ctx);
}

static void lost_user(Ctx *ctx, Str **argv) {
    (void)argv;
    Str *name = ValkeyModule_GetClientUserNameById(ctx, ValkeyModule_GetClientId(ctx));
    (void)ValkeyModule_GetModuleUserFromUserName(name);
    well(ctx);
}

static void foreign_string(Ctx *ctx, Str **argv) {
    ValkeyModule_FreeString(ctx, argv[2]);
    well(ctx);
}

static void freed_string(Ctx *ctx, Str **argv) {
    (void)argv;
    Str *str = text(ctx, "gone");
    ValkeyModule_FreeString(ctx, str);
    (void)ValkeyModule_ReplyWithString(ctx, str);
}

static void past_the_end(Ctx *ctx, Str **argv) {
    size_t len;
    const char *chars = ValkeyModule_StringPtrLen(argv[2], &len);
    /* as if there were a NUL */
    (void)ValkeyModule_ReplyWithLongLong(ctx, chars[len]);
}

static void stale_handle(Ctx *ctx, Str **argv) {
    Key *one = pending(ctx, argv), *other = pending(ctx, argv);
    (void)ValkeyModule_UnlinkKey(one);
    tell(ctx, argv[2]);
    (void)ValkeyModule_Replicate(ctx, "DEL", "s", argv[2]);
    (void)ValkeyModule_ReplyWithLongLong(ctx, ValkeyModule_KeyType(other));
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static void blind_handle(Ctx *ctx, Str **argv) {
    Key *one = pending(ctx, argv), *other;
    (void)ValkeyModule_UnlinkKey(one);
    other = pending(ctx, argv);
    add(ctx, other, 5, "new");
    add(ctx, one, 6, "newer");
}

static void unasked(Ctx *ctx, Str **argv) {
    (void)argv;
    (void)ValkeyModule_OpenKey(ctx, text(ctx, "emq:{q}:wake"), VALKEYMODULE_READ);
    well(ctx);
}

static void of_another_queue(Ctx *ctx, Str **argv) {
    (void)argv;
    (void)ValkeyModule_OpenKey(ctx, text(ctx, "emq:{p}:pending"), VALKEYMODULE_READ);
    well(ctx);
}

static void for_reading(Ctx *ctx, Str **argv) {
    add(ctx, ValkeyModule_OpenKey(ctx, argv[2], VALKEYMODULE_READ), 5, "new");
    well(ctx);
}

static void another_type(Ctx *ctx, Str **argv) {
    (void)ValkeyModule_ListPush(pending(ctx, argv), VALKEYMODULE_LIST_TAIL, argv[2]);
    well(ctx);
}

static void under_an_iterator(Ctx *ctx, Str **argv) {
    Key *walked = pending(ctx, argv);
    (void)ValkeyModule_ZsetFirstInScoreRange(walked, 0, 10, 0, 0);
    written(ctx, argv);
    well(ctx);
}

static void from_elsewhere(Ctx *ctx, Str **argv) {
    fake.cluster = fake.moving = true;
    (void)ValkeyModule_OpenKey(ctx, argv[3], RW);
    written(ctx, argv);
    well(ctx);
}

/* ---- news -------------------------------------------------------------------------------------------------------- */

static void unsignalled(Ctx *ctx, Str **argv) {
    add(ctx, pending(ctx, argv), 5, "new");
    (void)ValkeyModule_NotifyKeyspaceEvent(ctx, VALKEYMODULE_NOTIFY_ZSET, "zadd", argv[2]);
    (void)ValkeyModule_Replicate(ctx, "ZADD", "sls", argv[2], 5LL, text(ctx, "new"));
    well(ctx);
}

static void without_event(Ctx *ctx, Str **argv) {
    add(ctx, pending(ctx, argv), 5, "new");
    (void)ValkeyModule_SignalModifiedKey(ctx, argv[2]);
    (void)ValkeyModule_Replicate(ctx, "ZADD", "sls", argv[2], 5LL, text(ctx, "new"));
    well(ctx);
}

static void unreplicated(Ctx *ctx, Str **argv) {
    add(ctx, pending(ctx, argv), 5, "new");
    tell(ctx, argv[2]);
    well(ctx);
}

static void replicated_otherwise(Ctx *ctx, Str **argv) {
    add(ctx, pending(ctx, argv), 5, "new");
    tell(ctx, argv[2]);
    (void)ValkeyModule_Replicate(ctx, "ZADD", "sls", argv[2], 6LL, text(ctx, "new"));
    well(ctx);
}

/* ---- running them ------------------------------------------------------------------------------------------------ */

typedef struct Deed {
    const char *name;
    void (*run)(Ctx *ctx, Str **argv);
} Deed;

#define DEED(function)                                                                                                 \
    { #function, function }
static const Deed deeds[] = {
    DEED(decent),
    DEED(silent),
    DEED(twice),
    DEED(half),
    DEED(late_refusal),
    DEED(late_write),
    DEED(lost_block),
    DEED(lost_user),
    DEED(foreign_string),
    DEED(freed_string),
    DEED(past_the_end),
    DEED(stale_handle),
    DEED(blind_handle),
    DEED(unasked),
    DEED(of_another_queue),
    DEED(for_reading),
    DEED(another_type),
    DEED(under_an_iterator),
    DEED(from_elsewhere),
    DEED(unsignalled),
    DEED(without_event),
    DEED(unreplicated),
    DEED(replicated_otherwise),
};

static const Deed *deed;

static int with_memory(Ctx *ctx, Str **argv, int argc) {
    (void)argc;
    ValkeyModule_AutoMemory(ctx);
    deed->run(ctx, argv);
    return VALKEYMODULE_OK;
}

static int lost_string(Ctx *ctx, Str **argv, int argc) {
    (void)argv;
    (void)argc;
    (void)text(ctx, "nobody frees it");
    well(ctx);
    return VALKEYMODULE_OK;
}

static int lost_key(Ctx *ctx, Str **argv, int argc) {
    (void)argc;
    (void)pending(ctx, argv);
    well(ctx);
    return VALKEYMODULE_OK;
}

static int lost_reply(Ctx *ctx, Str **argv, int argc) {
    (void)argc;
    (void)ValkeyModule_Call(ctx, "EXISTS", "s", argv[2]);
    well(ctx);
    return VALKEYMODULE_OK;
}

static void loads(void) {
    fake_reset();
    if (fake_load(0) != VALKEYMODULE_OK) finding("the module does not load: %s", fake.log);
}

static void run_deed(const char *name) {
    Bytes words[] = {bytes_text("DEED"), bytes_text("2"), bytes_text("emq:{q}:pending"), bytes_text("emq:{q}:active")};
    loads();
    Bytes member = bytes_text("old");
    (void)value_score(keyspace_make(&fake.keys, words[2], VALKEYMODULE_KEYTYPE_ZSET), member, 1);
    ValkeyModuleCmdFunc function = strcmp(name, "lost_string") == 0  ? lost_string
                                   : strcmp(name, "lost_key") == 0   ? lost_key
                                   : strcmp(name, "lost_reply") == 0 ? lost_reply
                                                                     : NULL;
    for (size_t i = 0; function == NULL && i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        if (strcmp(deeds[i].name, name) != 0) continue;
        deed = &deeds[i];
        function = with_memory;
    }
    if (function == NULL) finding("there is no deed of that name");
    (void)printf("%s\n", fake_run_function(function, name, words, 4));
    bytes_free(&member);
    for (int i = 0; i < 4; i++)
        bytes_free(&words[i]);
}

/* ---- the load ---------------------------------------------------------------------------------------------------- */

/* Loads as things are, and demands a refusal that says so in one line, or in none where nothing can be said. */
static void refuses(int argc, const char *why) {
    if (fake_load(argc) != VALKEYMODULE_ERR) finding("loaded, though %s", why);
    const char *line = fake.log == NULL ? "" : fake.log;
    bool mute = fake.hidden != NULL && strcmp(fake.hidden, "ValkeyModule_Log") == 0;
    if (mute ? line[0] != '\0'
             : strstr(line, why) == NULL || strncmp(line, "warning: trafikey is not loaded: ", 33) != 0 ||
                   strchr(line, '\n') != line + strlen(line) - 1)
        finding("the log says \"%s\", not one line with \"%s\"", line, why);
}

static void accepts(void) {
    if (fake_load(0) != VALKEYMODULE_OK) finding("not loaded: %s", fake.log);
    if (fake_commands() == 0 || strcmp(fake.log, "notice: trafikey is loaded, brand " FAKE_BRAND "\n") != 0)
        finding("loaded with %zu commands and the log %s", fake_commands(), fake.log);
    if (fake_ask_to_leave() != VALKEYMODULE_ERR ||
        strstr(fake.log, "\nwarning: trafikey cannot be unloaded: restart the server without it\n") == NULL)
        finding("it leaves, and says %s", fake.log);
}

/* In a process of its own, where nothing has been resolved or cached before. */
static void load_afresh(LoadFault fault, const char *hidden, int argc, const char *why) {
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        fake.load_fault = fault;
        fake.hidden = hidden;
        if (why == NULL)
            accepts();
        else
            refuses(argc, why);
        if (hidden != NULL && fake_commands() != 0) finding("commands without %s", hidden);
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(1);
}

static void run_load(void) {
#define NAME(result, name, parameters) "ValkeyModule_" #name,
    static const char *const functions[] = {TRAFIKEY_API_FUNCTIONS(NAME)};
#undef NAME
    static const char *const why[LOAD_FAULTS] = {
        [NO_ACL_CATEGORY] = "the ACL category emq cannot be added",
        [NO_RUN_ID] = "the server tells no run_id",
        [LONG_RUN_ID] = "the server tells no run_id",
        [NO_COMMAND] = "its commands cannot be registered",
        [NO_COMMAND_FOUND] = "its commands cannot be registered",
        [NO_COMMAND_INFO] = "its commands cannot be registered",
        [NO_COMMAND_CATEGORY] = "its commands cannot be registered",
        [NO_INFO] = "its INFO section cannot be registered",
    };
    fake_reset();
    for (int fault = 0; fault < LOAD_FAULTS; fault++)
        load_afresh((LoadFault)fault, NULL, 0, why[fault]);
    load_afresh(LOADS, NULL, 1, "it takes no arguments");
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        load_afresh(LOADS, functions[i], 0, functions[i]);
    (void)printf("%zu functions, %d faults\n", sizeof(functions) / sizeof(functions[0]), LOAD_FAULTS - 1);
}

/* ---- INFO -------------------------------------------------------------------------------------------------------- */

static void counts(const char *name, const char *first, const char *refusal, const char *field) {
    Bytes words[] = {bytes_text(name), bytes_text(first)};
    char before[32], after[32];
    const char *info = strstr(fake_info(), field);
    if (info == NULL) finding("INFO has no %s", field);
    (void)snprintf(before, sizeof(before), "%s", info + strlen(field));
    const char *reply = fake_run(words, 2);
    if (strncmp(reply, refusal, strlen(refusal)) != 0) finding("%s answers %s", name, reply);
    (void)snprintf(after, sizeof(after), "%s", strstr(fake_info(), field) + strlen(field));
    if (strtol(after, NULL, 10) != strtol(before, NULL, 10) + 1) finding("%s went from %s to %s", field, before, after);
    bytes_free(&words[0]);
    bytes_free(&words[1]);
}

static void run_info(void) {
    loads();
    counts("EMQ.CLAIM", "x", "-ERR numkeys", "calls_claim:");
    counts("emq.claim", "x", "-ERR numkeys", "refused_err:");
    counts("EMQ.COMPLETE", "5", "-EMQSTATE ", "refused_emqstate:");
    counts("EMQ.FAIL", "5", "-EMQSTATE ", "calls_fail:");
    if (strncmp(fake_info(), "brand:" FAKE_BRAND "\nrun_id:" FAKE_RUN_ID "\n",
                sizeof(FAKE_BRAND) + sizeof(FAKE_RUN_ID) + 13) != 0)
        finding("%s", fake_info());
    (void)printf("%s", fake_info());
}

void strict_run(const char *word) {
    if (strcmp(word, "load") == 0)
        run_load();
    else if (strcmp(word, "info") == 0)
        run_info();
    else
        run_deed(word);
}
