// plain_names - the names under which upstream's own entry points stay reachable. Those of ours come
// from strings (ENTRY in tracing_tcmalloc.cc), which these macros do not touch.
#ifndef MALLOCTAPE_PLAIN_NAMES_H
#define MALLOCTAPE_PLAIN_NAMES_H

#define tc_malloc                      malloctape_plain_malloc
#define tc_free                        malloctape_plain_free
#define tc_free_sized                  malloctape_plain_free_sized
#define tc_calloc                      malloctape_plain_calloc
#define tc_cfree                       malloctape_plain_cfree
#define tc_realloc                     malloctape_plain_realloc
#define tc_memalign                    malloctape_plain_memalign
#define tc_posix_memalign              malloctape_plain_posix_memalign
#define tc_valloc                      malloctape_plain_valloc
#define tc_pvalloc                     malloctape_plain_pvalloc
#define tc_mallopt                     malloctape_plain_mallopt
#define tc_malloc_skip_new_handler     malloctape_plain_malloc_skip_new_handler
#define tc_malloc_size                 malloctape_plain_malloc_size
#define tc_new                         malloctape_plain_new
#define tc_new_nothrow                 malloctape_plain_new_nothrow
#define tc_newarray                    malloctape_plain_newarray
#define tc_newarray_nothrow            malloctape_plain_newarray_nothrow
#define tc_new_aligned                 malloctape_plain_new_aligned
#define tc_new_aligned_nothrow         malloctape_plain_new_aligned_nothrow
#define tc_newarray_aligned            malloctape_plain_newarray_aligned
#define tc_newarray_aligned_nothrow    malloctape_plain_newarray_aligned_nothrow
#define tc_delete                      malloctape_plain_delete
#define tc_delete_nothrow              malloctape_plain_delete_nothrow
#define tc_delete_sized                malloctape_plain_delete_sized
#define tc_delete_aligned              malloctape_plain_delete_aligned
#define tc_delete_aligned_nothrow      malloctape_plain_delete_aligned_nothrow
#define tc_delete_sized_aligned        malloctape_plain_delete_sized_aligned
#define tc_deletearray                 malloctape_plain_deletearray
#define tc_deletearray_nothrow         malloctape_plain_deletearray_nothrow
#define tc_deletearray_sized           malloctape_plain_deletearray_sized
#define tc_deletearray_aligned         malloctape_plain_deletearray_aligned
#define tc_deletearray_aligned_nothrow malloctape_plain_deletearray_aligned_nothrow
#define tc_deletearray_sized_aligned   malloctape_plain_deletearray_sized_aligned

#endif
