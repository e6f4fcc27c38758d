#include "symbols/source_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* What is built into the interpreter: Python, Ruby. */
static const char frozen[] = "<frozen ", internal[] = "<internal:";

/* In a path: behind "/lib/python3.11/"; NULL: it is not there. */
static const char *behind_library(const char *path)
{
    static const char library[] = "/lib/python3.";
    const char *at = strstr(path, library);
    if (at == NULL) return NULL;
    at += sizeof library - 1;
    const char *end = at;
    while (isdigit((unsigned char)*end))
        end++;
    return end > at && *end == '/' ? end + 1 : NULL;
}

/* Whether it is of Ruby's standard library: behind "/ruby/3.1.0/", which installed packages (gems) have
 * theirs behind, too. */
static bool is_of_ruby(const char *path)
{
    const char *at = strstr(path, "/ruby/");
    if (at == NULL) return strstr(path, "/rubygems/") != NULL;
    at += strlen("/ruby/");
    const size_t version = strspn(at, "0123456789.");
    if (strncmp(at, "vendor_ruby/", strlen("vendor_ruby/")) == 0) return true;
    return version > 0 && at[version] == '/' && strncmp(at + version, "/gems/", 6) != 0;
}

/* The same of a directory with packages. */
static const char *behind_packages(const char *path)
{
    static const char *const names[] = {"/site-packages/", "/dist-packages/"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = strstr(path, names[i]);
        if (at != NULL) return at + strlen(names[i]);
    }
    return NULL;
}

bool source_is_library(const char *path)
{
    if (strncmp(path, frozen, strlen(frozen)) == 0 ||
        strncmp(path, internal, strlen(internal)) == 0 || is_of_ruby(path))
        return true;
    return behind_library(path) != NULL && behind_packages(path) == NULL;
}

/* Whether the path ends with this before `*length`: then without it. */
static void source_drop_end(const char *path, size_t *length, const char *end)
{
    const size_t bytes = strlen(end);
    if (*length > bytes && memcmp(path + *length - bytes, end, bytes) == 0) *length -= bytes;
}

void source_name(const char *path, const char *function, char name[SOURCE_NAME_BYTES])
{
    const char *from = behind_packages(path);
    if (from == NULL) from = behind_library(path);
    const bool is_whole = from != NULL;
    if (from == NULL) from = path;
    size_t length = strlen(from);
    if (strncmp(from, frozen, strlen(frozen)) == 0) {
        from += strlen(frozen);
        length = strcspn(from, ">");
    } else if (strncmp(from, internal, strlen(internal)) == 0) {
        from += strlen(internal);
        length = strcspn(from, ">");
    } else if (*from != '<') {
        source_drop_end(from, &length, ".rb");
        source_drop_end(from, &length, ".py");
        source_drop_end(from, &length, "/__init__");
        const char *own = memrchr(from, '/', length);
        if (!is_whole && own != NULL) {
            length -= (size_t)(own + 1 - from);
            from = own + 1;
        }
    }
    if (length > SOURCE_NAME_BYTES / 2) length = SOURCE_NAME_BYTES / 2;
    snprintf(name, SOURCE_NAME_BYTES, "%.*s%s%s", (int)length, from, length > 0 ? "." : "",
             function);
    for (size_t i = 0; is_whole && i < length; i++)
        if (name[i] == '/') name[i] = '.';
}
