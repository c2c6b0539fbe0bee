/* Lanes: the waiting jobs of a group, its count of jobs in flight, and the ring of lanes that can be served. The same
 * plan-then-write as lua/lib/lanes.lua, in the same order.
 *
 * A lane is read once a call, into a Lane that then carries the plan: leaving and arriving change it in memory, and
 * lanes_write puts the sums down. The set `paused` and the list `ring` are asked by way of the core commands, whose
 * loops are in the server; all writes go through effects.c.
 * Does not: keep anything between calls. */
#include "trafikey.h"
#include <string.h>

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

/* A field of gactive or glimit: whether it is there, and its value. */
static bool counter(Call *c, const char *key_name, Use use, Str *group, const char *refusal, bool *there,
                    long long *value) {
    Key *key = NULL;
    Str *text = NULL;
    bool ok = keys_open_derived(c, keys_name(c, key_name, NULL, NULL), VALKEYMODULE_KEYTYPE_HASH, use, &key);
    if (ok && !keys_missing(key)) (void)ValkeyModule_HashGet(key, VALKEYMODULE_HASH_NONE, group, &text, NULL);
    ValkeyModule_CloseKey(key);
    *there = text != NULL;
    return ok && number_stored(c, text, refusal, value);
}

static bool lane_read(Call *c, Lane *lane, Str *group, bool walked) {
    lane->group = group;
    lane->name = keys_name(c, "g:", group, ":pending");
    Str *paused = keys_name(c, "paused", NULL, NULL), *ring = keys_name(c, "ring", NULL, NULL);
    Str *touched[] = {keys_name(c, "gactive", NULL, NULL), keys_name(c, "glimit", NULL, NULL), paused, lane->name,
                      ring};
    if (!counter(c, "gactive", USE_WRITE, group, "ERR stored gactive is not an integer", &lane->counted,
                 &lane->active) ||
        !counter(c, "glimit", USE_READ, group, "ERR stored glimit is not an integer", &lane->limited, &lane->limit))
        return false;
    if (!typed(c, paused, VALKEYMODULE_KEYTYPE_SET, USE_READ)) return false;
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
    lane->ringed = walked || asked(c, "LPOS", ring, group);
    return true;
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
    return lane_read(c, fresh, group, walked);
}

bool lanes_get(Call *c, Lanes *lanes, Str *group, Lane **lane) {
    return get(c, lanes, group, false, lane);
}

bool lanes_walk(Call *c, Lanes *lanes, Str *group, Lane **lane) {
    return get(c, lanes, group, true, lane);
}

bool lanes_servable(const Lane *lane) {
    return !lane->paused && lane->waiting > 0 && !(lane->limited && lane->active >= lane->limit);
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
