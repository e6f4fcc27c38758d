/* early - what must be done before anything of this library is called.
 *
 * The dynamic linker calls the IFUNC resolver here when it has relocated this library, before it
 * relocates the program. A resolver of the program may then allocate: thread-local storage is there
 * already, but all zero until the program has been relocated, and a thread's lane must not be NULL.
 * Such calls are not recorded: there is no environment yet.
 *
 * Functions of other libraries cannot be called here. */
#include "tracing/data/front_end.h"
#include "tracing/data/state.h"
#include "tracing/os/os.h"

#include <link.h>

enum { STATUS_REFUSED = 126 }; /* as a shell's: cannot be executed */

static void nothing(void) {}

/* Whether there is a library whose file name begins with `name`. */
static bool is_linked(const char *name)
{
    for (const struct link_map *library = _r_debug.r_map; library != NULL;
         library = library->l_next) {
        const char *file = library->l_name;
        for (const char *at = file; *at; at++)
            if (*at == '/') file = at + 1;
        size_t same = 0;
        while (name[same] && file[same] == name[same])
            same++;
        if (!name[same]) return true;
    }
    return false;
}

/* ThreadSanitizer's library begins with calls of malloc() for which it is not ready. Over an opaque
 * allocator, where the program keeps its own, this does not happen. */
static void refuse_sanitizer(void)
{
    static const char text[] =
        "malloctape: a program with ThreadSanitizer cannot run with another allocator preloaded: "
        "build it without\n";
    if (malloctape_front_end.opaque || (!is_linked("libtsan.so") && !is_linked("libclang_rt.tsan")))
        return;
    os_message_begin();
    os_message_write(text, sizeof text - 1);
    os_process_exit(STATUS_REFUSED);
}

/* The linker puts this relocation after those that are needed here. If another linker does not, the
 * offset of malloctape_lane is still 0, and its address that of the thread's own structure. */
__attribute__((used)) static void (*early_resolve(void))(void)
{
    if ((void *)&malloctape_lane == __builtin_thread_pointer()) return nothing;
    malloctape_lane = &recording_no_lane;
    refuse_sanitizer();
    return nothing;
}

static void early(void) __attribute__((ifunc("early_resolve")));

/* Makes the linker emit the relocation. */
static void (*const relocated)(void) __attribute__((used)) = early;
