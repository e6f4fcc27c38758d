#include "tracing/process/program_path.h"

#include "tracing/os/os.h"

#include <stdlib.h>
#include <string.h>

static const char *path_directories(void)
{
    const char *directories = getenv("PATH");
    return directories != NULL ? directories : "/bin:/usr/bin";
}

size_t program_path_bytes(const char *file)
{
    return strlen(path_directories()) + strlen(file) + 2;
}

/* As in execvp(3), an empty name is the current directory. */
bool program_path_find(const char *file, char *path)
{
    for (const char *directory = path_directories(), *end;; directory = end + 1) {
        end = strchrnul(directory, ':');
        size_t bytes = (size_t)(end - directory);
        memcpy(path, directory, bytes);
        path[bytes] = '/';
        memcpy(path + bytes + (bytes > 0), file, strlen(file) + 1);
        if (os_file_is_executable(path)) return true;
        if (!*end) return false;
    }
}
