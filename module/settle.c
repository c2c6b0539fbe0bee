/* What COMPLETE and FAIL share: how a job leaves the hands of its worker (TOKEN, HELD, LEAVE, RING and UNPARK of the wire
 * contract, section 4). The same as lua/lib/row.lua, settle.lua and dedup.lua, in the same order.
 *
 * Does not: decide what becomes of the job. */
#include "trafikey.h"

/* Compared as text; "0" belongs to a job that was never claimed and fences nothing. */
static bool fences(const Str *attempts, const Str *token) {
    size_t len;
    if (attempts == NULL || !strs_equal(attempts, token)) return false;
    const char *text = ValkeyModule_StringPtrLen(attempts, &len);
    return !(len == 1 && text[0] == '0');
}

bool settle_token(Call *c, const Str *attempts, const Str *token, const char *stale, long long *n) {
    if (!fences(attempts, token)) return refuse(c, stale);
    return number_stored(c, attempts, "ERR stored attempts is not an integer", n);
}

/* Whether the id waits in this set; the set is left open in `place` if it does. */
static bool waits(Call *c, Settle *s, Str *name, bool *found) {
    double score;
    Key *key;
    *found = false;
    if (!keys_open_derived(c, name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &key)) return false;
    if (!keys_missing(key) && ValkeyModule_ZsetScore(key, s->id, &score) == VALKEYMODULE_OK) {
        s->place = key;
        s->place_name = name;
        *found = true;
    } else {
        ValkeyModule_CloseKey(key);
    }
    return true;
}

bool settle_unpark(Call *c, Str *dedup, const Str *id, Str **name) {
    Str *key = NULL, *owner = NULL;
    *name = NULL;
    if (dedup == NULL) return true;
    key = keys_name(c, "de:", dedup, NULL);
    if (!keys_text(c, key, USE_WRITE, &owner) || !keys_resident(c, &key, 1)) return false;
    if (owner != NULL && strs_equal(owner, id)) *name = key;
    return true;
}

bool settle_check(Call *c, Settle *s, const Str *token, const SettleTexts *texts) {
    Str *attempts = NULL, *group = NULL, *parent = NULL, *keep = NULL;
    (void)ValkeyModule_HashGet(s->row, VALKEYMODULE_HASH_NONE, cached.attempts, &attempts, cached.group, &group,
                               cached.parent, &parent, cached.dedup, &s->dedup, cached.dedup_keep, &keep, NULL);
    s->dedup_kept = keep != NULL;
    if (!settle_token(c, attempts, token, texts->stale, &s->attempts)) return false;
    if (parent != NULL) return refuse(c, texts->flow);

    double score;
    bool active = !keys_missing(s->active) && ValkeyModule_ZsetScore(s->active, s->id, &score) == VALKEYMODULE_OK;
    bool found = false, in_lane = false;
    s->leaves_active = active;
    if (active) {
        /* an id both active and waiting leaves the active set */
        s->place = s->active;
        s->place_name = s->active_name;
    } else {
        Str *pending = keys_name(c, "pending", NULL, NULL);
        Str *lane = group != NULL ? keys_name(c, "g:", group, ":pending") : pending;
        Str *touched[] = {lane, pending};
        if (!keys_resident(c, touched, 2)) return false; /* it may wait where the slot is moving to */
        if (group != NULL && !waits(c, s, lane, &in_lane)) return false;
        if (!in_lane && !waits(c, s, pending, &found)) return false;
        if (!in_lane && !found) return refuse(c, texts->not_held);
    }
    if (group == NULL) return true;
    if (!lanes_get(c, &s->lanes, group, &s->lane)) return false;
    if (active) lanes_leave(s->lane);
    if (in_lane) s->lane->waiting--;
    lanes_ring(&s->lanes, s->lane);
    return true;
}

void settle_depart(Call *c, Settle *s) {
    effect_zrem(c, s->place, s->place_name, s->id, "zrem");
    if (s->lane == NULL) return;
    lanes_write(c, &s->lanes);
    lanes_unring(c, s->lane);
}
