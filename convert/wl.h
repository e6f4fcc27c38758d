/* wl - the operations of a workload file of the dj/malloc branch of the GNU C library: a byte, and
 * integers of 7 bits a byte, the upper bits first, bit 7 set in all but the last.
 *
 *   main region at 0:  ALLOC_PTRS n  ALLOC_SYNCS n  NTHREADS n  START_THREAD offset ...  DONE
 *   of a thread:       calls, SYNC_W and SYNC_R, DONE
 *
 * A pointer has an index; 0 is NULL. SYNC_W n of one thread comes before SYNC_R n of another. */
#ifndef MALLOCTAPE_WL_H
#define MALLOCTAPE_WL_H

enum wl_operation {
    WL_NOP,
    WL_DONE,
    WL_MALLOC,         /* index size */
    WL_CALLOC,         /* index size */
    WL_REALLOC,        /* index-new index-old size */
    WL_FREE,           /* index */
    WL_SYNC_W,         /* number */
    WL_SYNC_R,         /* number */
    WL_ALLOC_PTRS,     /* count */
    WL_ALLOC_SYNCS,    /* count */
    WL_NTHREADS,       /* count */
    WL_START_THREAD,   /* offset */
    WL_MEMALIGN,       /* index alignment size */
    WL_VALLOC,         /* index size */
    WL_PVALLOC,        /* index size */
    WL_POSIX_MEMALIGN, /* index alignment size; written by nobody */
    WL_OPERATIONS
};

#define WL_INTEGER_BYTES 10 /* of 64 bits, at most */

#endif
