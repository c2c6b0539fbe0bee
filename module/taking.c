/* Claims of many waiting jobs: planned in memory, written last. What EMQ.TAKE, EMQ.TAKE.BATCH and EMQ.CLAIM.BATCH share, as
 * the scripts share lua/lib/taking.lua.
 *
 * Invariants: every look and every refusal comes before taking_write; all claims of a call have one deadline.
 * Does not: choose the jobs. */
#include "trafikey.h"

bool taking_look(Call *c, Taking *k, Str *b) {
    bool lanes = k->walk.ring_name != NULL;
    if (!keys_base(c, b) || !keys_is(c, k->pending_name, "pending", NULL) ||
        (lanes && !keys_is(c, k->walk.ring_name, "ring", NULL)) || !keys_is(c, k->active_name, "active", NULL))
        return refuse(c, "ERR keys do not belong to one queue");
    Str *meta = keys_name(c, "meta", NULL, NULL);
    Str *declared[] = {k->pending_name, k->active_name, k->walk.ring_name};
    if (!keys_allowed(c, meta, USE_READ) || !keys_fence(c, declared, lanes ? 3 : 2)) return false;
    if (!keys_open(c, k->pending_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->pending) ||
        (lanes && !keys_open(c, k->walk.ring_name, VALKEYMODULE_KEYTYPE_LIST, USE_WRITE, &k->walk.ring)) ||
        !keys_open(c, k->active_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->active) ||
        !allowance_look(c, meta, k->active, &k->allowance))
        return false;
    k->walk.meta_name = meta;
    k->walk.lanes = &k->lanes;
    return true;
}

bool taking_claim(Call *c, Taking *k, Str *id, bool *is_job) {
    Str *attempts = NULL, *credit = NULL;
    Key *row;
    *is_job = false;
    if (k->by_id != NULL && ValkeyModule_DictGet(k->by_id, id, NULL) != NULL) return true;
    Job job = {.id = id, .row_name = keys_name(c, "job:", id, NULL)};
    if (!keys_open_derived(c, job.row_name, VALKEYMODULE_KEYTYPE_HASH, USE_WRITE, &row) ||
        !keys_resident(c, &job.row_name, 1))
        return false;
    if (keys_missing(row)) return true;
    if (k->plain)
        (void)ValkeyModule_HashGet(row, VALKEYMODULE_HASH_NONE, cached.attempts, &attempts, cached.payload,
                                   &job.payload, NULL);
    else
        (void)ValkeyModule_HashGet(row, VALKEYMODULE_HASH_NONE, cached.attempts, &attempts, cached.payload,
                                   &job.payload, cached.group, &job.group, cached.opts, &job.opts, cached.credit,
                                   &credit, NULL);
    ValkeyModule_CloseKey(row);
    if (!number_stored(c, attempts, "ERR stored attempts is not an integer", &job.attempts) ||
        !number_stored(c, credit, "ERR stored credit is not an integer", &job.credit))
        return false;
    job.attempts++;
    if (job.group != NULL) {
        Lane *lane;
        if (!lanes_walk(c, &k->lanes, job.group, &lane)) return false;
        lanes_enter(lane);
    }
    if (k->by_id != NULL) (void)ValkeyModule_DictSet(k->by_id, id, id);
    if (k->taken == k->room) {
        k->room = k->room == 0 ? 8 : 2 * k->room;
        k->jobs = ValkeyModule_Realloc(k->jobs, k->room * sizeof(*k->jobs));
    }
    k->jobs[k->taken++] = job;
    *is_job = true;
    return true;
}

bool taking_wake(Call *c, Taking *k) {
    if (!wake_open(c, &k->wake) || !keys_resident(c, &k->wake.name, 1)) return false;
    k->wakes = keys_missing(k->wake.key);
    return true;
}

bool taking_none(Call *c) {
    (void)ValkeyModule_ReplyWithArray(c->ctx, 0);
    return false;
}

bool taking_idle(const Taking *k) {
    return k->taken == 0 && k->flat.used.count == 0 && k->walk.passed == 0;
}

/* The looks are over: nothing may walk along a key that is about to change. */
static void stop(Taking *k) {
    if (k->flat.walking) ValkeyModule_ZsetRangeStop(k->flat.key);
    for (Lane *lane = k->lanes.first; lane != NULL; lane = lane->next)
        if (lane->source.walking) ValkeyModule_ZsetRangeStop(lane->source.key);
    ValkeyModule_CloseKey(k->walk.ring);
    k->walk.ring = NULL;
}

static void write_job(Call *c, Taking *k, const Job *job) {
    Str *attempts = ValkeyModule_CreateStringFromLongLong(c->ctx, job->attempts);
    Key *row = ValkeyModule_OpenKey(c->ctx, job->row_name, VALKEYMODULE_READ | VALKEYMODULE_WRITE);
    const Field fields[] = {
        {cached.attempts, attempts}, {cached.state, cached.active}, {cached.lease_epoch, cached.run_id}};
    effect_hset(c, row, job->row_name, fields, sizeof(fields) / sizeof(fields[0]));
    ValkeyModule_CloseKey(row);
    effect_zadd(c, k->active, k->active_name, k->deadline, job->id);
}

static void reply_text(Call *c, Str *text) {
    if (text != NULL)
        (void)ValkeyModule_ReplyWithString(c->ctx, text);
    else
        (void)ValkeyModule_ReplyWithNull(c->ctx);
}

static void reply_jobs(Call *c, const Taking *k) {
    (void)ValkeyModule_ReplyWithArray(c->ctx, (long)k->taken);
    for (size_t i = 0; i < k->taken; i++) {
        const Job *job = &k->jobs[i];
        (void)ValkeyModule_ReplyWithArray(c->ctx, k->plain ? 3 : 6);
        reply_text(c, job->id);
        reply_text(c, job->payload);
        (void)ValkeyModule_ReplyWithLongLong(c->ctx, job->attempts);
        if (k->plain) continue;
        reply_text(c, job->group);
        reply_text(c, job->opts);
        (void)ValkeyModule_ReplyWithLongLong(c->ctx, job->credit);
    }
}

static void write(Call *c, Taking *k) {
    effect_zpopmin(c, k->pending, k->pending_name, &k->flat.used);
    for (Lane *lane = k->lanes.first; lane != NULL; lane = lane->next)
        effect_zpopmin(c, lane->source.key, lane->name, &lane->source.used);
    for (size_t i = 0; i < k->taken; i++)
        write_job(c, k, &k->jobs[i]);
    lanes_write(c, &k->lanes);
    walk_write_lanes(c, &k->walk);
    bucket_spend(&k->allowance.bucket, (long long)k->taken);
    bucket_write(c, &k->allowance.bucket);
    walk_write_ring(c, &k->walk);
    if (k->wakes) wake_push(c, &k->wake, 1);
    reply_jobs(c, k);
}

void taking_end(Call *c, Taking *k, bool planned) {
    stop(k);
    if (planned) write(c, k);
    lanes_free(&k->lanes);
    strs_free(&k->flat.used);
    walk_free(&k->walk);
    ValkeyModule_Free(k->jobs);
}
