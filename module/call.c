/* One call: its begin and end, its refusals, and what INFO says about all of them.
 *
 * Invariant: a call answers exactly once; a refusal is counted under its first word.
 * Does not: judge anything but numkeys. */
#include "trafikey.h"
#include <string.h>

typedef struct Refusals {
    const char *word;
    unsigned long long count;
} Refusals;

static unsigned long long calls[CMD_COUNT];
static const char *const call_fields[CMD_COUNT] = {"calls_claim",      "calls_claim_batch",  "calls_take",
                                                   "calls_take_batch", "calls_release",      "calls_complete",
                                                   "calls_fail",       "calls_stalled_check"};
/* The last one takes what is none of the others. */
static Refusals refusals[] = {{"EMQSTALE", 0}, {"EMQSTATE", 0}, {"EMQWIRE", 0}, {"WRONGTYPE", 0},
                              {"NOPERM", 0},   {"TRYAGAIN", 0}, {"ERR", 0}};
enum { REFUSAL_WORDS = sizeof(refusals) / sizeof(refusals[0]) };

void call_begin(Call *c, ValkeyModuleCtx *ctx, CommandId command) {
    ValkeyModule_AutoMemory(ctx);
    memset(c, 0, sizeof(*c));
    c->ctx = ctx;
    c->command = command;
    c->cluster = (ValkeyModule_GetContextFlags(ctx) & VALKEYMODULE_CTX_FLAGS_CLUSTER) != 0;
    /* The cached time is the very value that TIME answers, so both executors put the same deadline on a lease. */
    c->now = ValkeyModule_CachedMicroseconds() / 1000;
    calls[command]++;
}

int call_end(Call *c) {
    if (c->user != NULL) ValkeyModule_FreeModuleUser(c->user);
    return VALKEYMODULE_OK;
}

bool refuse(Call *c, const char *text) {
    size_t i = 0;
    for (; i < REFUSAL_WORDS - 1; i++) {
        size_t len = strlen(refusals[i].word);
        if (strncmp(text, refusals[i].word, len) == 0 && text[len] == ' ') break;
    }
    refusals[i].count++;
    (void)ValkeyModule_ReplyWithError(c->ctx, text);
    return false;
}

bool check_numkeys(Call *c, Str *numkeys, long long expected, const char *refusal) {
    long long n;
    if (!number_of(numkeys, &n)) return refuse(c, "ERR numkeys must be a positive integer");
    return n == expected || refuse(c, refusal);
}

void call_info(ValkeyModuleInfoCtx *info, int for_crash_report) {
    (void)for_crash_report;
    if (ValkeyModule_InfoAddSection(info, "") != VALKEYMODULE_OK) return;
    (void)ValkeyModule_InfoAddFieldCString(info, "brand", TRAFIKEY_BRAND);
    (void)ValkeyModule_InfoAddFieldCString(info, "run_id", cached.run_id_text);
    for (size_t i = 0; i < CMD_COUNT; i++)
        (void)ValkeyModule_InfoAddFieldULongLong(info, call_fields[i], calls[i]);
    for (size_t i = 0; i < REFUSAL_WORDS; i++) {
        char field[32] = "refused_";
        size_t at = strlen(field);
        for (const char *w = refusals[i].word; *w != '\0' && at < sizeof(field) - 1; w++)
            field[at++] = (char)(*w | 0x20); /* lower case: the words are letters only */
        field[at] = '\0';
        (void)ValkeyModule_InfoAddFieldULongLong(info, field, refusals[i].count);
    }
}
