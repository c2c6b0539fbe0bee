/* Numbers on the wire and in rows. The same grammar as lua/lib/number.lua: canonical decimal integers between -2^52 and
 * 2^52, exact as doubles. Does not: touch a key. */
#include "trafikey.h"

#define LARGEST (1LL << 52)
#define HIGHEST_PRIORITY 2097152

/* A canonical decimal integer between -2^52 and 2^52 (wire contract, section 6). */
static bool number_parse(const char *text, size_t len, long long *n) {
    size_t i = 0;
    bool negative = len > 0 && text[0] == '-';
    if (negative) i = 1;
    /* 16 digits reach 2^52; more cannot be in range, and fewer cannot overflow */
    if (len == i || len - i > 16) return false;
    if (text[i] == '0' && (negative || len > 1)) return false;
    long long value = 0;
    for (; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (text[i] - '0');
    }
    if (value > LARGEST) return false;
    *n = negative ? -value : value;
    return true;
}

bool number_of(const Str *text, long long *n) {
    size_t len;
    const char *ptr = ValkeyModule_StringPtrLen(text, &len);
    return number_parse(ptr, len, n);
}

bool number_stored(Call *c, const Str *text, const char *refusal, long long *n) {
    *n = 0;
    if (text == NULL || number_of(text, n)) return true;
    return refuse(c, refusal);
}

long long number_priority(const Str *text) {
    long long n;
    if (text == NULL || !number_of(text, &n) || n < 0 || n > HIGHEST_PRIORITY) return 0;
    return n;
}
