/* Strings: a growing list of them, and their comparison. Does not: own the strings, they are the call's. */
#include "trafikey.h"
#include <string.h>

void strs_add(Strs *list, Str *str) {
    if (list->count == list->room) {
        list->room = list->room == 0 ? 8 : 2 * list->room;
        list->at = ValkeyModule_Realloc((void *)list->at, list->room * sizeof(Str *));
    }
    list->at[list->count++] = str;
}

void strs_free(Strs *list) {
    ValkeyModule_Free((void *)list->at);
    memset(list, 0, sizeof(*list));
}

bool strs_equal(const Str *a, const Str *b) {
    size_t a_len, b_len;
    const char *a_text = ValkeyModule_StringPtrLen(a, &a_len), *b_text = ValkeyModule_StringPtrLen(b, &b_len);
    return a_len == b_len && memcmp(a_text, b_text, a_len) == 0;
}

bool strs_precede(const Str *a, const Str *b) {
    size_t a_len, b_len;
    const char *a_text = ValkeyModule_StringPtrLen(a, &a_len), *b_text = ValkeyModule_StringPtrLen(b, &b_len);
    int order = memcmp(a_text, b_text, a_len < b_len ? a_len : b_len);
    return order != 0 ? order < 0 : a_len < b_len;
}
