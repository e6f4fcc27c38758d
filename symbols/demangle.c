#include "symbols/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct demangling {
    char text[DEMANGLE_BYTES_MAX + 1];
    size_t length;
    jmp_buf too_long;
};

/* libiberty has no other way to end what it prints; what it holds then is on its stack. */
static void demangle_take(const char *text, size_t length, void *of)
{
    struct demangling *name = of;
    if (length == 0) return; /* `text` may be NULL */
    if (length > DEMANGLE_BYTES_MAX - name->length) longjmp(name->too_long, 1);
    memcpy(name->text + name->length, text, length);
    name->length += length;
}

char *demangle(const char *mangled)
{
    static struct demangling name;
    const int options = DMGL_AUTO | DMGL_ANSI;
    name.length = 0;
    if (mangled[0] != '_' || setjmp(name.too_long) != 0) return NULL;
    if (!rust_demangle_callback(mangled, options, demangle_take, &name)) {
        name.length = 0;
        if (!cplus_demangle_v3_callback(mangled, options, demangle_take, &name)) return NULL;
    }
    return strndup(name.text, name.length);
}
