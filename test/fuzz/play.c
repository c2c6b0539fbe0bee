/* The tests over the fake server: `play FILE ...` plays files of scenes, `play --strict WORD` does what strict.h says.
 *
 * Of scenes the last line counts them, and the exit code is 0 when there were some and none failed. A finding ends it
 * at once, behind the name of the scene. Does not: write a file. */
#include "fake_api.h"
#include "scene.h"
#include "strict.h"
#include <string.h>

int main(int argc, char **argv) {
    long failed = 0, played = 0;
    bool strict = argc == 3 && strcmp(argv[1], "--strict") == 0;
    fake_reset();
    if (strict) {
        strict_run(argv[2]);
    } else {
        if (fake_load(0) != VALKEYMODULE_OK) finding("the module does not load: %s", fake.log);
        for (int i = 1; i < argc; i++) {
            long count;
            failed += scene_play(argv[i], &count);
            played += count;
        }
        (void)printf("%ld played, %ld failed\n", played, failed);
    }
    fake_reset();
    fake_unload();
    keyspace_clear(&fake.keys);
    return strict || (failed == 0 && played > 0) ? 0 : 1;
}
