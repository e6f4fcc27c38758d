/* runtime - what the C++ runtime does in a program only because the tracing library needs it.
 *
 * libstdc++ asks for memory when it is loaded. In a program that does not use it, that call is the
 * recorder's doing. */
#ifndef MALLOCTAPE_RUNTIME_H
#define MALLOCTAPE_RUNTIME_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether code at this address is that of a C++ runtime that nobody but this library has asked for.
 * Before the first recording: it looks at all libraries. */
bool runtime_is_for_us(const void *caller);

#ifdef __cplusplus
}
#endif
#endif
