/* WAKE and PUT: readiness tokens for a parked consumer, and whether a run-at time is now the earliest. The same as
 * lua/lib/wake.lua and lua/lib/schedule.lua. Does not: decide whether a call wakes. */
#include "trafikey.h"
#include <math.h>

enum { WAKE_CAP = 64 };

bool wake_open(Call *c, Wake *wake) {
    wake->name = keys_name(c, "wake", NULL, NULL);
    if (!keys_open_derived(c, wake->name, VALKEYMODULE_KEYTYPE_LIST, USE_WRITE, &wake->key)) return false;
    long long held = keys_missing(wake->key) ? 0 : (long long)ValkeyModule_ValueLength(wake->key);
    wake->room = held >= WAKE_CAP ? 0 : WAKE_CAP - held;
    return true;
}

void wake_push(Call *c, Wake *wake, long long wakes) {
    if (wakes > wake->room) wakes = wake->room;
    Str *tokens[WAKE_CAP];
    for (long long i = 0; i < wakes; i++)
        tokens[i] = cached.one;
    effect_push(c, wake->key, wake->name, VALKEYMODULE_LIST_HEAD, tokens, (size_t)wakes);
}

bool wake_earliest(Key *schedule, const Str *id, long long score) {
    if (keys_missing(schedule)) return true;
    bool earliest = true;
    if (ValkeyModule_ZsetFirstInScoreRange(schedule, -INFINITY, INFINITY, 0, 0) != VALKEYMODULE_OK) return true;
    while (!ValkeyModule_ZsetRangeEndReached(schedule)) {
        double first;
        const Str *member = ValkeyModule_ZsetRangeCurrentElement(schedule, &first);
        if (!strs_equal(member, id)) { /* the id itself may have been left there: it is about to move */
            earliest = (double)score < first || ((double)score == first && strs_precede(id, member));
            break;
        }
        (void)ValkeyModule_ZsetRangeNext(schedule);
    }
    ValkeyModule_ZsetRangeStop(schedule);
    return earliest;
}
