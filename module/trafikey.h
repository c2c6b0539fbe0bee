/* What the six commands share.
 *
 * A command runs in two halves. The first half only looks: it parses, checks the caller's rights, the fence, the key
 * types and the transition's own conditions, and plans what will change. Any refusal happens there, so a refused call
 * leaves no trace. The second half only writes, through effects.c, where each write does four things at once: the
 * change itself, the keyspace event that the script's command would fire, the signal for WATCH and client tracking, and
 * the replication of the effect as a core command (never of our own command: a replica's clock and run_id differ).
 *
 * The state of one call is a Call on the stack. Strings and keys belong to the call's automatic memory.
 * Does not: keep any state between calls but what load caches (the run_id, constant strings) and INFO's counters. */
#ifndef TRAFIKEY_H
#define TRAFIKEY_H

#include "valkeymodule_api.h"
#include <stdbool.h>

#define TRAFIKEY_VERSION 1
#define TRAFIKEY_BRAND "echomq:6.0.0"

typedef ValkeyModuleString Str;
typedef ValkeyModuleKey Key;

typedef enum { CMD_CLAIM, CMD_TAKE, CMD_RELEASE, CMD_COMPLETE, CMD_FAIL, CMD_STALLED_CHECK, CMD_COUNT } CommandId;

typedef struct Call {
    ValkeyModuleCtx *ctx;
    CommandId command;
    bool cluster;
    const char *base; /* emq:{q}: as the caller gave it */
    size_t base_len;
    long long now; /* the cached command time, ms: what TIME would answer */
    bool user_known;
    Str *user_name; /* NULL: an internal caller, which has no rules to keep */
    ValkeyModuleUser *user;
} Call;

/* ---- trafikey.c: what load caches -------------------------------------------------------------------------------- */

typedef struct Cached {
    Str *attempts, *payload, *state, *group, *parent, *parent_queue, *parent_policy, *priority, *lease_epoch, *stalled,
        *credit, *opts, *last_error, *count, *paused; /* field names */
    Str *active, *pending, *scheduled, *dead;         /* states */
    Str *one;                                         /* the wake token */
    Str *stalled_reason;
    Str *run_id;
    char run_id_text[48];
    Str *node_version; /* {emq}:version */
} Cached;

extern Cached cached;

/* ---- call.c: one call, its refusals and their counts -------------------------------------------------------------- */

void call_begin(Call *c, ValkeyModuleCtx *ctx, CommandId command);

/* Ends a call; `result` is what the command function returns. */
int call_end(Call *c);

/* Replies with an error and counts it by its first word. Always false, so that a check can `return refuse(...)`. */
bool refuse(Call *c, const char *text);

/* numkeys, the first argument: answers whether it is `expected`. Another number is refused with `refusal`: for a settle
 * it is one of the flow layouts, which only the script knows. */
bool check_numkeys(Call *c, Str *numkeys, long long expected, const char *refusal);

/* The INFO section. */
void call_info(ValkeyModuleInfoCtx *info, int for_crash_report);

/* ---- strs.c: a growing list of strings ----------------------------------------------------------------------------- */

typedef struct Strs {
    Str **at;
    size_t count, room;
} Strs;

void strs_add(Strs *list, Str *str);
void strs_free(Strs *list);

/* Whether two strings are of the same bytes, and whether a comes before b, byte by byte, as in a sorted set. */
bool strs_equal(const Str *a, const Str *b);
bool strs_precede(const Str *a, const Str *b);

/* ---- number.c ----------------------------------------------------------------------------------------------------- */

/* A canonical decimal integer between -2^52 and 2^52 (wire contract, section 6). */
bool number_of(const Str *text, long long *n);

/* A stored counter: 0 when there is none (NULL), else it must be an integer; `refusal` is the reply otherwise. */
bool number_stored(Call *c, const Str *text, const char *refusal, long long *n);

/* The score of a waiting job: its priority, or 0 for anything but an integer 0..2097152. */
long long number_priority(const Str *text);

/* ---- keys.c: names, rights, types --------------------------------------------------------------------------------- */

/* Whether the server only asks where the declared keys are, and then tells it: what cluster redirects go by. A command
 * begins with this question and ends there if the answer is yes. */
bool keys_asked_for(ValkeyModuleCtx *ctx, Str **argv, int argc);

/* Takes the base from `b` and checks that it is exactly emq:{q}: for a queue name q. */
bool keys_base(Call *c, const Str *b);

/* Whether `key` is base + suffix [+ id]. */
bool keys_is(const Call *c, const Str *key, const char *suffix, const Str *id);

/* The name base + prefix [+ id [+ suffix]]. */
Str *keys_name(Call *c, const char *prefix, const Str *id, const char *suffix);

typedef enum { USE_READ, USE_WRITE } Use;

/* The caller may use this key that is not among the declared ones, else NOPERM. */
bool keys_allowed(Call *c, Str *name, Use use);

/* The brand of the node, or in cluster mode of the queue, is ours, else EMQWIRE (wire contract, section 8). In cluster
 * mode the brand and the declared keys must be here first: a slot on the move is TRYAGAIN, not unbranded or empty. */
bool keys_fence(Call *c, Str **declared, size_t count);

/* Opens a key and checks its type: it may be missing, but not of another type (WRONGTYPE). */
bool keys_open(Call *c, Str *name, int type, Use use, Key **key);

/* As keys_open, after keys_allowed: for a derived key. */
bool keys_open_derived(Call *c, Str *name, int type, Use use, Key **key);

bool keys_missing(Key *key);

/* Whether the queue is paused: the field is there, whatever its value. */
bool keys_paused(Call *c, Str *meta, bool *paused);

/* In cluster mode: all these keys are here, or may be created here; a slot on the move is TRYAGAIN. One call answers
 * for all of them, before the first write and before a missing row is taken for a ghost. */
bool keys_resident(Call *c, Str **names, size_t count);

/* ---- lanes.c: grouped jobs ---------------------------------------------------------------------------------------- */

/* The waiting ids of a sorted set from its head on: read one by one, taken out of the set together. */
typedef struct Source {
    Str *name;
    Key *key;
    Str *head; /* the first id that was not used, NULL: all were */
    double score;
    bool walking;
    Strs used;
} Source;

typedef struct Lane {
    Str *group;
    Str *name; /* the lane's pending set */
    long long active, entered, left, limit, waiting;
    bool counted, limited, paused, ringed;
    Source source;     /* only of a lane that the ring was walked for */
    struct Lane *next; /* in the order of first reading */
} Lane;

typedef struct Lanes {
    Lane *first, *last;
    ValkeyModuleDict *by_group;
    Strs ringing;    /* groups that go on the ring, in order */
    long long wakes; /* of lanes and of flat jobs alike */
} Lanes;

bool lanes_get(Call *c, Lanes *lanes, Str *group, Lane **lane);
/* As lanes_get, for a caller that goes along the ring itself: the ring is not searched for the lane, which would cost
 * O(lanes), and the lane's set stays open in its source. */
bool lanes_walk(Call *c, Lanes *lanes, Str *group, Lane **lane);
/* Whether a job of the lane could be claimed now. */
bool lanes_servable(const Lane *lane);
void lanes_enter(Lane *lane);
void lanes_leave(Lane *lane);
void lanes_ring(Lanes *lanes, Lane *lane);
void lanes_write(Call *c, Lanes *lanes);
/* READY: the id waits, in its lane, or for a flat job (NULL) in pending. The plan has been made before. */
void lanes_ready(Call *c, Key *pending, Str *pending_name, const Lane *lane, long long priority, Str *id);
/* A settle that leaves a lane empty takes it off the ring. */
void lanes_unring(Call *c, const Lane *lane);
void lanes_free(Lanes *lanes);

/* ---- settle.c: what COMPLETE and FAIL share ------------------------------------------------------------------------ */

typedef struct Settle {
    Str *id;
    Str *row_name;
    Key *active, *row;
    Str *active_name;
    Str *place_name; /* where the id leaves from */
    Key *place;
    Lane *lane; /* NULL for a flat job */
    long long attempts;
    Lanes lanes;
} Settle;

typedef struct SettleTexts {
    const char *stale, *flow, *not_held;
} SettleTexts;

/* TOKEN: the row's attempts fence the token, and are a number. */
bool settle_token(Call *c, const Str *attempts, const Str *token, const char *stale, long long *n);
/* TOKEN, parent, HELD, and the plan for the lane; the row is known to exist. */
bool settle_check(Call *c, Settle *s, const Str *token, const SettleTexts *texts);
/* Writes what settle_check planned, all but the wake. */
void settle_depart(Call *c, Settle *s);

/* ---- wake.c -------------------------------------------------------------------------------------------------------- */

typedef struct Wake {
    Str *name;
    Key *key;
    long long room;
} Wake;

/* Looks at the wake list; only for a call that will push. */
bool wake_open(Call *c, Wake *wake);
void wake_push(Call *c, Wake *wake, long long wakes);
/* Whether id at score comes before all others in schedule. */
bool wake_earliest(Key *schedule, const Str *id, long long score);

/* ---- effects.c: writes -------------------------------------------------------------------------------------------- */

typedef struct Field {
    Str *name, *value;
} Field;

void effect_zrem(Call *c, Key *key, Str *name, Str *member, const char *event);
/* Takes the lowest ids of a set out of it: `members` are these, in order. */
void effect_zpopmin(Call *c, Key *key, Str *name, const Strs *members);
void effect_zadd(Call *c, Key *key, Str *name, long long score, Str *member);
void effect_hset(Call *c, Key *key, Str *name, const Field *fields, size_t count);
void effect_hdel(Call *c, Key *key, Str *name, Str *field);
/* Adds `by` to a field whose value is known to be `was`. */
void effect_hincrby(Call *c, Key *key, Str *name, Str *field, long long was, long long by);
void effect_push(Call *c, Key *key, Str *name, int where, Str **items, size_t count);
/* Takes so many items, one at least, off the head of a list. */
void effect_ltrim(Call *c, Key *key, Str *name, long long count);
/* Deletes a row and all that hangs on it. */
void effect_retire(Call *c, Str **names, size_t count);

/* ---- the commands ------------------------------------------------------------------------------------------------- */

int command_claim(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_take(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_release(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_complete(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_fail(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_stalled_check(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);

/* ---- docs.c: command metadata ------------------------------------------------------------------------------------- */

int docs_register(ValkeyModuleCtx *ctx);

#endif
