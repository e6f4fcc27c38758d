/* linker - which dynamic linkers load a library that is linked with glibc.
 *
 * Another C library's (musl's, for example) does not, and with ours in LD_PRELOAD starts no program
 * at all. */
#ifndef MALLOCTAPE_LINKER_H
#define MALLOCTAPE_LINKER_H

#include <stdbool.h>
#include <string.h>

#include "common/arch.h"

/* `path`: as a program names its dynamic linker. */
static inline bool linker_is_glibc(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash != NULL ? slash + 1 : path, ARCH_LINKER) == 0;
}

#endif
