// tracing_tcmalloc - what the front end needs of it to introduce itself (tcmalloc_heap.cc).
#ifndef MALLOCTAPE_TRACING_TCMALLOC_H
#define MALLOCTAPE_TRACING_TCMALLOC_H

// A recording begins: calls must come to the capture core, if the library has begun.
extern "C" __attribute__((visibility("hidden"))) void malloctape_divert_again(void);

#endif
