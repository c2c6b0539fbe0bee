/* The fake's getter, the load with its faults, the commands that were registered, and INFO. See fake_api.h. */
#include "fake_parts.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ValkeyModule_OnLoad(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int ValkeyModule_OnUnload(ValkeyModuleCtx *ctx);

typedef void (*AnyFunction)(void);

typedef struct Offered {
    const char *name;
    AnyFunction function;
} Offered;

#define OFFERED(result, name, parameters) {"ValkeyModule_" #name, (AnyFunction)fake_##name},
static const Offered offered[] = {TRAFIKEY_API_FUNCTIONS(OFFERED)};
#undef OFFERED

/* As the server's: an unknown name leaves the target alone. */
static int get(const char *name, void *target) {
    if (fake.hidden != NULL && strcmp(fake.hidden, name) == 0) return VALKEYMODULE_ERR;
    for (size_t i = 0; i < sizeof(offered) / sizeof(offered[0]); i++) {
        if (strcmp(offered[i].name, name) != 0) continue;
        memcpy(target, &offered[i].function, sizeof(offered[i].function));
        return VALKEYMODULE_OK;
    }
    return VALKEYMODULE_ERR;
}

/* ---- the load ---------------------------------------------------------------------------------------------------- */

struct ValkeyModuleCommand {
    char name[32];
    ValkeyModuleCmdFunc run;
    bool informed, categorised;
};

enum { MOST_COMMANDS = 16 };
static struct ValkeyModuleCommand commands[MOST_COMMANDS];
static size_t command_count;
static ValkeyModuleInfoFunc inform;
static bool loading;

static void must_be_loading(const ValkeyModuleCtx *ctx) {
    if (!loading || ctx != &context) finding("a function of the load is used outside it");
}

static bool fault(LoadFault which) {
    return fake.load_fault == which;
}

int fake_load(int argc) {
    free(fake.log);
    fake.log = NULL;
    fake.log_len = 0;
    loading = true;
    context = (ValkeyModuleCtx){.get = get};
    int outcome = ValkeyModule_OnLoad(&context, NULL, argc);
    loading = false;
    if (alive_infos != 0) finding("the load left %ld server informations", alive_infos);
    if (alive_blocks != 0) finding("the load left %ld blocks", alive_blocks);
    for (size_t i = 0; outcome == VALKEYMODULE_OK && i < command_count; i++)
        if (!commands[i].informed || !commands[i].categorised) finding("%s is registered in part", commands[i].name);
    return outcome;
}

int fake_ask_to_leave(void) {
    return ValkeyModule_OnUnload(&context);
}

void fake_unload(void) {
    command_count = 0;
    inform = NULL;
    load_strings_drop();
    free(fake.log);
    fake.log = NULL;
    fake.log_len = 0;
}

size_t fake_commands(void) {
    return command_count;
}

void fake_SetModuleAttribs(ValkeyModuleCtx *ctx, const char *name, int ver, int apiver) {
    must_be_loading(ctx);
    if (strcmp(name, "trafikey") != 0 || ver < 1 || apiver != VALKEYMODULE_APIVER_1) finding("strange attributes");
}

void fake_SetModuleOptions(ValkeyModuleCtx *ctx, int options) {
    must_be_loading(ctx);
    if ((options & VALKEYMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED) == 0) finding("keys are signalled unasked");
}

int fake_AddACLCategory(ValkeyModuleCtx *ctx, const char *name) {
    must_be_loading(ctx);
    if (name[0] == '\0') finding("a category without a name");
    errno = fault(ACL_CATEGORY_TAKEN) ? EBUSY : fault(NO_ACL_CATEGORY) ? ENOMEM : 0;
    return errno == 0 ? VALKEYMODULE_OK : VALKEYMODULE_ERR;
}

int fake_CreateCommand(ValkeyModuleCtx *ctx, const char *name, ValkeyModuleCmdFunc func, const char *flags,
                       int firstkey, int lastkey, int keystep) {
    must_be_loading(ctx);
    if (fault(NO_COMMAND)) return VALKEYMODULE_ERR;
    if (strcmp(flags, "write fast getkeys-api") != 0 || firstkey != 0 || lastkey != 0 || keystep != 0)
        finding("%s has the flags %s", name, flags);
    if (command_count == MOST_COMMANDS) finding("too many commands");
    struct ValkeyModuleCommand *command = &commands[command_count++];
    *command = (struct ValkeyModuleCommand){.run = func};
    (void)snprintf(command->name, sizeof(command->name), "%s", name);
    return VALKEYMODULE_OK;
}

/* Case does not matter in a command's name. */
static struct ValkeyModuleCommand *command_of(const char *name, size_t len) {
    for (size_t i = 0; i < command_count; i++) {
        size_t at = 0;
        while (at < len && commands[i].name[at] != '\0' && (name[at] | 0x20) == (commands[i].name[at] | 0x20))
            at++;
        if (at == len && commands[i].name[at] == '\0') return &commands[i];
    }
    return NULL;
}

ValkeyModuleCommand *fake_GetCommand(ValkeyModuleCtx *ctx, const char *name) {
    must_be_loading(ctx);
    return fault(NO_COMMAND_FOUND) ? NULL : command_of(name, strlen(name));
}

int fake_SetCommandInfo(ValkeyModuleCommand *command, const ValkeyModuleCommandInfo *info) {
    if (fault(NO_COMMAND_INFO)) return VALKEYMODULE_ERR;
    if (info->version->sizeof_arg != sizeof(ValkeyModuleCommandArg) || info->arity != -2 || info->summary[0] == '\0')
        finding("strange information about %s", command->name);
    int numkeys = 0, keys = 0;
    for (const ValkeyModuleCommandArg *arg = info->args; arg->name != NULL; arg++) {
        if (strcmp(arg->name, "numkeys") == 0) numkeys = arg->summary[0] - '0';
        keys += arg->type == VALKEYMODULE_ARG_TYPE_KEY;
    }
    if (numkeys != keys) finding("%s is said to have %d keys, and %d of them", command->name, numkeys, keys);
    command->informed = true;
    return VALKEYMODULE_OK;
}

int fake_SetCommandACLCategories(ValkeyModuleCommand *command, const char *categories) {
    if (fault(NO_COMMAND_CATEGORY)) return VALKEYMODULE_ERR;
    if (strcmp(categories, "emq write fast") != 0) finding("%s is in %s", command->name, categories);
    command->categorised = true;
    return VALKEYMODULE_OK;
}

void fake_Log(ValkeyModuleCtx *ctx, const char *level, const char *format, ...) {
    char text[1024];
    if (ctx != &context) finding("a log line without a context");
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    size_t more = strlen(level) + strlen(text) + 3;
    fake.log = must_allocate(fake.log, fake.log_len + more + 1);
    fake.log_len += (size_t)snprintf(fake.log + fake.log_len, more + 1, "%s: %s\n", level, text);
}

/* ---- the server's information, and the module's ------------------------------------------------------------------ */

struct ValkeyModuleServerInfoData {
    char run_id[64];
};

ValkeyModuleServerInfoData *fake_GetServerInfo(ValkeyModuleCtx *ctx, const char *section) {
    must_be_loading(ctx);
    ValkeyModuleServerInfoData *data = must_allocate(NULL, sizeof(*data));
    bool is_server = strcmp(section, "server") == 0 && !fault(NO_RUN_ID);
    (void)snprintf(data->run_id, sizeof(data->run_id), "%s%s", is_server ? FAKE_RUN_ID : "",
                   is_server && fault(LONG_RUN_ID) ? "01234567" : "");
    alive_infos++;
    return data;
}

const char *fake_ServerInfoGetFieldC(ValkeyModuleServerInfoData *data, const char *field) {
    return strcmp(field, "run_id") == 0 && data->run_id[0] != '\0' ? data->run_id : NULL;
}

void fake_FreeServerInfo(ValkeyModuleCtx *ctx, ValkeyModuleServerInfoData *data) {
    must_be_loading(ctx);
    alive_infos--;
    free(data);
}

int fake_RegisterInfoFunc(ValkeyModuleCtx *ctx, ValkeyModuleInfoFunc func) {
    must_be_loading(ctx);
    if (fault(NO_INFO)) return VALKEYMODULE_ERR;
    inform = func;
    return VALKEYMODULE_OK;
}

struct ValkeyModuleInfoCtx {
    bool wanted, begun;
    char text[4096];
    size_t len;
};

int fake_InfoAddSection(ValkeyModuleInfoCtx *ctx, const char *name) {
    (void)name;
    ctx->begun = ctx->wanted;
    return ctx->wanted ? VALKEYMODULE_OK : VALKEYMODULE_ERR;
}

int fake_InfoAddFieldCString(ValkeyModuleInfoCtx *ctx, const char *field, const char *value) {
    if (!ctx->begun) finding("a field of no section");
    int len = snprintf(ctx->text + ctx->len, sizeof(ctx->text) - ctx->len, "%s:%s\n", field, value);
    ctx->len += (size_t)len;
    return VALKEYMODULE_OK;
}

int fake_InfoAddFieldULongLong(ValkeyModuleInfoCtx *ctx, const char *field, unsigned long long value) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", value);
    return fake_InfoAddFieldCString(ctx, field, text);
}

const char *fake_info(void) {
    static struct ValkeyModuleInfoCtx info;
    info = (struct ValkeyModuleInfoCtx){.wanted = false};
    inform(&info, 0); /* nobody asked for this section */
    if (info.len > 0) finding("a section that nobody asked for");
    info.wanted = true;
    inform(&info, 1);
    return info.text;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static const struct ValkeyModuleCommand *named(const Bytes *argv, int argc) {
    const struct ValkeyModuleCommand *command = argc < 1 ? NULL : command_of(argv[0].at, argv[0].len);
    if (command == NULL) finding("there is no such command");
    return command;
}

const char *fake_run(const Bytes *argv, int argc) {
    const struct ValkeyModuleCommand *command = named(argv, argc);
    return fake_run_function(command->run, command->name, argv, argc);
}

const char *fake_positions(const Bytes *argv, int argc) {
    return fake_ask_positions(named(argv, argc)->run, argv, argc);
}

void fake_reset(void) {
    keyspace_clear(&fake.keys);
    Bytes *const rules[] = {fake.allowed, fake.denied, fake.read_only};
    const size_t counts[] = {fake.allows, fake.denies, fake.read_onlys};
    for (int kind = 0; kind < 3; kind++)
        for (size_t i = 0; i < counts[kind]; i++)
            bytes_free(&rules[kind][i]);
    fake = (Fake){.now_us = 1000000000, .log = fake.log, .log_len = fake.log_len};
    Bytes name = bytes_text(FAKE_VERSION_KEY), brand = bytes_text(FAKE_BRAND);
    value_insert(keyspace_make(&fake.keys, name, VALKEYMODULE_KEYTYPE_STRING), 0, brand);
    bytes_free(&name);
    bytes_free(&brand);
}
