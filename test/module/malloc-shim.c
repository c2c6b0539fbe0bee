/* Stands in for what a server built against jemalloc asks of that allocator beyond malloc, so that valgrind's own malloc
 * owns every block: without this the server hands foreign blocks to jemalloc and dies at its start.
 *
 * Preloaded into the server by memory.ci.test.ts. Does not: allocate otherwise than malloc, or report statistics. */
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
