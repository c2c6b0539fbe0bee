/*
 * A module as an earlier version of this package might have had it: the four commands of the first contract and no more.
 * They do nothing: a client that needs the others must not get as far as calling one.
 */
typedef int (*GetApi)(const char *name, void *function);
typedef int (*Handler)(void *ctx, void **argv, int argc);

static int (*reply_with_error)(void *ctx, const char *text);

static int refuse(void *ctx, void **argv, int argc) {
    (void)argv;
    (void)argc;
    return reply_with_error(ctx, "ERR this command of an old module was called");
}

int ValkeyModule_OnLoad(void *ctx, void **argv, int argc) {
    static const char *const names[] = {"emq.claim", "emq.complete", "emq.fail", "emq.stalled.check"};
    void (*set_attributes)(void *ctx, const char *name, int version, int api);
    int (*create_command)(void *ctx, const char *name, Handler run, const char *flags, int first, int last, int step);
    GetApi get = ((GetApi *)ctx)[0];
    (void)argv;
    (void)argc;
    if (get("ValkeyModule_SetModuleAttribs", &set_attributes) || get("ValkeyModule_CreateCommand", &create_command) ||
        get("ValkeyModule_ReplyWithError", &reply_with_error))
        return 1;
    set_attributes(ctx, "trafikey", 1, 1);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (create_command(ctx, names[i], refuse, "write", 0, 0, 0)) return 1;
    return 0;
}
