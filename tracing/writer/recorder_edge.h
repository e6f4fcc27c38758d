/* recorder_edge - where the recorder begins and ends in a library that has an allocator, too: its code,
 * its constants, and its variables that are zero at first. NULL: the library has nothing else. */
#ifndef MALLOCTAPE_RECORDER_EDGE_H
#define MALLOCTAPE_RECORDER_EDGE_H

#pragma GCC visibility push(hidden)

#define RECORDER_EDGE(name) extern const char name[1] __attribute__((weak));
RECORDER_EDGE(recorder_code_begin)
RECORDER_EDGE(recorder_code_end)
RECORDER_EDGE(recorder_constants_begin)
RECORDER_EDGE(recorder_constants_end)
RECORDER_EDGE(recorder_variables_begin)
RECORDER_EDGE(recorder_variables_end)
#undef RECORDER_EDGE

#pragma GCC visibility pop

#endif
