/* EMQ.CLAIM 3 pending active b lease
 *
 * The first waiting flat job becomes active under a lease. Replies [id, payload, attempts], or the empty array when the
 * queue is paused or at a limit, when nothing waits, or when the head was an id without a row, which is dropped.
 * O(log N) of the two sets. The script that does the same is lua/claim.lua; beyond it the row gets lease_epoch, the
 * run_id of this server, by which the stall sweep knows a lease from before a restart.
 *
 * Does not: serve lanes (EMQ.TAKE does). */
#include "trafikey.h"
#include <math.h>
#include <string.h>

typedef struct Claim {
    Str *pending_name, *active_name;
    Key *pending, *active, *row;
    Str *id, *row_name, *payload;
    long long attempts, deadline;
    Allowance allowance;
} Claim;

static Str *head_of(Key *set) {
    if (keys_missing(set) || ValkeyModule_ZsetFirstInScoreRange(set, -INFINITY, INFINITY, 0, 0) != VALKEYMODULE_OK)
        return NULL;
    Str *head = ValkeyModule_ZsetRangeEndReached(set) ? NULL : ValkeyModule_ZsetRangeCurrentElement(set, NULL);
    ValkeyModule_ZsetRangeStop(set);
    return head;
}

/* Checks everything and finds the job. False when the call is over: refused, or answered with the empty array. */
static bool look(Call *c, Claim *k, Str **argv) {
    long long lease;
    if (!number_of(argv[5], &lease) || lease < 1) return refuse(c, "ERR lease must be a positive integer");
    k->pending_name = argv[2];
    k->active_name = argv[3];
    if (!keys_base(c, argv[4]) || !keys_is(c, k->pending_name, "pending", NULL) ||
        !keys_is(c, k->active_name, "active", NULL))
        return refuse(c, "ERR keys do not belong to one queue");
    Str *meta = keys_name(c, "meta", NULL, NULL);
    if (!keys_allowed(c, meta, USE_READ) || !keys_fence(c, argv + 2, 2)) return false;
    if (!keys_open(c, k->pending_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->pending) ||
        !keys_open(c, k->active_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->active) ||
        !allowance_look(c, meta, k->active, &k->allowance))
        return false;
    k->id = k->allowance.most < 1 ? NULL : head_of(k->pending);
    if (k->id == NULL) {
        (void)ValkeyModule_ReplyWithArray(c->ctx, 0);
        return false;
    }
    k->row_name = keys_name(c, "job:", k->id, NULL);
    Str *touched[] = {k->pending_name, k->active_name, k->row_name};
    if (!keys_open_derived(c, k->row_name, VALKEYMODULE_KEYTYPE_HASH, USE_WRITE, &k->row) ||
        !keys_resident(c, touched, sizeof(touched) / sizeof(touched[0])))
        return false;
    if (keys_missing(k->row)) return true;
    Str *attempts = NULL;
    (void)ValkeyModule_HashGet(k->row, VALKEYMODULE_HASH_NONE, cached.attempts, &attempts, cached.payload, &k->payload,
                               NULL);
    if (!number_stored(c, attempts, "ERR stored attempts is not an integer", &k->attempts)) return false;
    k->attempts++;
    k->deadline = c->now + lease;
    return true;
}

static void take(Call *c, Claim *k) {
    effect_zrem(c, k->pending, k->pending_name, k->id, "zpopmin");
    if (keys_missing(k->row)) {
        (void)ValkeyModule_ReplyWithArray(c->ctx, 0);
        return;
    }
    Str *attempts = ValkeyModule_CreateStringFromLongLong(c->ctx, k->attempts);
    /* the script counts with HINCRBY and then sets the state: two events for what is one write here */
    (void)ValkeyModule_NotifyKeyspaceEvent(c->ctx, VALKEYMODULE_NOTIFY_HASH, "hincrby", k->row_name);
    const Field fields[] = {
        {cached.attempts, attempts}, {cached.state, cached.active}, {cached.lease_epoch, cached.run_id}};
    effect_hset(c, k->row, k->row_name, fields, sizeof(fields) / sizeof(fields[0]));
    effect_zadd(c, k->active, k->active_name, k->deadline, k->id);
    bucket_spend(&k->allowance.bucket, 1);
    bucket_write(c, &k->allowance.bucket);

    (void)ValkeyModule_ReplyWithArray(c->ctx, 3);
    (void)ValkeyModule_ReplyWithString(c->ctx, k->id);
    if (k->payload != NULL)
        (void)ValkeyModule_ReplyWithString(c->ctx, k->payload);
    else
        (void)ValkeyModule_ReplyWithNull(c->ctx);
    (void)ValkeyModule_ReplyWithLongLong(c->ctx, k->attempts);
}

int command_claim(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    if (keys_asked_for(ctx, argv, argc)) return VALKEYMODULE_OK;
    if (argc < 2) return ValkeyModule_WrongArity(ctx);
    Call c;
    Claim k;
    call_begin(&c, ctx, CMD_CLAIM);
    memset(&k, 0, sizeof(k));
    if (!check_numkeys(&c, argv[1], 3, "ERR numkeys must be 3")) return call_end(&c);
    if (argc != 6)
        (void)ValkeyModule_WrongArity(ctx);
    else if (look(&c, &k, argv))
        take(&c, &k);
    return call_end(&c);
}
