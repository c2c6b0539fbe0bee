/* Reading and playing scenes. See scene.h. */
#include "scene.h"
#include "fake_api.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Line {
    Bytes *words;
    int count;
} Line;

typedef struct Scene {
    Bytes name;
    Line *lines;
    size_t count, room;
} Scene;

typedef struct Play {
    Keyspace before, expected;
    char reply[1 << 16];
    bool replied;  /* the reply of the last call was judged */
    Bytes *called; /* the words of the last call */
    int words;
    bool judged; /* what comes out is looked at */
    char why[512];
} Play;

/* ---- words ------------------------------------------------------------------------------------------------------- */

static int hex(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    finding("a scene has \\x with %c", digit);
}

static Bytes unescaped(const char *text, size_t len) {
    static const char base[] = "emq:{q}:";
    char *made = must_allocate(NULL, len + sizeof(base));
    size_t at = 0, from = 0;
    if (len == 2 && text[0] == '"' && text[1] == '"') from = 2;
    if (len > 0 && text[0] == '@') {
        memcpy(made, base, sizeof(base) - 1);
        at = sizeof(base) - 1;
        from = 1;
    }
    while (from < len) {
        if (text[from] == '\\' && from + 3 < len && text[from + 1] == 'x') {
            made[at++] = (char)(16 * hex(text[from + 2]) + hex(text[from + 3]));
            from += 4;
        } else {
            made[at++] = text[from++];
        }
    }
    Bytes word = bytes_of(made, at);
    free(made);
    return word;
}

Bytes *scene_words(const char *line, size_t len, int *count) {
    Bytes *words = NULL;
    *count = 0;
    for (size_t at = 0; at < len;) {
        if (line[at] == ' ') {
            at++;
            continue;
        }
        size_t end = at;
        while (end < len && line[end] != ' ')
            end++;
        words = must_allocate(words, ((size_t)*count + 1) * sizeof(Bytes));
        words[(*count)++] = unescaped(line + at, end - at);
        at = end;
    }
    return words;
}

static long long number_in(Bytes text) {
    char copy[32] = "", *end = NULL;
    if (text.len == 0 || text.len >= sizeof(copy)) finding("a scene has a number of %zu bytes", text.len);
    memcpy(copy, text.at, text.len);
    long long n = strtoll(copy, &end, 10);
    if (*end != '\0') finding("a scene has %s for a number", copy);
    return n;
}

static double score_in(Bytes text) {
    char copy[64] = "", *end = NULL;
    if (text.len == 0 || text.len >= sizeof(copy)) finding("a scene has a score of %zu bytes", text.len);
    memcpy(copy, text.at, text.len);
    double score = strtod(copy, &end);
    if (*end != '\0') finding("a scene has %s for a score", copy);
    return score;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* A statement about a key, done to a keyspace. False when it is none. */
static bool plant(Keyspace *keys, const Bytes *words, int count) {
    static const char *const types[] = {"drop", "string", "list", "hash", "set", "zset"};
    if (count < 2) return false;
    if (bytes_are(words[0], "until")) {
        Entry *entry = keyspace_find(keys, words[1]);
        if (entry == NULL || count != 3) finding("a scene lets a key lapse that is not there");
        entry->until = number_in(words[2]);
        return true;
    }
    int type = 0;
    while (type < 6 && !bytes_are(words[0], types[type]))
        type++;
    if (type == 6) return false;
    (void)keyspace_delete(keys, words[1]);
    if (type == 0) return true;
    Value *value = keyspace_make(keys, words[1], type);
    bool pairs = type == VALKEYMODULE_KEYTYPE_HASH || type == VALKEYMODULE_KEYTYPE_ZSET;
    if (count < 3 || (pairs && count % 2 != 0)) finding("a scene has a key of half a value");
    for (int i = 2; i < count; i += pairs ? 2 : 1) {
        if (type == VALKEYMODULE_KEYTYPE_ZSET)
            (void)value_score(value, words[i + 1], score_in(words[i]));
        else if (type == VALKEYMODULE_KEYTYPE_HASH)
            value_set(value, words[i], words[i + 1]);
        else if (type == VALKEYMODULE_KEYTYPE_LIST || value_find(value, words[i]) < 0)
            value_insert(value, value->count, words[i]);
    }
    return true;
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static void fails(Play *play, const char *why) {
    if (play->why[0] == '\0') (void)snprintf(play->why, sizeof(play->why), "%s", why);
}

static bool setting(Bytes word, Bytes argument) {
    struct {
        const char *word;
        Bytes *patterns;
        size_t *count;
    } rules[] = {{"allow", fake.allowed, &fake.allows},
                 {"deny", fake.denied, &fake.denies},
                 {"readonly", fake.read_only, &fake.read_onlys}};
    for (size_t i = 0; i < 3; i++) {
        if (!bytes_are(word, rules[i].word)) continue;
        if (*rules[i].count == MOST_RULES) finding("a scene has too many rules");
        rules[i].patterns[(*rules[i].count)++] = bytes_of(argument.at, argument.len);
        return true;
    }
    if (bytes_are(word, "cluster")) return fake.cluster = true;
    if (bytes_are(word, "moving")) return fake.cluster = fake.moving = true;
    if (bytes_are(word, "script")) return fake.in_script = true;
    if (!bytes_are(word, "nobody") && !bytes_are(word, "stranger")) return false;
    fake.user = bytes_are(word, "nobody") ? USER_NONE : USER_GONE;
    return true;
}

static void call(Play *play, const Line *line) {
    if (play->called != NULL && play->judged && !play->replied) fails(play, "a call whose reply is not judged");
    play->replied = false;
    keyspace_expire(&fake.keys, fake.now_us / 1000);
    keyspace_copy(&play->before, &fake.keys);
    keyspace_clear(&play->expected);
    play->called = line->words + 1;
    play->words = line->count - 1;
    const char *reply = fake_run(play->called, play->words);
    if (strlen(reply) >= sizeof(play->reply)) finding("a reply of %zu bytes", strlen(reply));
    (void)snprintf(play->reply, sizeof(play->reply), "%s", reply);
    if (reply[0] == '-' && !keyspace_equal(&play->before, &fake.keys, "before", "after "))
        finding("a refusal that left a trace");
}

/* The reply as a line of a scene has it: its words as they were written. */
static void judge_reply(Play *play, const Line *line) {
    char *text = NULL;
    size_t len = 0;
    bool error = line->count > 1 && line->words[1].len > 0 && line->words[1].at[0] == '-';
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) abort();
    bool open = bytes_are(line->words[line->count - 1], "...");
    for (int i = 1; i < line->count - open; i++) {
        Bytes word = line->words[i];
        if (i > 1) (void)fputc(' ', out);
        if (error || word.len == 0 || word.at[0] != '$') {
            (void)fwrite(word.at, 1, word.len, out);
        } else {
            (void)fputc('$', out);
            if (word.len > 1) bytes_print(out, (Bytes){word.at + 1, word.len - 1});
        }
    }
    (void)fclose(out);
    if (open ? strncmp(text, play->reply, len) != 0 : strcmp(text, play->reply) != 0)
        (void)snprintf(play->why, sizeof(play->why), "expected %.200s, got %.200s", text, play->reply);
    free(text);
}

static void judge_left(Play *play, const Line *line) {
    if (!plant(&play->expected, line->words + 1, line->count - 1)) finding("a scene has a strange left");
    Bytes key = line->words[2];
    if (entry_equal(keyspace_find(&play->expected, key), keyspace_find(&fake.keys, key))) return;
    if (bytes_are(line->words[1], "until")) fails(play, "a key lapses at another time");
    /* its until line may follow: the content alone is judged now */
    const Entry *found = keyspace_find(&fake.keys, key);
    Entry *expected = keyspace_find(&play->expected, key);
    if (found != NULL && expected != NULL && expected->until == 0) {
        Entry untimed = *found;
        untimed.until = 0;
        if (entry_equal(&untimed, expected)) return;
    }
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) abort();
    (void)fprintf(out, "expected ");
    entry_print(out, expected);
    (void)fprintf(out, " got ");
    entry_print(out, found);
    (void)fclose(out);
    fails(play, text);
    free(text);
}

static void judge_positions(Play *play, const Line *line) {
    const char *positions = fake_positions(play->called, play->words);
    bool none = positions[0] == '\0';
    if (line->count == (none ? 1 : 2) && (none || bytes_are(line->words[1], positions))) return;
    fails(play, none ? "it says that it has no keys" : positions);
}

static void run(Play *play, const Line *line);

static void repeat(Play *play, const Line *line) {
    for (long long n = 0; n < number_in(line->words[1]); n++) {
        char digits[24];
        (void)snprintf(digits, sizeof(digits), "%03lld", n);
        Line one = {must_allocate(NULL, (size_t)line->count * sizeof(Bytes)), line->count - 2};
        for (int i = 0; i < one.count; i++) {
            Bytes word = line->words[i + 2];
            const char *mark = word.len == 0 ? NULL : memchr(word.at, '#', word.len);
            if (mark == NULL) {
                one.words[i] = bytes_of(word.at, word.len);
                continue;
            }
            size_t before = (size_t)(mark - word.at), len = word.len - 1 + strlen(digits);
            char *made = must_allocate(NULL, len);
            memcpy(made, word.at, before);
            memcpy(made + before, digits, strlen(digits));
            memcpy(made + before + strlen(digits), mark + 1, word.len - before - 1);
            one.words[i] = bytes_of(made, len);
            free(made);
        }
        run(play, &one);
        for (int i = 0; i < one.count; i++)
            bytes_free(&one.words[i]);
        free(one.words);
    }
}

/* One thing more in a sorted set, or at the end of a list. */
static bool grow(const Line *line) {
    const Bytes *words = line->words;
    if (line->count == 4 && bytes_are(words[0], "zadd")) {
        (void)value_score(keyspace_make(&fake.keys, words[1], VALKEYMODULE_KEYTYPE_ZSET), words[3], score_in(words[2]));
        return true;
    }
    if (line->count != 3 || !bytes_are(words[0], "push")) return false;
    Value *list = keyspace_make(&fake.keys, words[1], VALKEYMODULE_KEYTYPE_LIST);
    value_insert(list, list->count, words[2]);
    return true;
}

static void run(Play *play, const Line *line) {
    Bytes word = line->words[0];
    if (bytes_are(word, "call")) return call(play, line);
    if (bytes_are(word, "repeat")) return repeat(play, line);
    if (bytes_are(word, "now") || bytes_are(word, "micros")) {
        fake.now_us = (word.len == 3 ? 1000 : 1) * number_in(line->words[1]);
        return;
    }
    if (plant(&fake.keys, line->words, line->count) || grow(line)) return;
    if (bytes_are(word, "reply")) {
        play->replied = true;
        if (play->judged) judge_reply(play, line);
    } else if (bytes_are(word, "left")) {
        if (play->judged) judge_left(play, line);
    } else if (bytes_are(word, "same")) {
        if (play->judged && !keyspace_equal(&play->before, &fake.keys, "before", "after ")) fails(play, "changed");
    } else if (bytes_are(word, "whole")) {
        if (play->judged && !keyspace_equal(&play->expected, &fake.keys, "expected", "got     "))
            fails(play, "another keyspace");
    } else if (bytes_are(word, "keys")) {
        judge_positions(play, line);
    } else if (!setting(word, line->count > 1 ? line->words[1] : word)) {
        finding("a scene has the statement %.*s", (int)word.len, word.at);
    }
}

static void begin(Play *play, bool judged) {
    fake_reset();
    play->why[0] = '\0';
    play->judged = judged;
    play->called = NULL;
}

/* As the scene says. */
static void play_once(const Scene *scene, Play *play) {
    begin(play, true);
    for (size_t i = 0; i < scene->count; i++)
        run(play, &scene->lines[i]);
    if (!play->replied) fails(play, "a call whose reply is not judged");
}

/* Up to the last call, which is made when something was done to the server. */
static void play_until(const Scene *scene, Play *play, void (*disturb)(Play *play, long how), long how) {
    size_t last = 0;
    begin(play, false);
    if (scene->count == 0) finding("a case without a line");
    for (size_t i = 0; i < scene->count; i++)
        if (bytes_are(scene->lines[i].words[0], "call")) last = i;
    for (size_t i = 0; i < last; i++)
        run(play, &scene->lines[i]);
    play->called = scene->lines[last].words + 1;
    play->words = scene->lines[last].count - 1;
    disturb(play, how);
    call(play, &scene->lines[last]);
}

static bool answers(const Play *play, const char *start) {
    return strncmp(play->reply, start, strlen(start)) == 0;
}

static void set_fault(Play *play, long how) {
    (void)play;
    fake.fault_at = how;
}

/* Each question of the last call is answered with a no, one by one, of very many some: the refusal has to fit. */
static void play_faults(const Scene *scene, Play *play) {
    for (long fault = 1;; fault += 1 + fault / 32) {
        play_until(scene, play, set_fault, fault);
        if (fake.failed == NULL) return;
        if (strcmp(fake.failed, "a right") == 0 && !answers(play, "-NOPERM "))
            finding("a right that is missing is answered with %.80s", play->reply);
        if (strcmp(fake.failed, "EXISTS") == 0 && !answers(play, "-TRYAGAIN "))
            finding("a key that is elsewhere is answered with %.80s", play->reply);
    }
}

/* A node of a cluster, which has the brand at each queue. */
static void set_cluster(Play *play, long how) {
    fake.cluster = true;
    fake.moving = how == 1;
    if (play->words < 3) return;
    Bytes key = play->called[2], brand = bytes_text(FAKE_VERSION_KEY);
    const char *close = key.len == 0 ? NULL : memchr(key.at, '}', key.len);
    if (close == NULL) return bytes_free(&brand);
    size_t base = (size_t)(close - key.at) + 2;
    const Entry *node = keyspace_find(&fake.keys, brand);
    char *name = must_allocate(NULL, base + 7);
    memcpy(name, key.at, base - 1);
    memcpy(name + base - 1, ":version", 8);
    bytes_free(&brand);
    brand = bytes_of(name, base + 7);
    if (node != NULL && node->value->type == VALKEYMODULE_KEYTYPE_STRING)
        value_insert(keyspace_make(&fake.keys, brand, VALKEYMODULE_KEYTYPE_STRING), 0, node->value->items[0].key);
    bytes_free(&brand);
    free(name);
}

/* In a cluster the call comes out the same, and while its slot is moving it does so or is put off. */
static void play_cluster(const Scene *scene, Play *play, const char *reply) {
    bool failed = answers(play, "-EMQWIRE") || fake.cluster;
    play_until(scene, play, set_cluster, 0);
    if (!failed && strcmp(reply, play->reply) != 0) finding("in a cluster the reply is %.200s", play->reply);
    play_until(scene, play, set_cluster, 1);
    if (!failed && strcmp(reply, play->reply) != 0 && !answers(play, "-TRYAGAIN "))
        finding("while the slot is moving the reply is %.200s", play->reply);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void scene_clear(Scene *scene) {
    for (size_t i = 0; i < scene->count; i++) {
        for (int w = 0; w < scene->lines[i].count; w++)
            bytes_free(&scene->lines[i].words[w]);
        free(scene->lines[i].words);
    }
    free(scene->lines);
    bytes_free(&scene->name);
    *scene = (Scene){0};
}

static bool play_whole(const Scene *scene, Play *play) {
    (void)fprintf(stderr, "playing %.*s\n", (int)scene->name.len, scene->name.at);
    play_once(scene, play);
    char why[sizeof(play->why)], *reply = bytes_of(play->reply, strlen(play->reply) + 1).at;
    (void)snprintf(why, sizeof(why), "%s", play->why);
    play_faults(scene, play);
    play_cluster(scene, play, reply);
    free(reply);
    (void)printf("%s %.*s%s%s\n", why[0] == '\0' ? "ok" : "failed", (int)scene->name.len, scene->name.at,
                 why[0] == '\0' ? "" : ": ", why);
    return why[0] == '\0';
}

static char *read_whole(const char *path, size_t *len) {
    FILE *in = fopen(path, "rb");
    if (in == NULL) finding("%s cannot be read", path);
    char *text = NULL;
    size_t room = 0;
    *len = 0;
    for (;;) {
        if (*len == room) text = must_allocate(text, room = room == 0 ? 1 << 16 : 2 * room);
        size_t got = fread(text + *len, 1, room - *len, in);
        if (got == 0) break;
        *len += got;
    }
    (void)fclose(in);
    return text;
}

long scene_play(const char *path, long *count) {
    size_t len;
    char *text = read_whole(path, &len);
    Scene scene = {0};
    Play *play = must_allocate(NULL, sizeof(*play));
    memset(play, 0, sizeof(*play));
    long failed = 0;
    *count = 0;
    for (size_t at = 0; at <= len;) {
        const char *end = at == len ? NULL : memchr(text + at, '\n', len - at);
        size_t stop = end == NULL ? len : (size_t)(end - text);
        bool begins = stop - at > 5 && memcmp(text + at, "case ", 5) == 0;
        if ((begins || at == len) && scene.name.at != NULL) {
            failed += !play_whole(&scene, play);
            (*count)++;
            scene_clear(&scene);
        }
        if (begins) {
            scene.name = bytes_of(text + at + 5, stop - at - 5);
        } else if (stop > at && text[at] != '#') {
            if (scene.name.at == NULL) finding("%s begins without a case", path);
            if (scene.count == scene.room) {
                scene.room = scene.room == 0 ? 16 : 2 * scene.room;
                scene.lines = must_allocate(scene.lines, scene.room * sizeof(Line));
            }
            Line *line = &scene.lines[scene.count];
            line->words = scene_words(text + at, stop - at, &line->count);
            if (line->count > 0) scene.count++;
        }
        at = at == len ? len + 1 : stop + 1 > len ? len : stop + 1;
    }
    fake_reset();
    keyspace_clear(&play->before);
    keyspace_clear(&play->expected);
    free(play);
    free(text);
    return failed;
}
