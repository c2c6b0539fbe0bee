/* EMQ.CLAIM.BATCH 3 pending active b lease size
 *
 * Up to size waiting flat jobs become active on one deadline. Replies [[id, payload, attempts] ...], first first; empty
 * when the queue is paused or at a limit, or nothing waits. Ids without a row are dropped and do not count.
 * O((size + ghosts) * log N). The script that does the same is lua/claim_batch.lua; beyond it the rows get lease_epoch.
 *
 * Does not: serve lanes (EMQ.TAKE.BATCH does), or count a grouped row that somebody put into pending. */
#include "trafikey.h"
#include <string.h>

/* Checks everything and plans. False when the call is over: refused, or answered with the empty array. */
static bool look(Call *c, Taking *k, Str **argv) {
    long long lease, size;
    if (!number_of(argv[5], &lease) || lease < 1) return refuse(c, "ERR lease must be a positive integer");
    if (!number_of(argv[6], &size) || size < 1) return refuse(c, "ERR size must be a positive integer");
    k->pending_name = argv[2];
    k->active_name = argv[3];
    if (!taking_look(c, k, argv[4])) return false;
    k->flat.key = k->pending;
    long long most = size < k->allowance.most ? size : k->allowance.most;
    while ((long long)k->taken < most && source_head(&k->flat) != NULL) {
        bool is_job;
        Str *id = k->flat.head;
        source_use(&k->flat);
        if (!taking_claim(c, k, id, &is_job)) return false;
    }
    if (taking_idle(k)) return taking_none(c);
    k->deadline = c->now + lease;
    return true;
}

int command_claim_batch(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    if (keys_asked_for(ctx, argv, argc)) return VALKEYMODULE_OK;
    if (argc < 2) return ValkeyModule_WrongArity(ctx);
    Call c;
    Taking k;
    call_begin(&c, ctx, CMD_CLAIM_BATCH);
    if (!check_numkeys(&c, argv[1], 3, "ERR numkeys must be 3")) return call_end(&c);
    if (argc != 7) {
        (void)ValkeyModule_WrongArity(ctx);
        return call_end(&c);
    }
    memset(&k, 0, sizeof(k));
    k.plain = true;
    taking_end(&c, &k, look(&c, &k, argv));
    return call_end(&c);
}
