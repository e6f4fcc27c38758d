#include "convert/convert_files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

int file_temporary(struct error *error)
{
    char path[PATH_MAX];
    const char *directory = getenv("TMPDIR");
    if (directory == NULL || *directory == '\0') directory = "/tmp";
    snprintf(path, sizeof path, "%s/malloctape.XXXXXX", directory);
    int file = mkostemp(path, O_CLOEXEC);
    if (file < 0)
        error_set_system(error, "cannot make a file in %s", directory);
    else
        unlink(path);
    return file;
}
