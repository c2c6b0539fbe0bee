/* EMQ.RELEASE 3 active pending row id token b
 *
 * The worker hands its job back untried: it waits again at once, and the claim it spent is credited. Replies 1.
 * O(log N); for a grouped job also O(lanes on the ring). The script that does the same is lua/release.lua.
 *
 * Does not: ask whose child the job is. Nothing ends here, so a flow is not concerned. */
#include "trafikey.h"
#include <string.h>

typedef struct Release {
    Str *active_name, *pending_name, *row_name, *id;
    Key *active, *pending, *row;
    long long credit, priority;
    Lane *lane; /* NULL: a flat job */
    Lanes lanes;
    Wake wake;
} Release;

/* READY and ROOM, planned. */
static bool look_ahead(Call *c, Release *k, Str *group) {
    if (group == NULL) {
        k->lanes.wakes++;
    } else {
        if (!lanes_get(c, &k->lanes, group, &k->lane)) return false;
        lanes_leave(k->lane);
        k->lane->waiting++;
        lanes_ring(&k->lanes, k->lane);
    }
    if (!room_look(c, k->active, 1, &k->lanes.wakes)) return false;
    if (k->lanes.wakes == 0) return true;
    return wake_open(c, &k->wake) && keys_resident(c, &k->wake.name, 1);
}

static bool look(Call *c, Release *k, Str **argv) {
    k->active_name = argv[2];
    k->pending_name = argv[3];
    k->row_name = argv[4];
    k->id = argv[5];
    if (!keys_base(c, argv[7]) || !keys_is(c, k->active_name, "active", NULL) ||
        !keys_is(c, k->pending_name, "pending", NULL) || !keys_is(c, k->row_name, "job:", k->id))
        return refuse(c, "ERR keys do not belong to one queue");
    if (!keys_fence(c, argv + 2, 3)) return false;
    if (!keys_open(c, k->active_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->active) ||
        !keys_open(c, k->pending_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->pending) ||
        !keys_open(c, k->row_name, VALKEYMODULE_KEYTYPE_HASH, USE_WRITE, &k->row))
        return false;
    if (keys_missing(k->row)) return refuse(c, "EMQSTALE job gone");
    Str *attempts = NULL, *group = NULL, *priority = NULL, *credit = NULL;
    long long claims;
    double score;
    (void)ValkeyModule_HashGet(k->row, VALKEYMODULE_HASH_NONE, cached.attempts, &attempts, cached.group, &group,
                               cached.priority, &priority, cached.credit, &credit, NULL);
    if (!settle_token(c, attempts, argv[6], "EMQSTALE release token mismatch", &claims)) return false;
    if (keys_missing(k->active) || ValkeyModule_ZsetScore(k->active, k->id, &score) != VALKEYMODULE_OK)
        return refuse(c, "EMQSTATE release not active");
    if (!number_stored(c, credit, "ERR stored credit is not an integer", &k->credit)) return false;
    k->priority = number_priority(priority);
    return look_ahead(c, k, group);
}

static void write(Call *c, Release *k) {
    effect_zrem(c, k->active, k->active_name, k->id, "zrem");
    const Field fields[] = {{cached.state, cached.pending},
                            {cached.credit, ValkeyModule_CreateStringFromLongLong(c->ctx, k->credit + 1)}};
    effect_hset(c, k->row, k->row_name, fields, 2);
    lanes_ready(c, k->pending, k->pending_name, k->lane, k->priority, k->id);
    lanes_write(c, &k->lanes);
    if (k->lanes.wakes > 0) wake_push(c, &k->wake, k->lanes.wakes);
    (void)ValkeyModule_ReplyWithLongLong(c->ctx, 1);
}

int command_release(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    if (keys_asked_for(ctx, argv, argc)) return VALKEYMODULE_OK;
    if (argc < 2) return ValkeyModule_WrongArity(ctx);
    Call c;
    Release k;
    call_begin(&c, ctx, CMD_RELEASE);
    if (!check_numkeys(&c, argv[1], 3, "ERR numkeys must be 3")) return call_end(&c);
    if (argc != 8) {
        (void)ValkeyModule_WrongArity(ctx);
        return call_end(&c);
    }
    memset(&k, 0, sizeof(k));
    if (look(&c, &k, argv)) write(&c, &k);
    lanes_free(&k.lanes);
    return call_end(&c);
}
