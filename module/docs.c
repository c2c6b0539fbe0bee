/* What COMMAND INFO, COMMAND DOCS and COMMAND GETKEYS say about the commands.
 *
 * The keys are described as "a number, then that many keys", so tools find them whatever their number. The server's own
 * cluster redirects go by what the command itself answers (keys_asked_for in keys.c): the same keys.
 * The arity is open-ended: a settle with the keys of a flow has more words, and its refusal must be ours.
 * Does not: run anything. */
#include "trafikey.h"
#include <stddef.h>

#define STRING(name, summary)                                                                                          \
    { name, VALKEYMODULE_ARG_TYPE_STRING, -1, NULL, summary, NULL, 0, NULL, NULL, NULL }
#define INTEGER(name, summary)                                                                                         \
    { name, VALKEYMODULE_ARG_TYPE_INTEGER, -1, NULL, summary, NULL, 0, NULL, NULL, NULL }
#define KEY(name, summary)                                                                                             \
    { name, VALKEYMODULE_ARG_TYPE_KEY, 0, NULL, summary, NULL, 0, NULL, NULL, NULL }
#define END                                                                                                            \
    { NULL, VALKEYMODULE_ARG_TYPE_STRING, -1, NULL, NULL, NULL, 0, NULL, NULL, NULL }

static const ValkeyModuleCommandInfoVersion info_version = {
    1, sizeof(ValkeyModuleCommandHistoryEntry), sizeof(ValkeyModuleCommandKeySpec), sizeof(ValkeyModuleCommandArg)};

static ValkeyModuleCommandKeySpec key_specs[] = {
    {"The keys of one queue, each in its place",
     VALKEYMODULE_CMD_KEY_RW | VALKEYMODULE_CMD_KEY_ACCESS | VALKEYMODULE_CMD_KEY_UPDATE,
     VALKEYMODULE_KSPEC_BS_INDEX,
     {.index = {1}},
     VALKEYMODULE_KSPEC_FK_KEYNUM,
     {.keynum = {0, 1, 1}}},
    {0}};

static ValkeyModuleCommandArg claim_args[] = {INTEGER("numkeys", "3"),
                                              KEY("pending", "emq:{q}:pending"),
                                              KEY("active", "emq:{q}:active"),
                                              KEY("base", "emq:{q}:"),
                                              INTEGER("lease", "How long the lease lasts, ms, at least 1"),
                                              END};
static ValkeyModuleCommandArg take_args[] = {INTEGER("numkeys", "4"),
                                             KEY("pending", "emq:{q}:pending"),
                                             KEY("ring", "emq:{q}:ring"),
                                             KEY("active", "emq:{q}:active"),
                                             KEY("base", "emq:{q}:"),
                                             INTEGER("lease", "How long the leases last, ms, at least 1"),
                                             INTEGER("count", "How many jobs, at least 1"),
                                             STRING("source", "flat, lanes or both"),
                                             END};
static ValkeyModuleCommandArg claim_batch_args[] = {INTEGER("numkeys", "3"),
                                                    KEY("pending", "emq:{q}:pending"),
                                                    KEY("active", "emq:{q}:active"),
                                                    KEY("base", "emq:{q}:"),
                                                    INTEGER("lease", "How long the leases last, ms, at least 1"),
                                                    INTEGER("size", "How many jobs, at least 1"),
                                                    END};
static ValkeyModuleCommandArg take_batch_args[] = {INTEGER("numkeys", "4"),
                                                   KEY("pending", "emq:{q}:pending"),
                                                   KEY("ring", "emq:{q}:ring"),
                                                   KEY("active", "emq:{q}:active"),
                                                   KEY("base", "emq:{q}:"),
                                                   INTEGER("lease", "How long the leases last, ms, at least 1"),
                                                   INTEGER("size", "How many jobs at most, at least 1"),
                                                   INTEGER("min", "How many jobs at least, else none"),
                                                   STRING("source", "flat or lanes"),
                                                   END};
static ValkeyModuleCommandArg release_args[] = {
    INTEGER("numkeys", "3"),           KEY("active", "emq:{q}:active"),
    KEY("pending", "emq:{q}:pending"), KEY("row", "emq:{q}:job:<id>"),
    STRING("id", "The job"),           STRING("token", "The attempts that its claim answered"),
    STRING("base", "emq:{q}:"),        END};
static ValkeyModuleCommandArg complete_args[] = {INTEGER("numkeys", "2"),
                                                 KEY("active", "emq:{q}:active"),
                                                 KEY("row", "emq:{q}:job:<id>"),
                                                 STRING("id", "The job"),
                                                 STRING("token", "The attempts that its claim answered"),
                                                 STRING("base", "emq:{q}:"),
                                                 END};
static ValkeyModuleCommandArg fail_args[] = {INTEGER("numkeys", "4"),
                                             KEY("active", "emq:{q}:active"),
                                             KEY("schedule", "emq:{q}:schedule"),
                                             KEY("dead", "emq:{q}:dead"),
                                             KEY("row", "emq:{q}:job:<id>"),
                                             STRING("id", "The job"),
                                             STRING("token", "The attempts that its claim answered"),
                                             INTEGER("delay", "Until the next try, ms; zero or negative: due at once"),
                                             INTEGER("max", "Dead once the job was claimed this often, at least 1"),
                                             STRING("error", "Kept as last_error"),
                                             STRING("base", "emq:{q}:"),
                                             END};
static ValkeyModuleCommandArg stalled_args[] = {INTEGER("numkeys", "3"),
                                                KEY("active", "emq:{q}:active"),
                                                KEY("pending", "emq:{q}:pending"),
                                                KEY("dead", "emq:{q}:dead"),
                                                STRING("base", "emq:{q}:"),
                                                INTEGER("max", "Dead at this many stalls, at least 1"),
                                                INTEGER("limit", "How many lapsed leases to look at, at least 1"),
                                                END};

typedef struct CommandDoc {
    const char *name;
    ValkeyModuleCmdFunc run;
    const char *summary, *complexity;
    ValkeyModuleCommandArg *args;
} CommandDoc;

static const CommandDoc commands[] = {
    {"emq.claim", command_claim, "Claims the first waiting job of a queue under a lease.", "O(log(N))", claim_args},
    {"emq.claim.batch", command_claim_batch, "Claims waiting flat jobs of a queue under one lease.",
     "O(M*log(N)) with M jobs and ids without a row", claim_batch_args},
    {"emq.take.batch", command_take_batch,
     "Claims a batch of waiting jobs, flat ones or those of one lane, under one lease.",
     "O(M*log(N)) with M jobs, ids without a row and lanes that are passed", take_batch_args},
    {"emq.take", command_take, "Claims waiting jobs of a queue, flat ones and those of lanes in turn, under one lease.",
     "O(M*log(N)) with M jobs, ids without a row and lanes that leave the ring", take_args},
    {"emq.release", command_release, "Hands a claimed job back untried.",
     "O(log(N)), for a grouped job O(log(N)+L) with L lanes that wait", release_args},
    {"emq.complete", command_complete, "Completes a claimed job: it leaves no key behind.",
     "O(log(N)), for a grouped job O(log(N)+L) with L lanes that wait", complete_args},
    {"emq.fail", command_fail, "Schedules the next try of a failed job, or moves it to the dead.",
     "O(log(N)), for a grouped job O(log(N)+L) with L lanes that wait", fail_args},
    {"emq.stalled.check", command_stalled_check,
     "Recovers jobs whose lease has lapsed, and moves those that stalled too often to the dead.",
     "O(M*log(N)) with M lapsed leases", stalled_args},
};

static int register_one(ValkeyModuleCtx *ctx, const CommandDoc *doc) {
    /* Not deny-oom: a full server must be able to drain. getkeys-api: cluster redirects ask the command itself, they do
     * not read the key specs below, which GETKEYS and the documents do. */
    if (ValkeyModule_CreateCommand(ctx, doc->name, doc->run, "write fast getkeys-api", 0, 0, 0) != VALKEYMODULE_OK)
        return VALKEYMODULE_ERR;
    ValkeyModuleCommand *command = ValkeyModule_GetCommand(ctx, doc->name);
    const ValkeyModuleCommandInfo info = {.version = &info_version,
                                          .summary = doc->summary,
                                          .complexity = doc->complexity,
                                          .since = "1.0.0",
                                          .arity = -2,
                                          .key_specs = key_specs,
                                          .args = doc->args};
    if (command == NULL || ValkeyModule_SetCommandInfo(command, &info) != VALKEYMODULE_OK) return VALKEYMODULE_ERR;
    return ValkeyModule_SetCommandACLCategories(command, "emq write fast");
}

int docs_register(ValkeyModuleCtx *ctx) {
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (register_one(ctx, &commands[i]) != VALKEYMODULE_OK) return VALKEYMODULE_ERR;
    }
    return VALKEYMODULE_OK;
}
