/* EMQ.FAIL 4 active schedule dead row id token delay max error b
 *
 * The job's handler failed: it waits for its next try at NOW + delay, or is dead once it was claimed max times.
 * Replies "scheduled" or "dead". O(log N) of the sets; for a grouped job also O(lanes on the ring). The script that
 * does the same is lua/fail.lua, whose refusals call the verb `retry`.
 *
 * Does not: fail a flow child, whose parent's keys only the script declares: `EMQSTATE fail flow not native`. */
#include "trafikey.h"
#include <string.h>

#define FLOW "EMQSTATE fail flow not native"

typedef struct Fail {
    Settle s;
    Str *schedule_name, *dead_name, *metrics_name;
    Str *dedup_name; /* NULL: no dedup key goes with the job */
    Key *schedule, *dead, *metrics;
    long long failed, at, wakes;
    bool dies;
    Wake wake;
} Fail;

/* What death or the next try needs beyond the settle itself. */
static bool look_ahead(Call *c, Fail *k) {
    if (k->dies) {
        Str *count = NULL;
        if (!settle_unpark(c, k->s.dedup, k->s.id, &k->dedup_name)) return false;
        k->metrics_name = keys_name(c, "metrics:failed", NULL, NULL);
        if (!keys_open_derived(c, k->metrics_name, VALKEYMODULE_KEYTYPE_HASH, USE_WRITE, &k->metrics)) return false;
        if (!keys_missing(k->metrics))
            (void)ValkeyModule_HashGet(k->metrics, VALKEYMODULE_HASH_NONE, cached.count, &count, NULL);
        if (!number_stored(c, count, "ERR stored metrics:failed is not an integer", &k->failed)) return false;
    } else if (wake_earliest(k->schedule, k->s.id, k->at)) {
        k->wakes++;
    }
    if (!room_look(c, k->s.active, k->s.leaves_active ? 1 : 0, &k->wakes)) return false;
    k->wakes += k->s.lanes.wakes;
    if (k->wakes > 0 && !wake_open(c, &k->wake)) return false;
    Str *touched[] = {k->s.active_name,
                      k->s.place_name,
                      k->s.row_name,
                      k->schedule_name,
                      k->dead_name,
                      k->dies ? k->metrics_name : k->schedule_name,
                      k->wakes > 0 ? k->wake.name : k->s.row_name};
    return keys_resident(c, touched, sizeof(touched) / sizeof(touched[0]));
}

static bool look(Call *c, Fail *k, Str **argv) {
    static const SettleTexts texts = {"EMQSTALE retry token mismatch", FLOW, "EMQSTATE retry not active"};
    Settle *s = &k->s;
    long long delay, max;
    if (!number_of(argv[8], &delay)) return refuse(c, "ERR delay must be an integer");
    if (!number_of(argv[9], &max) || max < 1) return refuse(c, "ERR max must be a positive integer");
    s->active_name = argv[2];
    k->schedule_name = argv[3];
    k->dead_name = argv[4];
    s->row_name = argv[5];
    s->id = argv[6];
    if (!keys_base(c, argv[11]) || !keys_is(c, s->active_name, "active", NULL) ||
        !keys_is(c, k->schedule_name, "schedule", NULL) || !keys_is(c, k->dead_name, "dead", NULL) ||
        !keys_is(c, s->row_name, "job:", s->id))
        return refuse(c, "ERR keys do not belong to one queue");
    if (!keys_fence(c, argv + 2, 4)) return false;
    if (!keys_open(c, s->active_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &s->active) ||
        !keys_open(c, k->schedule_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->schedule) ||
        !keys_open(c, k->dead_name, VALKEYMODULE_KEYTYPE_ZSET, USE_WRITE, &k->dead) ||
        !keys_open(c, s->row_name, VALKEYMODULE_KEYTYPE_HASH, USE_WRITE, &s->row))
        return false;
    if (keys_missing(s->row)) return refuse(c, "EMQSTALE job gone");
    if (!settle_check(c, s, argv[7], &texts)) return false;
    k->dies = s->attempts >= max;
    k->at = k->dies ? c->now : c->now + delay;
    return look_ahead(c, k);
}

static void write(Call *c, Fail *k, Str *error) {
    Settle *s = &k->s;
    settle_depart(c, s);
    const Field fields[] = {{cached.state, k->dies ? cached.dead : cached.scheduled}, {cached.last_error, error}};
    effect_hset(c, s->row, s->row_name, fields, 2);
    if (k->dies) {
        effect_zadd(c, k->dead, k->dead_name, k->at, s->id);
        effect_hincrby(c, k->metrics, k->metrics_name, cached.count, k->failed, 1);
        if (k->dedup_name != NULL) effect_retire(c, &k->dedup_name, 1);
    } else {
        effect_zadd(c, k->schedule, k->schedule_name, k->at, s->id);
    }
    if (k->wakes > 0) wake_push(c, &k->wake, k->wakes);
    (void)ValkeyModule_ReplyWithString(c->ctx, k->dies ? cached.dead : cached.scheduled);
}

int command_fail(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    if (keys_asked_for(ctx, argv, argc)) return VALKEYMODULE_OK;
    if (argc < 2) return ValkeyModule_WrongArity(ctx);
    Call c;
    Fail k;
    call_begin(&c, ctx, CMD_FAIL);
    if (!check_numkeys(&c, argv[1], 4, FLOW)) return call_end(&c);
    if (argc != 12) {
        (void)ValkeyModule_WrongArity(ctx);
        return call_end(&c);
    }
    memset(&k, 0, sizeof(k));
    if (look(&c, &k, argv)) write(&c, &k, argv[10]);
    lanes_free(&k.s.lanes);
    return call_end(&c);
}
