/* trafikey: the native executor of EchoMQ's core transitions, as a Valkey module.
 *
 * Each command does in C what one script of the client does in Lua, with the same keys, arguments, replies and end
 * state; docs/wire.md is the contract of both. What a server is told by the module is core commands on core types only,
 * so a replica, an AOF and an RDB need no module. There are no timers, threads or background writes: nothing happens
 * unless a client calls.
 *
 * This file is the table of contents: what load caches, and the load itself, last.
 * Does not: brand the node. Clients and operators do (wire contract, section 8). */
#include "trafikey.h"
#include <errno.h>
#include <string.h>

Cached cached;

static Str *constant(const char *text) {
    /* no context: these live as long as the server */
    return ValkeyModule_CreateString(NULL, text, strlen(text));
}

static int cache_run_id(ValkeyModuleCtx *ctx) {
    ValkeyModuleServerInfoData *info = ValkeyModule_GetServerInfo(ctx, "server");
    const char *run_id = ValkeyModule_ServerInfoGetFieldC(info, "run_id");
    size_t len = run_id == NULL ? 0 : strlen(run_id);
    if (len > 0 && len < sizeof(cached.run_id_text)) memcpy(cached.run_id_text, run_id, len + 1);
    ValkeyModule_FreeServerInfo(ctx, info);
    cached.run_id = constant(cached.run_id_text);
    return cached.run_id_text[0] != '\0' ? VALKEYMODULE_OK : VALKEYMODULE_ERR;
}

static void cache_constants(void) {
    cached.attempts = constant("attempts");
    cached.payload = constant("payload");
    cached.state = constant("state");
    cached.group = constant("group");
    cached.parent = constant("parent");
    cached.parent_queue = constant("parent_queue");
    cached.parent_policy = constant("parent_policy");
    cached.priority = constant("priority");
    cached.lease_epoch = constant("lease_epoch");
    cached.stalled = constant("stalled");
    cached.credit = constant("credit");
    cached.opts = constant("opts");
    cached.last_error = constant("last_error");
    cached.count = constant("count");
    cached.paused = constant("paused");
    cached.concurrency = constant("concurrency");
    cached.max = constant("max");
    cached.duration = constant("duration");
    cached.turn = constant("turn");
    cached.given = constant("given");
    cached.dedup = constant("dedup");
    cached.dedup_keep = constant("dedup_keep");
    cached.for_all = constant("*");
    cached.active = constant("active");
    cached.pending = constant("pending");
    cached.scheduled = constant("scheduled");
    cached.dead = constant("dead");
    cached.one = constant("1");
    cached.stalled_reason = constant("stalled");
    cached.node_version = constant("{emq}:version");
}

static int refuse_load(ValkeyModuleCtx *ctx, const char *why) {
    ValkeyModule_Log(ctx, "warning", "trafikey is not loaded: %s", why);
    return VALKEYMODULE_ERR;
}

__attribute__((visibility("default"))) int ValkeyModule_OnLoad(ValkeyModuleCtx *ctx, ValkeyModuleString **argv,
                                                               int argc);
__attribute__((visibility("default"))) int ValkeyModule_OnUnload(ValkeyModuleCtx *ctx);

/* A server whose ACL names a command that is gone crashes on the next look at it, and a wire 6 client without its
 * commands is out of work: so the module stays. */
int ValkeyModule_OnUnload(ValkeyModuleCtx *ctx) {
    ValkeyModule_Log(ctx, "warning", "trafikey cannot be unloaded: restart the server without it");
    return VALKEYMODULE_ERR;
}

int ValkeyModule_OnLoad(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    (void)argv;
    const char *missing = api_resolve(ctx);
    if (missing != NULL) {
        if (ValkeyModule_Log != NULL)
            ValkeyModule_Log(ctx, "warning", "trafikey is not loaded: this server has no %s, Valkey 8.0 or later has",
                             missing);
        return VALKEYMODULE_ERR;
    }
    ValkeyModule_SetModuleAttribs(ctx, "trafikey", TRAFIKEY_VERSION, VALKEYMODULE_APIVER_1);
    /* Nothing is signalled as modified but what effects.c changes: a refusal or an empty claim must not break a WATCH. */
    /* The other two: nothing is kept about keys here, so they may come and go under the module's feet. */
    ValkeyModule_SetModuleOptions(ctx, VALKEYMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED |
                                           VALKEYMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD |
                                           VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION);
    if (argc > 0) return refuse_load(ctx, "it takes no arguments");
    if (ValkeyModule_AddACLCategory(ctx, "emq") != VALKEYMODULE_OK && errno != EBUSY)
        return refuse_load(ctx, "the ACL category emq cannot be added");
    cache_constants();
    if (cache_run_id(ctx) != VALKEYMODULE_OK) return refuse_load(ctx, "the server tells no run_id");
    if (docs_register(ctx) != VALKEYMODULE_OK) return refuse_load(ctx, "its commands cannot be registered");
    if (ValkeyModule_RegisterInfoFunc(ctx, call_info) != VALKEYMODULE_OK)
        return refuse_load(ctx, "its INFO section cannot be registered");
    ValkeyModule_Log(ctx, "notice", "trafikey is loaded, brand %s", TRAFIKEY_BRAND);
    return VALKEYMODULE_OK;
}
