/* The keyspace of the fake server. See fake_values.h. */
#include "fake_values.h"
#include "../../module/valkeymodule_api.h"
#include <stdlib.h>
#include <string.h>

void *must_allocate(void *block, size_t bytes) {
    void *made = realloc(block, bytes == 0 ? 1 : bytes);
    if (made == NULL) abort();
    return made;
}

Bytes bytes_of(const void *at, size_t len) {
    /* malloc(0) gives a block whose first byte is already too far */
    Bytes bytes = {malloc(len), len};
    if (bytes.at == NULL) abort();
    if (len > 0) memcpy(bytes.at, at, len);
    return bytes;
}

Bytes bytes_text(const char *text) {
    return bytes_of(text, strlen(text));
}

Bytes bytes_view(const char *at, size_t len) {
    Bytes view = {NULL, len};
    memcpy(&view.at, &at, sizeof(at));
    return view;
}

void bytes_free(Bytes *bytes) {
    free(bytes->at);
    *bytes = (Bytes){NULL, 0};
}

int bytes_order(Bytes a, Bytes b) {
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter == 0 ? 0 : memcmp(a.at, b.at, shorter);
    if (order != 0) return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

bool bytes_equal(Bytes a, Bytes b) {
    return a.len == b.len && bytes_order(a, b) == 0;
}

bool bytes_are(Bytes bytes, const char *text) {
    return bytes.len == strlen(text) && (bytes.len == 0 || memcmp(bytes.at, text, bytes.len) == 0);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void item_free(Item *item) {
    bytes_free(&item->key);
    bytes_free(&item->value);
}

static void value_free(Value *value) {
    for (size_t i = 0; i < value->count; i++)
        item_free(&value->items[i]);
    free(value->items);
    free(value);
}

static Value *value_copy(const Value *value) {
    Value *copy = must_allocate(NULL, sizeof(*copy));
    *copy = (Value){.type = value->type, .count = value->count, .room = value->count};
    copy->items = must_allocate(NULL, value->count * sizeof(Item));
    for (size_t i = 0; i < value->count; i++) {
        const Item *item = &value->items[i];
        copy->items[i] = (Item){bytes_of(item->key.at, item->key.len), {NULL, 0}, item->score};
        if (value->type == VALKEYMODULE_KEYTYPE_HASH) copy->items[i].value = bytes_of(item->value.at, item->value.len);
    }
    return copy;
}

long value_find(const Value *value, Bytes key) {
    for (size_t i = 0; i < value->count; i++)
        if (bytes_equal(value->items[i].key, key)) return (long)i;
    return -1;
}

static void insert(Value *value, size_t at, Item item) {
    if (value->count == value->room) {
        value->room = value->room == 0 ? 4 : 2 * value->room;
        value->items = must_allocate(value->items, value->room * sizeof(Item));
    }
    memmove(value->items + at + 1, value->items + at, (value->count - at) * sizeof(Item));
    value->items[at] = item;
    value->count++;
}

void value_remove(Value *value, size_t at) {
    item_free(&value->items[at]);
    memmove(value->items + at, value->items + at + 1, (value->count - at - 1) * sizeof(Item));
    value->count--;
}

void value_insert(Value *value, size_t at, Bytes key) {
    insert(value, at, (Item){bytes_of(key.at, key.len), {NULL, 0}, 0});
}

void value_set(Value *value, Bytes field, Bytes content) {
    long at = value_find(value, field);
    Bytes copy = bytes_of(content.at, content.len);
    if (at < 0) {
        insert(value, value->count, (Item){bytes_of(field.at, field.len), copy, 0});
        return;
    }
    bytes_free(&value->items[at].value);
    value->items[at].value = copy;
}

int value_score(Value *value, Bytes member, double score) {
    long was = value_find(value, member);
    if (was >= 0 && value->items[was].score == score) return 0;
    Item item = {bytes_of(member.at, member.len), {NULL, 0}, score};
    if (was >= 0) value_remove(value, (size_t)was);
    size_t at = 0;
    while (at < value->count) {
        const Item *other = &value->items[at];
        if (other->score > score || (other->score == score && bytes_order(other->key, item.key) > 0)) break;
        at++;
    }
    insert(value, at, item);
    return was < 0 ? 1 : 2;
}

/* ---- the keyspace ------------------------------------------------------------------------------------------------ */

Entry *keyspace_find(const Keyspace *keys, Bytes name) {
    for (size_t i = 0; i < keys->count; i++)
        if (bytes_equal(keys->entries[i].name, name)) return &keys->entries[i];
    return NULL;
}

static Entry *append(Keyspace *keys, Bytes name, Value *value) {
    if (keys->count == keys->room) {
        keys->room = keys->room == 0 ? 16 : 2 * keys->room;
        keys->entries = must_allocate(keys->entries, keys->room * sizeof(Entry));
    }
    keys->entries[keys->count] = (Entry){bytes_of(name.at, name.len), value, 0};
    return &keys->entries[keys->count++];
}

Value *keyspace_make(Keyspace *keys, Bytes name, int type) {
    Entry *entry = keyspace_find(keys, name);
    if (entry != NULL) return entry->value;
    Value *value = must_allocate(NULL, sizeof(*value));
    *value = (Value){.type = type};
    return append(keys, name, value)->value;
}

static void drop(Keyspace *keys, size_t at) {
    bytes_free(&keys->entries[at].name);
    value_free(keys->entries[at].value);
    keys->entries[at] = keys->entries[--keys->count];
}

bool keyspace_delete(Keyspace *keys, Bytes name) {
    const Entry *entry = keyspace_find(keys, name);
    if (entry == NULL) return false;
    drop(keys, (size_t)(entry - keys->entries));
    return true;
}

void keyspace_expire(Keyspace *keys, long long now) {
    for (size_t i = keys->count; i > 0; i--)
        if (keys->entries[i - 1].until != 0 && keys->entries[i - 1].until <= now) drop(keys, i - 1);
}

void keyspace_clear(Keyspace *keys) {
    while (keys->count > 0)
        drop(keys, keys->count - 1);
    free(keys->entries);
    *keys = (Keyspace){NULL, 0, 0};
}

void keyspace_copy(Keyspace *to, const Keyspace *from) {
    keyspace_clear(to);
    for (size_t i = 0; i < from->count; i++) {
        const Entry *entry = &from->entries[i];
        append(to, entry->name, value_copy(entry->value))->until = entry->until;
    }
}

/* ---- comparison and print ---------------------------------------------------------------------------------------- */

static bool value_equal(const Value *a, const Value *b) {
    bool ordered = a->type == VALKEYMODULE_KEYTYPE_LIST || a->type == VALKEYMODULE_KEYTYPE_ZSET;
    if (a->type != b->type || a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        long at = ordered ? (long)i : value_find(b, a->items[i].key);
        if (at < 0 || !bytes_equal(a->items[i].key, b->items[at].key)) return false;
        if (a->items[i].score != b->items[at].score || !bytes_equal(a->items[i].value, b->items[at].value))
            return false;
    }
    return true;
}

bool entry_equal(const Entry *a, const Entry *b) {
    if (a == NULL || b == NULL) return a == b;
    return a->until == b->until && value_equal(a->value, b->value);
}

bool keyspace_equal(const Keyspace *a, const Keyspace *b, const char *title_a, const char *title_b) {
    bool equal = true;
    const Keyspace *both[] = {a, b};
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < both[side]->count; i++) {
            const Entry *entry = &both[side]->entries[i];
            const Entry *other = keyspace_find(both[1 - side], entry->name);
            if (entry_equal(entry, other) || (side == 1 && other != NULL)) continue;
            equal = false;
            if (title_a == NULL || title_b == NULL) continue;
            (void)fprintf(stderr, "  %s: ", title_a);
            entry_print(stderr, side == 0 ? entry : other);
            (void)fprintf(stderr, "  %s: ", title_b);
            entry_print(stderr, side == 0 ? other : entry);
        }
    }
    return equal;
}

void bytes_print(FILE *out, Bytes bytes) {
    if (bytes.len == 0) (void)fprintf(out, "\"\"");
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char byte = (unsigned char)bytes.at[i];
        bool plain = byte > ' ' && byte < 0x7f && byte != '\\' && byte != '"' && !(i == 0 && byte == '@');
        (void)fprintf(out, plain ? "%c" : "\\x%02x", byte);
    }
}

void entry_print(FILE *out, const Entry *entry) {
    static const char *const words[] = {"empty", "string", "list", "hash", "set", "zset"};
    if (entry == NULL) {
        (void)fprintf(out, "nothing\n");
        return;
    }
    const Value *value = entry->value;
    (void)fprintf(out, "%s ", words[value->type]);
    bytes_print(out, entry->name);
    for (size_t i = 0; i < value->count; i++) {
        const Item *item = &value->items[i];
        (void)fprintf(out, " ");
        if (value->type == VALKEYMODULE_KEYTYPE_ZSET) (void)fprintf(out, "%.17g ", item->score);
        bytes_print(out, item->key);
        if (value->type != VALKEYMODULE_KEYTYPE_HASH) continue;
        (void)fprintf(out, " ");
        bytes_print(out, item->value);
    }
    if (entry->until != 0) (void)fprintf(out, " (until %lld)", entry->until);
    (void)fprintf(out, "\n");
}
