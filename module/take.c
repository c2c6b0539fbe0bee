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

typedef struct Job {
    Str *id, *row_name, *payload, *group, *opts;
    long long attempts, credit;
} Job;

typedef struct Take {
    Str *pending_name, *active_name;
    Key *pending, *active;
    long long count, deadline;
    Allowance allowance;
    Source flat; /* without a key when only lanes are served */
    Walk walk;
    Lanes lanes;
    ValkeyModuleDict *by_id; /* where an id may wait twice */
    Job *jobs;
    size_t taken, room;
    Wake wake;
    bool wakes;
} Take;

/* Where the next id comes from, NULL when nothing can be served. False for a refusal. */
static bool next(Call *c, Take *k, Source **from, Lane **lane) {
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

/* Reads one row and plans the claim of its job; a ghost is no job. False for a refusal. */
static bool claim(Call *c, Take *k, Str *id, bool *is_job) {
    Str *attempts = NULL, *credit = NULL;
    Key *row;
    *is_job = false;
    if (k->by_id != NULL && ValkeyModule_DictGet(k->by_id, id, NULL) != NULL) return true;
    Job job = {.id = id, .row_name = keys_name(c, "job:", id, NULL)};
    if (!keys_open_derived(c, job.row_name, VALKEYMODULE_KEYTYPE_HASH, USE_WRITE, &row) ||
        !keys_resident(c, &job.row_name, 1))
        return false;
    if (keys_missing(row)) return true;
    (void)ValkeyModule_HashGet(row, VALKEYMODULE_HASH_NONE, cached.attempts, &attempts, cached.payload, &job.payload,
                               cached.group, &job.group, cached.opts, &job.opts, cached.credit, &credit, NULL);
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

/* Plans the claims, one after the other, and the wake. */
static bool plan(Call *c, Take *k) {
    Source *from = NULL;
    Lane *lane = NULL;
    long long most = k->count < k->allowance.most ? k->count : k->allowance.most;
    while ((long long)k->taken < most) {
        bool is_job;
        if (!next(c, k, &from, &lane)) return false;
        if (from == NULL) break;
        Str *id = from->head;
        source_use(from);
        if (lane != NULL) lane->waiting--;
        if (!claim(c, k, id, &is_job)) return false;
        if (lane != NULL && is_job) walk_served(&k->walk, lane);
    }
    /* at the allowance there is nothing that another consumer could claim */
    if ((long long)k->taken == k->allowance.most) return true;
    bool filled = (long long)k->taken == k->count;
    bool more = filled && source_head(&k->flat) != NULL;
    if (filled && !more) {
        if (!walk_turn(c, &k->walk, &lane)) return false;
        more = lane != NULL;
    }
    if (!more && !k->walk.tired) return true;
    if (!wake_open(c, &k->wake) || !keys_resident(c, &k->wake.name, 1)) return false;
    k->wakes = keys_missing(k->wake.key);
    return true;
}

/* Checks everything and plans. False when the call is over: refused, or answered with the empty array. */
static bool look(Call *c, Take *k, Str **argv) {
    long long lease;
    size_t len;
    if (!number_of(argv[6], &lease) || lease < 1) return refuse(c, "ERR lease must be a positive integer");
    if (!number_of(argv[7], &k->count) || k->count < 1) return refuse(c, "ERR count must be a positive integer");
    const char *source = ValkeyModule_StringPtrLen(argv[8], &len);
    bool both = len == 4 && memcmp(source, "both", 4) == 0;
    bool flat = both || (len == 4 && memcmp(source, "flat", 4) == 0);
    bool lanes = both || (len == 5 && memcmp(source, "lanes", 5) == 0);
    if (!flat && !lanes) return refuse(c, "ERR source must be flat, lanes or both");
    k->pending_name = argv[2];
    k->walk.ring_name = argv[3];
    k->active_name = argv[4];
    if (!keys_base(c, argv[5]) || !keys_is(c, k->pending_name, "pending", NULL) ||
        !keys_is(c, k->walk.ring_name, "ring", NULL) || !keys_is(c, k->active_name, "active", NULL))
        return refuse(c, "ERR keys do not belong to one queue");
    Str *meta = keys_name(c, "meta", NULL, NULL);
    if (!keys_allowed(c, meta, USE_READ) || !keys_fence(c, argv + 2, 3)) return false;
    if (!keys_open(c, k->pending_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->pending) ||
        !keys_open(c, k->walk.ring_name, VALKEYMODULE_KEYTYPE_LIST, USE_WRITE, &k->walk.ring) ||
        !keys_open(c, k->active_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->active) ||
        !allowance_look(c, meta, k->active, &k->allowance))
        return false;
    k->walk.meta_name = meta;
    k->walk.lanes = &k->lanes;
    if (k->allowance.most > 0) {
        if (flat) k->flat.key = k->pending;
        if (lanes) {
            k->by_id = ValkeyModule_CreateDict(c->ctx);
            if (!walk_begin(c, &k->walk)) return false;
        }
        if (!plan(c, k) || !walk_end(c, &k->walk)) return false;
    }
    if (k->taken == 0 && k->flat.used.count == 0 && k->walk.passed == 0) {
        (void)ValkeyModule_ReplyWithArray(c->ctx, 0);
        return false;
    }
    k->deadline = c->now + lease;
    return true;
}

/* The looks are over: nothing may walk along a key that is about to change. */
static void stop(Take *k) {
    if (k->flat.walking) ValkeyModule_ZsetRangeStop(k->flat.key);
    for (Lane *lane = k->lanes.first; lane != NULL; lane = lane->next)
        if (lane->source.walking) ValkeyModule_ZsetRangeStop(lane->source.key);
    ValkeyModule_CloseKey(k->walk.ring);
    k->walk.ring = NULL;
}

static void write_job(Call *c, Take *k, const Job *job) {
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

static void write(Call *c, Take *k) {
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

    (void)ValkeyModule_ReplyWithArray(c->ctx, (long)k->taken);
    for (size_t i = 0; i < k->taken; i++) {
        const Job *job = &k->jobs[i];
        (void)ValkeyModule_ReplyWithArray(c->ctx, 6);
        reply_text(c, job->id);
        reply_text(c, job->payload);
        (void)ValkeyModule_ReplyWithLongLong(c->ctx, job->attempts);
        reply_text(c, job->group);
        reply_text(c, job->opts);
        (void)ValkeyModule_ReplyWithLongLong(c->ctx, job->credit);
    }
}

int command_take(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    if (keys_asked_for(ctx, argv, argc)) return VALKEYMODULE_OK;
    if (argc < 2) return ValkeyModule_WrongArity(ctx);
    Call c;
    Take k;
    call_begin(&c, ctx, CMD_TAKE);
    if (!check_numkeys(&c, argv[1], 4, "ERR numkeys must be 4")) return call_end(&c);
    if (argc != 9) {
        (void)ValkeyModule_WrongArity(ctx);
        return call_end(&c);
    }
    memset(&k, 0, sizeof(k));
    bool planned = look(&c, &k, argv);
    stop(&k);
    if (planned) write(&c, &k);
    lanes_free(&k.lanes);
    strs_free(&k.flat.used);
    walk_free(&k.walk);
    ValkeyModule_Free(k.jobs);
    return call_end(&c);
}
