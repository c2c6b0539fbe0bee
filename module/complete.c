/* EMQ.COMPLETE 2 active row id token b
 *
 * The job is done and leaves no key behind. Replies 1, or 0 when the row is gone: it was done already.
 * O(log N) of the set it leaves; for a grouped job also O(lanes on the ring). The script that does the same is
 * lua/complete.lua.
 *
 * Does not: complete a flow child, whose parent's keys only the script declares: `EMQSTATE complete flow not native`. */
#include "trafikey.h"
#include <string.h>

#define FLOW "EMQSTATE complete flow not native"

enum { ROW_AND_SUBKEYS = 8, WITH_DEDUP = 9 };
static const char *const subkeys[ROW_AND_SUBKEYS - 1] = {":logs",      ":lock",         ":dependencies", ":children",
                                                         ":processed", ":unsuccessful", ":failed"};

typedef struct Complete {
    Settle s;
    Str *retired[WITH_DEDUP]; /* the last is NULL where no dedup key goes with the job */
    Str *metrics_name;
    Key *metrics;
    long long completed;
    Wake wake;
} Complete;

static bool look(Call *c, Complete *k, Str **argv) {
    static const SettleTexts texts = {"EMQSTALE complete token mismatch", FLOW, "EMQSTATE complete not active"};
    Settle *s = &k->s;
    s->active_name = argv[2];
    s->row_name = argv[3];
    s->id = argv[4];
    if (!keys_base(c, argv[6]) || !keys_is(c, s->active_name, "active", NULL) ||
        !keys_is(c, s->row_name, "job:", s->id))
        return refuse(c, "ERR keys do not belong to one queue");
    if (!keys_fence(c, argv + 2, 2)) return false;
    if (!keys_open(c, s->active_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &s->active) ||
        !keys_open(c, s->row_name, VALKEYMODULE_KEYTYPE_HASH, USE_WRITE, &s->row))
        return false;
    if (keys_missing(s->row)) {
        (void)ValkeyModule_ReplyWithLongLong(c->ctx, 0);
        return false;
    }
    if (!settle_check(c, s, argv[5], &texts)) return false;

    Str *count = NULL;
    k->metrics_name = keys_name(c, "metrics:completed", NULL, NULL);
    if (!keys_open_derived(c, k->metrics_name, VALKEYMODULE_KEYTYPE_HASH, USE_WRITE, &k->metrics)) return false;
    if (!keys_missing(k->metrics))
        (void)ValkeyModule_HashGet(k->metrics, VALKEYMODULE_HASH_NONE, cached.count, &count, NULL);
    if (!number_stored(c, count, "ERR stored metrics:completed is not an integer", &k->completed)) return false;

    k->retired[0] = s->row_name;
    for (size_t i = 1; i < ROW_AND_SUBKEYS; i++) {
        k->retired[i] = keys_name(c, "job:", s->id, subkeys[i - 1]);
        if (!keys_allowed(c, k->retired[i], USE_WRITE)) return false;
    }
    if (!s->dedup_kept && !settle_unpark(c, s->dedup, s->id, &k->retired[ROW_AND_SUBKEYS])) return false;
    if (!room_look(c, s->active, s->leaves_active ? 1 : 0, &s->lanes.wakes)) return false;
    if (s->lanes.wakes > 0 && !wake_open(c, &k->wake)) return false;
    Str *touched[] = {s->active_name, s->place_name, k->metrics_name, k->retired[0],
                      k->retired[1],  k->retired[2], k->retired[3],   k->retired[4],
                      k->retired[5],  k->retired[6], k->retired[7],   s->lanes.wakes > 0 ? k->wake.name : s->row_name};
    return keys_resident(c, touched, sizeof(touched) / sizeof(touched[0]));
}

static void write(Call *c, Complete *k) {
    settle_depart(c, &k->s);
    /* the row is opened anew to be deleted: a handle of its own would outlive what it points to */
    ValkeyModule_CloseKey(k->s.row);
    k->s.row = NULL;
    effect_retire(c, k->retired, k->retired[ROW_AND_SUBKEYS] == NULL ? ROW_AND_SUBKEYS : WITH_DEDUP);
    effect_hincrby(c, k->metrics, k->metrics_name, cached.count, k->completed, 1);
    if (k->s.lanes.wakes > 0) wake_push(c, &k->wake, k->s.lanes.wakes);
    (void)ValkeyModule_ReplyWithLongLong(c->ctx, 1);
}

int command_complete(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    if (keys_asked_for(ctx, argv, argc)) return VALKEYMODULE_OK;
    if (argc < 2) return ValkeyModule_WrongArity(ctx);
    Call c;
    Complete k;
    call_begin(&c, ctx, CMD_COMPLETE);
    if (!check_numkeys(&c, argv[1], 2, FLOW)) return call_end(&c);
    if (argc != 7) {
        (void)ValkeyModule_WrongArity(ctx);
        return call_end(&c);
    }
    memset(&k, 0, sizeof(k));
    if (look(&c, &k, argv)) write(&c, &k);
    lanes_free(&k.s.lanes);
    return call_end(&c);
}
