/* refuse - attach.h where nobody has written the injection yet. */
#include "attach/attach.h"

#include "common/arch.h"
#include "common/error.h"

static bool refuse(char *why, size_t why_bytes)
{
    return error_explain(why, why_bytes,
                         "on " ARCH_NAME
                         " a process that runs cannot be attached to: start it with "
                         "malloctape record");
}

bool attach_to(pid_t process, const char *library, const char *settings, struct attached *attached,
               char *why, size_t why_bytes)
{
    (void)process, (void)library, (void)settings;
    *attached = (struct attached){0};
    return refuse(why, why_bytes);
}

bool attach_undo(pid_t process, const char *library, struct attached *attached, char *why,
                 size_t why_bytes)
{
    (void)process, (void)library;
    *attached = (struct attached){0};
    return refuse(why, why_bytes);
}
