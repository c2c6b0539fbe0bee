/* Resolving the module API by name. See valkeymodule_api.h. */
#include "valkeymodule_api.h"

#define TRAFIKEY_DEFINE(result, name, parameters) result(*ValkeyModule_##name) parameters;
TRAFIKEY_API_FUNCTIONS(TRAFIKEY_DEFINE)
#undef TRAFIKEY_DEFINE

typedef int (*GetApi)(const char *name, void *target);

const char *api_resolve(ValkeyModuleCtx *ctx) {
    /* The first word of the context is the getter: the one thing about it that a module may know. */
    GetApi get = *(GetApi *)(void *)ctx;
    const char *missing = NULL;

#define TRAFIKEY_RESOLVE(result, name, parameters)                                                                     \
    if (get("ValkeyModule_" #name, (void *)&ValkeyModule_##name) != VALKEYMODULE_OK && missing == NULL) {              \
        missing = "ValkeyModule_" #name;                                                                               \
    }
    TRAFIKEY_API_FUNCTIONS(TRAFIKEY_RESOLVE)
#undef TRAFIKEY_RESOLVE
    return missing;
}
