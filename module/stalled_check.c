/* EMQ.STALLED.CHECK 3 active pending dead b max limit
 *
 * Up to limit jobs whose lease has lapsed leave the active set. A lease that another run of the server gave
 * (lease_epoch is not this run_id) lapsed because the server was away: the job waits again, uncounted, with a credit.
 * Any other lapse is counted in `stalled`; at max the job is dead. Replies [[recovered ids], [dead ids]].
 * O(limit * log N), and O(lanes on the ring) where there are groups among them. The script that does the same is
 * lua/stalled_check.lua, which counts every lapse.
 *
 * Does not: run by itself. A client calls it. */
#include "trafikey.h"
#include <math.h>
#include <string.h>

typedef enum { GHOST, COUNTED, FORGIVEN, DEAD } Fate;

typedef struct Move {
    Str *id, *row_name;
    Fate fate;
    long long count; /* the new stalled, or for a forgiven job the new credit */
    Lane *lane;      /* NULL: a flat job */
    long long priority;
    Str *dedup_name; /* the dedup key that goes with it, or NULL */
} Move;

typedef struct Sweep {
    Str *active_name, *pending_name, *dead_name;
    Key *active, *pending, *dead;
    long long max, limit;
    Move *moves;
    size_t count, room;
    size_t recovered, died;
    Strs letters; /* death entries of flow children */
    Lanes lanes;
    Str *metrics_name, *outbox_name;
    Key *metrics, *outbox;
    long long failed;
    Wake wake;
    bool wakes;
} Sweep;

/* The lapsed ids, earliest deadline first. */
static void collect(Call *c, Sweep *k) {
    if (keys_missing(k->active)) return;
    if (ValkeyModule_ZsetFirstInScoreRange(k->active, -INFINITY, (double)c->now, 0, 0) != VALKEYMODULE_OK) return;
    while ((long long)k->count < k->limit && !ValkeyModule_ZsetRangeEndReached(k->active)) {
        if (k->count == k->room) {
            k->room = k->room == 0 ? 32 : 2 * k->room;
            k->moves = ValkeyModule_Realloc(k->moves, k->room * sizeof(*k->moves));
        }
        Move *move = &k->moves[k->count++];
        memset(move, 0, sizeof(*move));
        move->id = ValkeyModule_ZsetRangeCurrentElement(k->active, NULL);
        move->row_name = keys_name(c, "job:", move->id, NULL);
        (void)ValkeyModule_ZsetRangeNext(k->active);
    }
    ValkeyModule_ZsetRangeStop(k->active);
}

/* What a child's death means for its parent: a policy of another name, or none, fails the parent. */
static const char *policy_of(const Str *policy) {
    static const char *const others[] = {"id", "rd", "cp"};
    size_t len;
    if (policy == NULL) return "fp";
    const char *text = ValkeyModule_StringPtrLen(policy, &len);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (len == 2 && memcmp(text, others[i], 2) == 0) return others[i];
    return "fp";
}

/* The death entry for the pump that tells the parent, joined by NUL: empty, fail, the parent's queue, parent id, child
 * id, policy, error. */
static void write_letter(Call *c, Sweep *k, const Str *id, const Str *parent, const Str *parent_queue,
                         const Str *policy) {
    const char *parts[7] = {"", "fail", c->base + 5, NULL, NULL, policy_of(policy), "stalled"};
    size_t lens[7] = {0, 4, c->base_len - 7, 0, 0, 2, 7}, len = 6;
    if (parent_queue != NULL) parts[2] = ValkeyModule_StringPtrLen(parent_queue, &lens[2]);
    parts[3] = ValkeyModule_StringPtrLen(parent, &lens[3]);
    parts[4] = ValkeyModule_StringPtrLen(id, &lens[4]);
    for (size_t i = 0; i < 7; i++)
        len += lens[i];
    char *text = ValkeyModule_Realloc(NULL, len), *at = text;
    for (size_t i = 0; i < 7; i++) {
        if (i > 0) *at++ = '\0';
        if (lens[i] > 0) memcpy(at, parts[i], lens[i]);
        at += lens[i];
    }
    strs_add(&k->letters, ValkeyModule_CreateString(c->ctx, text, len));
    ValkeyModule_Free(text);
}

static bool from_another_run(const Str *epoch) {
    size_t len, own_len;
    if (epoch == NULL) return false;
    const char *text = ValkeyModule_StringPtrLen(epoch, &len);
    const char *own = ValkeyModule_StringPtrLen(cached.run_id, &own_len);
    return len != own_len || memcmp(text, own, len) != 0;
}

/* Reads one row and decides its fate. */
static bool judge(Call *c, Sweep *k, Move *move, Key *row) {
    Str *group = NULL, *priority = NULL, *stalled = NULL, *epoch = NULL, *credit = NULL, *parent = NULL,
        *parent_queue = NULL, *policy = NULL, *dedup = NULL;
    if (keys_missing(row)) {
        move->fate = GHOST;
        return true;
    }
    (void)ValkeyModule_HashGet(row, VALKEYMODULE_HASH_NONE, cached.group, &group, cached.priority, &priority,
                               cached.stalled, &stalled, cached.lease_epoch, &epoch, cached.credit, &credit,
                               cached.parent, &parent, cached.parent_queue, &parent_queue, cached.parent_policy,
                               &policy, cached.dedup, &dedup, NULL);
    bool forgiven = from_another_run(epoch);
    if (forgiven) {
        if (!number_stored(c, credit, "ERR stored credit is not an integer", &move->count)) return false;
    } else if (!number_stored(c, stalled, "ERR stored stalled is not an integer", &move->count)) {
        return false;
    }
    move->count++;
    move->fate = forgiven ? FORGIVEN : move->count >= k->max ? DEAD : COUNTED;
    move->priority = number_priority(priority);
    if (group != NULL) {
        if (!lanes_get(c, &k->lanes, group, &move->lane)) return false;
        lanes_leave(move->lane);
        if (move->fate != DEAD) move->lane->waiting++;
        lanes_ring(&k->lanes, move->lane);
    } else if (move->fate != DEAD) {
        k->lanes.wakes++;
    }
    if (move->fate != DEAD) {
        k->recovered++;
        return true;
    }
    k->died++;
    if (!settle_unpark(c, dedup, move->id, &move->dedup_name)) return false;
    if (parent != NULL) write_letter(c, k, move->id, parent, parent_queue, policy);
    return true;
}

/* What the deaths and the wakes need. */
static bool look_ahead(Call *c, Sweep *k) {
    Str *count = NULL;
    if (!room_look(c, k->active, (long long)k->count, &k->lanes.wakes)) return false;
    k->wakes = k->recovered > 0 || k->lanes.wakes > 0;
    if (k->wakes && !wake_open(c, &k->wake)) return false;
    k->metrics_name = keys_name(c, "metrics:failed", NULL, NULL);
    k->outbox_name = keys_name(c, "flow:outbox", NULL, NULL);
    if (k->died > 0) {
        if (!keys_open_derived(c, k->metrics_name, VALKEYMODULE_KEYTYPE_HASH, USE_WRITE, &k->metrics)) return false;
        if (!keys_missing(k->metrics))
            (void)ValkeyModule_HashGet(k->metrics, VALKEYMODULE_HASH_NONE, cached.count, &count, NULL);
        if (!number_stored(c, count, "ERR stored metrics:failed is not an integer", &k->failed)) return false;
    }
    if (k->letters.count > 0 && !keys_open_derived(c, k->outbox_name, VALKEYMODULE_KEYTYPE_LIST, USE_WRITE, &k->outbox))
        return false;
    Str *touched[] = {k->active_name,
                      k->pending_name,
                      k->dead_name,
                      k->wakes ? k->wake.name : k->active_name,
                      k->died > 0 ? k->metrics_name : k->active_name,
                      k->letters.count > 0 ? k->outbox_name : k->active_name};
    return keys_resident(c, touched, sizeof(touched) / sizeof(touched[0]));
}

static bool look(Call *c, Sweep *k, Str **argv) {
    if (!number_of(argv[6], &k->max) || k->max < 1) return refuse(c, "ERR max must be a positive integer");
    if (!number_of(argv[7], &k->limit) || k->limit < 1) return refuse(c, "ERR limit must be a positive integer");
    k->active_name = argv[2];
    k->pending_name = argv[3];
    k->dead_name = argv[4];
    if (!keys_base(c, argv[5]) || !keys_is(c, k->active_name, "active", NULL) ||
        !keys_is(c, k->pending_name, "pending", NULL) || !keys_is(c, k->dead_name, "dead", NULL))
        return refuse(c, "ERR keys do not belong to one queue");
    if (!keys_fence(c, argv + 2, 3)) return false;
    if (!keys_open(c, k->active_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->active) ||
        !keys_open(c, k->pending_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->pending) ||
        !keys_open(c, k->dead_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->dead))
        return false;
    collect(c, k);
    for (size_t i = 0; i < k->count; i++) {
        Move *move = &k->moves[i];
        Key *row;
        bool ok = keys_open_derived(c, move->row_name, VALKEYMODULE_KEYTYPE_HASH, USE_WRITE, &row) &&
                  keys_resident(c, &move->row_name, 1) && judge(c, k, move, row);
        if (!ok) return false;
        ValkeyModule_CloseKey(row);
    }
    return look_ahead(c, k);
}

static void write_move(Call *c, Sweep *k, const Move *move) {
    effect_zrem(c, k->active, k->active_name, move->id, "zrem");
    if (move->fate == GHOST) return;
    Key *row = ValkeyModule_OpenKey(c->ctx, move->row_name, VALKEYMODULE_READ | VALKEYMODULE_WRITE);
    Str *count = ValkeyModule_CreateStringFromLongLong(c->ctx, move->count);
    if (move->fate == DEAD) {
        const Field fields[] = {
            {cached.stalled, count}, {cached.state, cached.dead}, {cached.last_error, cached.stalled_reason}};
        effect_hset(c, row, move->row_name, fields, 3);
        effect_zadd(c, k->dead, k->dead_name, c->now, move->id);
        Str *freed[] = {move->dedup_name};
        if (move->dedup_name != NULL) effect_retire(c, freed, 1);
    } else {
        const Field fields[] = {{move->fate == FORGIVEN ? cached.credit : cached.stalled, count},
                                {cached.state, cached.pending}};
        effect_hset(c, row, move->row_name, fields, 2);
        if (move->fate == FORGIVEN) effect_hdel(c, row, move->row_name, cached.lease_epoch);
        lanes_ready(c, k->pending, k->pending_name, move->lane, move->priority, move->id);
    }
    ValkeyModule_CloseKey(row);
}

static void reply_ids(Call *c, const Sweep *k, bool dead) {
    (void)ValkeyModule_ReplyWithArray(c->ctx, (long)(dead ? k->died : k->recovered));
    for (size_t i = 0; i < k->count; i++) {
        Fate fate = k->moves[i].fate;
        if (fate != GHOST && (fate == DEAD) == dead) (void)ValkeyModule_ReplyWithString(c->ctx, k->moves[i].id);
    }
}

static void write(Call *c, Sweep *k) {
    for (size_t i = 0; i < k->count; i++)
        write_move(c, k, &k->moves[i]);
    lanes_write(c, &k->lanes);
    if (k->died > 0) effect_hincrby(c, k->metrics, k->metrics_name, cached.count, k->failed, (long long)k->died);
    if (k->letters.count > 0)
        effect_push(c, k->outbox, k->outbox_name, VALKEYMODULE_LIST_TAIL, k->letters.at, k->letters.count);
    if (k->wakes) wake_push(c, &k->wake, k->lanes.wakes);
    (void)ValkeyModule_ReplyWithArray(c->ctx, 2);
    reply_ids(c, k, false);
    reply_ids(c, k, true);
}

int command_stalled_check(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    if (keys_asked_for(ctx, argv, argc)) return VALKEYMODULE_OK;
    if (argc < 2) return ValkeyModule_WrongArity(ctx);
    Call c;
    Sweep k;
    call_begin(&c, ctx, CMD_STALLED_CHECK);
    if (!check_numkeys(&c, argv[1], 3, "ERR numkeys must be 3")) return call_end(&c);
    if (argc != 8) {
        (void)ValkeyModule_WrongArity(ctx);
        return call_end(&c);
    }
    memset(&k, 0, sizeof(k));
    if (look(&c, &k, argv)) write(&c, &k);
    lanes_free(&k.lanes);
    strs_free(&k.letters);
    ValkeyModule_Free(k.moves);
    return call_end(&c);
}
