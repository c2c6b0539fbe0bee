/* What the commands share.
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

typedef enum {
    CMD_CLAIM,
    CMD_CLAIM_BATCH,
    CMD_TAKE,
    CMD_TAKE_BATCH,
    CMD_RELEASE,
    CMD_COMPLETE,
    CMD_FAIL,
    CMD_STALLED_CHECK,
    CMD_COUNT
} CommandId;

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
        *credit, *opts, *last_error, *count, *paused, *concurrency, *max, *duration, *turn, *given, *dedup,
        *dedup_keep;                          /* field names */
    Str *for_all;                             /* the field of what holds for lanes without one of their own */
    Str *active, *pending, *scheduled, *dead; /* states */
    Str *one;                                 /* the wake token */
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

/* The text of a derived string key, NULL when it is not there. */
bool keys_text(Call *c, Str *name, Use use, Str **text);

/* In cluster mode: all these keys are here, or may be created here; a slot on the move is TRYAGAIN. One call answers
 * for all of them, before the first write and before a missing row is taken for a ghost. */
bool keys_resident(Call *c, Str **names, size_t count);

/* ---- limits.c: how many jobs may be claimed now ---------------------------------------------------------------------- */

/* The allowance of a queue without limits. */
#define UNLIMITED (1LL << 52)

/* A rate, as a bucket of tokens that is refilled evenly. */
typedef struct Bucket {
    Str *name;         /* the limiter */
    long long full_at; /* Unix microseconds, now at the earliest */
    long long max;     /* tokens of a full bucket; 0: there is no rate */
    long long step;    /* what one takes to come back, microseconds */
    long long tokens, spent;
} Bucket;

/* Looks at the limiter; bucket_pace makes a rate of it, max being at least 1. */
bool bucket_look(Call *c, Bucket *bucket, Str *name, Use use);
void bucket_pace(const Call *c, Bucket *bucket, long long max, const Str *duration);
/* When the next token of an empty bucket comes, Unix ms. */
long long bucket_next(const Bucket *bucket);
void bucket_spend(Bucket *bucket, long long tokens);
/* What was spent, if anything. */
void bucket_write(Call *c, const Bucket *bucket);

typedef struct Allowance {
    long long most; /* jobs that may be claimed now */
    Bucket bucket;
} Allowance;

/* ALLOWANCE; the caller may read meta. */
bool allowance_look(Call *c, Str *meta, Key *active, Allowance *allowance);
/* ROOM, planned: so many ids are about to leave the active set. */
bool room_look(Call *c, Key *active, long long leaving, long long *wakes);

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
    bool counted, limited, paused, waits, ringed;
    /* only of a lane that the ring was walked for */
    Source source;
    bool rated; /* the rate and the weight are known */
    Bucket bucket;
    long long weight;
    struct Lane *next; /* in the order of first reading */
} Lane;

typedef struct Lanes {
    Lane *first, *last;
    ValkeyModuleDict *by_group;
    size_t searched;           /* for how many lanes the ring was searched */
    ValkeyModuleDict *on_ring; /* the groups on it, once it was read as a whole */
    Strs ringing;              /* groups that go on the ring, in order */
    long long wakes;           /* of lanes and of flat jobs alike */
} Lanes;

bool lanes_get(Call *c, Lanes *lanes, Str *group, Lane **lane);
/* As lanes_get, for a caller that goes along the ring itself: the ring is not searched for the lane, which would cost
 * O(lanes), and the lane's set stays open in its source. */
bool lanes_walk(Call *c, Lanes *lanes, Str *group, Lane **lane);
/* Reads the weight and the rate of a lane that was walked to; once a call. */
bool lanes_rate(Call *c, Lane *lane);
/* Whether a job of the lane could be claimed now. */
bool lanes_servable(const Lane *lane);
void lanes_enter(Lane *lane);
void lanes_leave(Lane *lane);
void lanes_ring(Lanes *lanes, Lane *lane);
/* The counts, and the ring. */
void lanes_write(Call *c, Lanes *lanes);
/* READY: the id waits, in its lane, or for a flat job (NULL) in pending. The plan has been made before. */
void lanes_ready(Call *c, Key *pending, Str *pending_name, const Lane *lane, long long priority, Str *id);
/* A settle that leaves a lane empty takes it off the ring. */
void lanes_unring(Call *c, const Lane *lane);
void lanes_free(Lanes *lanes);

/* ---- turns.c: whose turn it is -------------------------------------------------------------------------------------- */

typedef struct Score {
    long long score;
    Str *member;
} Score;

/* The walk along the ring, in thought. */
typedef struct Walk {
    Lanes *lanes;
    Str *ring_name, *meta_name;
    Key *ring;
    long long on_ring, passed; /* how many groups the ring holds, and how many of them were passed */
    Strs queued;               /* groups that went to its end */
    size_t next_queued;        /* the first of them that was not passed */
    Str *head;                 /* the group at the head, NULL: not known, or none */
    Str *kept, *kept_given;    /* the turn that was under way, as it is stored: its group, and how many jobs it gave */
    Str *turn;                 /* the same as the walk goes on, NULL: no turn is under way */
    long long given;
    Score *waits; /* groups that have no token, and until when */
    size_t waiting, room;
    long long dropped; /* heads that have left unserved */
    bool tired;        /* they were too many: somebody else goes on */
} Walk;

/* The first id that was not used, NULL when all were. */
Str *source_head(Source *source);
void source_use(Source *source);

/* Where the walk begins; the first four fields are known. */
bool walk_begin(Call *c, Walk *walk);
/* The lane whose turn it is, NULL when none can be served. False for a refusal. */
bool walk_turn(Call *c, Walk *walk, Lane **lane);
/* A job of the lane spends a token of its rate. */
void walk_paid(Walk *walk, Lane *lane);
/* The lane at the head has given a job; `over`: its turn ends with it, whatever its weight. */
void walk_served(Walk *walk, Lane *lane, bool over);
/* The lane at the head goes to the end of the ring unserved. */
void walk_passed_over(Walk *walk, Lane *lane);
/* Where the walk ends, the last look: the caller may write what it will change. */
bool walk_end(Call *c, Walk *walk);
/* Who waits for a token, and the tokens that were spent. */
void walk_write_lanes(Call *c, Walk *walk);
/* The ring, and whose turn goes on. */
void walk_write_ring(Call *c, Walk *walk);
void walk_free(Walk *walk);

/* ---- settle.c: what COMPLETE and FAIL share ------------------------------------------------------------------------ */

typedef struct Settle {
    Str *id;
    Str *row_name;
    Key *active, *row;
    Str *active_name;
    Str *place_name; /* where the id leaves from */
    Key *place;
    bool leaves_active;
    Lane *lane; /* NULL for a flat job */
    long long attempts;
    Str *dedup; /* the dedup id it holds or held, NULL: none */
    bool dedup_kept;
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

/* UNPARK: the name of the dedup key that goes with the job, NULL when there is none or another job has it. */
bool settle_unpark(Call *c, Str *dedup, const Str *id, Str **name);

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

/* ---- taking.c: claims of many jobs ---------------------------------------------------------------------------------- */

typedef struct Job {
    Str *id, *row_name, *payload, *group, *opts;
    long long attempts, credit;
} Job;

typedef struct Taking {
    Str *pending_name, *active_name;
    Key *pending, *active;
    bool plain; /* only id, payload and attempts: no lane is looked at */
    long long deadline;
    Allowance allowance;
    Source flat; /* without a key when only lanes are served */
    Walk walk;   /* without a ring_name when no lanes are */
    Lanes lanes;
    ValkeyModuleDict *by_id; /* where an id may wait twice */
    Job *jobs;
    size_t taken, room;
    Wake wake;
    bool wakes;
} Taking;

/* The declared keys, whose names are known, and the allowance: names, rights, the fence, types. False for a refusal. */
bool taking_look(Call *c, Taking *k, Str *b);
/* Reads one row and plans the claim of its job; a ghost is no job. False for a refusal. */
bool taking_claim(Call *c, Taking *k, Str *id, bool *is_job);
/* An empty wake list gets a token, planned. */
bool taking_wake(Call *c, Taking *k);
/* Whether nothing was found that would change anything. */
bool taking_idle(const Taking *k);
/* Answers with the empty array; always false. */
bool taking_none(Call *c);
/* Writes and replies if a plan was made, and frees it. */
void taking_end(Call *c, Taking *k, bool planned);

/* ---- effects.c: writes -------------------------------------------------------------------------------------------- */

typedef struct Field {
    Str *name, *value;
} Field;

void effect_zrem(Call *c, Key *key, Str *name, Str *member, const char *event);
/* Takes the lowest ids of a set out of it: `members` are these, in order. */
void effect_zpopmin(Call *c, Key *key, Str *name, const Strs *members);
void effect_zadd(Call *c, Key *key, Str *name, long long score, Str *member);
/* Adds members, one at least, that are not there yet. */
void effect_zadd_all(Call *c, Key *key, Str *name, const Score *scores, size_t count);
void effect_hset(Call *c, Key *key, Str *name, const Field *fields, size_t count);
void effect_hdel(Call *c, Key *key, Str *name, Str *field);
/* As effect_hdel, of fields of which one at least is there. */
void effect_hdel_all(Call *c, Key *key, Str *name, Str **fields, size_t count);
/* Adds `by` to a field whose value is known to be `was`. */
void effect_hincrby(Call *c, Key *key, Str *name, Str *field, long long was, long long by);
void effect_push(Call *c, Key *key, Str *name, int where, Str **items, size_t count);
/* Takes so many items, one at least, off the head of a list. */
void effect_ltrim(Call *c, Key *key, Str *name, long long count);
/* Deletes keys that may be missing by one command. */
void effect_retire(Call *c, Str **names, size_t count);
/* A number as a string key that is gone at a time, Unix ms. */
void effect_set_until(Call *c, Str *name, long long value, long long until);

/* ---- the commands ------------------------------------------------------------------------------------------------- */

int command_claim(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_claim_batch(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_take(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_take_batch(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_release(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_complete(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_fail(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);
int command_stalled_check(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc);

/* ---- docs.c: command metadata ------------------------------------------------------------------------------------- */

int docs_register(ValkeyModuleCtx *ctx);

#endif
