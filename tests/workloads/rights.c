/* rights - a process of root that becomes the user and the group 65534, then says "ready" and waits
 * to be killed.
 *
 *   rights libc    by setgid() and setuid()
 *   rights system  by system calls, of which libc knows nothing, and then it lets itself be traced
 *   rights saved   as libc, but it can become root again
 *   rights hides   stays what it is, and does not let itself be traced */
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "common/arch.h"

#include "allocate.h"

enum { NOBODY = 65534 };

static long system_call(long number, long a, long b, long c)
{
    return arch_system_call(number, a, b, c, 0, 0, 0);
}

int main(int count, char **words)
{
    const char *how = count > 1 ? words[1] : "";
    long failed = 1;
    allocate(10);
    if (strcmp(how, "libc") == 0) failed = setgid(NOBODY) != 0 || setuid(NOBODY) != 0;
    if (strcmp(how, "system") == 0)
        failed = system_call(SYS_setresgid, NOBODY, NOBODY, NOBODY) != 0 ||
                 system_call(SYS_setresuid, NOBODY, NOBODY, NOBODY) != 0 ||
                 prctl(PR_SET_DUMPABLE, 1) != 0;
    if (strcmp(how, "saved") == 0) failed = setegid(NOBODY) != 0 || seteuid(NOBODY) != 0;
    if (strcmp(how, "hides") == 0) failed = prctl(PR_SET_DUMPABLE, 0) != 0;
    if (failed) fail(how);
    allocate(10);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6) return 1;
    for (;;)
        pause();
}
