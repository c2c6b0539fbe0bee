/* libFuzzer over whole commands: the bytes of an input become a server, a keyspace full of hostile values, and a few
 * calls. What is judged is the fake's own rules (fake_api.h) and the sanitizers'; no reply is expected.
 *
 * With FUZZ_SHOW in the environment the input is printed as a scene (scene.h), to be understood or kept.
 * Does not: reach every input, or remember one: each starts with an empty server. */
#include "fake_api.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

typedef struct Input {
    const uint8_t *at, *end;
} Input;

static bool shows;

static unsigned byte(Input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

static unsigned pick(Input *in, unsigned count) {
    return byte(in) % count;
}

/* One in so many; never, when the input is at its end. */
static bool seldom(Input *in, unsigned count) {
    return byte(in) % count == count - 1;
}

#define COUNT(list) ((unsigned)(sizeof(list) / sizeof((list)[0])))

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Bytes of the input; or one byte so often that it is about as long as the module's own buffers, or very long. */
static Bytes raw(Input *in) {
    unsigned len = byte(in);
    if (len >= 192) {
        size_t many = len < 250 ? 224 + (len - 192) : (size_t)(len - 249) * 1000;
        char *text = must_allocate(NULL, many);
        memset(text, (int)byte(in), many);
        Bytes huge = bytes_of(text, many);
        free(text);
        return huge;
    }
    size_t left = (size_t)(in->end - in->at), taken = len < left ? len : left;
    Bytes text = bytes_of(in->at, taken);
    in->at += taken;
    return text;
}

static Bytes one_of(Input *in, const char *const *list, unsigned count) {
    unsigned which = pick(in, count + 1);
    return which == count ? raw(in) : bytes_text(list[which]);
}

static const char *const numbers[] = {"1",
                                      "0",
                                      "2",
                                      "3",
                                      "30000",
                                      "100",
                                      "-1",
                                      "256",
                                      "007",
                                      "1.5",
                                      "4503599627370496",
                                      "4503599627370497",
                                      "",
                                      "x",
                                      "-0",
                                      "+1",
                                      "2147483647",
                                      "-4503599627370496"};
static const char *const ids[] = {"JOBa", "JOBb", "JOBc", "JOBd", "", "JOBa:logs"};
static const char *const groups[] = {"g1", "g2", "g3", "*", ""};
static const char *const sources[] = {"both", "lanes", "flat", "bot", ""};
static const char *const policies[] = {"fp", "id", "rd", "cp", "zz", ""};
static const char *const epochs[] = {FAKE_RUN_ID, "another", ""};
static const char *const queues[] = {"q", "other", ""};
static const char *const fields[] = {"attempts", "group",         "payload",    "state",        "priority",
                                     "stalled",  "lease_epoch",   "credit",     "opts",         "parent",
                                     "dedup",    "parent_policy", "dedup_keep", "parent_queue", "last_error"};

static Bytes number(Input *in) {
    return one_of(in, numbers, COUNT(numbers));
}

static Bytes field_value(Input *in, Bytes field) {
    if (bytes_are(field, "group")) return one_of(in, groups, COUNT(groups));
    if (bytes_are(field, "lease_epoch")) return one_of(in, epochs, COUNT(epochs));
    if (bytes_are(field, "parent_policy")) return one_of(in, policies, COUNT(policies));
    if (bytes_are(field, "parent_queue")) return one_of(in, queues, COUNT(queues));
    if (bytes_are(field, "dedup") || bytes_are(field, "parent")) return one_of(in, ids, COUNT(ids));
    return number(in);
}

static double score(Input *in) {
    static const double scores[] = {0, 1, 999000, 1000000, 1000001, 2e6, -1, 0.5, 2097152, 1e300, -1e300};
    unsigned which = pick(in, COUNT(scores) + 3);
    if (which < COUNT(scores)) return scores[which];
    if (which == COUNT(scores)) return INFINITY;
    if (which == COUNT(scores) + 1) return -INFINITY;
    double any = 0;
    size_t left = (size_t)(in->end - in->at);
    if (left >= sizeof(any)) {
        memcpy(&any, in->at, sizeof(any));
        in->at += sizeof(any);
    }
    return any == any ? any : 0;
}

/* ---- the keyspace ------------------------------------------------------------------------------------------------ */

typedef enum { OF_IDS, OF_GROUPS, OF_FIELDS, OF_META, OF_NUMBERS } Content;

typedef struct Place {
    const char *name;
    int type;
    Content content;
    char of; /* 'i': an id follows, 'g': a group, 0: nothing */
    const char *suffix;
} Place;

static const Place places[] = {
    {"job:", VALKEYMODULE_KEYTYPE_HASH, OF_FIELDS, 'i', ""},
    {"pending", VALKEYMODULE_KEYTYPE_ZSET, OF_IDS, 0, ""},
    {"active", VALKEYMODULE_KEYTYPE_ZSET, OF_IDS, 0, ""},
    {"g:", VALKEYMODULE_KEYTYPE_ZSET, OF_IDS, 'g', ":pending"},
    {"ring", VALKEYMODULE_KEYTYPE_LIST, OF_GROUPS, 0, ""},
    {"gactive", VALKEYMODULE_KEYTYPE_HASH, OF_GROUPS, 0, ""},
    {"glimit", VALKEYMODULE_KEYTYPE_HASH, OF_GROUPS, 0, ""},
    {"gmax", VALKEYMODULE_KEYTYPE_HASH, OF_GROUPS, 0, ""},
    {"gweight", VALKEYMODULE_KEYTYPE_HASH, OF_GROUPS, 0, ""},
    {"gduration", VALKEYMODULE_KEYTYPE_HASH, OF_GROUPS, 0, ""},
    {"gwait", VALKEYMODULE_KEYTYPE_ZSET, OF_GROUPS, 0, ""},
    {"paused", VALKEYMODULE_KEYTYPE_SET, OF_GROUPS, 0, ""},
    {"meta", VALKEYMODULE_KEYTYPE_HASH, OF_META, 0, ""},
    {"schedule", VALKEYMODULE_KEYTYPE_ZSET, OF_IDS, 0, ""},
    {"dead", VALKEYMODULE_KEYTYPE_ZSET, OF_IDS, 0, ""},
    {"wake", VALKEYMODULE_KEYTYPE_LIST, OF_NUMBERS, 0, ""},
    {"limiter", VALKEYMODULE_KEYTYPE_STRING, OF_NUMBERS, 0, ""},
    {"g:", VALKEYMODULE_KEYTYPE_STRING, OF_NUMBERS, 'g', ":limiter"},
    {"de:", VALKEYMODULE_KEYTYPE_STRING, OF_IDS, 'i', ""},
    {"metrics:completed", VALKEYMODULE_KEYTYPE_HASH, OF_NUMBERS, 0, ""},
    {"metrics:failed", VALKEYMODULE_KEYTYPE_HASH, OF_NUMBERS, 0, ""},
    {"flow:outbox", VALKEYMODULE_KEYTYPE_LIST, OF_NUMBERS, 0, ""},
    {"job:", VALKEYMODULE_KEYTYPE_LIST, OF_NUMBERS, 'i', ":logs"},
    {"version", VALKEYMODULE_KEYTYPE_STRING, OF_NUMBERS, 0, ""},
};
static const char *const meta_fields[] = {"concurrency", "max", "duration", "turn", "given", "paused"};

static Bytes name_of(const char *base, const char *name, Bytes part, const char *suffix) {
    size_t lens[] = {strlen(base), strlen(name), part.len, strlen(suffix)};
    const char *texts[] = {base, name, part.at, suffix};
    char *made = must_allocate(NULL, lens[0] + lens[1] + lens[2] + lens[3]);
    size_t at = 0;
    for (int i = 0; i < 4; i++) {
        if (lens[i] > 0) memcpy(made + at, texts[i], lens[i]);
        at += lens[i];
    }
    Bytes whole = bytes_of(made, at);
    free(made);
    return whole;
}

static Bytes item_of(Input *in, Content content) {
    switch (content) {
    case OF_IDS: return one_of(in, ids, COUNT(ids));
    case OF_GROUPS: return one_of(in, groups, COUNT(groups));
    case OF_FIELDS: return one_of(in, fields, COUNT(fields));
    case OF_META: return one_of(in, meta_fields, COUNT(meta_fields));
    case OF_NUMBERS: break;
    }
    return seldom(in, 4) ? number(in) : bytes_text("count");
}

static void fill(Input *in, Value *value, const Place *place) {
    unsigned count = 1 + pick(in, 6);
    if (seldom(in, 32)) count = 1 + byte(in);
    for (unsigned i = 0; i < count; i++) {
        Bytes item = item_of(in, place->content), content;
        switch (value->type) {
        case VALKEYMODULE_KEYTYPE_STRING:
            bytes_free(&item);
            item = place->content == OF_NUMBERS ? number(in) : one_of(in, ids, COUNT(ids));
            value_insert(value, 0, item);
            count = 0;
            break;
        case VALKEYMODULE_KEYTYPE_LIST: value_insert(value, value->count, item); break;
        case VALKEYMODULE_KEYTYPE_SET:
            if (value_find(value, item) < 0) value_insert(value, value->count, item);
            break;
        case VALKEYMODULE_KEYTYPE_HASH:
            content = place->content == OF_FIELDS ? field_value(in, item) : number(in);
            value_set(value, item, content);
            bytes_free(&content);
            break;
        default: (void)value_score(value, item, score(in));
        }
        bytes_free(&item);
    }
}

static void plant(Input *in, const char *base) {
    const Place *place = &places[pick(in, COUNT(places))];
    Bytes part = {NULL, 0};
    if (place->of == 'i') part = one_of(in, ids, COUNT(ids));
    if (place->of == 'g') part = one_of(in, groups, COUNT(groups));
    Bytes name = name_of(base, place->name, part, place->suffix);
    int type = seldom(in, 32) ? (int)(1 + pick(in, 5)) : place->type;
    const Entry *there = keyspace_find(&fake.keys, name);
    /* more of what is there already, but for a string, which is one */
    if (there != NULL && (there->value->type != type || type == VALKEYMODULE_KEYTYPE_STRING))
        (void)keyspace_delete(&fake.keys, name);
    fill(in, keyspace_make(&fake.keys, name, type), place);
    if (seldom(in, 64)) keyspace_find(&fake.keys, name)->until = 1000000 + (long long)byte(in);
    bytes_free(&name);
    bytes_free(&part);
}

static Value *made(const char *base, const char *name, Bytes part, const char *suffix, int type) {
    Bytes whole = name_of(base, name, part, suffix);
    Value *value = keyspace_make(&fake.keys, whole, type);
    bytes_free(&whole);
    return value;
}

static void put_field(Value *row, const char *field, const char *content) {
    Bytes name = bytes_text(field), text = bytes_text(content);
    value_set(row, name, text);
    bytes_free(&name);
    bytes_free(&text);
}

/* A job as it may be, in one of the places where it may be; two bytes of the input say which. What else is planted
 * spoils it. */
static void plant_job(Input *in, const char *base, const char *id) {
    static const double deadlines[] = {999000, 1030000};
    unsigned where = byte(in), what = byte(in);
    Bytes name = bytes_text(id), group = bytes_text(groups[what % 4]), none = {NULL, 0};
    Value *row = (what & 64) == 0 ? made(base, "job:", name, "", VALKEYMODULE_KEYTYPE_HASH) : NULL;
    bool grouped = (what & 8) != 0;
    if (row != NULL) {
        put_field(row, "attempts", "1");
        put_field(row, "payload", "p");
        if (grouped) put_field(row, "group", groups[what % 4]);
        if ((what & 16) != 0) put_field(row, "dedup", id);
        if ((what & 128) != 0) put_field(row, "lease_epoch", epochs[where % 2]);
        if ((what & 48) == 48) put_field(row, "parent", "JOBd");
    }
    if ((what & 16) != 0 && (where & 64) == 0)
        value_insert(made(base, "de:", name, "", VALKEYMODULE_KEYTYPE_STRING), 0, name);
    if ((where & 3) == 0) {
        (void)value_score(made(base, "active", none, "", VALKEYMODULE_KEYTYPE_ZSET), name, deadlines[(where >> 2) & 1]);
        if (grouped) put_field(made(base, "gactive", none, "", VALKEYMODULE_KEYTYPE_HASH), groups[what % 4], "2");
    } else if ((where & 3) == 1 || ((where & 3) == 2 && !grouped)) {
        (void)value_score(made(base, "pending", none, "", VALKEYMODULE_KEYTYPE_ZSET), name, where >> 4);
    } else if ((where & 3) == 2) {
        Value *ring = made(base, "ring", none, "", VALKEYMODULE_KEYTYPE_LIST);
        (void)value_score(made(base, "g:", group, ":pending", VALKEYMODULE_KEYTYPE_ZSET), name, where >> 4);
        if ((where & 128) == 0) value_insert(ring, ring->count, group);
        if (ring->count == 0) {
            Bytes key = name_of(base, "ring", none, "");
            (void)keyspace_delete(&fake.keys, key);
            bytes_free(&key);
        }
    }
    bytes_free(&name);
    bytes_free(&group);
}

/* Lapsed jobs of as many lanes: more than are looked for one by one. */
static void plant_crowd(const char *base, unsigned count) {
    static const Bytes none = {NULL, 0};
    for (unsigned i = 0; i < count; i++) {
        char id[8], group[8];
        (void)snprintf(id, sizeof(id), "JOB%u", i);
        (void)snprintf(group, sizeof(group), "c%u", i);
        Bytes name = bytes_text(id), lane = bytes_text(group);
        put_field(made(base, "job:", name, "", VALKEYMODULE_KEYTYPE_HASH), "group", group);
        (void)value_score(made(base, "active", none, "", VALKEYMODULE_KEYTYPE_ZSET), name, i);
        Value *ring = made(base, "ring", none, "", VALKEYMODULE_KEYTYPE_LIST);
        if (ring->count == 0 || i % 3 == 0) value_insert(ring, ring->count, lane);
        bytes_free(&name);
        bytes_free(&lane);
    }
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

/* @ a key, of the id where it ends in ":"; # a number, = the token, . any text, ~ a source. */
static const char *const calls[][14] = {
    {"EMQ.CLAIM", "3", "@pending", "@active", "@", "#"},
    {"EMQ.TAKE", "4", "@pending", "@ring", "@active", "@", "#", "#", "~"},
    {"EMQ.TAKE.BATCH", "4", "@pending", "@ring", "@active", "@", "#", "#", "#", "~"},
    {"EMQ.CLAIM.BATCH", "3", "@pending", "@active", "@", "#", "#"},
    {"EMQ.RELEASE", "3", "@active", "@pending", "@job:", "!", "=", "@"},
    {"EMQ.COMPLETE", "2", "@active", "@job:", "!", "=", "@"},
    {"EMQ.FAIL", "4", "@active", "@schedule", "@dead", "@job:", "!", "=", "#", "#", ".", "@"},
    {"EMQ.STALLED.CHECK", "3", "@active", "@pending", "@dead", "@", "#", "#"},
};

/* The token of the row as it is, which fences. */
static Bytes token_of(Input *in, const char *base, Bytes id) {
    if (seldom(in, 16)) return number(in);
    Bytes row = name_of(base, "job:", id, ""), attempts = bytes_text("attempts");
    const Entry *entry = keyspace_find(&fake.keys, row);
    long at =
        entry == NULL || entry->value->type != VALKEYMODULE_KEYTYPE_HASH ? -1 : value_find(entry->value, attempts);
    bytes_free(&row);
    bytes_free(&attempts);
    if (at < 0) return bytes_text("1");
    return bytes_of(entry->value->items[at].value.at, entry->value->items[at].value.len);
}

static Bytes word_of(Input *in, const char *pattern, const char *base, Bytes id) {
    static const Bytes nothing = {NULL, 0};
    if (seldom(in, 64)) return raw(in);
    switch (pattern[0]) {
    case '@': return name_of(base, pattern + 1, pattern[1] == 'j' ? id : nothing, "");
    case '!': return bytes_of(id.at, id.len);
    case '=': return token_of(in, base, id);
    case '#': return number(in);
    case '.': return raw(in);
    case '~': return one_of(in, sources, COUNT(sources));
    default: return bytes_text(pattern);
    }
}

static void make_call(Input *in, const char *base) {
    const char *const *pattern = calls[pick(in, COUNT(calls))];
    Bytes id = one_of(in, ids, COUNT(ids)), words[16];
    int count = 0;
    for (; count < 14 && pattern[count] != NULL; count++)
        words[count] = count == 0 ? bytes_text(pattern[0]) : word_of(in, pattern[count], base, id);
    if (seldom(in, 64)) words[count++] = raw(in);
    if (seldom(in, 64)) bytes_free(&words[--count]);
    if (shows) {
        (void)printf("call");
        for (int i = 0; i < count; i++) {
            (void)printf(" ");
            bytes_print(stdout, words[i]);
        }
        (void)printf("\n");
        (void)fflush(stdout);
    }
    if (count > 0) {
        const char *reply = fake_run(words, count);
        if (shows) (void)printf("reply %s\n", reply);
    }
    for (int i = 0; i < count; i++)
        bytes_free(&words[i]);
    bytes_free(&id);
}

/* ---- the server -------------------------------------------------------------------------------------------------- */

static void setting(Input *in, const char *base) {
    unsigned bits = byte(in);
    fake.cluster = (bits & 3) == 3;
    fake.moving = fake.cluster && (bits & 4) != 0;
    fake.in_script = (bits & 24) == 24;
    if (!fake.in_script && (bits & 96) == 96) fake.user = (bits & 128) != 0 ? USER_NONE : USER_GONE;
    if (seldom(in, 8))
        fake.denied[fake.denies++] = name_of(base, places[pick(in, COUNT(places))].name, (Bytes){0}, "*");
    if (seldom(in, 8)) fake.fault_at = (long)byte(in);
    if (!fake.cluster) return;
    Bytes name = name_of(base, "version", (Bytes){0}, ""), brand = bytes_text(FAKE_BRAND);
    value_insert(keyspace_make(&fake.keys, name, VALKEYMODULE_KEYTYPE_STRING), 0, brand);
    bytes_free(&name);
    bytes_free(&brand);
}

static void show(void) {
    (void)printf("case an input\n%s%s%s%s", fake.cluster ? "cluster\n" : "", fake.moving ? "moving\n" : "",
                 fake.in_script ? "script\n" : "",
                 fake.user == USER_NONE   ? "nobody\n"
                 : fake.user == USER_GONE ? "stranger\n"
                                          : "");
    if (fake.denies > 0) {
        (void)printf("deny ");
        bytes_print(stdout, fake.denied[0]);
        (void)printf("\n");
    }
    if (fake.fault_at > 0) (void)printf("# the question %ld is answered with a no\n", fake.fault_at);
    for (size_t i = 0; i < fake.keys.count; i++)
        entry_print(stdout, &fake.keys.entries[i]);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    shows = getenv("FUZZ_SHOW") != NULL;
    fake_reset();
    if (fake_load(0) != VALKEYMODULE_OK) finding("the module does not load: %s", fake.log);
    if (fake_commands() != COUNT(calls)) finding("%zu commands, but %u are fuzzed", fake_commands(), COUNT(calls));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char base[] = "emq:{q}:";
    Input in = {data, data + size};
    fake_reset();
    setting(&in, base);
    unsigned plants = pick(&in, 12), many = 1 + pick(&in, 4);
    for (unsigned i = 0; i < 4; i++)
        plant_job(&in, base, ids[i]);
    if (seldom(&in, 8)) plant_crowd(base, pick(&in, 24));
    for (unsigned i = 0; i < plants; i++)
        plant(&in, base);
    if (shows) show();
    for (unsigned i = 0; i < many; i++)
        make_call(&in, base);
    return 0;
}
