/* Limits: how many jobs a queue or a lane may claim now, and who hears when there is room again (BUCKET, ALLOWANCE and
 * ROOM of the wire contract, section 4). The same as lua/lib/bucket.lua, limits.lua and room.lua, in the same order.
 *
 * Invariants: whole microseconds everywhere, so that every client and both executors come to the same number; what
 * claims spend of one bucket is written once a call.
 * Does not: change a limit. Scripts do, on both executors. */
#include "trafikey.h"

enum { LONGEST_WINDOW = 2147483647, USUAL_WINDOW = 1000 }; /* ms */

bool bucket_look(Call *c, Bucket *bucket, Str *name, Use use) {
    Str *text;
    long long held;
    bucket->name = name;
    if (!keys_text(c, name, use, &text) || !number_stored(c, text, "ERR stored limiter is not an integer", &held))
        return false;
    bucket->full_at = held > 1000 * c->now ? held : 1000 * c->now;
    return true;
}

void bucket_pace(const Call *c, Bucket *bucket, long long max, const Str *duration) {
    long long window;
    if (duration == NULL || !number_of(duration, &window) || window < 1 || window > LONGEST_WINDOW)
        window = USUAL_WINDOW;
    bucket->step = 1000 * window / max;
    if (bucket->step < 1) bucket->step = 1;
    /* full_at is now at the earliest, so this is max at most */
    long long tokens = (1000 * c->now + bucket->step * max - bucket->full_at) / bucket->step;
    bucket->tokens = tokens < 0 ? 0 : tokens;
    bucket->max = max;
}

long long bucket_next(const Bucket *bucket) {
    return (bucket->full_at - bucket->step * bucket->max + bucket->step + 999) / 1000;
}

void bucket_spend(Bucket *bucket, long long tokens) {
    bucket->tokens -= tokens;
    bucket->full_at += tokens * bucket->step;
    bucket->spent += tokens;
}

void bucket_write(Call *c, const Bucket *bucket) {
    if (bucket->max > 0 && bucket->spent > 0)
        effect_set_until(c, bucket->name, bucket->full_at, (bucket->full_at + 999) / 1000);
}

bool allowance_look(Call *c, Str *meta, Key *active, Allowance *allowance) {
    Str *paused = NULL, *concurrency = NULL, *max = NULL, *duration = NULL;
    long long ceiling, rate;
    Key *key;
    if (!keys_open(c, meta, VALKEYMODULE_KEYTYPE_HASH, USE_READ, &key)) return false;
    if (key != NULL)
        (void)ValkeyModule_HashGet(key, VALKEYMODULE_HASH_NONE, cached.paused, &paused, cached.concurrency,
                                   &concurrency, cached.max, &max, cached.duration, &duration, NULL);
    ValkeyModule_CloseKey(key);
    allowance->most = 0;
    if (paused != NULL) return true;
    Str *touched[] = {meta, keys_name(c, "limiter", NULL, NULL)};
    if (!number_stored(c, concurrency, "ERR stored concurrency is not an integer", &ceiling) ||
        !number_stored(c, max, "ERR stored max is not an integer", &rate) ||
        !bucket_look(c, &allowance->bucket, touched[1], rate > 0 ? USE_WRITE : USE_READ) ||
        !keys_resident(c, touched, sizeof(touched) / sizeof(touched[0])))
        return false;
    if (rate > 0) {
        bucket_pace(c, &allowance->bucket, rate, duration);
        allowance->most = allowance->bucket.tokens;
    } else if (allowance->bucket.full_at <= 1000 * c->now) {
        allowance->most = UNLIMITED;
    }
    if (ceiling < 1) return true;
    long long room = ceiling - (long long)ValkeyModule_ValueLength(active);
    if (room < allowance->most) allowance->most = room < 0 ? 0 : room;
    return true;
}

bool room_look(Call *c, Key *active, long long leaving, long long *wakes) {
    Str *touched[] = {keys_name(c, "meta", NULL, NULL), keys_name(c, "pending", NULL, NULL),
                      keys_name(c, "ring", NULL, NULL)};
    Str *concurrency = NULL;
    long long ceiling, held = (long long)ValkeyModule_ValueLength(active);
    Key *meta, *pending, *ring;
    if (!keys_open_derived(c, touched[0], VALKEYMODULE_KEYTYPE_HASH, USE_READ, &meta)) return false;
    if (meta != NULL) (void)ValkeyModule_HashGet(meta, VALKEYMODULE_HASH_NONE, cached.concurrency, &concurrency, NULL);
    ValkeyModule_CloseKey(meta);
    if (concurrency == NULL || !number_of(concurrency, &ceiling) || ceiling < 1 || held < ceiling ||
        held - leaving >= ceiling)
        return keys_resident(c, touched, 1);
    if (!keys_open_derived(c, touched[1], VALKEYMODULE_KEYTYPE_ZSET, USE_READ, &pending)) return false;
    bool waits = !keys_missing(pending);
    ValkeyModule_CloseKey(pending);
    if (!waits) {
        if (!keys_open_derived(c, touched[2], VALKEYMODULE_KEYTYPE_LIST, USE_READ, &ring)) return false;
        waits = !keys_missing(ring);
        ValkeyModule_CloseKey(ring);
    }
    if (waits) (*wakes)++;
    return keys_resident(c, touched, sizeof(touched) / sizeof(touched[0]));
}
