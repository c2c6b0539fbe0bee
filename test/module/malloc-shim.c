/* Stands in for what a server built against jemalloc asks of that allocator beyond malloc, so that the malloc of
 * valgrind or of a sanitizer owns every block: else the server hands foreign blocks to jemalloc and dies at its start.
 * A server of 8.1 or later loads modules with their own symbols first, which a sanitizer refuses: that is taken away.
 *
 * Preloaded into the server by preloaded.ts. Does not: allocate otherwise than malloc, or report statistics. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Writer)(void *to, const char *text);

size_t nallocx(size_t size, int flags) {
    (void)flags;
    return size;
}

void *mallocx(size_t size, int flags) {
    (void)flags;
    return malloc(size);
}

void *rallocx(void *block, size_t size, int flags) {
    (void)flags;
    return realloc(block, size);
}

void dallocx(void *block, int flags) {
    (void)flags;
    free(block);
}

void sdallocx(void *block, size_t size, int flags) {
    (void)size;
    (void)flags;
    free(block);
}

/* Every question is answered with zero. */
int mallctl(const char *name, void *old, size_t *old_len, void *new_value, size_t new_len) {
    (void)name;
    (void)new_value;
    (void)new_len;
    if (old != NULL && old_len != NULL) memset(old, 0, *old_len);
    return 0;
}

int mallctlbymib(const size_t *mib, size_t mib_len, void *old, size_t *old_len, void *new_value, size_t new_len) {
    (void)mib;
    (void)mib_len;
    return mallctl("", old, old_len, new_value, new_len);
}

int mallctlnametomib(const char *name, size_t *mib, size_t *mib_len) {
    (void)name;
    if (mib != NULL && mib_len != NULL) memset(mib, 0, *mib_len * sizeof(*mib));
    return 0;
}

void malloc_stats_print(Writer write, void *to, const char *options) {
    (void)options;
    if (write != NULL) write(to, "no statistics\n");
}

void *dlopen(const char *file, int flags) {
    static void *(*next)(const char *, int);
    if (next == NULL) {
        void *found = dlsym(RTLD_NEXT, "dlopen");
        memcpy(&next, &found, sizeof(next));
    }
    return next(file, flags & ~RTLD_DEEPBIND);
}
