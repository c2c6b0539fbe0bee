/* Lanes: the waiting jobs of a group, its count of jobs in flight, and the ring of lanes that can be served. The same
 * plan-then-write as lua/lib/lanes.lua, in the same order.
 *
 * A lane is read once a call, into a Lane that then carries the plan: leaving and arriving change it in memory, and
 * lanes_write puts the sums down. The set `paused` and the list `ring` are asked by way of the core commands, whose
 * loops are in the server; all writes go through effects.c.
 * Does not: keep anything between calls. */
#include "trafikey.h"
#include <string.h>

/* After so many searches of the ring in one call it is read as a whole. */
enum { SEARCHES = 8 };

/* SISMEMBER and LPOS: the key's rights and type are checked before, so the reply is an integer or nil. */
static bool asked(Call *c, const char *command, Str *key, Str *member) {
    ValkeyModuleCallReply *reply = ValkeyModule_Call(c->ctx, command, "ss", key, member);
    if (reply == NULL) return false;
    bool is_integer = ValkeyModule_CallReplyType(reply) == VALKEYMODULE_REPLY_INTEGER;
    bool yes = is_integer && (command[0] == 'L' || ValkeyModule_CallReplyInteger(reply) == 1);
    ValkeyModule_FreeCallReply(reply);
    return yes;
}

static bool typed(Call *c, Str *name, int type, Use use) {
    Key *key;
    bool ok = keys_open_derived(c, name, type, use, &key);
    ValkeyModule_CloseKey(key);
    return ok;
}

/* Fields of a hash, NULL where they are not there: of the group, and unless `all` is NULL the one for all groups. */
static bool fields_of(Call *c, Str *name, Use use, Str *group, Str **own, Str **all) {
    Key *key = NULL;
    *own = NULL;
    if (!keys_open_derived(c, name, VALKEYMODULE_KEYTYPE_HASH, use, &key)) return false;
    if (!keys_missing(key) && all == NULL)
        (void)ValkeyModule_HashGet(key, VALKEYMODULE_HASH_NONE, group, own, NULL);
    else if (!keys_missing(key))
        (void)ValkeyModule_HashGet(key, VALKEYMODULE_HASH_NONE, group, own, cached.for_all, all, NULL);
    ValkeyModule_CloseKey(key);
    return true;
}

/* OWN: the group's field of that hash, else the one for all groups. */
static bool own(Call *c, Str *name, Str *group, Str **text) {
    Str *all = NULL;
    if (!fields_of(c, name, USE_READ, group, text, &all)) return false;
    if (*text == NULL) *text = all;
    return true;
}

/* Whether the group is on the ring. Each look at a list is O(lanes), so after a few of them the ring is read once. */
static bool on_ring(Call *c, Lanes *lanes, Str *ring, Str *group) {
    lanes->searched++;
    if (lanes->searched <= SEARCHES) return asked(c, "LPOS", ring, group);
    if (lanes->on_ring == NULL) {
        Key *key = ValkeyModule_OpenKey(c->ctx, ring, VALKEYMODULE_READ);
        size_t count = keys_missing(key) ? 0 : ValkeyModule_ValueLength(key);
        lanes->on_ring = ValkeyModule_CreateDict(c->ctx);
        for (size_t i = 0; i < count; i++) {
            Str *one = ValkeyModule_ListGet(key, (long)i);
            (void)ValkeyModule_DictSet(lanes->on_ring, one, lanes);
            ValkeyModule_FreeString(c->ctx, one);
        }
        ValkeyModule_CloseKey(key);
    }
    return ValkeyModule_DictGet(lanes->on_ring, group, NULL) != NULL;
}

/* Whether the lane is in gwait, whatever its time. */
static bool in_gwait(Call *c, Str *name, Str *group, bool *waits) {
    Key *key;
    double until;
    if (!keys_open_derived(c, name, VALKEYMODULE_KEYTYPE_ZSET, USE_READ, &key)) return false;
    *waits = !keys_missing(key) && ValkeyModule_ZsetScore(key, group, &until) == VALKEYMODULE_OK;
    ValkeyModule_CloseKey(key);
    return true;
}

static bool lane_read(Call *c, Lanes *lanes, Lane *lane, Str *group, bool walked) {
    lane->group = group;
    lane->name = keys_name(c, "g:", group, ":pending");
    Str *paused = keys_name(c, "paused", NULL, NULL), *ring = keys_name(c, "ring", NULL, NULL);
    Str *gactive = keys_name(c, "gactive", NULL, NULL), *glimit = keys_name(c, "glimit", NULL, NULL);
    Str *gwait = keys_name(c, "gwait", NULL, NULL);
    Str *touched[] = {gactive, glimit, paused, gwait, lane->name, ring};
    Str *active = NULL, *limit = NULL;
    if (!fields_of(c, gactive, USE_WRITE, group, &active, NULL) ||
        !number_stored(c, active, "ERR stored gactive is not an integer", &lane->active) ||
        !own(c, glimit, group, &limit) || !number_stored(c, limit, "ERR stored glimit is not an integer", &lane->limit))
        return false;
    lane->counted = active != NULL;
    lane->limited = limit != NULL;
    if (!typed(c, paused, VALKEYMODULE_KEYTYPE_SET, USE_READ) || !in_gwait(c, gwait, group, &lane->waits)) return false;
    Key *key;
    if (!keys_open_derived(c, lane->name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &key)) return false;
    lane->waiting = keys_missing(key) ? 0 : (long long)ValkeyModule_ValueLength(key);
    if (walked) {
        lane->source.name = lane->name;
        lane->source.key = key;
    } else {
        ValkeyModule_CloseKey(key);
        if (!typed(c, ring, VALKEYMODULE_KEYTYPE_LIST, USE_WRITE)) return false;
    }
    if (!keys_resident(c, touched, sizeof(touched) / sizeof(touched[0]))) return false;
    lane->paused = asked(c, "SISMEMBER", paused, group);
    lane->ringed = walked || on_ring(c, lanes, ring, group);
    return true;
}

bool lanes_rate(Call *c, Lane *lane) {
    if (lane->rated) return true;
    Str *weight = NULL, *max = NULL, *duration = NULL;
    long long rate;
    Str *touched[] = {keys_name(c, "gmax", NULL, NULL), keys_name(c, "gweight", NULL, NULL),
                      keys_name(c, "gduration", NULL, NULL), keys_name(c, "g:", lane->group, ":limiter")};
    if (!own(c, touched[0], lane->group, &max) || !number_stored(c, max, "ERR stored gmax is not an integer", &rate))
        return false;
    if (rate > 0) {
        if (!bucket_look(c, &lane->bucket, touched[3], USE_WRITE) || !own(c, touched[2], lane->group, &duration))
            return false;
        bucket_pace(c, &lane->bucket, rate, duration);
    }
    if (!own(c, touched[1], lane->group, &weight)) return false;
    if (weight == NULL || !number_of(weight, &lane->weight) || lane->weight < 1) lane->weight = 1;
    lane->rated = true;
    return keys_resident(c, touched, rate > 0 ? sizeof(touched) / sizeof(touched[0]) : 2);
}

static bool get(Call *c, Lanes *lanes, Str *group, bool walked, Lane **lane) {
    if (lanes->by_group == NULL) lanes->by_group = ValkeyModule_CreateDict(c->ctx);
    *lane = ValkeyModule_DictGet(lanes->by_group, group, NULL);
    if (*lane != NULL) return true;
    Lane *fresh = ValkeyModule_Realloc(NULL, sizeof(*fresh));
    memset(fresh, 0, sizeof(*fresh));
    if (lanes->last == NULL)
        lanes->first = fresh;
    else
        lanes->last->next = fresh;
    lanes->last = fresh;
    (void)ValkeyModule_DictSet(lanes->by_group, group, fresh);
    *lane = fresh;
    return lane_read(c, lanes, fresh, group, walked);
}

bool lanes_get(Call *c, Lanes *lanes, Str *group, Lane **lane) {
    return get(c, lanes, group, false, lane);
}

bool lanes_walk(Call *c, Lanes *lanes, Str *group, Lane **lane) {
    return get(c, lanes, group, true, lane);
}

bool lanes_servable(const Lane *lane) {
    return !lane->paused && !lane->waits && lane->waiting > 0 && !(lane->limited && lane->active >= lane->limit) &&
           !(lane->bucket.max > 0 && lane->bucket.tokens < 1);
}

void lanes_enter(Lane *lane) {
    lane->entered++;
    lane->active++;
}

void lanes_leave(Lane *lane) {
    lane->left++;
    lane->active = lane->active > 0 ? lane->active - 1 : 0;
}

void lanes_ring(Lanes *lanes, Lane *lane) {
    if (lane->ringed || !lanes_servable(lane)) return;
    lane->ringed = true;
    strs_add(&lanes->ringing, lane->group);
    lanes->wakes++;
}

void lanes_write(Call *c, Lanes *lanes) {
    if (lanes->first == NULL) return;
    Str *name = keys_name(c, "gactive", NULL, NULL);
    Key *key = ValkeyModule_OpenKey(c->ctx, name, VALKEYMODULE_READ | VALKEYMODULE_WRITE);
    for (Lane *lane = lanes->first; lane != NULL; lane = lane->next) {
        if (lane->entered > 0) effect_hincrby(c, key, name, lane->group, lane->active - lane->entered, lane->entered);
        if (lane->left == 0 || !lane->counted) continue;
        if (lane->active > 0)
            effect_hincrby(c, key, name, lane->group, lane->active + lane->left, -lane->left);
        else
            effect_hdel(c, key, name, lane->group);
    }
    ValkeyModule_CloseKey(key);
    if (lanes->ringing.count == 0) return;
    name = keys_name(c, "ring", NULL, NULL);
    key = ValkeyModule_OpenKey(c->ctx, name, VALKEYMODULE_READ | VALKEYMODULE_WRITE);
    effect_push(c, key, name, VALKEYMODULE_LIST_TAIL, lanes->ringing.at, lanes->ringing.count);
    ValkeyModule_CloseKey(key);
}

void lanes_ready(Call *c, Key *pending, Str *pending_name, const Lane *lane, long long priority, Str *id) {
    if (lane == NULL) {
        effect_zadd(c, pending, pending_name, priority, id);
        return;
    }
    Key *set = ValkeyModule_OpenKey(c->ctx, lane->name, VALKEYMODULE_READ | VALKEYMODULE_WRITE);
    effect_zadd(c, set, lane->name, priority, id);
    ValkeyModule_CloseKey(set);
}

void lanes_unring(Call *c, const Lane *lane) {
    if (lane->waiting > 0 || !lane->ringed) return;
    Str *name = keys_name(c, "ring", NULL, NULL);
    /* LREM as a core command: it fires its own events and signals; only the replication is ours. */
    ValkeyModuleCallReply *reply = ValkeyModule_Call(c->ctx, "LREM", "scs", name, "0", lane->group);
    if (reply != NULL) ValkeyModule_FreeCallReply(reply);
    (void)ValkeyModule_Replicate(c->ctx, "LREM", "scs", name, "0", lane->group);
}

void lanes_free(Lanes *lanes) {
    for (Lane *lane = lanes->first; lane != NULL;) {
        Lane *next = lane->next;
        strs_free(&lane->source.used);
        ValkeyModule_Free(lane);
        lane = next;
    }
    strs_free(&lanes->ringing);
    memset(lanes, 0, sizeof(*lanes));
}
