/* glibc_probes - fires some of the probes that a glibc may have (scripts/glibc-malloc.sh), for
 * minutes unless it is killed. Exit status 77: there is no sys/sdt.h to make them with. */
#include <unistd.h>

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>

int main(void)
{
    for (unsigned i = 0; i < 3000; i++) {
        DTRACE_PROBE2(libc, memory_sbrk_more, 0x1000, 135168);
        DTRACE_PROBE2(libc, memory_arena_new, 0x7000, 132);
        DTRACE_PROBE2(libc, memory_heap_new, 0x7000, 139264);
        DTRACE_PROBE3(libc, memory_arena_reuse_wait, 0x8010, 0x8000, 0);
        DTRACE_PROBE2(libc, memory_arena_retry, 100, 0x8000);
        DTRACE_PROBE2(libc, memory_mallopt, -3, 65536);
        DTRACE_PROBE2(libc, memory_mallopt_free_dyn_thresholds, 1052672, 2105344);
        usleep(100000);
    }
    return 0;
}
#else
int main(void)
{
    return 77;
}
#endif
