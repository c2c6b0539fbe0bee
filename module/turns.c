/* TURN: the walk along the ring (wire contract, section 4). The same as lua/lib/turns.lua and lua/lib/heads.lua: all in
 * memory, until the walk_write functions.
 *
 * Invariants: whoever leaves the head has its rate known, and is in gwait if that is what holds it; one turn at most is
 * under way.
 * Does not: read rows. */
#include "trafikey.h"
#include <math.h>

enum { MOST_DROPPED = 256 }; /* heads that leave unserved in one call */

Str *source_head(Source *source) {
    if (source->head != NULL) return source->head;
    if (!source->walking) {
        if (keys_missing(source->key) ||
            ValkeyModule_ZsetFirstInScoreRange(source->key, -INFINITY, INFINITY, 0, 0) != VALKEYMODULE_OK)
            return NULL;
        source->walking = true;
    }
    if (ValkeyModule_ZsetRangeEndReached(source->key)) return NULL;
    source->head = ValkeyModule_ZsetRangeCurrentElement(source->key, &source->score);
    return source->head;
}

void source_use(Source *source) {
    strs_add(&source->used, source->head);
    source->head = NULL;
    (void)ValkeyModule_ZsetRangeNext(source->key);
}

bool walk_begin(Call *c, Walk *walk) {
    Key *meta;
    walk->on_ring = keys_missing(walk->ring) ? 0 : (long long)ValkeyModule_ValueLength(walk->ring);
    if (walk->on_ring == 0) return true;
    if (!keys_open(c, walk->meta_name, VALKEYMODULE_KEYTYPE_HASH, USE_READ, &meta)) return false;
    if (meta != NULL)
        (void)ValkeyModule_HashGet(meta, VALKEYMODULE_HASH_NONE, cached.turn, &walk->kept, cached.given,
                                   &walk->kept_given, NULL);
    ValkeyModule_CloseKey(meta);
    walk->turn = walk->kept;
    if (walk->kept_given == NULL || !number_of(walk->kept_given, &walk->given)) walk->given = 0;
    return true;
}

static Str *group_at_turn(Walk *walk) {
    if (walk->head != NULL) return walk->head;
    if (walk->passed < walk->on_ring)
        walk->head = ValkeyModule_ListGet(walk->ring, (long)walk->passed);
    else if (walk->next_queued < walk->queued.count)
        walk->head = walk->queued.at[walk->next_queued];
    return walk->head;
}

static void pass(Walk *walk) {
    if (walk->passed < walk->on_ring)
        walk->passed++;
    else
        walk->next_queued++;
    walk->head = NULL;
}

/* A lane without a token goes into gwait until its next one comes. */
static void drained(Walk *walk, Lane *lane) {
    if (lane->bucket.max == 0 || lane->bucket.tokens > 0 || lane->waits) return;
    if (walk->waiting == walk->room) {
        walk->room = walk->room == 0 ? 8 : 2 * walk->room;
        walk->waits = ValkeyModule_Realloc(walk->waits, walk->room * sizeof(*walk->waits));
    }
    walk->waits[walk->waiting++] = (Score){bucket_next(&lane->bucket), lane->group};
    lane->waits = true;
}

bool walk_turn(Call *c, Walk *walk, Lane **lane) {
    for (Str *group = group_at_turn(walk); group != NULL; group = group_at_turn(walk)) {
        if (!lanes_walk(c, walk->lanes, group, lane) || !lanes_rate(c, *lane)) return false;
        if (lanes_servable(*lane)) return true;
        if (walk->dropped == MOST_DROPPED) {
            walk->tired = true;
            break;
        }
        walk->dropped++;
        drained(walk, *lane);
        pass(walk);
    }
    *lane = NULL;
    return true;
}

void walk_paid(Walk *walk, Lane *lane) {
    bucket_spend(&lane->bucket, 1);
    drained(walk, lane);
}

void walk_passed_over(Walk *walk, Lane *lane) {
    if (walk->turn != NULL && strs_equal(walk->turn, lane->group)) walk->turn = NULL;
    pass(walk);
    strs_add(&walk->queued, lane->group);
}

void walk_served(Walk *walk, Lane *lane, bool over) {
    if (walk->turn == NULL || !strs_equal(walk->turn, lane->group)) {
        walk->turn = lane->group;
        walk->given = 0;
    }
    walk->given++;
    bool servable = lanes_servable(lane);
    if (servable && !over && walk->given < lane->weight) return;
    walk->turn = NULL;
    pass(walk);
    if (servable) strs_add(&walk->queued, lane->group);
}

/* Whether the head's turn goes on behind this call. */
static bool goes_on(const Walk *walk) {
    return walk->turn != NULL && walk->head != NULL && strs_equal(walk->turn, walk->head) && walk->given > 0;
}

static bool turn_changes(const Walk *walk) {
    long long kept;
    if (!goes_on(walk)) return walk->kept != NULL || walk->kept_given != NULL;
    return walk->kept == NULL || !strs_equal(walk->turn, walk->kept) || walk->kept_given == NULL ||
           !number_of(walk->kept_given, &kept) || kept != walk->given;
}

bool walk_end(Call *c, Walk *walk) {
    (void)group_at_turn(walk);
    return (walk->waiting == 0 || keys_allowed(c, keys_name(c, "gwait", NULL, NULL), USE_WRITE)) &&
           (!turn_changes(walk) || keys_allowed(c, walk->meta_name, USE_WRITE));
}

void walk_write_lanes(Call *c, Walk *walk) {
    if (walk->waiting > 0) {
        Str *name = keys_name(c, "gwait", NULL, NULL);
        Key *gwait = ValkeyModule_OpenKey(c->ctx, name, VALKEYMODULE_READ | VALKEYMODULE_WRITE);
        effect_zadd_all(c, gwait, name, walk->waits, walk->waiting);
        ValkeyModule_CloseKey(gwait);
    }
    for (const Lane *lane = walk->lanes->first; lane != NULL; lane = lane->next)
        bucket_write(c, &lane->bucket);
}

void walk_write_ring(Call *c, Walk *walk) {
    if (walk->passed > 0) { /* else nothing went to the end either */
        size_t left = walk->queued.count - walk->next_queued;
        Key *ring = ValkeyModule_OpenKey(c->ctx, walk->ring_name, VALKEYMODULE_READ | VALKEYMODULE_WRITE);
        effect_ltrim(c, ring, walk->ring_name, walk->passed);
        if (left > 0)
            effect_push(c, ring, walk->ring_name, VALKEYMODULE_LIST_TAIL, walk->queued.at + walk->next_queued, left);
        ValkeyModule_CloseKey(ring);
    }
    if (!turn_changes(walk)) return;
    Key *meta = ValkeyModule_OpenKey(c->ctx, walk->meta_name, VALKEYMODULE_READ | VALKEYMODULE_WRITE);
    if (goes_on(walk)) {
        const Field fields[] = {{cached.turn, walk->turn},
                                {cached.given, ValkeyModule_CreateStringFromLongLong(c->ctx, walk->given)}};
        effect_hset(c, meta, walk->meta_name, fields, 2);
    } else {
        Str *fields[] = {cached.turn, cached.given};
        effect_hdel_all(c, meta, walk->meta_name, fields, 2);
    }
    ValkeyModule_CloseKey(meta);
}

void walk_free(Walk *walk) {
    strs_free(&walk->queued);
    ValkeyModule_Free(walk->waits);
}
