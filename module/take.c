/* EMQ.TAKE 4 pending ring active b lease count source
 *
 * Up to count waiting jobs become active on one deadline. Replies [[id, payload, attempts, group, opts, credit] ...],
 * empty when the queue is paused or at a limit, or nothing can be served. `source` says what is served: `flat`, the head
 * of pending; `lanes`, the lanes in turn along the ring; `both`, of the flat head and the head of the lane whose turn it
 * is the lower. A lane whose turn is over goes to the end of the ring while it can be served further, one that cannot be
 * served leaves it, to wait in gwait where its rate is the reason. Ids without a row are dropped. When count jobs were
 * taken and more could be served, an empty wake list gets one token, for the next consumer.
 * O((count + ghosts + lanes that leave the ring) * log N). The script that does the same is lua/take.lua; beyond it the
 * rows get lease_epoch.
 *
 * Does not: wait. A consumer parks on the wake list. */
#include "trafikey.h"
#include <string.h>

/* Where the next id comes from, NULL when nothing can be served. False for a refusal. */
static bool next(Call *c, Taking *k, Source **from, Lane **lane) {
    const Str *flat = source_head(&k->flat);
    *from = flat == NULL ? NULL : &k->flat;
    if (!walk_turn(c, &k->walk, lane)) return false;
    if (*lane == NULL) return true;
    Source *source = &(*lane)->source;
    const Str *first = source_head(source);
    if (flat != NULL &&
        (k->flat.score < source->score || (k->flat.score == source->score && strs_precede(flat, first)))) {
        *lane = NULL;
        return true;
    }
    *from = source;
    return true;
}

/* Plans the claims, one after the other, and the wake. */
static bool plan(Call *c, Taking *k, long long count) {
    Source *from = NULL;
    Lane *lane = NULL;
    long long most = count < k->allowance.most ? count : k->allowance.most;
    while ((long long)k->taken < most) {
        bool is_job;
        if (!next(c, k, &from, &lane)) return false;
        if (from == NULL) break;
        Str *id = from->head;
        source_use(from);
        if (lane != NULL) lane->waiting--;
        if (!taking_claim(c, k, id, &is_job)) return false;
        if (lane == NULL || !is_job) continue;
        walk_paid(&k->walk, lane);
        walk_served(&k->walk, lane, false);
    }
    /* at the allowance there is nothing that another consumer could claim */
    if ((long long)k->taken == k->allowance.most) return true;
    bool filled = (long long)k->taken == count;
    bool more = filled && source_head(&k->flat) != NULL;
    if (filled && !more) {
        if (!walk_turn(c, &k->walk, &lane)) return false;
        more = lane != NULL;
    }
    return (!more && !k->walk.tired) || taking_wake(c, k);
}

/* Checks everything and plans. False when the call is over: refused, or answered with the empty array. */
static bool look(Call *c, Taking *k, Str **argv) {
    long long lease, count;
    size_t len;
    if (!number_of(argv[6], &lease) || lease < 1) return refuse(c, "ERR lease must be a positive integer");
    if (!number_of(argv[7], &count) || count < 1) return refuse(c, "ERR count must be a positive integer");
    const char *source = ValkeyModule_StringPtrLen(argv[8], &len);
    bool both = len == 4 && memcmp(source, "both", 4) == 0;
    bool flat = both || (len == 4 && memcmp(source, "flat", 4) == 0);
    bool lanes = both || (len == 5 && memcmp(source, "lanes", 5) == 0);
    if (!flat && !lanes) return refuse(c, "ERR source must be flat, lanes or both");
    k->pending_name = argv[2];
    k->walk.ring_name = argv[3];
    k->active_name = argv[4];
    if (!taking_look(c, k, argv[5])) return false;
    if (k->allowance.most > 0) {
        if (flat) k->flat.key = k->pending;
        if (lanes) {
            k->by_id = ValkeyModule_CreateDict(c->ctx);
            if (!walk_begin(c, &k->walk)) return false;
        }
        if (!plan(c, k, count) || !walk_end(c, &k->walk)) return false;
    }
    if (taking_idle(k)) return taking_none(c);
    k->deadline = c->now + lease;
    return true;
}

int command_take(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    if (keys_asked_for(ctx, argv, argc)) return VALKEYMODULE_OK;
    if (argc < 2) return ValkeyModule_WrongArity(ctx);
    Call c;
    Taking k;
    call_begin(&c, ctx, CMD_TAKE);
    if (!check_numkeys(&c, argv[1], 4, "ERR numkeys must be 4")) return call_end(&c);
    if (argc != 9) {
        (void)ValkeyModule_WrongArity(ctx);
        return call_end(&c);
    }
    memset(&k, 0, sizeof(k));
    taking_end(&c, &k, look(&c, &k, argv));
    return call_end(&c);
}
