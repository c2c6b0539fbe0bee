/* EMQ.TAKE.BATCH 4 pending ring active b lease size min source
 *
 * Up to size waiting jobs of one source become active on one deadline, if at least min of them wait and may be claimed
 * now. Replies as EMQ.TAKE does. `flat`: the head of pending. `lanes`: all of one lane, the first in turn that has min
 * jobs to give by its ceiling and its rate; lanes with fewer go to the end of the ring, 64 of them at most. A lane's
 * weight does not count: its turn ends with the batch. When size jobs were taken and more could be served, an empty wake
 * list gets one token. O((size + ghosts + lanes that are passed) * log N). The script that does the same is
 * lua/take_batch.lua; beyond it the rows get lease_epoch.
 *
 * Does not: mix sources or lanes in one batch. */
#include "trafikey.h"
#include <string.h>

enum { MOST_PASSED_OVER = 64 };

typedef struct Batch {
    long long size, min, most;
} Batch;

/* How many jobs of the lane could be claimed now. */
static long long gives(const Lane *lane) {
    long long count = lane->waiting;
    if (lane->limited && lane->limit - lane->active < count) count = lane->limit - lane->active;
    if (lane->bucket.max > 0 && lane->bucket.tokens < count) count = lane->bucket.tokens;
    return count;
}

/* Plans claims from the head until there are enough, or the lane can give no more. False for a refusal. */
static bool fill(Call *c, Taking *k, const Batch *batch, Source *from, Lane *lane) {
    while ((long long)k->taken < batch->most && source_head(from) != NULL) {
        bool is_job;
        Str *id = from->head;
        source_use(from);
        if (lane != NULL) lane->waiting--;
        if (!taking_claim(c, k, id, &is_job)) return false;
        if (lane == NULL) continue;
        if (is_job) walk_paid(&k->walk, lane);
        if (!lanes_servable(lane)) break;
    }
    return true;
}

/* The first lane in turn that has enough, NULL when none has. False for a refusal. */
static bool find_lane(Call *c, Taking *k, const Batch *batch, Lane **lane) {
    Walk *walk = &k->walk;
    if (!walk_turn(c, walk, lane)) return false;
    for (int over = 1; *lane != NULL && gives(*lane) < batch->min; over++) {
        walk_passed_over(walk, *lane);
        *lane = NULL;
        if (over == MOST_PASSED_OVER || walk->passed >= walk->on_ring) break;
        if (!walk_turn(c, walk, lane)) return false;
    }
    return true;
}

static bool plan_lanes(Call *c, Taking *k, const Batch *batch) {
    Lane *lane = NULL;
    if (!walk_begin(c, &k->walk) || !find_lane(c, k, batch, &lane)) return false;
    if (lane != NULL) {
        if (!fill(c, k, batch, &lane->source, lane)) return false;
        walk_served(&k->walk, lane, true);
    }
    if ((long long)k->taken == k->allowance.most) return true;
    bool more = k->walk.tired;
    if ((long long)k->taken == batch->size) {
        if (!walk_turn(c, &k->walk, &lane)) return false;
        more = lane != NULL || k->walk.tired;
    }
    return !more || taking_wake(c, k);
}

static bool plan_flat(Call *c, Taking *k, const Batch *batch) {
    k->flat.key = k->pending;
    if (!fill(c, k, batch, &k->flat, NULL)) return false;
    bool filled = (long long)k->taken == batch->size && (long long)k->taken < k->allowance.most;
    return !filled || source_head(&k->flat) == NULL || taking_wake(c, k);
}

/* Checks everything and plans. False when the call is over: refused, or answered with the empty array. */
static bool look(Call *c, Taking *k, Str **argv) {
    long long lease;
    Batch batch;
    size_t len;
    if (!number_of(argv[6], &lease) || lease < 1) return refuse(c, "ERR lease must be a positive integer");
    if (!number_of(argv[7], &batch.size) || batch.size < 1) return refuse(c, "ERR size must be a positive integer");
    if (!number_of(argv[8], &batch.min) || batch.min < 1) return refuse(c, "ERR min must be a positive integer");
    const char *source = ValkeyModule_StringPtrLen(argv[9], &len);
    bool flat = len == 4 && memcmp(source, "flat", 4) == 0;
    if (!flat && (len != 5 || memcmp(source, "lanes", 5) != 0)) return refuse(c, "ERR source must be flat or lanes");
    k->pending_name = argv[2];
    k->walk.ring_name = argv[3];
    k->active_name = argv[4];
    if (!taking_look(c, k, argv[5])) return false;
    long long waiting = keys_missing(k->pending) ? 0 : (long long)ValkeyModule_ValueLength(k->pending);
    if (k->allowance.most < batch.min || (flat && waiting < batch.min)) return taking_none(c);
    batch.most = batch.size < k->allowance.most ? batch.size : k->allowance.most;
    if (!(flat ? plan_flat(c, k, &batch) : plan_lanes(c, k, &batch)) || !walk_end(c, &k->walk)) return false;
    if (taking_idle(k)) return taking_none(c);
    k->deadline = c->now + lease;
    return true;
}

int command_take_batch(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    if (keys_asked_for(ctx, argv, argc)) return VALKEYMODULE_OK;
    if (argc < 2) return ValkeyModule_WrongArity(ctx);
    Call c;
    Taking k;
    call_begin(&c, ctx, CMD_TAKE_BATCH);
    if (!check_numkeys(&c, argv[1], 4, "ERR numkeys must be 4")) return call_end(&c);
    if (argc != 10) {
        (void)ValkeyModule_WrongArity(ctx);
        return call_end(&c);
    }
    memset(&k, 0, sizeof(k));
    taking_end(&c, &k, look(&c, &k, argv));
    return call_end(&c);
}
