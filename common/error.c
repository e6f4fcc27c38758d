#include "common/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "common/printable.h"

const struct error_kind error_system = {"system", "the system refused"};

bool error_set(struct error *error, const struct error_kind *kind, uint64_t offset,
               const char *detail, ...)
{
    if (error_is_set(error)) return false;
    error->kind = kind;
    error->offset = offset;
    error->detail[0] = '\0';
    if (detail != NULL) {
        va_list arguments;
        va_start(arguments, detail);
        vsnprintf(error->detail, sizeof error->detail, detail, arguments);
        va_end(arguments);
    }
    return false;
}

bool error_set_system(struct error *error, const char *detail, ...)
{
    int code = errno;
    if (error_is_set(error)) return false;
    error->kind = &error_system;
    error->offset = ERROR_NO_OFFSET;
    va_list arguments;
    va_start(arguments, detail);
    int length = vsnprintf(error->detail, sizeof error->detail, detail, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof error->detail)
        snprintf(error->detail + length, sizeof error->detail - (size_t)length, ": %s",
                 strerror(code));
    return false;
}

bool error_explain(char *why, size_t why_bytes, const char *message, ...)
{
    va_list arguments;
    va_start(arguments, message);
    vsnprintf(why, why_bytes, message, arguments);
    va_end(arguments);
    return false;
}

char *error_text(const struct error *error, char *to, size_t bytes)
{
    char offset[40] = "";
    if (!error_is_set(error)) {
        snprintf(to, bytes, "no error");
        return to;
    }
    if (error->offset != ERROR_NO_OFFSET)
        snprintf(offset, sizeof offset, "offset 0x%" PRIx64 ": ", error->offset);
    /* In "the system refused: cannot open x: No such file", the first part adds nothing. */
    const char *text = error->kind == &error_system ? "" : error->kind->text;
    const char *colon = *text != '\0' && error->detail[0] != '\0' ? ": " : "";
    snprintf(to, bytes, "%s%s%s%s", offset, text, colon, error->detail);
    return to;
}

void error_print(FILE *to, const char *program, const char *file, const struct error *error)
{
    char text[512];
    error_text(error, text, sizeof text);
    printable_say(to, "%s: %s%s%s", program, file != NULL ? file : "", file != NULL ? ": " : "",
                  text);
}
