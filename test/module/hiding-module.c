/* A module that loads trafikey under a server which seems to lack one function: `hiding.so MODULE FUNCTION`. The word
 * `none` hides nothing.
 *
 * The context's first word is the getter, and the one thing that a module knows of it; while trafikey's OnLoad runs, it
 * is ours. A module that refused is unmapped again, so that the next one starts with nothing resolved.
 * Does not: offer a command of its own. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef int (*Getter)(const char *name, void *target);
typedef int (*OnLoad)(void *ctx, void **argv, int argc);
typedef const char *(*StringPtrLen)(const void *str, size_t *len);

int ValkeyModule_OnLoad(void *ctx, void **argv, int argc);

static Getter server_get;
static const char *hidden;

static int get(const char *name, void *target) {
    return strcmp(name, hidden) == 0 ? 1 : server_get(name, target);
}

int ValkeyModule_OnLoad(void *ctx, void **argv, int argc) {
    StringPtrLen text = NULL;
    OnLoad load = NULL;
    Getter *getter = ctx;
    size_t len;
    server_get = *getter;
    if (argc != 2 || server_get("ValkeyModule_StringPtrLen", (void *)&text) != 0) return 1;
    void *module = dlopen(text(argv[0], &len), RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) return 1;
    hidden = text(argv[1], &len);
    void *found = dlsym(module, "ValkeyModule_OnLoad");
    if (found == NULL) return 1;
    memcpy(&load, &found, sizeof(load));
    *getter = get;
    int outcome = load(ctx, NULL, 0);
    *getter = server_get;
    if (outcome != 0) (void)dlclose(module);
    return outcome;
}
