/* libFuzzer over what reads a caller's words: numbers, the base, keys in their places, and the places themselves. Each
 * answer is held against a second reading of the contract that is made in another way.
 *
 * An input is words, each behind a byte that is its length: base, key, id, then texts. Does not: touch the keyspace. */
#include "../../module/trafikey.h"
#include "fake_parts.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { FIRST = 2, BASE = 2, KEY, ID, TEXTS, MOST_INPUT_WORDS = 16 };

/* A text with a NUL behind it, for the functions of the C library; freed by the caller. */
static char *closed(const Str *str) {
    char *text = must_allocate(NULL, str->text.len + 1);
    if (str->text.len > 0) memcpy(text, str->text.at, str->text.len);
    text[str->text.len] = '\0';
    return text;
}

/* A number is what the C library prints the same way as it was read. */
static bool number_again(const Str *str, long long *n) {
    char *text = closed(str), again[32];
    *n = strtoll(text, NULL, 10);
    (void)snprintf(again, sizeof(again), "%lld", *n);
    bool is = strlen(again) == str->text.len && memcmp(again, text, str->text.len) == 0 && llabs(*n) <= 1LL << 52;
    free(text);
    return is;
}

static bool base_again(const Str *str) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    char *text = closed(str);
    size_t len = strlen(text), queue = len < 5 ? 0 : strspn(text + 5, letters);
    bool is = len == str->text.len && strncmp(text, "emq:{", 5) == 0 && queue >= 1 && queue <= 128 &&
              strcmp(text + 5 + queue, "}:") == 0 && strcmp(text, "emq:{emq}:") != 0;
    free(text);
    return is;
}

static Bytes joined(const Str *base, const char *prefix, const Str *id, const char *suffix) {
    const Bytes parts[] = {base->text, bytes_view(prefix, strlen(prefix)), id == NULL ? (Bytes){NULL, 0} : id->text,
                           bytes_view(suffix, strlen(suffix))};
    size_t len = 0;
    for (size_t i = 0; i < 4; i++)
        len += parts[i].len;
    Bytes whole = {malloc(len), 0};
    if (whole.at == NULL) abort();
    for (size_t i = 0; i < 4; i++) {
        if (parts[i].len > 0) memcpy(whole.at + whole.len, parts[i].at, parts[i].len);
        whole.len += parts[i].len;
    }
    return whole;
}

static void keys_again(Call *c, const Str *base, const Str *key, const Str *id) {
    static const char *const names[] = {"pending", "active", "job:", "g:", ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (int with = 0; with < 2; with++) {
            const Str *part = with == 0 ? NULL : id;
            Bytes expected = joined(base, names[i], part, "");
            if (keys_is(c, key, names[i], part) != bytes_equal(expected, key->text)) finding("keys_is is wrong");
            Bytes longer = joined(base, names[i], part, ":limiter");
            const Str *made = keys_name(c, names[i], part, ":limiter"), *plain = keys_name(c, names[i], part, NULL);
            if (!bytes_equal(made->text, longer) || !bytes_equal(plain->text, expected)) finding("keys_name is wrong");
            if (!keys_is(c, plain, names[i], part)) finding("keys_is does not know what keys_name made");
            bytes_free(&expected);
            bytes_free(&longer);
        }
    }
}

static int parse(ValkeyModuleCtx *ctx, ValkeyModuleString **argv, int argc) {
    Call c;
    call_begin(&c, ctx, CMD_CLAIM);
    for (int i = TEXTS; i < argc; i++) {
        long long n = 0, again = 0;
        bool is = number_of(argv[i], &n), is_again = number_again(argv[i], &again);
        if (is != is_again || (is && n != again)) finding("a number is read wrong");
        long long expected = is && n >= 0 && n <= 2097152 ? n : 0;
        if (number_priority(argv[i]) != expected) finding("a priority is read wrong");
        for (int other = TEXTS; other < argc; other++) {
            int order = bytes_order(argv[i]->text, argv[other]->text);
            if (strs_equal(argv[i], argv[other]) != (order == 0)) finding("equal strings are not");
            if (strs_precede(argv[i], argv[other]) != (order < 0)) finding("the order of strings is wrong");
        }
    }
    bool is_base = keys_base(&c, argv[BASE]);
    if (is_base != base_again(argv[BASE])) finding("a base is read wrong");
    if (is_base) keys_again(&c, argv[BASE], argv[KEY], argv[ID]);
    (void)ValkeyModule_ReplyWithNull(ctx);
    return call_end(&c);
}

/* The places: as many as the first word says and there are. */
static void places_again(const Bytes *words, int count) {
    Bytes *call = must_allocate(NULL, ((size_t)count + 1) * sizeof(Bytes));
    call[0] = bytes_text("EMQ.CLAIM");
    memcpy(call + 1, words, (size_t)count * sizeof(Bytes));
    char expected[256] = "";
    Str *numkeys = string_make(NULL, OF_CALLER, words[0]);
    long long n = 0;
    if (!number_again(numkeys, &n)) n = 0;
    for (int i = FIRST; i <= count && i < n + FIRST; i++) {
        size_t len = strlen(expected);
        (void)snprintf(expected + len, sizeof(expected) - len, len == 0 ? "%d" : ",%d", i);
    }
    if (strcmp(fake_positions(call, count + 1), expected) != 0) finding("the places of keys are wrong");
    string_drop(numkeys);
    bytes_free(&call[0]);
    free(call);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    fake_reset();
    if (fake_load(0) != VALKEYMODULE_OK) finding("the module does not load: %s", fake.log);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Bytes words[MOST_INPUT_WORDS];
    int count = 0;
    words[count++] = bytes_text("PARSE");
    words[count++] = bytes_text("1");
    for (size_t at = 0; at < size && count < MOST_INPUT_WORDS;) {
        size_t len = data[at] < size - at - 1 ? data[at] : size - at - 1;
        words[count++] = bytes_of(data + at + 1, len);
        at += len + 1;
    }
    while (count <= TEXTS)
        words[count++] = bytes_text("");
    (void)fake_run_function(parse, "parse", words, count);
    places_again(words + FIRST, count - FIRST);
    for (int i = 0; i < count; i++)
        bytes_free(&words[i]);
    return 0;
}
